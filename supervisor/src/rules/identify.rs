//! stub
use shared::Format;
#[derive(Debug)]
pub struct Identified {
    pub format: Format,
    pub extension_mismatch: Option<String>,
}
pub fn identify(_head: &[u8], _size: u64, _name: &[u8], _faults: bool) -> Identified {
    Identified { format: Format::Text, extension_mismatch: None }
}
