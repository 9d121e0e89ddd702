//! What is counted in a text: characters, words, and what stands for characters that could not be decoded.
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

/// What is counted in a text.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::rules) struct Counted {
    pub(in crate::rules) chars: u64,
    pub(in crate::rules) letters: u64,
    /// Letters beyond ASCII.
    pub(in crate::rules) foreign: u64,
    /// Letters, marks on letters, and digits.
    pub(in crate::rules) readable: u64,
    /// Everything but blanks.
    pub(in crate::rules) visible: u64,
    pub(in crate::rules) words: u64,
    pub(in crate::rules) junk_chars: u64,
    /// Among the visible.
    pub(in crate::rules) junk: f64,
    pub(in crate::rules) codes: u64,
    /// Glyph codes among words and codes.
    pub(in crate::rules) glyph_codes: f64,
}

/// Counts characters and words. A word is a run of letters and digits; of scripts without blanks each pair of neighbours is
/// one, a single character too.
pub(in crate::rules) fn measure_words(text: &str) -> Counted {
    let mut counted = Counted::default();
    for token in text.split_whitespace() {
        let codes = glyph_codes(token);
        counted.codes += codes;
        if codes == 0 {
            counted.words += words(token);
        }
    }
    for char in text.chars() {
        counted.chars += 1;
        counted.letters += u64::from(char.is_alphabetic());
        counted.foreign += u64::from(char.is_alphabetic() && !char.is_ascii());
        counted.readable += u64::from(char.is_alphanumeric() || is_mark(char));
        counted.visible += u64::from(!char.is_whitespace());
        counted.junk_chars += u64::from(is_junk(char));
    }
    counted.junk_chars += misread(text);
    counted.junk = share(counted.junk_chars, counted.visible);
    counted.glyph_codes = share(counted.codes, counted.codes + counted.words);
    counted
}

fn words(token: &str) -> u64 {
    let (mut words, mut run, mut wide) = (0, false, 0_u64);
    for char in token.chars() {
        if is_wide(char) {
            wide += 1;
            run = false;
            continue;
        }
        words += pairs(std::mem::take(&mut wide));
        let part = char.is_alphanumeric()
            || is_mark(char)
            || (run && matches!(char, '\'' | '’' | '\u{200c}' | '\u{200d}'));
        words += u64::from(part && !run);
        run = part;
    }
    words + pairs(wide)
}

/// How many bigrams a run of so many characters has.
fn pairs(run: u64) -> u64 {
    if run == 1 { 1 } else { run.saturating_sub(1) }
}

/// Scripts that are written without blanks between words.
fn is_wide(char: char) -> bool {
    matches!(char, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{323af}' | '\u{e00}'..='\u{e7f}' | '\u{e80}'..='\u{eff}' | '\u{1000}'..='\u{109f}'
        | '\u{1780}'..='\u{17ff}')
        && char.is_alphanumeric()
}

/// Signs that belong to letters: accents, the vowels of Indic scripts, points of Hebrew and Arabic.
fn is_mark(char: char) -> bool {
    unicode_normalization::char::is_combining_mark(char)
}

/// Characters that stand for what could not be decoded.
fn is_junk(char: char) -> bool {
    matches!(char, '\u{fffd}' | '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}')
        // Never a character: glyphs that map to nothing.
        || matches!(char, '\u{fdd0}'..='\u{fdef}' | '\u{fffe}' | '\u{ffff}')
        || (char.is_control() && !matches!(char, '\n' | '\t' | '\r'))
}

/// How many codes of glyphs a token is made of: `(cid:12)`, `/G21`, `/g5/g17`.
fn glyph_codes(token: &str) -> u64 {
    let cids = token.matches("(cid:").count() as u64;
    if cids > 0 {
        return cids;
    }
    let Some(rest) = token.strip_prefix('/') else { return 0 };
    let code = |part: &str| {
        let digits = part.trim_start_matches(|c: char| c.is_ascii_alphabetic());
        let letters = part.len() - digits.len();
        (1..=3).contains(&letters)
            && !digits.is_empty()
            && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    if rest.split('/').all(code) { rest.split('/').count() as u64 } else { 0 }
}

/// How many characters are bytes of UTF-8 that were taken for letters of Windows-1252: `Ã©` for `é`. In honest text a pair
/// such as `É»` is a rare thing.
fn misread(text: &str) -> u64 {
    let (mut misread, mut so_far, mut missing) = (0, 0, 0_u64);
    for char in text.chars() {
        let byte = windows_byte(char).unwrap_or(0);
        match byte {
            0x80..=0xbf if missing > 0 => {
                (so_far, missing) = (so_far + 1, missing - 1);
                misread += if missing == 0 { so_far } else { 0 };
            }
            0xc2..=0xdf => (so_far, missing) = (1, 1),
            0xe0..=0xef => (so_far, missing) = (1, 2),
            0xf0..=0xf4 => (so_far, missing) = (1, 3),
            _ => missing = 0,
        }
    }
    misread
}

/// The byte above 0x7f that means this character in Windows-1252.
fn windows_byte(char: char) -> Option<u8> {
    /// What stands at 0x80 to 0x9f, the five places that are not taken as the controls that they were.
    const UPPER: [char; 32] = [
        '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}',
        '\u{90}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
    ];
    match char {
        '\0'..='\u{7f}' => None,
        '\u{80}'..='\u{ff}' => u8::try_from(u32::from(char)).ok(),
        // The last of them is the trade mark.
        '\u{100}'..='™' => {
            let at = UPPER.iter().position(|upper| *upper == char)?;
            u8::try_from(at).ok().map(|at| 0x80 + at)
        }
        _ => None,
    }
}

/// How many control characters the text as it came has: normalising takes them out, and they stand where something could
/// not be decoded.
pub(super) fn controls(raw: &str) -> u64 {
    raw.chars()
        .filter(|char| {
            char.is_control() && !matches!(char, '\n' | '\t' | '\r' | '\u{b}' | '\u{c}' | '\u{85}')
        })
        .count() as u64
}

/// `part` of `whole`, 0 of nothing.
pub(super) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { as_float(part) / as_float(whole) }
}

pub(super) fn as_float(count: u64) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_runs_and_pairs() {
        for (text, words) in
            [("don't stop", 2), ("a-b c", 3), ("中文文本", 3), ("中", 1), ("abc中文def", 3), ("...", 0)]
        {
            assert_eq!(measure_words(text).words, words, "{text:?}");
        }
    }

    #[test]
    fn utf_8_that_was_read_in_the_wrong_charset_is_junk() {
        for (text, expected) in [
            ("caf\u{c3}\u{a9}", 2),
            ("\u{d0}\u{bf}\u{d1}\u{20ac}\u{d0}\u{b8}", 6),
            ("\u{e2}\u{20ac}\u{2122}", 3),
            ("\u{f0}\u{178}\u{2dc}\u{20ac}", 4),
            ("\u{c3}", 0),
            ("caf\u{e9} \u{e0} la cr\u{e8}me \u{d6}l", 0),
            ("\u{e9}t\u{e9} \u{ab}na\u{ef}ve\u{bb} \u{2013} \u{dc}ber", 0),
        ] {
            assert_eq!(measure_words(text).junk_chars, expected, "{text:?}");
        }
    }

    #[test]
    fn controls_are_counted_where_they_still_are() {
        assert_eq!(controls("a\u{1}b\u{93}\n\t\r\u{c}\u{7f}"), 3);
    }
}
