//! The kernel's words for [`super`]: requests as they come from `/dev/fuse`, and answers as it takes them.
//!
//! Version 7.31 of the protocol, as `linux/fuse.h` lays it out, and no more of it than a folder that is only read needs.

pub(super) const LOOKUP: u32 = 1;
pub(super) const FORGET: u32 = 2;
pub(super) const GETATTR: u32 = 3;
pub(super) const OPEN: u32 = 14;
pub(super) const READ: u32 = 15;
pub(super) const RELEASE: u32 = 18;
pub(super) const INIT: u32 = 26;
pub(super) const OPENDIR: u32 = 27;
pub(super) const READDIR: u32 = 28;
pub(super) const RELEASEDIR: u32 = 29;
pub(super) const INTERRUPT: u32 = 36;
pub(super) const DESTROY: u32 = 38;
pub(super) const BATCH_FORGET: u32 = 42;

/// Reads go around the page cache.
const DIRECT_IO: u32 = 1;
/// What the page cache has of the file stays.
const KEEP_CACHE: u32 = 2;

const HEADER: usize = 40;

/// One request.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) opcode: u32,
    pub(super) unique: u64,
    pub(super) node: u64,
    body: Vec<u8>,
}

impl Request {
    /// `None` where it is cut short.
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        let (header, body) = bytes.split_at_checked(HEADER)?;
        let opcode = u32::from_ne_bytes(*header.get(4..)?.first_chunk()?);
        Some(Request { opcode, unique: number(header, 8), node: number(header, 16), body: body.to_vec() })
    }

    /// The 64-bit number at this place of the body.
    pub(super) fn number(&self, at: usize) -> u64 {
        number(&self.body, at)
    }

    /// The 32-bit number at this place of the body.
    pub(super) fn count(&self, at: usize) -> u64 {
        let bytes = self.body.get(at..).and_then(<[u8]>::first_chunk).copied();
        u32::from_ne_bytes(bytes.unwrap_or_default()).into()
    }

    /// The name that is the body.
    pub(super) fn name(&self) -> String {
        let bytes = self.body.split(|&byte| byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(bytes).into_owned()
    }
}

fn number(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes.get(at..).and_then(<[u8]>::first_chunk).copied();
    u64::from_ne_bytes(bytes.unwrap_or_default())
}

/// What a stat tells.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attributes {
    pub(super) node: u64,
    pub(super) size: u64,
    pub(super) time: u64,
    pub(super) folder: bool,
}

/// The body of an answer.
#[derive(Debug, Clone, Default)]
pub(super) struct Answer(pub(super) Vec<u8>);

impl Answer {
    fn long(mut self, numbers: &[u64]) -> Self {
        self.0.extend(numbers.iter().flat_map(|number| number.to_ne_bytes()));
        self
    }

    fn short(mut self, numbers: &[u32]) -> Self {
        self.0.extend(numbers.iter().flat_map(|number| number.to_ne_bytes()));
        self
    }

    fn attributes(self, of: &Attributes) -> Self {
        let (mode, links) = if of.folder { (0o40_755, 2) } else { (0o100_644, 1) };
        self.long(&[of.node, of.size, of.size.div_ceil(512), of.time, of.time, of.time])
            .short(&[0, 0, 0, mode, links, 0, 0, 0, 4096, 0])
    }

    /// To a lookup. Neither the name nor the stat may be kept.
    pub(super) fn entry(of: &Attributes) -> Self {
        Answer::default().long(&[of.node, 0, 0, 0]).short(&[0, 0]).attributes(of)
    }

    /// To a question for the stat, which may not be kept.
    pub(super) fn stat(of: &Attributes) -> Self {
        Answer::default().long(&[0, 0]).attributes(of)
    }

    /// To an opening, by the number that reads of it bear.
    pub(super) fn opened(opening: u64, cached: bool) -> Self {
        let flags = if cached { KEEP_CACHE } else { DIRECT_IO };
        Answer::default().long(&[opening]).short(&[flags, 0])
    }

    /// One more name in a folder, if there is room for it in so many bytes. `next` is the position behind it.
    pub(super) fn add_name(&mut self, name: &str, of: &Attributes, next: u64, room: u64) -> bool {
        let padded = name.len().next_multiple_of(8);
        if (self.0.len() + 24 + padded) as u64 > room {
            return false;
        }
        let length = u32::try_from(name.len()).unwrap_or(u32::MAX);
        let kind = u32::from(if of.folder { libc::DT_DIR } else { libc::DT_REG });
        let mut all = Answer(std::mem::take(&mut self.0)).long(&[of.node, next]).short(&[length, kind]).0;
        let end = all.len() + padded;
        all.extend_from_slice(name.as_bytes());
        all.resize(end, 0);
        self.0 = all;
        true
    }

    /// With the header before it. `error` is 0 or a negative errno.
    pub(super) fn framed(self, unique: u64, error: i32) -> Vec<u8> {
        let length = u32::try_from(16 + self.0.len()).unwrap_or(u32::MAX);
        let mut all = Answer::default().short(&[length, error.cast_unsigned()]).long(&[unique]).0;
        all.extend(self.0);
        all
    }
}

/// The answer to the kernel's greeting: this version, and none of the options.
pub(super) fn greeting() -> Answer {
    // Version, read-ahead, flags; background requests (16 and 12); the largest write; the time's grain; reserved.
    let (ahead, background, write) = (128 << 10, 12 << 16 | 16, 4096);
    Answer::default().short(&[7, 31, ahead, 0, background, write, 1]).short(&[0; 9])
}
