//! stub
use super::fault::Fault;
use crate::settings::Policy;
use shared::Format;
pub fn judge_format(_format: Format, _policy: &Policy) -> Option<Fault> {
    None
}
