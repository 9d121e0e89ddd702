//! Equal for equal crashes, so that a thousand of them are one finding.
//!
//! It rests on offsets into the worker's file, never on addresses, and of a recursion on the cycle, never on its depth.
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

use super::{Code, Death};
use crate::rules::fault::Fault;
use crate::rules::kind::Kind;
use sha2::{Digest, Sha256};

/// As many frames tell crashes apart without telling apart the ways to them.
const FRAMES: usize = 3;

/// The frames as offsets in hex, innermost first, and the fingerprint.
pub(super) fn of(fault: &Fault, death: &Death) -> (Vec<String>, String) {
    let (offsets, code) = match &death.recording.crash {
        Some(crash) => (offsets(&crash.frames, crash.pc, death.code), bucket(crash.code)),
        None => (Vec::new(), 0),
    };
    let top = match fault.kind {
        Kind::CrashStackOverflow => cycle(&offsets),
        Kind::ParsePanic => &[],
        _ => offsets.get(..FRAMES).unwrap_or(&offsets),
    };
    let mut hash = Sha256::new();
    let evidence = &fault.evidence;
    for part in [
        Some(fault.kind.name()),
        evidence.place.as_deref(),
        evidence.syscall.as_deref(),
        evidence.protocol.as_deref(),
    ] {
        hash.update(part.unwrap_or_default());
        hash.update([0]);
    }
    if matches!(fault.kind, Kind::ParsePanic) {
        // The signal is an accident of how the panic ended.
    } else {
        hash.update(signal_of(death).to_le_bytes());
        hash.update(code.to_le_bytes());
    }
    for offset in canonical(top, fault.kind) {
        hash.update(offset.to_le_bytes());
    }
    let digest = hash.finalize();
    let hex: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    (offsets.iter().map(|offset| format!("{offset:#x}")).collect(), hex)
}

/// Where it happened and who called, as far as it is the worker's own code.
fn offsets(frames: &[u64], pc: u64, code: Code) -> Vec<u64> {
    let first = (frames.first() != Some(&pc)).then_some(pc);
    first
        .into_iter()
        .chain(frames.iter().copied())
        .filter_map(|address| address.checked_sub(code.base))
        .filter(|offset| *offset < code.size)
        .collect()
}

/// The shortest sequence of frames that repeats itself to the end of what was kept; all there is where none does.
fn cycle(frames: &[u64]) -> &[u64] {
    // The innermost frames may be anything that the last round happened to call.
    for skip in 0..frames.len().min(8) {
        let rest = frames.get(skip..).unwrap_or_default();
        for length in 1..=rest.len() / 2 {
            if rest.iter().zip(rest.iter().skip(length)).all(|(one, next)| one == next) {
                return rest.get(..length).unwrap_or_default();
            }
        }
    }
    frames.get(..FRAMES).unwrap_or(frames)
}

/// A cycle has no beginning: the rotation that sorts first stands for it.
fn canonical(frames: &[u64], kind: Kind) -> Vec<u64> {
    if kind != Kind::CrashStackOverflow {
        return frames.to_vec();
    }
    (0..frames.len())
        .map(|turn| {
            let (before, after) = frames.split_at(turn);
            [after, before].concat()
        })
        .min()
        .unwrap_or_default()
}

/// Codes of one signal that mean the same: sent by a process, by the kernel, or one fault of the processor.
fn bucket(code: i64) -> i64 {
    match code {
        ..=0 => 0,
        0x80.. => 0x80,
        fault => fault,
    }
}

fn signal_of(death: &Death) -> i32 {
    match death.wait {
        super::Wait::Killed { signal, .. } => signal,
        super::Wait::Exited(_) | super::Wait::Unkillable => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_of_our_own_code_only() {
        let code = Code { base: 0x1000, size: 0x100 };
        assert_eq!(offsets(&[0x1010, 0x7fff_0000, 0x1020, 0x10], 0x1008, code), [0x8, 0x10, 0x20]);
        assert_eq!(offsets(&[0x1008, 0x1010], 0x1008, code), [0x8, 0x10]);
    }

    #[test]
    fn a_recursion_is_its_cycle_whatever_its_depth_and_its_beginning() {
        let one = [9, 1, 2, 3, 1, 2, 3, 1, 2];
        let other = [8, 7, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3];
        let of = |frames: &[u64]| canonical(cycle(frames), Kind::CrashStackOverflow);
        assert_eq!(of(&one), [1, 2, 3]);
        assert_eq!(of(&other), [1, 2, 3]);
        assert_eq!(of(&[5; 32]), [5]);
        assert_eq!(of(&[4, 5, 6, 7]), [4, 5, 6]);
        assert!(of(&[]).is_empty());
    }
}
