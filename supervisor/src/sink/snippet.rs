//! The passage of a text that answers a query best.

use super::query::{Part, parts};
use super::words::{Cut, Word, Words};
use std::ops::Range;

/// About so many characters are shown.
const LENGTH: usize = 200;
/// After so many matches the rest of the text is not looked at: any of them will do.
const MATCHES_MAX: usize = 10_000;

/// The passage of `text` that answers `query` best, on one line, of at most about 200 characters, with the byte ranges
/// (of the passage) of what matched. Without a match: the beginning.
pub fn snippet(query: &str, text: &str) -> (String, Vec<Range<usize>>) {
    let matches = matches(&parts(query), text);
    let window = best_window(&matches, text);
    let shown: Vec<Range<usize>> = merged(&matches, &window);
    one_line(text, window, &shown)
}

/// A place that answers a part of the query.
#[derive(Debug)]
struct Match {
    part: usize,
    range: Range<usize>,
}

fn matches(parts: &[Part], text: &str) -> Vec<Match> {
    let mut found = Vec::new();
    let longest = parts.iter().filter_map(|part| part.words.last()).map(|(offset, _)| offset + 1).max();
    let span = longest.unwrap_or(1);
    let mut recent: std::collections::VecDeque<Word> = std::collections::VecDeque::new();
    for word in Words::of(text) {
        if recent.len() == span {
            recent.pop_front();
        }
        recent.push_back(word);
        for (n, part) in parts.iter().enumerate() {
            found.extend(ends_here(part, &recent).into_iter().map(|range| Match { part: n, range }));
        }
        // One part needs no better passage than that of its first match.
        let past = parts.len() == 1
            && matches!((found.first(), recent.back()), (Some(first), Some(newest)) if newest.range.start > first.range.end + 4 * LENGTH);
        if past || found.len() >= MATCHES_MAX {
            break;
        }
    }
    found
}

/// Where `part` matches with its last word on the newest of the `recent` words.
fn ends_here(part: &Part, recent: &std::collections::VecDeque<Word>) -> Vec<Range<usize>> {
    let Some(newest) = recent.back() else { return Vec::new() };
    let mut found = Vec::new();
    if part.characters.iter().any(|c| newest.cut != Cut::Whole && newest.text.starts_with(c.as_str())) {
        found.push(newest.range.start..newest.first_end);
    }
    let Some((last, _)) = part.words.last() else { return found };
    let Some(first) = newest.position.checked_sub(*last) else { return found };
    let at = |offset: usize| recent.iter().find(|word| word.position == first + offset);
    if part.words.iter().all(|(offset, text)| at(*offset).is_some_and(|word| word.text == *text)) {
        let start = at(0).map_or(newest.range.start, |word| word.range.start);
        found.push(start..newest.range.end);
    }
    found
}

/// The stretch of `text` that shows most of the different parts, then most matches, the earliest of equals.
fn best_window(matches: &[Match], text: &str) -> Range<usize> {
    let mut best = (0, 0, 0);
    let mut last = 0;
    let mut counts = std::collections::BTreeMap::<usize, usize>::new();
    for (first, start) in matches.iter().enumerate() {
        // Bytes stand for characters here: a passage of wide ones gets shorter, never longer.
        while last < matches.len() && matches[last].range.end <= start.range.start + LENGTH * 3 / 4 {
            *counts.entry(matches[last].part).or_default() += 1;
            last += 1;
        }
        let score = (counts.len(), last - first.min(last));
        if score > (best.0, best.1) {
            best = (score.0, score.1, start.range.start);
        }
        if let Some(count) = counts.get_mut(&start.part) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&start.part);
            }
        }
        last = last.max(first + 1);
    }
    around(text, best.2)
}

