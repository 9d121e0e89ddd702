//! What an extractor says: text, metadata, signs of life and members, packed into frames.

use shared::frame::{self, Kind, PAYLOAD_MAX};
use shared::{MemberEnd, MemberHead, Metadata, answer};

/// Where frames go: the result pipe in a child, a collector in a measurement or a unit test.
pub trait Frames {
    /// Sends one frame. Where nobody listens any more the child ends here; there is no error to handle.
    fn frame(&mut self, kind: Kind, payload: &[u8]);
    /// Sends bytes that need not be a frame: for the fault language, which sins on purpose.
    fn raw(&mut self, bytes: &[u8]);
    /// The nonce of this child's frames.
    fn nonce(&self) -> [u8; 16];
}

/// Text is held back until there is this much, so that a document of many small pieces is few frames.
const TEXT_HELD: usize = 32 << 10;

/// The extractors' voice. Everything it sends is within the bounds of [`shared::answer`].
pub struct Output<'a> {
    frames: &'a mut dyn Frames,
    held: String,
    text_bytes: u64,
    members: u64,
    silent: bool,
}

impl std::fmt::Debug for Output<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Output")
            .field("text_bytes", &self.text_bytes)
            .field("members", &self.members)
            .finish()
    }
}

impl<'a> Output<'a> {
    /// A voice that sends to `frames`.
    pub fn new(frames: &'a mut dyn Frames) -> Self {
        Output { frames, held: String::new(), text_bytes: 0, members: 0, silent: false }
    }

    /// From here on text and metadata are dropped: the members alone are wanted.
    pub fn members_only(&mut self) {
        self.silent = true;
    }

    /// More of the text. NULs are left out: no text has any.
    pub fn text(&mut self, text: &str) {
        if self.silent {
            return;
        }
        for piece in text.split('\0') {
            self.held.push_str(piece);
            if self.held.len() >= TEXT_HELD {
                self.flush();
            }
        }
    }

    /// More of the text, and a line break after it.
    pub fn line(&mut self, text: &str) {
        self.text(text);
        self.text("\n");
    }

    /// Whether any text came so far, white space not counted from the part that is still held.
    pub fn has_text(&self) -> bool {
        self.text_bytes > 0 || !self.held.trim().is_empty()
    }

    /// What the document says about itself. Strings are cut to what a frame may hold. The last call counts.
    pub fn metadata(&mut self, mut metadata: Metadata) {
        if self.silent {
            return;
        }
        for field in [
            &mut metadata.title,
            &mut metadata.author,
            &mut metadata.subject,
            &mut metadata.keywords,
            &mut metadata.created,
            &mut metadata.modified,
            &mut metadata.producer,
            &mut metadata.charset,
            &mut metadata.from,
            &mut metadata.to,
        ] {
            if let Some(text) = field {
                text.retain(|c| c != '\0');
                truncate(text, answer::STRING_MAX);
                if text.trim().is_empty() {
                    *field = None;
                }
            }
        }
        self.frames.frame(Kind::Metadata, &frame::encode(&metadata));
    }

    /// A sign of life: `done` of `total` parts, 0 where the total is not known. Also sends the text held so far.
    pub fn progress(&mut self, done: u64, total: u64) {
        self.flush();
        self.frames.frame(Kind::Progress, &frame::encode(&(done, total)));
    }

    /// A member begins. A name that is too long for a frame is cut.
    pub fn member(&mut self, mut head: MemberHead) {
        self.flush();
        head.name.truncate(answer::NAME_MAX);
        self.members += 1;
        self.frames.frame(Kind::Member, &frame::encode(&head));
    }

    /// More of the member's bytes.
    pub fn member_data(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(PAYLOAD_MAX) {
            self.frames.frame(Kind::MemberData, piece);
        }
    }

    /// The member is over.
    pub fn member_end(&mut self, mut end: MemberEnd) {
        if let MemberEnd::Failed(refusal) = &mut end {
            truncate(&mut refusal.message, answer::MESSAGE_MAX);
        }
        self.frames.frame(Kind::MemberEnd, &frame::encode(&end));
    }

    /// Sends the text held so far.
    pub fn flush(&mut self) {
        let mut rest = std::mem::take(&mut self.held);
        while !rest.is_empty() {
            let cut = floor_char_boundary(&rest, PAYLOAD_MAX);
            let tail = rest.split_off(cut);
            self.text_bytes += rest.len() as u64;
            self.frames.frame(Kind::Text, rest.as_bytes());
            rest = tail;
        }
    }

    /// How many bytes of text and how many members were sent.
    pub fn counts(&self) -> (u64, u64) {
        (self.text_bytes, self.members)
    }

    /// The frames themselves: for the fault language.
    pub fn frames(&mut self) -> &mut dyn Frames {
        self.frames
    }
}

/// Cuts `text` to at most `most` bytes at the border of a character.
pub(crate) fn truncate(text: &mut String, most: usize) {
    text.truncate(floor_char_boundary(text, most));
}

fn floor_char_boundary(text: &str, most: usize) -> usize {
    text.floor_char_boundary(most)
}
