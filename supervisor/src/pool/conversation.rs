//! What one child may say, and in which order. Pure: bytes in, answers to a receiver, the first broken rule out.
//!
//! A child is not believed: every frame is looked at for its place in the order, its cost and, at the end, for the sums.

use super::{Flow, Receiver};
use shared::frame::{HEADER, Kind, Reader};
use shared::{Answer, End, Layers};

/// Frames that carry next to nothing are counted; a document of full length may have this many, plus one for each
/// [`BYTES_PER_FRAME`] of its limit on output.
const FRAMES_FREE: u64 = 65_536;
const BYTES_PER_FRAME: u64 = 32;
/// What members are called, and the words in which they fail, is held until their container has come to rest: so many
/// bytes of it are free, and so many more as the limit on output.
const HEADS_FREE: u64 = 16 << 20;
/// A frame with less data than this carries next to nothing.
const SMALL: usize = 1 << 10;

/// Why no more is listened to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Halt {
    /// A rule of the protocol is broken.
    Broken(&'static str),
    /// More bytes of text and metadata than the limit.
    Bytes(u64),
    /// More frames than the limit.
    Frames(u64),
    /// The receiver has had enough.
    Stopped,
}

/// One child's side of the talk so far.
#[derive(Debug)]
pub(super) struct Conversation {
    reader: Reader,
    output_max: u64,
    frames_max: u64,
    pub(super) locked: Option<Layers>,
    pub(super) ended: Option<End>,
    in_member: bool,
    member_data_frames: u64,
    members: u64,
    text_bytes: u64,
    output: u64,
    heads: u64,
    small_frames: u64,
    /// Whole frames so far, of any kind.
    pub(super) frames: u64,
}

impl Conversation {
    pub(super) fn new(nonce: [u8; 16], output_max: u64) -> Self {
        Conversation {
            reader: Reader::new(nonce),
            output_max,
            frames_max: FRAMES_FREE + output_max / BYTES_PER_FRAME,
            locked: None,
            ended: None,
            in_member: false,
            member_data_frames: 0,
            members: 0,
            text_bytes: 0,
            output: 0,
            heads: 0,
            small_frames: 0,
            frames: 0,
        }
    }

    /// Takes the next bytes of the stream.
    pub(super) fn take(&mut self, mut bytes: &[u8], receiver: &mut dyn Receiver) -> Result<(), Halt> {
        while !bytes.is_empty() {
            let Some(frame) = self.reader.next(&mut bytes).map_err(Halt::Broken)? else { break };
            let (kind, length) = (frame.kind, frame.payload.len());
            // The price first: what is over the limit is not even decoded.
            let price = Price::of(kind, length, self.member_data_frames);
            self.frames += 1;
            self.output += price.output;
            self.small_frames += price.frames;
            if self.output > self.output_max {
                return Err(Halt::Bytes(self.output));
            }
            self.heads += price.heads;
            if self.heads > HEADS_FREE.saturating_add(self.output_max) {
                return Err(Halt::Bytes(self.output + self.heads));
            }
            if self.small_frames > self.frames_max {
                return Err(Halt::Frames(self.small_frames));
            }
            let answer = Answer::decode(kind, frame.payload).map_err(Halt::Broken)?;
            self.follow(&answer, length).map_err(Halt::Broken)?;
            if receiver.take(answer) == Flow::Stop {
                return Err(Halt::Stopped);
            }
        }
        Ok(())
    }

    /// What is wrong with a stream that is over, if anything is.
    pub(super) fn unfinished(&self) -> Option<&'static str> {
        if self.reader.in_the_middle() {
            Some("frame_truncated")
        } else if self.locked.is_none() {
            Some("no_locked")
        } else if self.ended.is_none() {
            Some("no_end")
        } else {
            None
        }
    }

    fn follow(&mut self, answer: &Answer, length: usize) -> Result<(), &'static str> {
        if self.ended.is_some() {
            return Err("after_end");
        }
        if self.locked.is_some() == matches!(answer, Answer::Locked(_)) {
            return Err(if self.locked.is_some() { "locked_twice" } else { "locked_first" });
        }
        match answer {
            Answer::Locked(layers) => self.locked = Some(*layers),
            Answer::Text(_) => self.text_bytes += length as u64,
            Answer::Metadata(_) | Answer::Progress { .. } => {}
            Answer::Member(_) if self.in_member => return Err("member_in_member"),
            Answer::Member(_) => {
                self.in_member = true;
                self.members += 1;
                self.member_data_frames = 0;
            }
            Answer::MemberData(_) if !self.in_member => return Err("data_without_member"),
            Answer::MemberData(_) => self.member_data_frames += 1,
            Answer::MemberEnd(_) if !self.in_member => return Err("end_without_member"),
            Answer::MemberEnd(_) => self.in_member = false,
            Answer::End(_) if self.in_member => return Err("member_open"),
            Answer::End(end) if end.text_bytes != self.text_bytes => return Err("text_count"),
            Answer::End(end) if end.members != self.members => return Err("member_count"),
            Answer::End(end) => self.ended = Some(end.clone()),
        }
        Ok(())
    }
}