/// From a little before `at`, cut at words where there are some.
fn around(text: &str, at: usize) -> Range<usize> {
    let back = |from: usize, count: usize| {
        text.get(..from)
            .and_then(|before| before.char_indices().rev().take(count).last())
            .map_or(from, |(index, _)| index)
    };
    let mut start = back(at, LENGTH / 5);
    if start > 0
        && let Some(before) = text.get(start..at)
        && let Some((index, c)) = before.char_indices().find(|(_, c)| c.is_whitespace())
    {
        start += index + c.len_utf8();
    }
    let rest = text.get(start..).unwrap_or_default();
    let end = rest.char_indices().nth(LENGTH).map_or(text.len(), |(index, _)| start + index);
    start..end
}

/// The matches inside the window, those that touch made one.
fn merged(matches: &[Match], window: &Range<usize>) -> Vec<Range<usize>> {
    let inside = |range: &Range<usize>| range.start >= window.start && range.end <= window.end;
    let mut ranges: Vec<Range<usize>> = matches.iter().map(|m| m.range.clone()).filter(inside).collect();
    ranges.sort_by_key(|range| range.start);
    let mut out: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match out.last_mut() {
            Some(before) if range.start < before.end => before.end = before.end.max(range.end),
            _ => out.push(range),
        }
    }
    out
}

/// The window with every run of white space and control characters as one space.
fn one_line(text: &str, window: Range<usize>, shown: &[Range<usize>]) -> (String, Vec<Range<usize>>) {
    let mut line = String::new();
    let mut places = Vec::with_capacity(shown.len());
    let mut next = shown.iter().peekable();
    let mut open = None;
    if window.start > 0 {
        line.push_str("… ");
    }
    let body = text.get(window.clone()).unwrap_or_default();
    for (index, c) in body.char_indices() {
        let at = window.start + index;
        if let Some(range) = open.take_if(|(_, end)| *end <= at) {
            places.push(range.0..line.len());
        }
        if let Some(range) = next.next_if(|range| range.start <= at) {
            open = Some((line.len(), range.end));
        }
        if c.is_whitespace() || c.is_control() {
            if !line.is_empty() && !line.ends_with(' ') {
                line.push(' ');
            }
        } else {
            line.push(c);
        }
    }
    if let Some((start, _)) = open {
        places.push(start..line.len());
    }
    line.truncate(line.trim_end().len());
    if window.end < text.len() {
        line.push_str(" …");
    }
    (line, places)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(query: &str, text: &str) -> String {
        let (line, ranges) = snippet(query, text);
        let mut out = line.clone();
        for range in ranges.iter().rev() {
            out.insert(range.end, ']');
            out.insert(range.start, '[');
        }
        out
    }

    #[test]
    fn what_matched_is_marked_in_the_text_as_it_stands() {
        assert_eq!(marked("cafe STRASSE", "Das  Café\nin der Straße."), "Das [Café] in der [Straße].");
        assert_eq!(marked("\"der strasse\"", "der Café in der Straße"), "der Café in [der Straße]");
        assert_eq!(marked("東京都", "旧東京都庁"), "旧[東京都]庁");
        assert_eq!(marked("都", "旧東京都庁"), "旧東京[都]庁");
    }

    #[test]
    fn the_passage_that_answers_all_parts_goes_before_the_first_match() {
        let text = format!("alpha {} alpha beta {}", "filler ".repeat(100), "filler ".repeat(100));
        let (line, ranges) = snippet("alpha beta", &text);
        assert!(line.contains("alpha beta"), "{line}");
        assert_eq!(ranges.len(), 2);
        assert!(line.starts_with("… ") && line.ends_with(" …"), "{line}");
        assert!(line.chars().count() <= LENGTH + 4);
    }

    #[test]
    fn without_a_match_the_beginning_is_shown() {
        assert_eq!(snippet("zebra", "one\ttwo"), ("one two".to_owned(), vec![]));
        assert_eq!(snippet("", ""), (String::new(), vec![]));
    }

    #[test]
    fn the_search_for_matches_ends_at_its_limit() {
        let found = matches(&parts("a b"), &"a ".repeat(2 * MATCHES_MAX));
        assert_eq!(found.len(), MATCHES_MAX);
    }
}
