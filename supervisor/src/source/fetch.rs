//! Fetches an item's bytes: once, hashed as they come, into memory that nobody can change afterwards.

use crate::ledger::Stat;
use crate::rules::fault::Fault;
use shared::ContentHash;
use std::os::fd::OwnedFd;
use std::path::Path;

/// How many bytes of the head are kept for `identify`.
pub const HEAD: usize = 4096;

/// An item's bytes.
#[derive(Debug)]
pub struct Fetched {
    /// A sealed memfd; above the cap for memory an unlinked file below `spool`, opened for reading only.
    pub document: OwnedFd,
    pub size: u64,
    pub sha256: ContentHash,
    pub stat: Stat,
    /// The first [`HEAD`] bytes.
    pub head: Vec<u8>,
}

/// Where to fetch from, and within which bounds.
#[derive(Debug, Clone)]
pub struct Fetch<'a> {
    pub root: &'a Path,
    /// Raw path below the root.
    pub path: &'a [u8],
    /// The longest wait for a byte, in ms.
    pub fetch_ms: u64,
    /// The largest item.
    pub input_limit: u64,
    /// Larger items go to a file below `spool`.
    pub memory_cap: u64,
    pub spool: &'a Path,
}

/// Fetches. Reading happens on a thread of its own, so that a file system that hangs costs this item alone.
///
/// # Errors
/// `source.*` as the system says; `source.changed` where size or times moved while it was read; `policy.special_file` for
/// what is no regular file; `policy.too_large`, `policy.empty_file`.
pub async fn fetch(_fetch: Fetch<'_>) -> Result<Fetched, Fault> {
    unimplemented!()
}

/// A sealed memfd with these bytes: for members and for the built-in documents.
pub fn sealed(_bytes: &[u8]) -> std::io::Result<OwnedFd> {
    unimplemented!()
}

/// The same open file, as a descriptor that can only be read.
pub fn read_only(_file: std::fs::File) -> std::io::Result<OwnedFd> {
    unimplemented!()
}
