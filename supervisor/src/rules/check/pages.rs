//! What only the text as it came shows: where pages end, and which lines stand on most of them.
//!
//! A stamp, a running title, a notice of confidentiality: on a page that is a picture these are all the text there is, and as
//! many pages as there are make it a long one. A form has its labels on each page too, and is no picture.
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

use super::count::{controls, share};
use std::collections::HashMap;

/// What an extractor that tells pages apart puts before a page, once for each page that ended.
const MARK: char = '\u{c}';
/// Of fewer pages nothing can be said to be repeated.
const PAGES_LEAST: usize = 4;
/// So many bytes, in whole pages, show what is repeated: the lines of the longest text would fill the memory.
const BYTES_MOST: usize = 4 << 20;

/// What the raw text shows; to be taken before it is normalised.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Raw {
    /// Control characters.
    pub(super) controls: u64,
    /// The share of lines that stand on more than half of the pages that have text, by their visible characters; where pages
    /// are told apart, and four of them have text.
    pub(super) repeated_lines: Option<f64>,
}

impl Raw {
    /// Looks at a text as it came out of its document.
    pub fn of(text: &str) -> Raw {
        Raw { controls: controls(text), repeated_lines: repeated_lines(text) }
    }
}

fn repeated_lines(text: &str) -> Option<f64> {
    let mut left = BYTES_MOST;
    let pages: Vec<&str> = text
        .split(MARK)
        .filter(|page| !page.trim().is_empty())
        .take_while(|page| left.checked_sub(page.len()).map(|rest| left = rest).is_some())
        .collect();
    if pages.len() < PAGES_LEAST {
        return None;
    }
    /// On how many pages a line stands, which is the last of them, and what all its occurrences weigh.
    struct Line {
        pages: usize,
        last: usize,
        weight: u64,
    }
    let mut lines: HashMap<String, Line> = HashMap::new();
    let mut whole = 0;
    for (number, page) in pages.iter().enumerate() {
        for line in page.lines() {
            let key = key(line);
            let weight = key.chars().count() as u64;
            whole += weight;
            let line = lines.entry(key).or_insert(Line { pages: 0, last: usize::MAX, weight: 0 });
            line.weight += weight;
            line.pages += usize::from(line.last != number);
            line.last = number;
        }
    }
    let repeated = lines.values().filter(|line| 2 * line.pages > pages.len()).map(|line| line.weight).sum();
    Some(share(repeated, whole))
}

/// A line without its blanks, and with one sign for every number: those of pages go up.
fn key(line: &str) -> String {
    let mut key = String::new();
    let mut number = false;
    for char in line.chars().filter(|char| !char.is_whitespace()) {
        let digit = char.is_numeric();
        if !(digit && number) {
            key.push(if digit { '0' } else { char });
        }
        number = digit;
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paged(page: impl Fn(usize) -> String, pages: usize) -> String {
        (1..=pages).map(page).collect::<Vec<_>>().join("\u{c}")
    }

    fn repeated(text: &str) -> Option<f64> {
        Raw::of(text).repeated_lines
    }

    #[test]
    fn a_stamp_on_each_page_is_repeated_whatever_its_number() {
        let stamps = paged(|n| format!("Confidential\nPage {n} of 12\n"), 12);
        assert_eq!(repeated(&stamps), Some(1.0));
        let words = ["one", "two", "three", "four", "five", "six"];
        let book = paged(|n| format!("Title\n{0} {0} {0} {0} {0}\n", words[n - 1]), 6);
        let share = repeated(&book).unwrap();
        assert!(share > 0.2 && share < 0.35, "{share}");
    }

    #[test]
    fn most_pages_are_more_than_half() {
        let text = |with: usize| paged(|n| if n <= with { "stamp\n".into() } else { "x".repeat(n) }, 8);
        assert_eq!(repeated(&text(4)), Some(0.0));
        assert!(repeated(&text(5)).unwrap() > 0.4);
    }

    #[test]
    fn below_four_pages_with_text_nothing_is_said() {
        assert_eq!(repeated(&paged(|_| "same".into(), 3)), None);
        assert_eq!(repeated("same\u{c}\u{c} \u{c}same\u{c}same"), None);
        assert_eq!(repeated(""), None);
        assert_eq!(repeated(&paged(|_| "same".into(), 4)), Some(1.0));
    }

    #[test]
    fn the_first_pages_speak_for_the_rest() {
        let long = |n: usize| format!("{}\n", "y".repeat(BYTES_MOST / 8 + n));
        let text = |stamps| paged(|n| if n <= stamps { "stamp\n".into() } else { long(n) }, 40);
        assert_eq!(repeated(&text(0)), Some(0.0));
        // Of the long pages seven are looked at, and more than half of what is looked at has the stamp.
        assert!(repeated(&text(8)) > Some(0.0));
        assert_eq!(repeated(&text(7)), Some(0.0));
    }
}
