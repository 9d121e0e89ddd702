//! The second engine: the parts that hold text, walked by hand in the order in which a reader meets them.
//!
//! Parts are known by their names, not by relationships: a damaged package still gives what it has.

use super::{Engine, Reading, sheets};
use crate::extract::Document;
use crate::extract::events::{self, Piece};
use crate::extract::package::Package;
use shared::{Format, Refusal, Refused};

pub(super) struct Hand;

impl Engine for Hand {
    fn name(&self) -> &'static str {
        "quick-xml 0.42.0"
    }

    fn read(
        &self,
        format: Format,
        _document: &Document<'_>,
        package: &mut Package<'_>,
    ) -> Result<Reading, Refusal> {
        let parts = parts(format, package);
        if parts.is_empty() {
            let message = "no part holds the document's text".to_owned();
            return Err(Refusal { why: Refused::Malformed, message });
        }
        let mut reading = Reading::default();
        if format == Format::Xlsx {
            sheets::read(package, &parts, &mut reading);
            return Ok(reading);
        }
        for part in parts {
            let mut walk = Walk { text: &mut reading.text, format, speaking: 0, silent: 0 };
            let result =
                package.part(&part).and_then(|source| events::walk(source, &mut |piece| walk.hear(piece)));
            note(&mut reading, &part, result);
        }
        Ok(reading)
    }
}

/// Notes what went wrong with a part; the first counts.
pub(super) fn note(reading: &mut Reading, part: &str, result: Result<(), Refusal>) {
    if let Err(Refusal { message, .. }) = result
        && reading.loss.is_none()
    {
        reading.loss = Some(Refusal { why: Refused::Malformed, message: format!("{part}: {message}") });
    }
}

/// The parts with text: folder, beginning of the name, in this order; numbered ones by number.
fn parts(format: Format, package: &Package<'_>) -> Vec<String> {
    let wanted: &[(&str, &str)] = match format {
        Format::Docx => &[
            ("word/", "header"),
            ("word/", "document"),
            ("word/", "footer"),
            ("word/", "footnotes"),
            ("word/", "endnotes"),
            ("word/", "comments.xml"),
            ("word/", "glossary/document.xml"),
            ("word/", "diagrams/data"),
            ("word/", "charts/chart"),
        ],
        Format::Pptx => &[
            ("ppt/slides/", "slide"),
            ("ppt/notesslides/", "notesslide"),
            ("ppt/comments/", ""),
            ("ppt/diagrams/", "data"),
            ("ppt/charts/", "chart"),
        ],
        Format::Vsdx => &[("visio/pages/", "page")],
        _ => &[
            ("xl/worksheets/", "sheet"),
            ("xl/worksheets/", ""),
            ("xl/", "comments"),
            ("xl/comments/", ""),
            ("xl/threadedcomments/", ""),
            ("xl/drawings/", "drawing"),
            ("xl/charts/", "chart"),
        ],
    };
    let mut found: Vec<(usize, u64, &String)> = Vec::new();
    for name in package.names() {
        let folded = name.replace('\\', "/").trim_start_matches('/').to_ascii_lowercase();
        let fits = |(folder, start): &(&str, &str)| {
            folded.strip_prefix(folder).is_some_and(|rest| {
                rest.starts_with(start) && !rest.get(start.len()..).unwrap_or("").contains('/')
            })
        };
        // The list of Visio's pages holds names of shapes, not text.
        if folded.ends_with(".xml") && folded != "visio/pages/pages.xml" {
            found.extend(wanted.iter().position(fits).map(|rank| (rank, number(&folded), name)));
        }
    }
    found.sort();
    found.into_iter().map(|(_, _, name)| name.clone()).collect()
}

fn number(name: &str) -> u64 {
    let digits: String = name.chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}

/// The state of the walk through one part.
struct Walk<'t> {
    text: &'t mut String,
    format: Format,
    /// Depth inside of elements whose characters are text.
    speaking: u32,
    /// Depth inside of what is said elsewhere already.
    silent: u32,
}

impl Walk<'_> {
    fn hear(&mut self, piece: Piece<'_>) {
        match piece {
            Piece::Open(element) => match events::local(element.name().0) {
                // What older programs show instead of the choice before it.
                "Fallback" => self.silent += 1,
                name if self.speaks(name) => self.speaking += 1,
                "tab" if self.format == Format::Docx => self.write("\t"),
                "br" | "cr" => self.write("\n"),
                _ => {}
            },
            Piece::Close(name) => match name {
                "Fallback" => self.silent = self.silent.saturating_sub(1),
                name if self.speaks(name) => {
                    self.speaking = self.speaking.saturating_sub(1);
                    if self.format == Format::Vsdx {
                        self.write("\n");
                    }
                }
                "p" | "tr" => self.write("\n"),
                "tc" => self.write("\t"),
                _ => {}
            },
            Piece::Text(text) if self.speaking > 0 => self.write(text),
            Piece::Text(_) => {}
        }
    }

    fn speaks(&self, name: &str) -> bool {
        match self.format {
            Format::Vsdx => name == "Text",
            _ => name == "t" || name == "text",
        }
    }

    fn write(&mut self, text: &str) {
        if self.silent == 0 {
            self.text.push_str(text);
        }
    }
}
