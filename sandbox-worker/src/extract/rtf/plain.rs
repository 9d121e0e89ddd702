//! A reader of RTF that never gives up: one pass, a stack of groups on the heap, no tree.

use encoding_rs::Encoding;
use std::collections::HashMap;

/// More groups than this inside one another are counted, not kept.
const DEPTH_MAX: usize = 100_000;

/// What was read.
pub(super) struct Read {
    pub(super) text: String,
    pub(super) title: Option<String>,
    pub(super) author: Option<String>,
    /// Groups that the end of the document left open.
    pub(super) open_groups: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Goes {
    Text,
    Nowhere,
    FontTable,
    Title,
    Author,
}

#[derive(Clone, Copy)]
struct Group {
    goes: Goes,
    /// How many characters stand in for one that is given by its number.
    stand_ins: usize,
    charset: &'static Encoding,
    hidden: bool,
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    groups: Vec<Group>,
    too_deep: usize,
    now: Group,
    fonts: HashMap<i32, &'static Encoding>,
    font: i32,
    document_charset: &'static Encoding,
    starred: bool,
    /// Bytes in the charset of the moment that are not decoded yet: a character may have two.
    pending: Vec<u8>,
    high: Option<u16>,
    to_skip: usize,
    text: String,
    title: String,
    author: String,
}

/// Reads all that there is.
pub(super) fn read(bytes: &[u8]) -> Read {
    let charset = encoding_rs::WINDOWS_1252;
    let now = Group { goes: Goes::Text, stand_ins: 1, charset, hidden: false };
    let mut reader = Reader {
        bytes,
        at: 0,
        groups: Vec::new(),
        too_deep: 0,
        now,
        fonts: HashMap::new(),
        font: 0,
        document_charset: charset,
        starred: false,
        pending: Vec::new(),
        high: None,
        to_skip: 0,
        text: String::new(),
        title: String::new(),
        author: String::new(),
    };
    reader.run();
    let some = |text: String| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    Read {
        text: reader.text,
        title: some(reader.title),
        author: some(reader.author),
        open_groups: reader.groups.len() + reader.too_deep,
    }
}

impl Reader<'_> {
    fn run(&mut self) {
        while let Some(&byte) = self.bytes.get(self.at) {
            self.at += 1;
            match byte {
                b'{' => self.open(),
                b'}' => {
                    if self.close() {
                        break;
                    }
                }
                b'\\' => self.control(),
                b'\r' | b'\n' | 0 => {}
                byte => self.byte(byte),
            }
        }
        self.decode();
    }

    fn open(&mut self) {
        self.decode();
        self.to_skip = 0;
        if self.groups.len() < DEPTH_MAX {
            self.groups.push(self.now);
        } else {
            self.too_deep += 1;
        }
        self.starred = false;
    }

    /// Whether the document's own group is over: bytes after it are none of its.
    fn close(&mut self) -> bool {
        self.decode();
        self.to_skip = 0;
        if self.too_deep > 0 {
            self.too_deep -= 1;
        } else if let Some(group) = self.groups.pop() {
            self.now = group;
        }
        self.groups.is_empty()
    }

    fn control(&mut self) {
        let Some(&byte) = self.bytes.get(self.at) else { return };
        if byte.is_ascii_alphabetic() {
            let (word, number) = self.word();
            return self.word_does(&word, number);
        }
        self.at += 1;
        match byte {
            b'\'' => self.hex(),
            b'*' => self.starred = true,
            b'~' => self.say("\u{a0}"),
            b'_' => self.say("\u{2011}"),
            b'-' => {}
            b'\n' | b'\r' => self.say("\n"),
            b'{' | b'}' | b'\\' => self.byte(byte),
            _ => {}
        }
    }

    fn word(&mut self) -> (String, Option<i32>) {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let length = rest.iter().take(32).take_while(|b| b.is_ascii_alphabetic()).count();
        let (word, rest) = rest.split_at(length);
        let digits = rest
            .iter()
            .take(11)
            .enumerate()
            .take_while(|(n, b)| b.is_ascii_digit() || (*n == 0 && **b == b'-'));
        let digits = digits.count();
        let number = rest.get(..digits).and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
        self.at += length + digits;
        if self.bytes.get(self.at) == Some(&b' ') {
            self.at += 1;
        }
        (String::from_utf8_lossy(word).into_owned(), number)
    }

