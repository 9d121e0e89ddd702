//! stub
use super::{Document, Done, Output};
use shared::{Format, Refused};
pub(super) fn extract(_document: &Document<'_>, _out: &mut Output<'_>) -> Done {
    Done::refused(Format::Msg, "none", Refused::Unsupported, "not built yet")
}
