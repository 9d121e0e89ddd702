//! A listener for the extractors' unit tests: what was said, put together from the frames.

use super::{Document, Done, Frames, Output};
use shared::frame::Kind;
use shared::{Answer, MemberEnd, MemberHead, Metadata, Refused};

/// All that an extractor said.
pub(super) struct Said {
    pub(super) text: String,
    pub(super) metadata: Metadata,
    pub(super) members: Vec<(MemberHead, Vec<u8>, Option<MemberEnd>)>,
    pub(super) done: Done,
}

impl Said {
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
