//! stub
use super::{Document, Done, Output};
use shared::Format;
pub(super) fn extract(format: Format, document: &Document<'_>, out: &mut Output<'_>) -> Done {
    out.text(&String::from_utf8_lossy(document.bytes));
    Done::whole(format, "text")
}
