//! A listener for the extractors' unit tests: what was said, put together from the frames.

use super::{Document, Done, Frames, Output, dispatch};
use shared::frame::Kind;
use shared::{Answer, Format, MemberEnd, MemberHead, Metadata, Refused};

/// All that an extractor said.
pub(super) struct Said {
    pub(super) text: String,
    pub(super) metadata: Metadata,
    pub(super) members: Vec<(MemberHead, Vec<u8>, Option<MemberEnd>)>,
    pub(super) done: Done,
}

impl Said {
    /// What the extractor of `format` says of `bytes`.
    pub(super) fn of(format: Format, bytes: &[u8]) -> Said {
        said(bytes, |document, out| dispatch(format, document, out))
    }

    /// As [`Said::of`], of a document that has a name.
    pub(super) fn named(format: Format, name: &[u8], bytes: &[u8]) -> Said {
        said(bytes, |document, out| dispatch(format, &Document { name, ..*document }, out))
    }

    /// The members' names, in order.
    pub(super) fn names(&self) -> Vec<Vec<u8>> {
        self.members.iter().map(|(head, _, _)| head.name.clone()).collect()
    }

    /// Why each member failed, in order.
    pub(super) fn ends(&self) -> Vec<Option<Refused>> {
        self.members
            .iter()
            .map(|(_, _, end)| match end.as_ref().expect("every member ends") {
                MemberEnd::Whole => None,
                MemberEnd::Failed(refusal) => Some(refusal.why),
            })
            .collect()
    }

    pub(super) fn why(&self) -> Option<Refused> {
        self.done.refusal.as_ref().map(|refusal| refusal.why)
    }
}

#[derive(Default)]
struct Listener {
    text: String,
    metadata: Metadata,
    members: Vec<(MemberHead, Vec<u8>, Option<MemberEnd>)>,
}

impl Frames for Listener {
    fn frame(&mut self, kind: Kind, payload: &[u8]) {
        match Answer::decode(kind, payload).expect("an extractor's frames are within their bounds") {
            Answer::Text(text) => self.text.push_str(&text),
            Answer::Metadata(metadata) => self.metadata = metadata,
            Answer::Member(head) => self.members.push((head, Vec::new(), None)),
            Answer::MemberData(bytes) => self.members.last_mut().expect("a member began").1.extend(bytes),
            Answer::MemberEnd(end) => self.members.last_mut().expect("a member began").2 = Some(end),
            _ => {}
        }
    }

    fn raw(&mut self, _bytes: &[u8]) {}

    fn nonce(&self) -> [u8; 16] {
        [0; 16]
    }
}

/// Runs `extractor` over `bytes` and gives back what it said.
pub(super) fn said(bytes: &[u8], extractor: impl FnOnce(&Document<'_>, &mut Output<'_>) -> Done) -> Said {
    let mut listener = Listener::default();
    let mut out = Output::new(&mut listener);
    let done = extractor(&Document { bytes, name: b"", passwords: &[] }, &mut out);
    out.flush();
    Said { text: listener.text, metadata: listener.metadata, members: listener.members, done }
}

/// A ZIP file of stored entries.
pub(super) fn zip(entries: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut directory = Vec::new();
    for (name, bytes) in entries {
        let at = u32::try_from(file.len()).unwrap();
        let mut crc = flate2::Crc::new();
        crc.update(bytes);
        let size = u32::try_from(bytes.len()).unwrap().to_le_bytes();
        let mut common = vec![20, 0, 0, 0, 0, 0, 0, 0, 0x21, 0];
        common.extend(crc.sum().to_le_bytes());
        common.extend(size);
        common.extend(size);
        common.extend(u16::try_from(name.len()).unwrap().to_le_bytes());
        common.extend([0, 0]);
        file.extend(b"PK\x03\x04");
        file.extend(&common);
        file.extend(*name);
        file.extend(*bytes);
        directory.extend(b"PK\x01\x02\x14\0");
        directory.extend(&common);
        directory.extend([0; 10]);
        directory.extend(at.to_le_bytes());
        directory.extend(*name);
    }
    let count = u16::try_from(entries.len()).unwrap().to_le_bytes();
    let at = u32::try_from(file.len()).unwrap().to_le_bytes();
    let size = u32::try_from(directory.len()).unwrap().to_le_bytes();
    file.extend(directory);
    file.extend(b"PK\x05\x06\0\0\0\0");
    file.extend(count);
    file.extend(count);
    file.extend(size);
    file.extend(at);
    file.extend([0, 0]);
    file
}
