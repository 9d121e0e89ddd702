//! Frames on the result pipe, and the codec of everything that crosses the boundary. The only file that names it.
//!
//! A frame is a fixed header and a payload of at most [`PAYLOAD_MAX`] bytes:
//!
//! ```text
//! magic "LZF1" (4) | nonce (16) | kind (1) | length, little endian (4) | payload
//! ```
//!
//! bincode is no longer maintained (RUSTSEC-2025-0141); 2.0.1 is its last release, pinned. Its decode limit caps
//! what a length may allocate, but neither recursion nor elements of size zero: no type that crosses the boundary is
//! recursive or holds a list of empty things, and every payload must be consumed to its end.

use serde::{Serialize, de::DeserializeOwned};

const MAGIC: [u8; 4] = *b"LZF1";

/// Bytes of a frame's header.
pub const HEADER: usize = 4 + 16 + 1 + 4;
/// The largest payload of a frame, in bytes.
pub const PAYLOAD_MAX: usize = 64 << 10;

/// What a frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    Locked = 1,
    Text = 2,
    Metadata = 3,
    Progress = 4,
    Member = 5,
    MemberData = 6,
    MemberEnd = 7,
    End = 8,
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Kind::Locked,
            2 => Kind::Text,
            3 => Kind::Metadata,
            4 => Kind::Progress,
            5 => Kind::Member,
            6 => Kind::MemberData,
            7 => Kind::MemberEnd,
            8 => Kind::End,
            _ => return None,
        })
    }
}

/// The header of a frame with a payload of `length` bytes.
pub fn header(kind: Kind, nonce: &[u8; 16], length: u32) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..4].copy_from_slice(&MAGIC);
    header[4..20].copy_from_slice(nonce);
    header[20] = kind as u8;
    header[21..].copy_from_slice(&length.to_le_bytes());
    header
}

/// Encodes a value. For the payloads of frames and for messages to and from a zygote.
pub fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    bincode::serde::encode_to_vec(value, bincode::config::standard())
        .expect("the types of the boundary have no maps of unknown length and no failing Serialize")
}

/// Decodes a value that fills `bytes` to the end.
///
/// # Errors
/// `decode` where the bytes are no such value, `trailing` where something follows it.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, &'static str> {
    let config = bincode::config::standard().with_limit::<{ 2 * PAYLOAD_MAX }>();
    let (value, used) = bincode::serde::decode_from_slice(bytes, config).map_err(|_| "decode")?;
    if used == bytes.len() { Ok(value) } else { Err("trailing") }
}

/// Cuts a stream of bytes into frames, whatever the pieces in which it arrives. Holds at most one frame.
#[derive(Debug)]
pub struct Reader {
    nonce: [u8; 16],
    held: Vec<u8>,
}

/// A frame as it came: the payload is not looked at yet.
#[derive(Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    pub kind: Kind,
    pub payload: &'a [u8],
}

impl Reader {
    /// A reader of frames with this nonce.
    pub fn new(nonce: [u8; 16]) -> Self {
        Reader { nonce, held: Vec::with_capacity(HEADER + PAYLOAD_MAX) }
    }

