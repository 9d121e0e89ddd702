//! What the machine has: how many children it can carry.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use sysinfo::{MemoryRefreshKind, RefreshKind, System};

/// Beside its own limit, what a child takes: its share of the zygote, its document, and the supervisor's buffers for it.
const BESIDE: u64 = 64 << 20;

/// Files that a run has open however many children it has: its streams, the ledger, the index and its merges, the listing.
const DESCRIPTORS: u64 = 64;
/// Files more for each child: what watches and feeds it, and the documents of four trees in flight. Measured: 22 at the most
/// over the field's files, with what is nested in them.
const DESCRIPTORS_A_CHILD: u64 = 40;

/// The machine, as it is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    /// Bytes of memory, all of it.
    pub total: u64,
    /// Bytes of memory that could be had now.
    pub available: u64,
    pub processors: usize,
    /// Files that this process may have open.
    pub descriptors: u64,
}

impl Machine {
    /// Looks. Where the system lets this process open more files than it may at the moment, it may from here on.
    pub fn look() -> Self {
        let wanted = RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram());
        // Where nothing is known of the memory, one child at a time is safe.
        let system = System::new_with_specifics(wanted).ok();
        Machine {
            total: system.as_ref().map_or(1 << 30, System::total_memory),
            available: system.as_ref().map_or(0, System::available_memory),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            descriptors: raise_descriptors(),
        }
    }

    /// Whether a child of the large lane fits into this machine, with nothing beside it.
    pub fn has_large_lane(&self, memory: u64) -> bool {
        memory.saturating_add(BESIDE) <= self.total
    }

    /// How many children at a time: as many as there are processors, and no more than fit into what memory is free, each with
    /// its limit of `memory` bytes, or can be fed with the files that we may open.
    pub fn children(&self, memory: u64) -> usize {
        let fit =
            usize::try_from(self.available / memory.saturating_add(BESIDE).max(1)).unwrap_or(usize::MAX);
        let fed = self.descriptors.saturating_sub(DESCRIPTORS) / DESCRIPTORS_A_CHILD;
        self.processors.min(fit).min(usize::try_from(fed).unwrap_or(usize::MAX)).max(1)
    }
}

/// Files that a run with so many children has to be allowed to open.
pub(super) fn descriptors(children: usize) -> u64 {
    DESCRIPTORS.saturating_add(DESCRIPTORS_A_CHILD.saturating_mul(children as u64))
}

/// Raises the soft limit to the hard one, which nobody else has to allow, and says what holds. The cages set limits of their own.
fn raise_descriptors() -> u64 {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return u64::MAX };
    match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
        Ok(()) => hard,
        Err(_) => soft,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_are_as_many_as_processors_and_memory_allow() {
        let machine = Machine { total: 64 << 30, available: 4 << 30, processors: 16, descriptors: 1 << 20 };
        assert_eq!(machine.children(512 << 20), 7);
        assert_eq!(machine.children(1 << 20), 16);
        assert_eq!(machine.children(u64::MAX), 1);
        assert_eq!(Machine { descriptors: descriptors(3), ..machine }.children(1 << 20), 3);
        assert_eq!(Machine { descriptors: descriptors(3) - 1, ..machine }.children(1 << 20), 2);
        assert_eq!(Machine { descriptors: 0, ..machine }.children(1 << 20), 1);
        assert!(machine.has_large_lane(63 << 30));
        assert!(!machine.has_large_lane(64 << 30));
    }
}
