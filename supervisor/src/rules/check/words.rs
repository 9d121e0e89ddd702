//! Whether words are words: how many are among the commonest of fifteen languages, and how many pairs of letters hardly
//! stand together in any of these.
//!
//! The first measure alone proves nothing: of an honest text in a language without a list, of a list of species or of names,
//! as few words may be common as of one whose letters were exchanged. But letters that were exchanged also stand together as
//! no language has them. Both are shares over the words of the five alphabets that the lists are written in; Han, Thai,
//! Devanagari and the like have none.
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

use super::count::{as_float, share};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;
use unicode_normalization::UnicodeNormalization;

/// Texts of fewer words are not scored.
pub(super) const WORDS_LEAST: u64 = 50;
/// So many words say what the text is.
const WORDS_MOST: u64 = 5_000;
/// Below so many pairs of letters their share is chance.
const PAIRS_LEAST: u64 = 100;
/// A pair is odd that makes up less than this share of its alphabet's pairs.
const ODD: f64 = 1e-4;

/// Each list, and what it is written in.
const LISTS: [(Alphabet, &str); 15] = [
    (Alphabet::Latin, include_str!("../words/cs.txt")),
    (Alphabet::Latin, include_str!("../words/de.txt")),
    (Alphabet::Latin, include_str!("../words/en.txt")),
    (Alphabet::Latin, include_str!("../words/es.txt")),
    (Alphabet::Latin, include_str!("../words/fr.txt")),
    (Alphabet::Latin, include_str!("../words/it.txt")),
    (Alphabet::Latin, include_str!("../words/nl.txt")),
    (Alphabet::Latin, include_str!("../words/pl.txt")),
    (Alphabet::Latin, include_str!("../words/pt.txt")),
    (Alphabet::Latin, include_str!("../words/tr.txt")),
    (Alphabet::Greek, include_str!("../words/el.txt")),
    (Alphabet::Cyrillic, include_str!("../words/ru.txt")),
    (Alphabet::Cyrillic, include_str!("../words/uk.txt")),
    (Alphabet::Hebrew, include_str!("../words/he.txt")),
    (Alphabet::Arabic, include_str!("../words/ar.txt")),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Alphabet {
    Latin,
    Greek,
    Cyrillic,
    Hebrew,
    Arabic,
}

impl Alphabet {
    fn of(char: char) -> Option<Self> {
        let alphabet = match char {
            'a'..='z'
            | 'A'..='Z'
            | '\u{aa}'..='\u{24f}'
            | '\u{1e00}'..='\u{1eff}'
            | '\u{fb00}'..='\u{fb06}' => Alphabet::Latin,
            '\u{370}'..='\u{3ff}' | '\u{1f00}'..='\u{1fff}' => Alphabet::Greek,
            '\u{400}'..='\u{52f}' => Alphabet::Cyrillic,
            '\u{5d0}'..='\u{5f2}' | '\u{fb1d}'..='\u{fb4f}' => Alphabet::Hebrew,
            '\u{620}'..='\u{6ff}'
            | '\u{750}'..='\u{77f}'
            | '\u{fb50}'..='\u{fdff}'
            | '\u{fe70}'..='\u{fefc}' => Alphabet::Arabic,
            _ => return None,
        };
        char.is_alphabetic().then_some(alphabet)
    }

    /// Whether its lists are long enough to say which pairs of letters are odd. Arabic and Hebrew leave out vowels, and
    /// almost any two letters may meet.
    fn knows_pairs(self) -> bool {
        matches!(self, Alphabet::Latin | Alphabet::Greek | Alphabet::Cyrillic)
    }
}

static COMMON: LazyLock<HashSet<&'static str>> =
    LazyLock::new(|| LISTS.iter().flat_map(|(_, list)| list.lines()).collect());

/// How often each letter and each pair of letters stand in the lists of an alphabet.
#[derive(Debug, Default)]
struct Pairs {
    letters: HashSet<char>,
    counts: HashMap<(char, char), u64>,
    whole: HashMap<Alphabet, u64>,
}

static PAIRS: LazyLock<Pairs> = LazyLock::new(|| {
    let mut pairs = Pairs::default();
    for (alphabet, list) in LISTS {
        for word in list.lines() {
            pairs.letters.extend(word.chars());
            for pair in word.chars().zip(word.chars().skip(1)) {
                *pairs.counts.entry(pair).or_default() += 1;
                *pairs.whole.entry(alphabet).or_default() += 1;
            }
        }
    }
    pairs
});

impl Pairs {
    /// Whether these two hardly ever stand together; `None` where the lists cannot say.
    fn is_odd(&self, first: char, second: char) -> Option<bool> {
        let alphabet = Alphabet::of(first).filter(|alphabet| alphabet.knows_pairs())?;
        if Alphabet::of(second) != Some(alphabet)
            || !self.letters.contains(&first)
            || !self.letters.contains(&second)
        {
            return None;
        }
        let count = self.counts.get(&(first, second)).copied().unwrap_or(0);
        let whole = self.whole.get(&alphabet).copied().unwrap_or(0);
        Some(as_float(count) < ODD * as_float(whole))
    }
}

/// The share of words among the commonest of fifteen languages; `None` below 50 words.
pub(super) fn common(text: &str) -> Option<f64> {
    let (mut all, mut common) = (0, 0);
    for word in words(text) {
        all += 1;
        common += u64::from(COMMON.contains(plain(word).as_ref()));
    }
    (all >= WORDS_LEAST).then(|| share(common, all))
}

/// The share of pairs of neighbouring letters that hardly ever stand together; `None` below 100 pairs.
pub(super) fn odd_pairs(text: &str) -> Option<f64> {
    let (mut all, mut odd) = (0, 0);
    for word in words(text) {
        let word = plain(word);
        for is_odd in word.chars().zip(word.chars().skip(1)).filter_map(|(a, b)| PAIRS.is_odd(a, b)) {
            all += 1;
            odd += u64::from(is_odd);
        }
    }
    (all >= PAIRS_LEAST).then(|| share(odd, all))
}

/// Runs of two letters or more, of one of the five alphabets. What has digits in it is a code and no word.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|char: char| !is_part(char) && !char.is_numeric())
        .filter(|run| run.chars().filter(|char| Alphabet::of(*char).is_some()).nth(1).is_some())
        .filter(|run| !run.chars().any(char::is_numeric))
        .take(usize::try_from(WORDS_MOST).unwrap_or(usize::MAX))
}

