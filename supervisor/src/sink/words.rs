//! Cuts text into the words that search knows, the same way for what is indexed, what is asked, and what is shown.
//!
//! Width, case and accents are folded. A word is a run of letters and digits; scripts that put no spaces between words
//! (Han, kana, Hangul, and those of South-East Asia) are cut into overlapping pairs. The last character of such a run
//! stands alone as well, so that each character begins exactly one word, and a search for one character finds all.
//! Every word knows which bytes of the text it came from; text is never copied as a whole.

use std::collections::VecDeque;
use std::iter::Peekable;
use std::ops::Range;
use std::str::CharIndices;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::{canonical_combining_class, decompose_canonical, is_combining_mark};

/// Longer words are cut to this many characters: enough to tell apart what people look for, while a line of base64
/// costs one short term.
pub(super) const WORD_MAX: usize = 64;

/// At most so many characters are normalised as one: a letter under a tower of marks stays cheap.
const CLUSTER_MAX: usize = 32;

/// A word of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    /// Folded.
    pub(super) text: String,
    /// Counts the words of the text, from 0.
    pub(super) position: usize,
    /// The bytes of the text that it came from.
    pub(super) range: Range<usize>,
    /// Where its first character ends in the text.
    pub(super) first_end: usize,
    /// How it was cut.
    pub(super) cut: Cut,
}

/// How a word was cut from its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    /// Between characters that are no letters or digits.
    Whole,
    /// Two characters of a script without spaces.
    Pair,
    /// The last character of a run of at least two in a script without spaces.
    Last,
    /// A single character of a script without spaces.
    Single,
}

/// The words of a text, in order.
#[derive(Debug)]
pub(super) struct Words<'a> {
    folded: Peekable<Folded<'a>>,
    /// The character of a script without spaces that came last, and how many such stood before it in its run.
    held: Option<(char, Range<usize>, usize)>,
    position: usize,
}

impl<'a> Words<'a> {
    /// Cuts `text`.
    pub(super) fn of(text: &'a str) -> Self {
        Words { folded: Folded::of(text).peekable(), held: None, position: 0 }
    }

    fn word(&mut self, text: String, range: Range<usize>, first_end: usize, cut: Cut) -> Word {
        let position = self.position;
        self.position += 1;
        Word { text, position, range, first_end, cut }
    }

    fn release(&mut self) -> Option<Word> {
        let (character, range, before) = self.held.take()?;
        let cut = if before == 0 { Cut::Single } else { Cut::Last };
        let first_end = range.end;
        Some(self.word(character.to_string(), range, first_end, cut))
    }

    /// The word that begins with this letter.
    fn whole(&mut self, first: char, range: Range<usize>) -> Word {
        let (first_end, mut end) = (range.end, range.end);
        let mut text = String::from(first);
        let mut length = 1;
        while let Some((c, more)) = self.folded.next_if(|(c, _)| !is_unspaced(*c) && is_word(*c)) {
            end = more.end;
            if length < WORD_MAX {
                text.push(c);
                length += 1;
            }
        }
        self.word(text, range.start..end, first_end, Cut::Whole)
    }
}

impl Iterator for Words<'_> {
    type Item = Word;

    fn next(&mut self) -> Option<Word> {
        loop {
            let Some((character, _)) = self.folded.peek() else { return self.release() };
            let character = *character;
            if !is_unspaced(character) && self.held.is_some() {
                return self.release();
            }
            let (_, range) = self.folded.next()?;
            if is_unspaced(character) {
                let before = self.held.replace((character, range.clone(), 0));
                if let Some((first, first_range, count)) = before {
                    self.held = Some((character, range.clone(), count + 1));
                    let text = String::from_iter([first, character]);
                    return Some(self.word(text, first_range.start..range.end, first_range.end, Cut::Pair));
                }
            } else if is_word(character) {
                return Some(self.whole(character, range));
            }
        }
    }
}

/// The folded characters of a text, each with the bytes it came from.
#[derive(Debug)]
struct Folded<'a> {
    text: &'a str,
    rest: Peekable<CharIndices<'a>>,
    ready: VecDeque<char>,
    range: Range<usize>,
}

impl<'a> Folded<'a> {
    fn of(text: &'a str) -> Self {
        Folded { text, rest: text.char_indices().peekable(), ready: VecDeque::new(), range: 0..0 }
    }

    /// Takes the marks that belong to the character before, and says where they end.
    fn cluster_end(&mut self, mut end: usize) -> usize {
        for _ in 1..CLUSTER_MAX {
            let Some((at, c)) = self.rest.next_if(|(_, c)| !c.is_ascii() && joins_the_one_before(*c)) else {
                break;
            };
            end = at + c.len_utf8();
        }
        end
    }
}

impl Iterator for Folded<'_> {
    type Item = (char, Range<usize>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(c) = self.ready.pop_front() {
                return Some((c, self.range.clone()));
            }
            let (start, c) = self.rest.next()?;
            let end = self.cluster_end(start + c.len_utf8());
            self.range = start..end;
            if c.is_ascii() && end == start + 1 {
                let c = c.to_ascii_lowercase();
                return Some((c, self.range.clone()));
            }
            let cluster = self.text.get(start..end).unwrap_or_default();
            cluster.nfkc().for_each(|c| fold(c, &mut self.ready));
        }
    }
}

