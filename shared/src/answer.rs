//! What a child says of its document, frame by frame: `Locked`, then text, metadata, members and signs of life in
//! any order, then one `End`, then exit status 0. Anything else is a violation of the protocol.

use crate::{Format, Layers, frame};
use serde::{Deserialize, Serialize};

/// The longest string in any answer, in bytes, except for names and messages.
pub const STRING_MAX: usize = 4 << 10;
/// The longest message of a refusal, in bytes.
pub const MESSAGE_MAX: usize = 8 << 10;
/// The longest name of a member, in bytes.
pub const NAME_MAX: usize = 16 << 10;

/// One frame, decoded and within its bounds.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// The cage is shut, with these layers; the parser starts now.
    Locked(Layers),
    /// More of the text.
    Text(String),
    /// What the document says about itself. The last one counts.
    Metadata(Metadata),
    /// Signs of life: `done` of `total` parts (pages, entries), 0 where the total is not known.
    Progress { done: u64, total: u64 },
    /// A member begins. Its data and its end follow before the next one begins.
    Member(MemberHead),
    /// More of the member's bytes.
    MemberData(Vec<u8>),
    /// The member is over.
    MemberEnd(MemberEnd),
    /// The child is done.
    End(End),
}

/// What a document says about itself. Every string is at most [`STRING_MAX`] bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    pub title: Option<String>,
    pub author: Option<String>,
    pub subject: Option<String>,
    pub keywords: Option<String>,
    /// As the document writes it; RFC 3339 where it could be read.
    pub created: Option<String>,
    pub modified: Option<String>,
    /// The program that made it.
    pub producer: Option<String>,
    /// Pages, slides or sheets.
    pub pages: Option<u32>,
    /// Pages on which some text was found, where pages are told apart.
    pub pages_with_text: Option<u32>,
    /// The charset that was found, for plain text, HTML and mail.
    pub charset: Option<String>,
    /// Of a mail.
    pub from: Option<String>,
    pub to: Option<String>,
    /// Encrypted, and opened with the empty password or a configured one.
    pub decrypted: bool,
    /// Pages that are pictures, and have hardly any text: what `recognise` could read.
    pub page_images: Option<u32>,
}

/// What a member is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemberKind {
    /// Bytes follow.
    File,
    /// A symbolic or hard link inside an archive: no bytes.
    Link,
    /// A device, FIFO or the like: no bytes.
    Special,
}

/// The beginning of a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberHead {
    /// Raw bytes as the container has them, at most [`NAME_MAX`]; empty where it has none.
    pub name: Vec<u8>,
    /// What it is.
    pub kind: MemberKind,
    /// Seconds since 1970, as the container says.
    pub mtime: Option<i64>,
}

/// The end of a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemberEnd {
    /// All its bytes came, and its checksum holds where there is one.
    Whole,
    /// Its bytes cannot be had, or not all; the container goes on.
    Failed(Refusal),
}

/// Why there is no text, or not all of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    pub why: Refused,
    /// The engine's own words, at most [`MESSAGE_MAX`] bytes.
    pub message: String,
}

/// What an honest extractor can say of its document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Refused {
    /// It cannot be opened without a password that nobody gave.
    Encrypted,
    /// Its structure is broken.
    Malformed,
    /// It ends before its structure does.
    Truncated,
    /// A format, version or variant that nothing here reads.
    Unsupported,
}

/// How much was done of how much there is: pages, sheets, entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parts {
    pub done: u64,
    pub total: u64,
}

/// The last frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// What the document really is.
    pub format: Format,
    /// What stands in the way, if anything does. With text or members before it, these are what could be had.
    pub refusal: Option<Refusal>,
    /// Done of total, where parts were skipped.
    pub parts: Option<Parts>,
    /// The engine that did it, with its version: `pdfboss 2.16.1`. At most 128 bytes.
    pub engine: String,
    /// Bytes of text sent. Must be what arrived.
    pub text_bytes: u64,
    /// Members begun. Must be what arrived.
    pub members: u64,
}

impl Answer {
    /// Reads the payload of a frame of this kind.
    ///
    /// # Errors
    /// What the payload does wrong, as a short stable word for the record.
    pub fn decode(kind: frame::Kind, payload: &[u8]) -> Result<Answer, &'static str> {
        let answer = match kind {
            frame::Kind::Locked => Answer::Locked(frame::decode(payload)?),
            frame::Kind::Text => {
                Answer::Text(std::str::from_utf8(payload).map_err(|_| "text_not_utf8")?.to_owned())
            }
            frame::Kind::Metadata => Answer::Metadata(frame::decode(payload)?),
            frame::Kind::Progress => {
                let (done, total) = frame::decode(payload)?;
                Answer::Progress { done, total }
            }
            frame::Kind::Member => Answer::Member(frame::decode(payload)?),
            frame::Kind::MemberData => Answer::MemberData(payload.to_vec()),
            frame::Kind::MemberEnd => Answer::MemberEnd(frame::decode(payload)?),
            frame::Kind::End => Answer::End(frame::decode(payload)?),
        };
        answer.within_bounds().then_some(answer).ok_or("string_too_long")
    }

    fn within_bounds(&self) -> bool {
        let short = |s: &Option<String>| s.as_ref().is_none_or(|s| s.len() <= STRING_MAX);
        match self {
            Answer::Metadata(m) => [
                &m.title,
                &m.author,
                &m.subject,
                &m.keywords,
                &m.created,
                &m.modified,
                &m.producer,
                &m.charset,
                &m.from,
                &m.to,
            ]
            .into_iter()
            .all(short),
            Answer::Member(head) => head.name.len() <= NAME_MAX,
            Answer::MemberEnd(MemberEnd::Failed(refusal)) => refusal.message.len() <= MESSAGE_MAX,
            Answer::End(end) => {
                end.engine.len() <= 128
                    && end.refusal.as_ref().is_none_or(|refusal| refusal.message.len() <= MESSAGE_MAX)
            }
            _ => true,
        }
    }
}
