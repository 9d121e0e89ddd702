//! Deaths that the parser caused itself: a signal of the processor, an abort, a panic.
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

use super::{Death, found, over};
use crate::rules::fault::Fault;
use crate::rules::kind::Kind;
use shared::recorder::{AllocFailure, Crash, Recording};

/// An address this near to nothing is a null pointer and an offset.
const NULL_PAGES: u64 = 64 << 10;
/// A fault this near to the stack pointer, or this far below the stack's end, is the stack's own.
const STACK_REACH: u64 = 64 << 10;
const GUARD: u64 = 1 << 20;
/// Memory that a child has from its zygote and for its stack, beside what it allocates, in bytes.
const INHERITED: u64 = 16 << 20;

/// A panic that was caught at the top.
pub(super) fn panic(recording: &Recording) -> Fault {
    let Some(panic) = &recording.panic else {
        return found(Kind::ParsePanic, "a panic that left no message");
    };
    let mut fault = found(Kind::ParsePanic, panic.message.clone());
    fault.evidence.place = Some(format!("{}:{}", panic.file, panic.line));
    fault
}

/// Any signal that is not somebody else's doing.
pub(super) fn crash(death: &Death, signal: i32) -> Fault {
    let recording = &death.recording;
    let noted = recording.crash.as_ref().filter(|crash| crash.signal == u64::from(signal.unsigned_abs()));
    match signal {
        libc::SIGABRT => abort(death),
        libc::SIGSEGV if noted.is_some_and(overflowed) => {
            found(Kind::CrashStackOverflow, "the stack is used up")
        }
        libc::SIGSEGV if noted.is_some_and(|crash| crash.address < NULL_PAGES) && nearly_full(death) => {
            starved(death)
        }
        libc::SIGSEGV => at(Kind::CrashSegv, "no access to memory", noted),
        libc::SIGBUS => at(Kind::CrashBus, "memory that is not there", noted),
        libc::SIGILL => at(Kind::CrashIll, "an illegal instruction", noted),
        libc::SIGFPE => at(Kind::CrashFpe, "an impossible division", noted),
        other => found(Kind::CrashSignal, format!("ended by {}", signal_name(other))),
    }
}

fn at(kind: Kind, what: &str, noted: Option<&Crash>) -> Fault {
    match noted {
        Some(crash) => found(kind, format!("{what}: address {:#x}, code {}", crash.address, crash.code)),
        None => found(kind, what),
    }
}

/// An abort: for want of memory, after a panic, or of its own accord.
fn abort(death: &Death) -> Fault {
    let recording = &death.recording;
    if let Some(failed) = recording.alloc_failed {
        let detail = match failed.why {
            AllocFailure::Budget => "mem.budget",
            AllocFailure::Kernel => "mem.rlimit",
        };
        let message = format!("an allocation of {} bytes failed", failed.bytes);
        let measured = recording.alloc_peak.saturating_add(failed.bytes);
        return over(Kind::MemoryLimit, detail, message, "memory", death.limits.memory, Some(measured));
    }
    if recording.panic.is_some() {
        return panic(recording);
    }
    if nearly_full(death) { starved(death) } else { found(Kind::CrashAbort, "it aborted") }
}

/// Code that does not go through the allocator and does not ask whether it got memory.
fn starved(death: &Death) -> Fault {
    let message = "it died while nearly all of its memory was in use";
    let measured = Some(death.recording.alloc_peak);
    let mut fault = over(Kind::MemoryLimit, "mem.native", message, "memory", death.limits.memory, measured);
    fault.evidence.inferred = true;
    fault
}

/// By its own allocator's account, or by the kernel's: what lies above the whole budget did not come from that allocator.
fn nearly_full(death: &Death) -> bool {
    let own = death.recording.alloc_peak.saturating_mul(10) >= death.limits.memory.saturating_mul(9);
    let explained = death.limits.memory.saturating_add(death.document_bytes).saturating_add(INHERITED);
    own || death.peak_rss_kib.saturating_mul(1024) >= explained
}

/// Whether a fault in memory is the stack's: near the stack pointer, or in the guard below the stack.
fn overflowed(crash: &Crash) -> bool {
    let in_guard = (crash.stack_low.saturating_sub(GUARD)..crash.stack_low).contains(&crash.address);
    crash.address >= NULL_PAGES && (crash.address.abs_diff(crash.sp) < STACK_REACH || in_guard)
}

/// Whether deaths of this kind are told apart by a fingerprint.
pub(super) fn has_fingerprint(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::ParsePanic
            | Kind::CrashSegv
            | Kind::CrashBus
            | Kind::CrashIll
            | Kind::CrashFpe
            | Kind::CrashAbort
            | Kind::CrashStackOverflow
            | Kind::CrashSignal
            | Kind::ViolationSyscall
            | Kind::ViolationArch
            | Kind::ViolationProtocol
    )
}

/// A number from the recorder, where it is one.
pub(super) fn clamp(number: u64) -> i32 {
    i32::try_from(number.cast_signed()).unwrap_or(-1)
}

/// `SIGSEGV`, or the number of a signal without a name.
pub(super) fn signal_name(signal: i32) -> String {
    match nix::sys::signal::Signal::try_from(signal) {
        Ok(signal) => signal.as_str().to_owned(),
        Err(_) => format!("signal {signal}"),
    }
}