fn is_part(char: char) -> bool {
    Alphabet::of(char).is_some() || unicode_normalization::char::is_combining_mark(char)
}

/// As the lists write it: in lower case, ligatures and the forms of Arabic letters undone, without vowel points.
fn plain(word: &str) -> Cow<'_, str> {
    if word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return Cow::Borrowed(word);
    }
    let lower = word.to_lowercase();
    let formed = |char: char| {
        char >= '\u{fb00}' || unicode_normalization::char::is_combining_mark(char) || char == '\u{640}'
    };
    if !lower.chars().any(formed) {
        return Cow::Owned(lower);
    }
    Cow::Owned(
        lower
            .nfkc()
            .filter(|char| !unicode_normalization::char::is_combining_mark(*char) && *char != '\u{640}')
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_list_is_two_thousand_plain_words_of_its_alphabet() {
        for (alphabet, list) in LISTS {
            let words: Vec<&str> = list.lines().collect();
            assert_eq!(words.len(), 2_000, "{alphabet:?}");
            assert!(words.is_sorted() && words.iter().all(|word| plain(word) == *word), "{alphabet:?}");
            let of_it = |word: &&str| word.chars().all(|char| Alphabet::of(char) == Some(alphabet));
            assert_eq!(words.iter().find(|word| !of_it(word)), None, "{alphabet:?}");
        }
    }

    #[test]
    fn below_fifty_words_nothing_is_scored() {
        assert_eq!(common(&"the ".repeat(49)), None);
        assert_eq!(common(&"the ".repeat(50)), Some(1.0));
        assert_eq!(common(&"zzkq the ".repeat(25)), Some(0.5));
        assert_eq!(common(&"a 1 中文 ภาษาไทย हिन्दी x3 b2b ".repeat(100)), None, "none of these is scored");
        assert_eq!(odd_pairs(&"zx ".repeat(99)), None);
        assert_eq!(odd_pairs(&"zx ".repeat(100)), Some(1.0));
        assert_eq!(odd_pairs(&"the ".repeat(50)), Some(0.0));
    }

    #[test]
    fn words_are_found_in_every_form() {
        for word in ["THE", "ﬁnd", "ΤΗΣ", "Für", "את", "הָיָה", "\u{fee3}\u{fee6}", "كـــل", "l'homme", "не"]
        {
            let score = common(&format!("{word} ").repeat(50));
            assert!(score > Some(0.49), "{word}: {score:?}");
        }
    }
}
