//! What a listing makes of an item: what is known of it against what is seen. Pure.

use crate::ledger::{KnownItem, Stat};
use crate::rules::fault::Fault;
use crate::rules::kind::{Kind, State};

/// What is to be said of an item that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing.
    Same,
    /// It is new, or back after it was gone.
    New,
    /// Its bytes may be others, or no policy stands against it any more.
    Changed,
    /// A policy rejects it that did not before.
    Rejected,
}

/// Compares. `rejection` is what the policies say now.
pub(super) fn compare(known: Option<&KnownItem>, stat: Option<&Stat>, rejection: Option<&Fault>) -> Verdict {
    let Some(known) = known.filter(|known| known.state != State::Deleted) else { return Verdict::New };
    let resting = known.state == State::Excluded || known.leaving;
    match rejection {
        Some(fault) if resting && known.kind == Some(fault.kind) => Verdict::Same,
        Some(_) => Verdict::Rejected,
        None if known.leaving || released(known) => Verdict::Changed,
        None if same_bytes(known.stat.as_ref(), stat) => Verdict::Same,
        None => Verdict::Changed,
    }
}

/// Excluded by a policy that a listing judges: since it does not do so now, it no longer stands.
fn released(known: &KnownItem) -> bool {
    let judged_here = matches!(
        known.kind,
        Some(
            Kind::PolicyPath
                | Kind::PolicyTooLarge
                | Kind::PolicyTooOld
                | Kind::PolicyEmptyFile
                | Kind::PolicySpecialFile
        )
    );
    known.state == State::Excluded && judged_here
}

/// The device is left out: its number changes with a reboot, and no byte does.
fn same_bytes(known: Option<&Stat>, seen: Option<&Stat>) -> bool {
    let of = |stat: &Stat| (stat.size, stat.mtime_ns, stat.ctime_ns, stat.ino);
    known.map(of) == seen.map(of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::kind::Stage;
    use shared::DocumentId;

    const STAT: Stat = Stat { size: 1, mtime_ns: 2, ctime_ns: 3, dev: 4, ino: 5 };

    fn known(state: State, kind: Option<Kind>, leaving: bool) -> KnownItem {
        KnownItem { name: b"a".to_vec(), id: DocumentId([0; 20]), stat: Some(STAT), state, kind, leaving }
    }

    #[test]
    fn each_pair_of_known_and_seen_has_its_verdict() {
        let large = Fault::new(Stage::Discover, Kind::PolicyTooLarge, "");
        let indexed = known(State::Indexed, None, false);
        let excluded = known(State::Excluded, Some(Kind::PolicyTooLarge), false);
        let by_type = known(State::Excluded, Some(Kind::PolicyType), false);
        let gone = known(State::Deleted, None, false);
        let going = known(State::Pending, None, true);
        let leaving = known(State::Pending, Some(Kind::PolicyTooLarge), true);
        let grown = Stat { size: 2, ..STAT };
        let moved = Stat { dev: 9, ..STAT };
        for (known, seen, rejection, verdict) in [
            (None, STAT, None, Verdict::New),
            (None, STAT, Some(&large), Verdict::New),
            (Some(&indexed), STAT, None, Verdict::Same),
            (Some(&indexed), moved, None, Verdict::Same),
            (Some(&indexed), grown, None, Verdict::Changed),
            (Some(&indexed), STAT, Some(&large), Verdict::Rejected),
            (Some(&excluded), STAT, Some(&large), Verdict::Same),
            (Some(&excluded), grown, Some(&large), Verdict::Same),
            (Some(&excluded), STAT, None, Verdict::Changed),
            (Some(&by_type), STAT, None, Verdict::Same),
            (Some(&by_type), grown, None, Verdict::Changed),
            (Some(&by_type), STAT, Some(&large), Verdict::Rejected),
            (Some(&gone), STAT, None, Verdict::New),
            (Some(&gone), STAT, Some(&large), Verdict::New),
            (Some(&going), STAT, None, Verdict::Changed),
            (Some(&leaving), STAT, Some(&large), Verdict::Same),
            (Some(&leaving), STAT, None, Verdict::Changed),
        ] {
            assert_eq!(compare(known, Some(&seen), rejection), verdict, "{known:?} {seen:?} {rejection:?}");
        }
    }
}
