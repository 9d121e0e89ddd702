//! EPUB: the chapters in the order of the spine, as the package file lists them.
//!
//! Chapters are XHTML, read by the HTML extractor one at a time; a chapter that is missing is counted, so that a book
//! without its middle is never taken for whole.

use super::events::{self, Piece};
use super::package::Package;
use super::{Document, Done, Output, html, stream};
use shared::{Format, Metadata, Refusal, Refused};
use std::collections::HashMap;

const ENGINE: &str = "quick-xml 0.42.0";

/// Fonts may be scrambled under these names; anything else is a lock on the text.
const OBFUSCATIONS: [&str; 2] = ["http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC"];

/// What the package file says.
#[derive(Default)]
struct Book {
    metadata: Metadata,
    /// Id to path and media type.
    items: HashMap<String, (String, String)>,
    spine: Vec<String>,
    /// The order in which the items were declared.
    declared: Vec<String>,
}

/// Says the text and the metadata of a book.
pub(super) fn extract(document: &Document<'_>, package: &mut Package<'_>, out: &mut Output<'_>) -> Done {
    if locked(package) {
        return Done::refused(Format::Epub, ENGINE, Refused::Encrypted, "its chapters are encrypted");
    }
    let (book, mut refusal) = match read_book(package) {
        Ok(read) => read,
        Err(Refusal { why, message }) => return Done::refused(Format::Epub, ENGINE, why, message),
    };
    let chapters = book.chapters();
    let total = chapters.len() as u64;
    let mut done = 0;
    for (number, chapter) in chapters.iter().enumerate() {
        match read_chapter(document, package, chapter, out) {
            Ok(()) => done += 1,
            Err(error) => refusal = refusal.or(Some(error)),
        }
        out.text("\n");
        out.progress(number as u64 + 1, total);
    }
    // After the chapters, for each of them has a title of its own.
    out.metadata(book.metadata);
    match refusal {
        Some(Refusal { why, message }) => {
            Done::refused(Format::Epub, ENGINE, why, message).with_parts(done, total)
        }
        None if total == 0 => {
            Done::refused(Format::Epub, ENGINE, Refused::Malformed, "the book lists no chapters")
        }
        None => Done::whole(Format::Epub, ENGINE),
    }
}

fn locked(package: &mut Package<'_>) -> bool {
    let mut found = false;
    let Ok(part) = package.part("META-INF/encryption.xml") else { return false };
    let walked = events::walk(part, &mut |piece| {
        if let Piece::Open(element) = piece
            && events::local(element.name().0) == "EncryptionMethod"
        {
            let algorithm = events::attribute(element, "Algorithm").unwrap_or_default();
            found |= !OBFUSCATIONS.contains(&algorithm.as_str());
        }
    });
    // A list that cannot be read in full may lock anything.
    found || walked.is_err()
}

fn read_book(package: &mut Package<'_>) -> Result<(Book, Option<Refusal>), Refusal> {
    let mut root = None;
    let container = package.part("META-INF/container.xml")?;
    let walked = events::walk(container, &mut |piece| {
        if let Piece::Open(element) = piece
            && events::local(element.name().0) == "rootfile"
        {
            root = root.take().or_else(|| events::attribute(element, "full-path"));
        }
    });
    let named = root.filter(|name| package.has(name));
    let root = named.or_else(|| package.names().iter().find(|name| name.ends_with(".opf")).cloned());
    let Some(root) = root else {
        return Err(walked.err().unwrap_or_else(|| Refusal {
            why: Refused::Malformed,
            message: "the book has no package file".to_owned(),
        }));
    };
    let folder = root.rsplit_once('/').map(|(folder, _)| format!("{folder}/")).unwrap_or_default();
    let mut book = Book::default();
    let mut field = String::new();
    let broken = events::walk(package.part(&root)?, &mut |piece| book.hear(piece, &folder, &mut field)).err();
    Ok((book, broken))
}