    fn hex(&mut self) {
        let digit = |at: usize| self.bytes.get(at).and_then(|b| char::from(*b).to_digit(16));
        let (Some(high), Some(low)) = (digit(self.at), digit(self.at + 1)) else { return };
        self.at += 2;
        if let Ok(byte) = u8::try_from(high * 16 + low) {
            self.byte(byte);
        }
    }

    fn word_does(&mut self, word: &str, number: Option<i32>) {
        let starred = std::mem::take(&mut self.starred);
        match word {
            "u" => return self.unicode(number.unwrap_or(0)),
            "bin" => {
                let length = usize::try_from(number.unwrap_or(0)).unwrap_or(0);
                self.at = self.at.saturating_add(length).min(self.bytes.len());
                return;
            }
            _ => self.decode(),
        }
        match word {
            "par" | "line" | "sect" | "page" | "row" | "column" | "lbr" => self.say("\n"),
            "tab" | "cell" | "nestcell" => self.say("\t"),
            "emdash" => self.say("—"),
            "endash" => self.say("–"),
            "lquote" => self.say("‘"),
            "rquote" => self.say("’"),
            "ldblquote" => self.say("“"),
            "rdblquote" => self.say("”"),
            "bullet" => self.say("•"),
            "emspace" | "enspace" | "qmspace" => self.say(" "),
            "uc" => self.now.stand_ins = usize::try_from(number.unwrap_or(1)).unwrap_or(1).min(8),
            "ansicpg" => self.code_page(number),
            "mac" => self.document_is(encoding_rs::MACINTOSH),
            "pc" | "pca" => self.document_is(encoding_rs::IBM866),
            "f" => self.font(number.unwrap_or(0)),
            "fcharset" if self.now.goes == Goes::FontTable => {
                self.fonts.extend(by_fcharset(number.unwrap_or(0)).map(|charset| (self.font, charset)));
            }
            "plain" => self.now.hidden = false,
            "v" | "htmlrtf" => self.now.hidden = number != Some(0),
            "fonttbl" => self.now.goes = Goes::FontTable,
            "info" => self.now.goes = Goes::Nowhere,
            "title" if self.now.goes == Goes::Nowhere => self.now.goes = Goes::Title,
            "author" if self.now.goes == Goes::Nowhere => self.now.goes = Goes::Author,
            word if is_silent(word) || (starred && !is_heard(word)) => self.now.goes = Goes::Nowhere,
            _ => {}
        }
    }

    fn code_page(&mut self, number: Option<i32>) {
        if let Some(charset) = number.and_then(by_code_page) {
            self.document_is(charset);
        }
    }

    fn document_is(&mut self, charset: &'static Encoding) {
        self.document_charset = charset;
        self.now.charset = charset;
        self.groups.iter_mut().for_each(|group| group.charset = charset);
    }

    fn font(&mut self, number: i32) {
        self.font = number;
        if self.now.goes != Goes::FontTable {
            self.now.charset = self.fonts.get(&number).copied().unwrap_or(self.document_charset);
        }
    }

    fn unicode(&mut self, number: i32) {
        self.decode();
        self.to_skip = self.now.stand_ins;
        // Numbers beyond 32767 are written as negative ones.
        let Ok(unit) = u16::try_from(number & 0xffff) else { return };
        let high = self.high.take();
        if (0xd800..0xdc00).contains(&unit) {
            self.high = Some(unit);
            return;
        }
        let units = high.into_iter().chain([unit]);
        let text: String = char::decode_utf16(units).map(|c| c.unwrap_or('\u{fffd}')).collect();
        self.put(&text);
    }

    fn byte(&mut self, byte: u8) {
        if self.to_skip > 0 {
            self.to_skip -= 1;
            return;
        }
        self.starred = false;
        if self.now.goes != Goes::Nowhere && !self.now.hidden {
            self.pending.push(byte);
        }
    }

    fn decode(&mut self) {
        if !self.pending.is_empty() {
            let bytes = std::mem::take(&mut self.pending);
            let (text, _) = self.now.charset.decode_without_bom_handling(&bytes);
            self.put(&text);
        }
    }

    /// A control word that is a character.
    fn say(&mut self, text: &str) {
        if self.to_skip > 0 {
            self.to_skip -= 1;
            return;
        }
        self.decode();
        self.put(text);
    }

