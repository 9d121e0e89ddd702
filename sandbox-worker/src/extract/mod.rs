//! One extractor a format, behind one function.
//!
//! An extractor takes the whole document as bytes and says what it finds through [`Output`]. It returns a [`Done`]: what
//! the document really is, which engine read it, and what stood in the way. It may panic, allocate or spin: the cage
//! makes a record of that. It must never claim success where it skipped something and knows it.

mod events;
mod output;
mod package;
mod stream;

mod archive;
mod charset;
mod epub;
mod html;
mod mail;
mod msg;
mod odf;
mod ole;
mod ooxml;
mod pdf;
mod rtf;
mod text;
mod xml;

#[cfg(test)]
mod testing;

pub use output::{Frames, Output};

use crate::jail::Jailed;
use shared::{Format, Parts, Refusal, Refused};

/// What an extractor gets.
#[derive(Debug, Clone, Copy)]
pub struct Document<'a> {
    /// All of it, mapped read-only.
    pub bytes: &'a [u8],
    /// The raw bytes of its innermost name: a hint, never a proof.
    pub name: &'a [u8],
    /// To be tried after the empty one.
    pub passwords: &'a [String],
}

/// What an extractor gives back; the text and the members went through [`Output`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// What the document really is.
    pub format: Format,
    /// The engine and its version: `pdfboss 2.16.1`.
    pub engine: &'static str,
    /// What stood in the way, if anything did.
    pub refusal: Option<Refusal>,
    /// Done of total, where parts were skipped.
    pub parts: Option<Parts>,
}

impl Done {
    /// All of it was read.
    pub fn whole(format: Format, engine: &'static str) -> Self {
        Done { format, engine, refusal: None, parts: None }
    }

    /// Something stood in the way; what was said before stands.
    pub fn refused(format: Format, engine: &'static str, why: Refused, message: impl Into<String>) -> Self {
        let mut message = message.into();
        output::truncate(&mut message, shared::answer::MESSAGE_MAX);
        Done { format, engine, refusal: Some(Refusal { why, message }), parts: None }
    }

    /// With the parts that were done, of the total.
    #[must_use]
    pub fn with_parts(mut self, done: u64, total: u64) -> Self {
        self.parts = Some(Parts { done, total });
        self
    }
}

/// Extracts `document`, of which the first bytes say that it is `format`. Carried out in a closed cage alone.
pub fn extract(_cage: &Jailed, format: Format, document: &Document<'_>, out: &mut Output<'_>) -> Done {
    dispatch(format, document, out)
}

/// Sends the pictures of those pages of `document` that have hardly any text, as members. Carried out in a closed cage alone.
pub fn pictures(_cage: &Jailed, format: Format, document: &Document<'_>, out: &mut Output<'_>) -> Done {
    match format {
        Format::Pdf => pdf::pictures(document, out),
        other => Done::refused(other, "none", Refused::Unsupported, "only a PDF has pictures of pages"),
    }
}

fn dispatch(format: Format, document: &Document<'_>, out: &mut Output<'_>) -> Done {
    match format {
        Format::Pdf => pdf::extract(document, out),
        // A ZIP may be any of the formats that are packed in one: told apart by its entries.
        Format::Zip
        | Format::Docx
        | Format::Xlsx
        | Format::Xlsb
        | Format::Pptx
        | Format::Vsdx
        | Format::Odt
        | Format::Ods
        | Format::Odp
        | Format::Odg
        | Format::Epub => archive::zip::extract(document, out),
        Format::Ole | Format::Doc | Format::Xls | Format::Ppt | Format::Msg => ole::extract(document, out),
        Format::Html => html::extract(document, out),
        Format::Xml => xml::extract(document, out),
        Format::Rtf => rtf::extract(document, out),
        Format::Eml => mail::eml(document, out),
        Format::Mbox => mail::mbox(document, out),
        Format::Text | Format::Csv | Format::Json | Format::Fault => text::extract(format, document, out),
        Format::Tar => archive::tar::extract(document, out),
        Format::Gzip | Format::Bzip2 | Format::Xz => archive::compressed::extract(format, document, out),
        Format::SevenZip => archive::seven_zip::extract(document, out),
        other => {
            Done::refused(other, "none", Refused::Unsupported, format!("no extractor reads {}", other.name()))
        }
    }
}

/// The extractors without a cage, for the benchmark that measures what the cage costs.
#[cfg(feature = "measure")]
pub mod measure {
    use super::{Document, Done, Output, dispatch};
    use shared::Format;

    /// As [`super::extract`], in this very process.
    pub fn extract_in_process(format: Format, document: &Document<'_>, out: &mut Output<'_>) -> Done {
        dispatch(format, document, out)
    }
}