impl Book {
    fn hear(&mut self, piece: Piece<'_>, folder: &str, field: &mut String) {
        match piece {
            Piece::Open(element) => {
                events::local(element.name().0).clone_into(field);
                let value = |name| events::attribute(element, name);
                if field == "item"
                    && let (Some(id), Some(href)) = (value("id"), value("href"))
                {
                    self.declared.push(id.clone());
                    self.items.insert(id, (resolved(folder, &href), value("media-type").unwrap_or_default()));
                } else if field == "itemref"
                    && let Some(id) = value("idref")
                {
                    self.spine.push(id);
                } else if field == "meta" {
                    field.push_str(&value("property").map(|name| format!(" {name}")).unwrap_or_default());
                }
            }
            Piece::Close(_) => field.clear(),
            Piece::Text(text) => self.say(field, text),
        }
    }

    fn say(&mut self, field: &str, text: &str) {
        let (field, between) = match field {
            "title" => (&mut self.metadata.title, " "),
            "creator" => (&mut self.metadata.author, ", "),
            "subject" => (&mut self.metadata.subject, ", "),
            "date" => (&mut self.metadata.created, " "),
            "meta dcterms:modified" => (&mut self.metadata.modified, " "),
            "publisher" => (&mut self.metadata.producer, ", "),
            _ => return,
        };
        match field {
            Some(there) => *there = format!("{there}{between}{text}"),
            None => *field = Some(text.to_owned()),
        }
    }

    /// The paths of the chapters in reading order; every page that is declared where there is no order.
    fn chapters(&self) -> Vec<String> {
        let ids = if self.spine.is_empty() { &self.declared } else { &self.spine };
        ids.iter()
            .filter_map(|id| match self.items.get(id) {
                Some((path, media))
                    if media.contains("html") || media.contains("xml") || media.is_empty() =>
                {
                    Some(path.clone())
                }
                Some(_) => None,
                None => Some(id.clone()),
            })
            .collect()
    }
}

fn read_chapter(
    document: &Document<'_>,
    package: &mut Package<'_>,
    name: &str,
    out: &mut Output<'_>,
) -> Result<(), Refusal> {
    let bytes = package.read(name, stream::PART_CAP)?;
    let done = html::extract(&Document { bytes: &bytes, name: name.as_bytes(), ..*document }, out);
    match done.refusal {
        Some(Refusal { why, message }) => Err(Refusal { why, message: format!("{name}: {message}") }),
        None => Ok(()),
    }
}

/// The path of `href`, which is relative to `folder` and may have escapes.
fn resolved(folder: &str, href: &str) -> String {
    let href = href.split('#').next().unwrap_or(href);
    let mut path: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    let unescaped = unescaped(href);
    for part in unescaped.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(path.pop()),
            part => path.push(part),
        }
    }
    path.join("/")
}

fn unescaped(href: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = href.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let hex = tail.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(|_| first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = tail.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::testing::{self, Said};

    #[test]
    fn paths_are_relative_to_the_package_file() {
        assert_eq!(resolved("OEBPS/", "text/one%20a.xhtml#x"), "OEBPS/text/one a.xhtml");
        assert_eq!(resolved("OEBPS/text/", "../b.xhtml"), "OEBPS/b.xhtml");
        assert_eq!(resolved("", "100%.xhtml"), "100%.xhtml");
    }

    #[test]
    fn encrypted_chapters_are_not_read_and_fonts_do_not_matter() {
        let locked = |algorithm: &str| {
            let list = format!("<encryption><EncryptionMethod Algorithm='{algorithm}'/></encryption>");
            let file = testing::zip(&[
                (b"META-INF/container.xml", b"<container/>"),
                (b"META-INF/encryption.xml", list.as_bytes()),
            ]);
            Said::of(Format::Epub, &file).done.refusal.unwrap().why
        };
        assert_eq!(locked("http://www.w3.org/2001/04/xmlenc#aes128-cbc"), Refused::Encrypted);
        assert_eq!(locked(OBFUSCATIONS[0]), Refused::Malformed);
    }
}
