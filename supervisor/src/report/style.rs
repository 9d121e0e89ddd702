//! Text of others, made fit for a person's screen: names and messages come from hostile documents.

/// Shows control characters, and those that reorder or hide text, as `\u{..}`. One line stays one line.
pub fn safe(text: &str) -> String {
    escaped(text, |_| false)
}

/// As [`safe`], with line ends and tabs left as they are.
pub fn safe_lines(text: &str) -> String {
    escaped(text, |c| c == '\n' || c == '\t')
}

fn escaped(text: &str, keep: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unsafe(c) && !keep(c) { out.extend(c.escape_unicode()) } else { out.push(c) }
    }
    out
}

/// Steers a terminal, reorders text or is not seen.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// On one line, safe, and cut to `max` characters, the last of which is then `…`.
pub fn short(text: &str, max: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = safe(&words.join(" "));
    match line.char_indices().nth(max) {
        None => line,
        Some(_) => line.chars().take(max.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// The number with its noun.
pub fn count(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(number), if number == 1 { one } else { many })
}

/// `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `97.3 %`, never rounded up to all.
pub fn percent(share: f64) -> String {
    let tenths = (share * 1000.0).floor() / 10.0;
    format!("{tenths:.1} %")
}

/// A word as a shell takes it.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_reorders_or_hides_is_shown() {
        assert_eq!(
            safe("a\u{1b}[31m\u{202e}gpj.exe\u{200b}\n"),
            "a\\u{1b}[31m\\u{202e}gpj.exe\\u{200b}\\u{a}"
        );
        assert_eq!(safe_lines("a\tb\r\n\u{7}"), "a\tb\\u{d}\n\\u{7}");
        assert_eq!(safe("Ünï 東京"), "Ünï 東京");
    }

    #[test]
    fn texts_are_cut_numbers_grouped_and_words_quoted() {
        assert_eq!(short("a  b\nc", 9), "a b c");
        assert_eq!(short("abcdef", 4), "abc…");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(grouped(123), "123");
        assert_eq!(count(1, "document", "documents"), "1 document");
        assert_eq!(percent(0.99999), "99.9 %");
        assert_eq!(percent(1.0), "100.0 %");
        assert_eq!(quoted("/a/b-c"), "/a/b-c");
        assert_eq!(quoted("it's"), "'it'\\''s'");
    }
}
