//! What the machine has: how many children it can carry.

use sysinfo::{MemoryRefreshKind, RefreshKind, System};

/// Beside its own limit, what a child takes: its share of the zygote, its document, and the supervisor's buffers for it.
const BESIDE: u64 = 64 << 20;

/// The machine, as it is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    /// Bytes of memory, all of it.
    pub total: u64,
    /// Bytes of memory that could be had now.
    pub available: u64,
    pub processors: usize,
}

impl Machine {
    /// Looks.
    pub fn look() -> Self {
        let wanted = RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram());
        // Where nothing is known of the memory, one child at a time is safe.
        let system = System::new_with_specifics(wanted).ok();
        Machine {
            total: system.as_ref().map_or(1 << 30, System::total_memory),
            available: system.as_ref().map_or(0, System::available_memory),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }

    /// Whether a child of the large lane fits into this machine, with nothing beside it.
    pub fn has_large_lane(&self, memory: u64) -> bool {
        memory.saturating_add(BESIDE) <= self.total
    }

    /// How many children at a time: as many as there are processors, and no more than fit into what memory is free, each with
    /// its limit of `memory` bytes.
    pub fn children(&self, memory: u64) -> usize {
        let fit =
            usize::try_from(self.available / memory.saturating_add(BESIDE).max(1)).unwrap_or(usize::MAX);
        self.processors.min(fit).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_are_as_many_as_processors_and_memory_allow() {
        let machine = Machine { total: 64 << 30, available: 4 << 30, processors: 16 };
        assert_eq!(machine.children(512 << 20), 7);
        assert_eq!(machine.children(1 << 20), 16);
        assert_eq!(machine.children(u64::MAX), 1);
        assert!(machine.has_large_lane(63 << 30));
        assert!(!machine.has_large_lane(64 << 30));
    }
}