    fn put(&mut self, text: &str) {
        if self.now.hidden {
            return;
        }
        match self.now.goes {
            Goes::Text => self.text.push_str(text),
            Goes::Title => self.title.push_str(text),
            Goes::Author => self.author.push_str(text),
            Goes::Nowhere | Goes::FontTable => {}
        }
    }
}

/// Destinations without text for a reader.
fn is_silent(word: &str) -> bool {
    matches!(
        word,
        "colortbl"
            | "stylesheet"
            | "pict"
            | "objdata"
            | "objclass"
            | "objname"
            | "fldinst"
            | "listtable"
            | "filetbl"
            | "listoverridetable"
            | "rsidtbl"
            | "generator"
            | "themedata"
            | "colorschememapping"
            | "latentstyles"
            | "datastore"
            | "xmlnstbl"
            | "mmathPr"
            | "nonshppict"
            | "bkmkstart"
            | "bkmkend"
            | "revtbl"
            | "tc"
            | "xe"
            | "private"
            | "template"
            | "operator"
            | "ftnsep"
            | "ftnsepc"
            | "aftnsep"
            | "aftnsepc"
            | "pntext"
            | "pgptbl"
            | "keycode"
            | "sp"
            | "panose"
            | "falt"
            | "fontemb"
            | "blipuid"
            | "picprop"
            | "pnseclvl"
            | "htmltag"
    )
}

/// Destinations that are marked as ignorable, and have text all the same.
fn is_heard(word: &str) -> bool {
    matches!(
        word,
        "shppict"
            | "shpinst"
            | "shptxt"
            | "annotation"
            | "footnote"
            | "ud"
            | "fldrslt"
            | "result"
            | "atnauthor"
    )
}

fn by_code_page(number: i32) -> Option<&'static Encoding> {
    match number {
        932 => Some(encoding_rs::SHIFT_JIS),
        936 | 54936 => Some(encoding_rs::GB18030),
        949 => Some(encoding_rs::EUC_KR),
        950 => Some(encoding_rs::BIG5),
        866 => Some(encoding_rs::IBM866),
        10000 => Some(encoding_rs::MACINTOSH),
        10007 => Some(encoding_rs::X_MAC_CYRILLIC),
        20866 => Some(encoding_rs::KOI8_R),
        65001 => Some(encoding_rs::UTF_8),
        874 | 1250..=1258 => Encoding::for_label(format!("windows-{number}").as_bytes()),
        28591..=28605 => Encoding::for_label(format!("iso-8859-{}", number - 28590).as_bytes()),
        _ => None,
    }
}

fn by_fcharset(number: i32) -> Option<&'static Encoding> {
    let page = match number {
        0 => 1252,
        77 => 10000,
        128 => 932,
        129 | 130 => 949,
        134 => 936,
        136 => 950,
        161 => 1253,
        162 => 1254,
        163 => 1258,
        177 => 1255,
        178..=180 => 1256,
        186 => 1257,
        204 => 1251,
        222 => 874,
        238 => 1250,
        _ => return None,
    };
    by_code_page(page)
}

/// The charset of a Windows code page, for mails that are kept by number.
pub(in super::super) fn code_page(number: i32) -> Option<&'static Encoding> {
    by_code_page(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_left_out_and_results_of_fields_are_kept() {
        let rtf = br"{\rtf1{\colortbl;\red0;}{\*\generator X;}{\field{\*\fldinst HYPERLINK x}{\fldrslt link}} {\pict 0102}text\v hidden\v0 .}";
        assert_eq!(read(rtf).text, "link text.");
    }

    #[test]
    fn unpaired_surrogates_are_no_characters() {
        assert_eq!(read(br"{\rtf1 a\u55296?b \u55357?\u56832?}").text, "ab 😀");
    }

    #[test]
    fn two_byte_characters_by_font() {
        let rtf = b"{\\rtf1{\\fonttbl{\\f0\\fcharset0 A;}{\\f1\\fcharset128 B;}}\\f1\\'82\\'b1\\'82\\'f1\\f0 \\'e9}";
        assert_eq!(read(rtf).text, "こんé");
    }

    #[test]
    fn depth_and_length_cost_no_stack() {
        let deep = "{".repeat(DEPTH_MAX * 2);
        let read = read(format!("{{\\rtf1 x{deep}").as_bytes());
        assert_eq!((read.text.as_str(), read.open_groups), ("x", DEPTH_MAX * 2 + 1));
    }
}
