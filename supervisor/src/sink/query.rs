//! What a person asks for, as parts that must all match. Never a syntax error: what means nothing is left out.

use super::words::{Cut, Words};

/// A part of a query: words that follow each other in the text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Part {
    /// Folded words, and where they stand relative to the first.
    pub(super) words: Vec<(usize, String)>,
    /// Single characters of scripts without spaces: each must occur, wherever.
    pub(super) characters: Vec<String>,
}

/// Cuts a query into its parts: "phrases" in quotation marks, and what stands between spaces. A phrase that is not closed goes to the
/// end.
pub(super) fn parts(query: &str) -> Vec<Part> {
    let quote = |c: char| matches!(c, '"' | '\u{201c}' | '\u{201d}' | '\u{201e}' | '\u{ff02}' | '«' | '»');
    query
        .split(quote)
        .enumerate()
        .flat_map(|(n, piece)| {
            let inside = n % 2 == 1;
            let pieces: Vec<&str> =
                if inside { vec![piece] } else { piece.split(char::is_whitespace).collect() };
            pieces
        })
        .map(part)
        .filter(|part| !part.words.is_empty() || !part.characters.is_empty())
        .collect()
}

/// Whether a query asks for anything at all.
pub fn has_words(query: &str) -> bool {
    !parts(query).is_empty()
}

fn part(piece: &str) -> Part {
    let mut part = Part::default();
    for word in Words::of(piece) {
        match word.cut {
            Cut::Whole | Cut::Pair => part.words.push((word.position, word.text)),
            Cut::Single => part.characters.push(word.text),
            // The pair before it says all that it says.
            Cut::Last => {}
        }
    }
    let first = part.words.first().map_or(0, |(position, _)| *position);
    part.words.iter_mut().for_each(|(position, _)| *position -= first);
    part
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(part: &Part) -> Vec<(usize, &str)> {
        part.words.iter().map(|(position, word)| (*position, word.as_str())).collect()
    }

    #[test]
    fn words_stand_alone_and_phrases_together() {
        let parts = parts("Foo \"bar  BAZ\" q1-report");
        assert_eq!(
            parts.iter().map(words).collect::<Vec<_>>(),
            [vec![(0, "foo")], vec![(0, "bar"), (1, "baz")], vec![(0, "q1"), (1, "report")]]
        );
    }

    #[test]
    fn nothing_is_a_syntax_error() {
        assert_eq!(parts("( ) : * ~ ^ \\ +-"), []);
        assert_eq!(parts(""), []);
        assert_eq!(parts("\"\"\"").len(), 0);
        assert!(!has_words("-- \"\"") && has_words("a"));
        assert_eq!(words(&parts("a AND \"b c")[2]), [(0, "b"), (1, "c")]);
    }

    #[test]
    fn a_run_without_spaces_is_its_pairs_where_they_stand() {
        let parts = parts("東京都abc 水");
        assert_eq!(words(&parts[0]), [(0, "東京"), (1, "京都"), (3, "abc")]);
        assert_eq!(parts[1], Part { words: vec![], characters: vec!["水".to_owned()] });
    }
}