/// What a frame counts for.
struct Price {
    output: u64,
    heads: u64,
    frames: u64,
}

impl Price {
    fn of(kind: Kind, length: usize, member_data_frames: u64) -> Self {
        let output = match kind {
            Kind::Text | Kind::Metadata => length as u64,
            _ => 0,
        };
        let heads = match kind {
            Kind::Member | Kind::MemberEnd => length as u64,
            _ => 0,
        };
        let frames = match kind {
            // The receiver counts members, and each has a beginning, an end and one piece of data that may be small.
            Kind::Member | Kind::MemberEnd => 0,
            Kind::MemberData if member_data_frames == 0 || length >= SMALL => 0,
            Kind::Text if length >= SMALL => 0,
            _ => 1,
        };
        Price { output, heads, frames }
    }
}

/// The most that one child can have left in its pipe: what the pipe holds, and a frame.
pub(super) const DRAIN_MAX: usize = (1 << 20) + HEADER + shared::frame::PAYLOAD_MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use shared::frame::{encode, header};
    use shared::{Format, MemberEnd, MemberHead, MemberKind, Metadata};

    const NONCE: [u8; 16] = [3; 16];

    #[derive(Default)]
    struct Kept {
        answers: Vec<Answer>,
        stop_after: Option<usize>,
    }

    impl Receiver for Kept {
        fn take(&mut self, answer: Answer) -> Flow {
            self.answers.push(answer);
            if self.stop_after == Some(self.answers.len()) { Flow::Stop } else { Flow::Continue }
        }
    }

    fn raw(kind: Kind, payload: &[u8]) -> Vec<u8> {
        let mut bytes = header(kind, &NONCE, u32::try_from(payload.len()).unwrap()).to_vec();
        bytes.extend_from_slice(payload);
        bytes
    }

    fn locked() -> Vec<u8> {
        raw(Kind::Locked, &encode(&Layers::NONE))
    }

    fn text(text: &str) -> Vec<u8> {
        raw(Kind::Text, text.as_bytes())
    }

    fn member() -> Vec<u8> {
        let head = MemberHead { name: b"a".to_vec(), kind: MemberKind::File, mtime: None };
        raw(Kind::Member, &encode(&head))
    }

    fn data(bytes: &[u8]) -> Vec<u8> {
        raw(Kind::MemberData, bytes)
    }

    fn member_end() -> Vec<u8> {
        raw(Kind::MemberEnd, &encode(&MemberEnd::Whole))
    }

    fn end(text_bytes: u64, members: u64) -> Vec<u8> {
        let engine = "test 1".to_owned();
        let end = End { format: Format::Text, refusal: None, parts: None, engine, text_bytes, members };
        raw(Kind::End, &encode(&end))
    }

    fn listen(frames: &[Vec<u8>]) -> (Result<(), Halt>, Option<&'static str>) {
        let mut conversation = Conversation::new(NONCE, 1000);
        let result = conversation.take(&frames.concat(), &mut Kept::default());
        (result, conversation.unfinished())
    }

    #[test]
    fn a_whole_answer_is_taken_in_order() {
        let frames = [
            locked(),
            text("ab"),
            member(),
            data(b"xyz"),
            member_end(),
            raw(Kind::Progress, &encode(&(1_u64, 2_u64))),
            end(2, 1),
        ];
        let mut kept = Kept::default();
        let mut conversation = Conversation::new(NONCE, 1000);
        for byte in frames.concat() {
            conversation.take(&[byte], &mut kept).unwrap();
        }
        assert_eq!(conversation.unfinished(), None);
        assert_eq!(conversation.frames, 7);
        assert_eq!(kept.answers.len(), 7);
        assert_eq!(kept.answers[1], Answer::Text("ab".to_owned()));
    }

    #[test]
    fn every_broken_order_is_named() {
        for (frames, rule) in [
            (vec![text("a")], "locked_first"),
            (vec![locked(), locked()], "locked_twice"),
            (vec![locked(), end(0, 0), text("a")], "after_end"),
            (vec![locked(), end(0, 0), end(0, 0)], "after_end"),
            (vec![locked(), member(), member()], "member_in_member"),
            (vec![locked(), data(b"a")], "data_without_member"),
            (vec![locked(), member_end()], "end_without_member"),
            (vec![locked(), member(), end(0, 1)], "member_open"),
            (vec![locked(), text("a"), end(2, 0)], "text_count"),
            (vec![locked(), member(), member_end(), end(0, 0)], "member_count"),
            (vec![locked(), raw(Kind::Text, b"\xff")], "text_not_utf8"),
            (vec![locked(), raw(Kind::End, b"")], "decode"),
            (vec![b"not a frame, but long enough for one".to_vec()], "magic"),
        ] {
            assert_eq!(listen(&frames).0, Err(Halt::Broken(rule)));
        }
    }

    #[test]
    fn an_early_end_of_the_stream_is_named() {
        let mut half = text("abc");
        half.pop();
        for (frames, rule) in [
            (vec![], Some("no_locked")),
            (vec![locked()], Some("no_end")),
            (vec![locked(), half], Some("frame_truncated")),
            (vec![locked(), end(0, 0)], None),
        ] {
            assert_eq!(listen(&frames), (Ok(()), rule));
        }
    }

    #[test]
    fn text_and_metadata_are_limited_together() {
        let metadata = raw(Kind::Metadata, &encode(&Metadata::default()));
        let spare = 1000 - (metadata.len() - HEADER);
        let just = [locked(), metadata.clone(), text(&"x".repeat(spare))];
        assert_eq!(listen(&just).0, Ok(()));
        let over = [locked(), metadata, text(&"x".repeat(spare + 1))];
        assert_eq!(listen(&over).0, Err(Halt::Bytes(1001)));
    }

    #[test]
    fn frames_with_next_to_nothing_are_limited() {
        let most = FRAMES_FREE + 1000 / BYTES_PER_FRAME;
        let mut conversation = Conversation::new(NONCE, 1000);
        let mut kept = Kept::default();
        conversation.take(&locked(), &mut kept).unwrap();
        let empty = text("");
        for _ in 1..most {
            conversation.take(&empty, &mut kept).unwrap();
        }
        assert_eq!(conversation.take(&empty, &mut kept), Err(Halt::Frames(most + 1)));
    }

    #[test]
    fn small_pieces_of_one_member_are_limited_and_small_members_are_not() {
        let most = FRAMES_FREE + 1000 / BYTES_PER_FRAME;
        let mut kept = Kept::default();
        let mut conversation = Conversation::new(NONCE, 1000);
        conversation.take(&locked(), &mut kept).unwrap();
        let whole = [member(), data(b"a"), member_end()].concat();
        for _ in 0..most {
            conversation.take(&whole, &mut kept).unwrap();
        }
        conversation.take(&member(), &mut kept).unwrap();
        let pieces = (0..2 * most).find_map(|_| conversation.take(&data(b"a"), &mut kept).err());
        assert_eq!(pieces, Some(Halt::Frames(most + 1)));
    }

    #[test]
    fn long_names_of_members_are_limited() {
        let mut conversation = Conversation::new(NONCE, 1000);
        let mut kept = Kept::default();
        conversation.take(&locked(), &mut kept).unwrap();
        let head = MemberHead { name: vec![b'n'; 16 << 10], kind: MemberKind::File, mtime: None };
        let payload = encode(&head);
        let member = [raw(Kind::Member, &payload), member_end()].concat();
        let each = (payload.len() + encode(&MemberEnd::Whole).len()) as u64;
        let fit = (HEADS_FREE + 1000) / each;
        for _ in 0..fit {
            conversation.take(&member, &mut kept).unwrap();
        }
        assert!(matches!(conversation.take(&member, &mut kept), Err(Halt::Bytes(_))));
    }

    #[test]
    fn the_receiver_can_stop_it() {
        let mut kept = Kept { stop_after: Some(2), ..Kept::default() };
        let mut conversation = Conversation::new(NONCE, 1000);
        let frames = [locked(), text("a"), text("b")].concat();
        assert_eq!(conversation.take(&frames, &mut kept), Err(Halt::Stopped));
        assert_eq!(kept.answers.len(), 2);
    }
}
