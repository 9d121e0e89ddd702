//! The front door of everything that is packed in ZIP, and the plain ZIP archives themselves.
//!
//! The central directory decides, as it does for every program that opens such a file; local headers are looked at only
//! where there is none ([`super::recover`]). Two entries that claim the same bytes are simply streamed twice: the
//! supervisor counts.

use crate::extract::package::{self, Package};
use crate::extract::{Document, Done, Output, epub, odf, ooxml, stream};
use shared::{Format, MemberEnd, MemberHead, MemberKind, Refusal, Refused};
use std::io::Read;

/// The engine of plain archives.
pub(super) const ENGINE: &str = "zip 9.8.2";

/// Tells what is packed, and hands it to who reads it.
///
/// Takes the whole file; says members (archives) or text and members (documents).
pub(in crate::extract) fn extract(document: &Document<'_>, out: &mut Output<'_>) -> Done {
    let mut package = match Package::open(document.bytes) {
        Ok(package) => package,
        Err(error) => return super::recover::extract(document, &error, out),
    };
    let format = identify(&mut package);
    read(format, document, &mut package, out)
}

/// Hands what is packed to who reads it.
pub(super) fn read(
    format: Format,
    document: &Document<'_>,
    package: &mut Package<'_>,
    out: &mut Output<'_>,
) -> Done {
    match format {
        Format::Zip => list(document, package, out),
        Format::Epub => epub::extract(document, package, out),
        Format::Odt | Format::Ods | Format::Odp | Format::Odg => odf::extract(format, package, out),
        Format::Iwork => {
            Done::refused(Format::Iwork, "none", Refused::Unsupported, "no extractor reads iWork documents")
        }
        format => ooxml::extract(format, document, package, out),
    }
}

/// What the entries make of the file; [`Format::Zip`] where they are just entries.
pub(super) fn identify(package: &mut Package<'_>) -> Format {
    if let Some(format) = ooxml::identify(package).or_else(|| odf::identify(package)) {
        return format;
    }
    if package.has("META-INF/container.xml") {
        return Format::Epub;
    }
    let iwork = ["Index/Document.iwa", "Index.zip", "index.apxl", "index.xml.gz"];
    if iwork.iter().any(|name| package.has(name)) && package.has_under("Metadata/")
        || package.has("Index/Document.iwa")
    {
        return Format::Iwork;
    }
    Format::Zip
}

fn list(document: &Document<'_>, package: &mut Package<'_>, out: &mut Output<'_>) -> Done {
    let total = package.len();
    if total == 0 {
        return Done::refused(Format::Zip, ENGINE, Refused::Malformed, "the archive has no entries");
    }
    for index in 0..total {
        entry(document, package, index, out);
        out.progress(index as u64 + 1, total as u64);
    }
    Done::whole(Format::Zip, ENGINE)
}

fn entry(document: &Document<'_>, package: &mut Package<'_>, index: usize, out: &mut Output<'_>) {
    let about = match package.about(index) {
        Ok(about) => about,
        Err(refusal) => {
            out.member(MemberHead { name: Vec::new(), kind: MemberKind::File, mtime: None });
            out.member_end(MemberEnd::Failed(refusal));
            return;
        }
    };
    if about.directory {
        return;
    }
    let kind = if about.link { MemberKind::Link } else { MemberKind::File };
    out.member(MemberHead { name: about.name, kind, mtime: about.mtime });
    let end = match (kind, about.encrypted) {
        (MemberKind::File, false) => match package.entry(index) {
            Ok(mut reader) => stream::end_of(stream::copy_member(&mut reader, out)),
            Err(refusal) => MemberEnd::Failed(refusal),
        },
        (MemberKind::File, true) => decrypted(document, package, index, out),
        _ => MemberEnd::Whole,
    };
    out.member_end(end);
}

/// Tries the empty password and the given ones. A wrong one passes the format's own check once in 256 times, so the
/// checksum of all bytes is looked at before the first of them is sent.
fn decrypted(
    document: &Document<'_>,
    package: &mut Package<'_>,
    index: usize,
    out: &mut Output<'_>,
) -> MemberEnd {
    let given = document.passwords.iter().map(String::as_str);
    for password in std::iter::once("").chain(given) {
        let opens = match package.entry_with(index, password) {
            Ok(mut reader) => stream::drain(&mut reader).is_ok(),
            Err(Refusal { why: Refused::Unsupported, message }) => {
                return stream::failed(Refused::Encrypted, message);
            }
            Err(_) => false,
        };
        if opens && let Ok(mut reader) = package.entry_with(index, password) {
            return stream::end_of(stream::copy_member(&mut reader as &mut dyn Read, out));
        }
    }
    stream::failed(Refused::Encrypted, package::PASSWORD)
}

#[cfg(test)]
mod tests {
    use crate::extract::testing::{self, Said};
    use shared::{Format, MemberKind, Refused};

    #[test]
    fn entries_are_members_with_their_names_as_they_are() {
        let file = testing::zip(&[(b"../a\xff.txt", b"one"), (b"/etc/b", b"two"), (b"folder/", b"")]);
        let said = Said::of(Format::Zip, &file);
        assert_eq!(said.done.refusal, None);
        assert_eq!(said.names(), [b"../a\xff.txt".to_vec(), b"/etc/b".to_vec()]);
        assert_eq!(said.members.first().unwrap().1, b"one");
        assert_eq!(said.members.first().unwrap().0.kind, MemberKind::File);
    }

    #[test]
    fn a_wrong_checksum_fails_the_member_alone() {
        let mut file = testing::zip(&[(b"a", b"first text"), (b"b", b"second text")]);
        let at = file.windows(5).position(|w| w == b"first").unwrap();
        *file.get_mut(at).unwrap() = b'F';
        let said = Said::of(Format::Zip, &file);
        assert_eq!(said.ends(), [Some(Refused::Malformed), None]);
        assert_eq!(said.done.refusal, None);
    }

    #[test]
    fn a_file_without_its_directory_gives_what_is_whole() {
        let file = testing::zip(&[(b"a", b"first text"), (b"b", b"second text")]);
        let cut = file.windows(4).position(|w| w == b"PK\x01\x02").unwrap() - 3;
        let said = Said::of(Format::Zip, file.get(..cut).unwrap());
        assert_eq!(said.done.refusal.as_ref().unwrap().why, Refused::Truncated);
        assert_eq!(said.ends(), [None, Some(Refused::Truncated)]);
        assert_eq!(said.members.first().unwrap().1, b"first text");
    }

    #[test]
    fn junk_before_the_archive_does_not_matter() {
        let mut file = b"#!/bin/sh\nexec unzip\n".to_vec();
        file.extend(testing::zip(&[(b"a", b"text")]));
        let said = Said::of(Format::Zip, &file);
        assert_eq!(said.names(), [b"a".to_vec()]);
        assert_eq!(said.done.refusal, None);
    }

    #[test]
    fn an_archive_of_nothing_is_no_success() {
        let said = Said::of(Format::Zip, &testing::zip(&[]));
        assert_eq!(said.done.refusal.as_ref().unwrap().why, Refused::Malformed);
    }
}
