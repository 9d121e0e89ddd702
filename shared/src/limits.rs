//! What one document may cost. Sizes are bytes, times milliseconds.

use serde::{Deserialize, Serialize};

/// The limits of one document, all levels of an outermost item counted together where that is said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// The largest item that is read at all.
    pub input: u64,
    /// The longest wait for the next byte while fetching.
    pub fetch_ms: u64,
    /// From the child's start to its end.
    pub wall_ms: u64,
    /// The longest wait for a whole frame.
    pub stalled_ms: u64,
    /// Processor time of the child.
    pub cpu_ms: u64,
    /// What the child may allocate.
    pub memory: u64,
    /// Text and metadata, in bytes of UTF-8.
    pub output: u64,
    /// Bytes of all members of an outermost item, all levels together.
    pub expansion: u64,
    /// Bytes of members for each byte of the outermost item, looked at above [`Limits::RATIO_FLOOR`] only.
    pub ratio: u64,
    /// Containers inside one another.
    pub depth: u32,
    /// Members of an outermost item, all levels together.
    pub entries: u64,
}

impl Limits {
    /// Below this many bytes of members the ratio is not looked at: small honest files reach high ratios.
    pub const RATIO_FLOOR: u64 = 16 << 20;
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            input: 512 << 20,
            fetch_ms: 60_000,
            wall_ms: 120_000,
            stalled_ms: 30_000,
            cpu_ms: 30_000,
            memory: 512 << 20,
            output: 64 << 20,
            expansion: 2 << 30,
            ratio: 200,
            depth: 8,
            entries: 100_000,
        }
    }
}
