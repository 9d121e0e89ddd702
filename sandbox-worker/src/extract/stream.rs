//! The one place that inflates into memory, and the one that streams a member out.
//!
//! Everything packed is either walked as it inflates or read here with a cap; a reader that swallows what a file promises
//! would let 40 KB ask for all the memory there is. The caps refuse: nothing is cut silently.

use super::Output;
use shared::{MemberEnd, Refusal, Refused};
use std::io::{self, Read};

/// The most that one part of a package may inflate to where it is needed whole: 64 MiB. The parts that are read whole
/// are small tables (content types, relationships, manifests) and embedded objects; text is walked as it inflates.
pub(super) const PART_CAP: u64 = 64 << 20;

/// How much of a member is held at a time.
const CHUNK: usize = 64 << 10;

/// Why bytes could not be read whole.
#[derive(Debug)]
pub(super) enum ReadError {
    /// There are more than the cap.
    TooLarge { cap: u64 },
    /// The source failed.
    Source(io::Error),
}

impl std::fmt::Display for ReadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ReadError::TooLarge { cap } => write!(f, "inflates to more than {cap} bytes"),
            ReadError::Source(_) => write!(f, "could not be read"),
        }
    }
}

impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ReadError::TooLarge { .. } => None,
            ReadError::Source(error) => Some(error),
        }
    }
}

impl ReadError {
    /// As the refusal of what was being read.
    pub(super) fn refusal(&self, what: &str) -> Refusal {
        match self {
            ReadError::TooLarge { .. } => {
                Refusal { why: Refused::Unsupported, message: format!("{what} {self}") }
            }
            ReadError::Source(error) => {
                Refusal { why: refused_by(error), message: format!("{what}: {error}") }
            }
        }
    }
}

/// All of `reader`, at most `cap` bytes.
///
/// # Errors
/// [`ReadError::TooLarge`] where one byte more could be read; [`ReadError::Source`] where the source fails.
#[expect(clippy::disallowed_methods, reason = "here is the cap")]
pub(super) fn read_capped(reader: impl Read, cap: u64) -> Result<Vec<u8>, ReadError> {
    let mut bytes = Vec::new();
    reader.take(cap.saturating_add(1)).read_to_end(&mut bytes).map_err(ReadError::Source)?;
    if bytes.len() as u64 > cap {
        return Err(ReadError::TooLarge { cap });
    }
    Ok(bytes)
}

/// As much of `reader` as fills `most` bytes, or what there is before its end or its failure.
#[expect(clippy::disallowed_methods, reason = "here is the cap")]
pub(super) fn read_prefix(reader: &mut impl Read, most: usize) -> (Vec<u8>, Option<io::Error>) {
    let mut bytes = Vec::new();
    let failure = reader.take(most as u64).read_to_end(&mut bytes).err();
    (bytes, failure)
}

/// Streams all of `reader` as the bytes of the member that was begun. Returns how many there were.
///
/// # Errors
/// What the source says; the bytes before stand.
pub(super) fn copy_member(reader: &mut dyn Read, out: &mut Output<'_>) -> io::Result<u64> {
    let mut chunk = vec![0; CHUNK];
    let mut total = 0;
    loop {
        match reader.read(&mut chunk) {
            Ok(0) => return Ok(total),
            Ok(read) => {
                total += read as u64;
                out.member_data(chunk.get(..read).unwrap_or(&chunk));
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Reads `reader` to its end and drops what comes: for its checksum alone.
///
/// # Errors
/// What the source says.
pub(super) fn drain(reader: &mut dyn Read) -> io::Result<u64> {
    io::copy(reader, &mut io::sink())
}

/// What a failed read says of the bytes: they end too early, or they are wrong.
pub(super) fn refused_by(error: &io::Error) -> Refused {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => Refused::Truncated,
        io::ErrorKind::Unsupported => Refused::Unsupported,
        _ => Refused::Malformed,
    }
}

/// How a member ends whose reading came out like this.
pub(super) fn end_of(result: io::Result<u64>) -> MemberEnd {
    match result {
        Ok(_) => MemberEnd::Whole,
        Err(error) => failed(refused_by(&error), error.to_string()),
    }
}

/// A member that cannot be had.
pub(super) fn failed(why: Refused, message: impl Into<String>) -> MemberEnd {
    MemberEnd::Failed(Refusal { why, message: message.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cap_is_the_most_that_is_read() {
        assert_eq!(read_capped(&b"abc"[..], 3).unwrap(), b"abc");
        assert!(matches!(read_capped(&b"abcd"[..], 3), Err(ReadError::TooLarge { cap: 3 })));
        assert!(matches!(read_capped(io::repeat(0), 1 << 16), Err(ReadError::TooLarge { .. })));
    }

    #[test]
    fn a_prefix_is_no_longer_than_asked() {
        assert_eq!(read_prefix(&mut &b"abcdef"[..], 4).0, b"abcd");
        assert_eq!(read_prefix(&mut &b"ab"[..], 4).0, b"ab");
    }
}
