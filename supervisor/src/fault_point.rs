//! Named points at which a test build makes the supervisor die, to prove that nothing is lost there.
//!
//! In a build without the feature `fault-points` every call is nothing.

/// Where a test can make the supervisor die.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// A batch of a listing is about to be recorded.
    Listing,
    /// A child runs.
    ChildRunning,
    /// The index is about to commit.
    BeforeIndexCommit,
    /// The index has committed, the ledger does not know it yet.
    BetweenIndexAndLedger,
    /// The ledger's transaction is open.
    InLedgerCommit,
    /// A document whose name contains `LAZARET-POISON` is in hand.
    Poison,
}

impl Point {
    /// All of them.
    pub const ALL: &[Point] = &[
        Point::Listing,
        Point::ChildRunning,
        Point::BeforeIndexCommit,
        Point::BetweenIndexAndLedger,
        Point::InLedgerCommit,
        Point::Poison,
    ];

    /// The name in the variable `LAZARET_DIE_AT`: `NAME` or `NAME:N` for the N-th time (from 1).
    pub fn name(self) -> &'static str {
        match self {
            Point::Listing => "listing",
            Point::ChildRunning => "child-running",
            Point::BeforeIndexCommit => "before-index-commit",
            Point::BetweenIndexAndLedger => "between-index-and-ledger",
            Point::InLedgerCommit => "in-ledger-commit",
            Point::Poison => "poison",
        }
    }
}

/// Dies by SIGKILL where the test asks for this point.
#[cfg(feature = "fault-points")]
pub fn reach(point: Point) {
    use std::sync::atomic::{AtomicU64, Ordering};
    static REACHED: [AtomicU64; 6] = [const { AtomicU64::new(0) }; 6];
    let Ok(wanted) = std::env::var("LAZARET_DIE_AT") else { return };
    let (name, nth) = wanted.split_once(':').unwrap_or((&wanted, "1"));
    if name != point.name() {
        return;
    }
    let count = REACHED[point as usize].fetch_add(1, Ordering::Relaxed) + 1;
    if nth.parse() == Ok(count) {
        let this = nix::unistd::Pid::this();
        nix::sys::signal::kill(this, nix::sys::signal::Signal::SIGKILL).expect("a process may kill itself");
    }
}

/// Dies at [`Point::Poison`] where the test asks for it and this is the name of a poison pill.
#[cfg(feature = "fault-points")]
pub fn reach_poison(name: impl FnOnce() -> String) {
    if name().contains("LAZARET-POISON") {
        reach(Point::Poison);
    }
}

/// Nothing.
#[cfg(not(feature = "fault-points"))]
pub fn reach(_point: Point) {}

/// Nothing.
#[cfg(not(feature = "fault-points"))]
pub fn reach_poison(_name: impl FnOnce() -> String) {}
