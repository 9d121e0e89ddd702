//! What an extractor said, collected for unit tests.

use super::{Document, Done, Frames, Output, dispatch};
use shared::frame::Kind;
use shared::{Answer, Format, MemberEnd, MemberHead, Metadata, Refused};

/// Collects frames.
#[derive(Default)]
struct Collector {
    answers: Vec<Answer>,
}

impl Frames for Collector {
    fn frame(&mut self, kind: Kind, payload: &[u8]) {
        self.answers.push(Answer::decode(kind, payload).expect("extractors keep the bounds"));
    }
    fn raw(&mut self, _bytes: &[u8]) {}
    fn nonce(&self) -> [u8; 16] {
        [0; 16]
    }
}

/// A member as it came.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) head: MemberHead,
    pub(super) bytes: Vec<u8>,
    pub(super) end: Option<MemberEnd>,
}

/// All that was said of a document.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) done: Done,
    pub(super) text: String,
    pub(super) metadata: Metadata,
    pub(super) members: Vec<Member>,
}

impl Said {
    pub(super) fn of(format: Format, bytes: &[u8]) -> Said {
        Said::named(format, b"test", bytes)
    }

    pub(super) fn named(format: Format, name: &[u8], bytes: &[u8]) -> Said {
        let mut collector = Collector::default();
        let mut out = Output::new(&mut collector);
        let done = dispatch(format, &Document { bytes, name, passwords: &[] }, &mut out);
        out.flush();
        let mut said = Said { done, text: String::new(), metadata: Metadata::default(), members: Vec::new() };
        for answer in collector.answers {
            said.hear(answer);
        }
        said
    }

    fn hear(&mut self, answer: Answer) {
        match answer {
            Answer::Text(text) => self.text.push_str(&text),
            Answer::Metadata(metadata) => self.metadata = metadata,
            Answer::Member(head) => self.members.push(Member { head, bytes: Vec::new(), end: None }),
            Answer::MemberData(bytes) => self.members.last_mut().unwrap().bytes.extend(bytes),
            Answer::MemberEnd(end) => self.members.last_mut().unwrap().end = Some(end),
            _ => {}
        }
    }

    pub(super) fn names(&self) -> Vec<Vec<u8>> {
        self.members.iter().map(|member| member.head.name.clone()).collect()
    }

    /// Why each member failed, in order.
    pub(super) fn ends(&self) -> Vec<Option<Refused>> {
        self.members
            .iter()
            .map(|member| match member.end.as_ref().expect("every member ends") {
                MemberEnd::Whole => None,
                MemberEnd::Failed(refusal) => Some(refusal.why),
            })
            .collect()
    }
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
