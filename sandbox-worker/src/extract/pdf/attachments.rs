//! The files that a PDF carries: from its catalog's name tree, and hung on notes. Each is a member once.

use super::super::Output;
use pdfboss_core::{Document, FileSpec};
use shared::{MemberEnd, MemberHead, MemberKind, Refusal, Refused};
use std::collections::HashSet;

/// Sends every attached file that `pdf` has the bytes of.
pub(super) fn send(pdf: &Document, on_notes: &[FileSpec], out: &mut Output<'_>) {
    let mut sent = HashSet::new();
    for file in pdf.embedded_files() {
        let name = Some(file.spec.name()).filter(|name| !name.is_empty()).unwrap_or(file.name);
        let mtime = file.modified.map(super::metadata::seconds);
        one(pdf, &file.spec, name, mtime, &mut sent, out);
    }
    for spec in on_notes {
        one(pdf, spec, spec.name(), None, &mut sent, out);
    }
}

fn one(
    pdf: &Document,
    spec: &FileSpec,
    name: String,
    mtime: Option<i64>,
    sent: &mut HashSet<(u32, u16)>,
    out: &mut Output<'_>,
) {
    // A specification without an embedded stream points to a file elsewhere.
    let Some(stream) = spec.embedded else { return };
    if !sent.insert((stream.num, stream.r#gen)) {
        return;
    }
    out.member(MemberHead { name: name.into_bytes(), kind: MemberKind::File, mtime });
    let end = match pdf.file_spec_data(spec) {
        Ok(bytes) => {
            out.member_data(&bytes);
            MemberEnd::Whole
        }
        Err(error) => MemberEnd::Failed(Refusal { why: why(&error), message: error.to_string() }),
    };
    out.member_end(end);
}

fn why(error: &pdfboss_core::Error) -> Refused {
    match error {
        pdfboss_core::Error::Encrypted => Refused::Encrypted,
        pdfboss_core::Error::UnsupportedFilter(_) => Refused::Unsupported,
        _ => Refused::Malformed,
    }
}
