//! Cells for the second engine: XLSX by hand, XLSB by calamine's reader of single cells.
//!
//! Cells are written as they come, row after row, so that two cells in far corners cost two cells. calamine's whole
//! ranges would ask for every cell between them.

use super::{Engine, Reading, hand};
use crate::extract::Document;
use crate::extract::events::{self, Piece};
use crate::extract::package::Package;
use calamine::{DataRef, Reader, Xlsb};
use quick_xml::events::BytesStart;
use shared::{Format, Refusal, Refused};
use std::fmt::Write;
use std::io::Cursor;

/// XLSB.
pub(super) struct Calamine;

impl Engine for Calamine {
    fn name(&self) -> &'static str {
        "calamine 0.38.0"
    }

    fn read(
        &self,
        _format: Format,
        document: &Document<'_>,
        _package: &mut Package<'_>,
    ) -> Result<Reading, Refusal> {
        let malformed =
            |error: calamine::XlsbError| Refusal { why: Refused::Malformed, message: error.to_string() };
        let mut book: Xlsb<_> = Xlsb::new(Cursor::new(document.bytes)).map_err(malformed)?;
        let mut reading = Reading::default();
        for name in book.sheet_names() {
            let result = book.worksheet_cells_reader(&name).and_then(|mut cells| {
                let mut row = None;
                while let Some(cell) = cells.next_cell()? {
                    let at = cell.get_position().0;
                    let between = if row == Some(at) { '\t' } else { '\n' };
                    row = Some(at);
                    reading.text.push(between);
                    say(cell.get_value(), &mut reading.text);
                }
                Ok(())
            });
            hand::note(&mut reading, &name, result.map_err(malformed));
        }
        Ok(reading)
    }
}

fn say(value: &DataRef<'_>, text: &mut String) {
    let written = match value {
        DataRef::String(string) => write!(text, "{string}"),
        DataRef::SharedString(string) => write!(text, "{string}"),
        DataRef::Float(number) => write!(text, "{number}"),
        DataRef::Int(number) => write!(text, "{number}"),
        DataRef::Bool(truth) => write!(text, "{truth}"),
        DataRef::DateTimeIso(string) | DataRef::DurationIso(string) => write!(text, "{string}"),
        DataRef::DateTime(time) => write!(text, "{}", time.as_f64()),
        DataRef::Error(error) => write!(text, "{error}"),
        DataRef::Empty => Ok(()),
    };
    written.expect("a String takes everything");
}

/// Reads the sheets, comments and drawings of an XLSX file, in the order of `parts`.
pub(super) fn read(package: &mut Package<'_>, parts: &[String], reading: &mut Reading) {
    let mut strings = Strings::default();
    if package.has("xl/sharedStrings.xml") {
        let result = package
            .part("xl/sharedStrings.xml")
            .and_then(|source| events::walk(source, &mut |piece| strings.hear(piece)));
        hand::note(reading, "xl/sharedStrings.xml", result);
    }
    for part in parts {
        let mut sheet = Sheet::new(&strings, &mut reading.text);
        let result =
            package.part(part).and_then(|source| events::walk(source, &mut |piece| sheet.hear(piece)));
        hand::note(reading, part, result);
    }
}

/// The shared strings, one after another, and where each ends.
#[derive(Default)]
struct Strings {
    text: String,
    ends: Vec<usize>,
    speaking: bool,
    /// Inside of a reading aid, which repeats what is written.
    phonetic: bool,
}

impl Strings {
    fn hear(&mut self, piece: Piece<'_>) {
        match piece {
            Piece::Open(element) => match events::local(element.name().0) {
                "t" => self.speaking = !self.phonetic,
                "rPh" => self.phonetic = true,
                _ => {}
            },
            Piece::Close("t") => self.speaking = false,
            Piece::Close("rPh") => self.phonetic = false,
            Piece::Close("si") => self.ends.push(self.text.len()),
            Piece::Text(text) if self.speaking => self.text.push_str(text),
            _ => {}
        }
    }

    fn get(&self, number: usize) -> Option<&str> {
        let end = *self.ends.get(number)?;
        let start = number.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        self.text.get(start..end)
    }
}

/// What the characters that come are.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Plain,
    Shared,
}

struct Sheet<'t> {
    strings: &'t Strings,
    text: &'t mut String,
    /// What the open cell or run says.
    value: String,
    kind: Kind,
    /// Inside of a value or a text; a formula is neither.
    speaking: bool,
}

impl<'t> Sheet<'t> {
    fn new(strings: &'t Strings, text: &'t mut String) -> Self {
        Sheet { strings, text, value: String::new(), kind: Kind::Plain, speaking: false }
    }

    fn hear(&mut self, piece: Piece<'_>) {
        match piece {
            Piece::Open(element) => self.open(element),
            Piece::Close("v" | "t" | "text") => self.say(),
            Piece::Close("c") => self.text.push('\t'),
            Piece::Close("row" | "p" | "comment") => self.text.push('\n'),
            Piece::Text(text) if self.speaking => self.value.push_str(text),
            _ => {}
        }
    }

    fn open(&mut self, element: &BytesStart<'_>) {
        match events::local(element.name().0) {
            "c" => {
                let shared = events::attribute(element, "t").as_deref() == Some("s");
                self.kind = if shared { Kind::Shared } else { Kind::Plain };
            }
            "v" | "t" | "text" => self.speaking = true,
            _ => {}
        }
    }

    fn say(&mut self) {
        let value = self.value.trim();
        let shared = match self.kind {
            Kind::Shared => value.parse().ok().and_then(|number| self.strings.get(number)),
            _ => None,
        };
        self.text.push_str(shared.unwrap_or(&self.value));
        self.value.clear();
        self.speaking = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::testing;

    #[test]
    fn cells_in_far_corners_cost_two_cells() {
        let strings =
            b"<sst><si><t>one</t><rPh><t>ONE</t></rPh></si><si><r><t>t</t></r><r><t>wo</t></r></si></sst>";
        let sheet = b"<worksheet><row r='1'><c r='A1' t='s'><v>1</v></c></row><row r='1048576'>\
<c r='XFD1048576' t='s'><f>A1+1</f><v>0</v></c><c t='inlineStr'><is><t>in &amp; line</t></is></c></row></worksheet>";
        let file = testing::zip(&[(b"xl/sharedStrings.xml", strings), (b"xl/worksheets/sheet1.xml", sheet)]);
        let mut reading = Reading::default();
        let mut package = Package::open(&file).unwrap();
        read(&mut package, &["xl/worksheets/sheet1.xml".to_owned()], &mut reading);
        assert!(reading.loss.is_none());
        assert_eq!(reading.text, "two\t\none\tin & line\t\n");
    }
}