/// Case and accents, of one character.
fn fold(c: char, out: &mut VecDeque<char>) {
    if is_unspaced(c) {
        out.push_back(c);
        return;
    }
    let mut plain = |c: char| {
        if is_ignored(c) {
            return;
        }
        // By way of the upper case: `ß` becomes `ss`, and both small sigmas become one.
        for c in c.to_uppercase().flat_map(char::to_lowercase) {
            match without_stroke(c) {
                Some(letters) => out.extend(letters.chars()),
                None if is_ignored(c) => {}
                None => out.push_back(c),
            }
        }
    };
    decompose_canonical(c, &mut plain);
}

/// Letters that carry a stroke or are two in one, which Unicode does not take apart.
fn without_stroke(c: char) -> Option<&'static str> {
    Some(match c {
        'ø' => "o",
        'ł' => "l",
        'đ' | 'ð' => "d",
        'ħ' => "h",
        'ŧ' => "t",
        'æ' => "ae",
        'œ' => "oe",
        'þ' => "th",
        _ => return None,
    })
}

/// Accents and points, and what is not seen: they neither count nor end a word. Marks that carry meaning by themselves
/// (vowel signs, viramas, voicing) are not among them.
fn is_ignored(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}' | '\u{fe00}'..='\u{fe0f}' | '\u{640}')
        || matches!(canonical_combining_class(c), 10..=36 | 200..=254)
        || matches!(c, '\u{345}')
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || is_combining_mark(c)
}

fn joins_the_one_before(c: char) -> bool {
    is_combining_mark(c) || matches!(c, '\u{1160}'..='\u{11ff}' | '\u{ff9e}' | '\u{ff9f}')
}

/// Of a script that puts no spaces between words.
fn is_unspaced(c: char) -> bool {
    if c < '\u{e00}' {
        return false;
    }
    matches!(c,
        // Thai and Lao, Myanmar, Khmer.
        '\u{e01}'..='\u{e3a}' | '\u{e40}'..='\u{e4e}' | '\u{e81}'..='\u{ece}' | '\u{1000}'..='\u{103f}' | '\u{1780}'..='\u{17d3}'
        // Hangul.
        | '\u{1100}'..='\u{11ff}' | '\u{3131}'..='\u{318e}' | '\u{a960}'..='\u{a97c}' | '\u{ac00}'..='\u{d7fb}'
        // Kana, Bopomofo.
        | '\u{3005}'..='\u{3007}' | '\u{3041}'..='\u{309f}' | '\u{30a1}'..='\u{30fa}' | '\u{30fc}'..='\u{30ff}' | '\u{3105}'..='\u{312f}'
        | '\u{31a0}'..='\u{31bf}' | '\u{31f0}'..='\u{31ff}'
        // Han.
        | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{323af}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> Vec<String> {
        Words::of(text).map(|word| word.text).collect()
    }

    #[test]
    fn case_accents_and_width_are_folded() {
        assert_eq!(cut("Ärger  CAFÉ, cafe\u{301}!"), ["arger", "cafe", "cafe"]);
        assert_eq!(cut("Straße STRASSE ΣΊΣΥΦΟΣ Σίσυφος"), ["strasse", "strasse", "σισυφοσ", "σισυφοσ"]);
        assert_eq!(cut("ＡＢＣ１２３ ﬁle"), ["abc123", "file"]);
        assert_eq!(cut("Łódź Ørsted Đorđe İstanbul"), ["lodz", "orsted", "dorde", "istanbul"]);
        assert_eq!(cut("со\u{ad}еди\u{301}нение"), ["соединение"]);
    }

    #[test]
    fn scripts_without_spaces_are_cut_into_pairs_and_the_last_stands_alone_as_well() {
        assert_eq!(cut("東京都"), ["東京", "京都", "都"]);
        assert_eq!(cut("水"), ["水"]);
        assert_eq!(cut("東京2024年"), ["東京", "京", "2024", "年"]);
        assert_eq!(cut("ｶﾞｽ"), cut("ガス"));
        assert_eq!(cut("\u{1112}\u{1161}\u{11ab}글"), cut("한글"));
        let kinds: Vec<Cut> = Words::of("東京 水 x").map(|word| word.cut).collect();
        assert_eq!(kinds, [Cut::Pair, Cut::Last, Cut::Single, Cut::Whole]);
    }

    #[test]
    fn marks_that_carry_meaning_stay() {
        assert_eq!(cut("हिन्दी में"), ["हिन्दी", "में"]);
        assert_ne!(cut("が"), cut("か"));
    }

    #[test]
    fn every_word_knows_its_bytes() {
        let text = "a É東京!";
        let words: Vec<Word> = Words::of(text).collect();
        let shown: Vec<&str> = words.iter().map(|word| text.get(word.range.clone()).unwrap()).collect();
        assert_eq!(shown, ["a", "É", "東京", "京"]);
        assert_eq!(words.iter().map(|word| word.position).collect::<Vec<_>>(), [0, 1, 2, 3]);
    }

    #[test]
    fn a_long_word_is_cut_at_its_limit_and_the_next_one_is_whole() {
        let words = cut(&format!("{} end", "x".repeat(1000)));
        assert_eq!(words, ["x".repeat(WORD_MAX), "end".to_owned()]);
    }

    #[test]
    fn a_tower_of_marks_is_taken_in_pieces() {
        assert_eq!(cut(&format!("e{}f", "\u{301}".repeat(10_000))), ["ef"]);
    }
}