    /// Takes from the front of `input` what belongs to the next frame. Gives the frame once it is whole, `None` where
    /// `input` is used up before that. The frame must be done with before the next call.
    ///
    /// # Errors
    /// What the header does wrong, as a short stable word for the record.
    pub fn next<'a>(&'a mut self, input: &mut &[u8]) -> Result<Option<Frame<'a>>, &'static str> {
        if self.whole() {
            self.held.clear();
        }
        self.take(input, HEADER);
        if self.held.len() < HEADER {
            return Ok(None);
        }
        let (kind, length) = self.checked_header()?;
        self.take(input, HEADER + length);
        if self.held.len() < HEADER + length {
            return Ok(None);
        }
        Ok(Some(Frame { kind, payload: self.held.get(HEADER..).unwrap_or_default() }))
    }

    /// Whether part of a frame has arrived and the rest has not.
    pub fn in_the_middle(&self) -> bool {
        !self.held.is_empty() && !self.whole()
    }

    fn whole(&self) -> bool {
        self.held.len() >= HEADER
            && self.checked_header().is_ok_and(|(_, length)| self.held.len() == HEADER + length)
    }

    fn take(&mut self, input: &mut &[u8], up_to: usize) {
        let missing = up_to.saturating_sub(self.held.len()).min(input.len());
        let (taken, rest) = input.split_at(missing);
        self.held.extend_from_slice(taken);
        *input = rest;
    }

    fn checked_header(&self) -> Result<(Kind, usize), &'static str> {
        let (magic, rest) = self.held.split_at(4);
        let (nonce, rest) = rest.split_at(16);
        if magic != MAGIC {
            return Err("magic");
        }
        if nonce != self.nonce {
            return Err("nonce");
        }
        let kind = Kind::from_byte(rest[0]).ok_or("frame_kind")?;
        let length = u32::from_le_bytes([rest[1], rest[2], rest[3], rest[4]]);
        let length = usize::try_from(length).map_err(|_| "length")?;
        if length > PAYLOAD_MAX { Err("length") } else { Ok((kind, length)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Answer, End, Format};

    const NONCE: [u8; 16] = [7; 16];

    fn frame(kind: Kind, payload: &[u8]) -> Vec<u8> {
        let mut bytes = header(kind, &NONCE, u32::try_from(payload.len()).unwrap()).to_vec();
        bytes.extend_from_slice(payload);
        bytes
    }

    fn read(mut input: &[u8]) -> Result<Vec<(Kind, Vec<u8>)>, &'static str> {
        let mut reader = Reader::new(NONCE);
        let mut frames = Vec::new();
        while let Some(frame) = reader.next(&mut input)? {
            frames.push((frame.kind, frame.payload.to_vec()));
        }
        assert!(input.is_empty());
        Ok(frames)
    }

    #[test]
    fn frames_come_whole_however_the_bytes_arrive() {
        let stream =
            [frame(Kind::Text, b"one"), frame(Kind::Text, b""), frame(Kind::Progress, b"xyz")].concat();
        let expected =
            [(Kind::Text, b"one".to_vec()), (Kind::Text, Vec::new()), (Kind::Progress, b"xyz".to_vec())];
        assert_eq!(read(&stream).unwrap(), expected);
        for size in 1..stream.len() {
            let mut reader = Reader::new(NONCE);
            let mut frames = Vec::new();
            for mut piece in stream.chunks(size) {
                while let Some(frame) = reader.next(&mut piece).unwrap() {
                    frames.push((frame.kind, frame.payload.to_vec()));
                }
            }
            assert_eq!(frames, expected, "in pieces of {size}");
            assert!(!reader.in_the_middle());
        }
    }

    #[test]
    fn lies_in_the_header_are_named() {
        assert_eq!(read(b"garbage that is long enough to be a header"), Err("magic"));
        assert_eq!(read(&header(Kind::Text, &[8; 16], 0)), Err("nonce"));
        let mut unknown = header(Kind::Text, &NONCE, 0);
        unknown[20] = 99;
        assert_eq!(read(&unknown), Err("frame_kind"));
        assert_eq!(read(&header(Kind::Text, &NONCE, u32::MAX)), Err("length"));
    }

    #[test]
    fn an_unfinished_frame_is_noticed() {
        let whole = frame(Kind::Text, b"abc");
        let mut reader = Reader::new(NONCE);
        assert_eq!(reader.next(&mut &whole[..whole.len() - 1]), Ok(None));
        assert!(reader.in_the_middle());
    }

    #[test]
    fn hostile_payloads_cost_nothing() {
        let long = [253, 0, 0, 0, 0, 0, 1, 0, 0];
        assert_eq!(decode::<String>(&long), Err("decode"));
        assert_eq!(decode::<Vec<u8>>(&long), Err("decode"));
        assert_eq!(decode::<bool>(&[2]), Err("decode"));
        assert_eq!(decode::<u8>(&[1, 2]), Err("trailing"));
        assert_eq!(Answer::decode(Kind::Text, b"\xff"), Err("text_not_utf8"));
        let end = End {
            format: Format::Text,
            refusal: None,
            parts: None,
            engine: "x".repeat(129),
            text_bytes: 0,
            members: 0,
        };
        assert_eq!(Answer::decode(Kind::End, &encode(&end)), Err("string_too_long"));
    }
}
