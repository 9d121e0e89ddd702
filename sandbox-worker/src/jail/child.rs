//! What a child adds to the zygote's cage, in about twenty system calls. The first step that fails ends it: a child
//! never parses in less of a cage than was promised.

use super::zygote::Cage;
use super::{Jailed, RESULT_FD, RULESET_FD, Standing};
use crate::seccomp::{self, Listener, Program};
use crate::{memory, recorder, sys};
use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::signal::Signal;
use shared::recorder::{Step, offset};
use shared::{Ask, Layer};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// Address space besides the budget, the document and what the zygote has.
const SLACK: u64 = 64 << 20;

/// The descriptors of a request.
#[derive(Debug)]
pub(crate) struct Given {
    pub(crate) document: OwnedFd,
    pub(crate) result: OwnedFd,
    pub(crate) recorder: OwnedFd,
}

/// A step that failed, and the system's error.
pub(crate) type StepFailed = (Step, Errno);

/// Puts up the rest of the cage: the document, mapped, and the proof.
pub(crate) fn enter(cage: &Cage, ask: &Ask, given: Given) -> Result<(&'static [u8], Jailed), StepFailed> {
    let omits = |layer| cage.standing.omits(layer);
    sys::map_page(given.recorder.as_fd()).map_err(at(Step::MapRecorder))?;
    recorder::open();
    sys::duplicate_to(given.result.as_raw_fd(), RESULT_FD).map_err(at(Step::ResultPipe))?;
    let document = map_document(&given.document, ask.size)?;
    if !omits(Layer::Rlimits) {
        own_limits(cage, ask).map_err(at(Step::Limits))?;
    }
    if !omits(Layer::ParentDeath) {
        die_with_supervisor().map_err(at(Step::ParentDeath))?;
    }
    if !omits(Layer::NotDumpable) {
        prctl::set_dumpable(false).map_err(at(Step::NotDumpable))?;
    }
    own_domain(&cage.standing).map_err(at(Step::Landlock))?;
    if !omits(Layer::Descriptors) {
        sys::close_from(RULESET_FD).map_err(at(Step::Descriptors))?;
    }
    // They are closed already, and may not be closed twice.
    std::mem::forget(given);
    if !omits(Layer::MemoryBudget) {
        memory::set_budget(ask.limits.memory);
    }
    if !omits(Layer::SeccompChild) {
        own_filter().map_err(at(Step::Filter))?;
    }
    Ok((document, Jailed(())))
}

fn at(step: Step) -> impl FnOnce(Errno) -> StepFailed {
    move |errno| (step, errno)
}

/// A document that is shorter than was said would end the parser by a bus error.
fn map_document(document: &OwnedFd, size: u64) -> Result<&'static [u8], StepFailed> {
    let real = sys::file_size(document.as_raw_fd()).map_err(at(Step::DocumentSize))?;
    if real < size {
        return Err((Step::DocumentSize, Errno::ENODATA));
    }
    let bytes = sys::map_document(document.as_fd(), size).map_err(at(Step::MapDocument))?;
    recorder::set(offset::DOCUMENT_START, bytes.as_ptr().addr() as u64);
    recorder::set(offset::DOCUMENT_LEN, size);
    Ok(bytes)
}

/// The limits that depend on the document, and those that would hinder the zygote. The kernel's limits on memory lie
/// above the budget, so that the budget is met first.
fn own_limits(cage: &Cage, ask: &Ask) -> Result<(), Errno> {
    let inherited = cage.address_space.saturating_add(SLACK);
    let memory = ask.limits.memory.saturating_add(inherited);
    let seconds = ask.limits.cpu_ms.div_ceil(1000);
    sys::limit(libc::RLIMIT_AS, memory.saturating_add(ask.size), memory.saturating_add(ask.size))?;
    sys::limit(libc::RLIMIT_DATA, memory, memory)?;
    sys::limit(libc::RLIMIT_CPU, seconds, seconds.saturating_add(1))?;
    sys::limit(libc::RLIMIT_NOFILE, 5, 5)?;
    sys::limit(libc::RLIMIT_NPROC, 0, 0)
}

/// A Landlock domain below the zygote's. The zygote rehearses an attack on it by this same function.
pub(super) fn own_domain(standing: &Standing) -> Result<(), Errno> {
    if standing.layers().has(Layer::LandlockChild) && !standing.omits(Layer::LandlockChild) {
        return sys::landlock_restrict(RULESET_FD);
    }
    Ok(())
}

/// The parent is the supervisor, not the zygote. It has no number in here, so whether it was quicker shows at the pipe.
fn die_with_supervisor() -> Result<(), Errno> {
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    if sys::listener_gone(RESULT_FD) {
        sys::exit(crate::child::EXIT_UNHEARD);
    }
    Ok(())
}

fn own_filter() -> Result<(), Errno> {
    let mut filter = Program::assemble(&seccomp::CHILD, Listener::Nobody);
    filter.set_own_process(sys::own_id());
    sys::install_filter(filter.instructions(), false).map(drop)
}
