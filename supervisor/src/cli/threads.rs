//! The threads that a command works with. Where the system lets this user start too few, that is said before anything has
//! begun: the scheduler of tasks panics in the middle of its work then, or stands still.

use super::{Cause, CliError};
use std::io;
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;
use tokio::runtime::{Builder, Runtime};

/// Beside one for each processor: those of the ledger and of the index, and the first of those that may block.
const BESIDE: usize = 8;

/// Starts the scheduler.
pub(super) fn runtime() -> Result<Runtime, CliError> {
    let wanted = thread::available_parallelism().map_or(1, usize::from) + BESIDE;
    can_be_had(wanted).map_err(|error| {
        CliError::new(Cause::Structural, format!("{wanted} threads cannot be started: {error}"))
            .hint("raise the limit of this user's processes (`ulimit -u`), or that of memory (`ulimit -v`)")
    })?;
    Builder::new_multi_thread().enable_all().build().map_err(|error| CliError::of(Cause::Structural, &error))
}

/// Whether so many threads can be there at a time, beside this one.
fn can_be_had(threads: usize) -> io::Result<()> {
    let gate = Arc::new(RwLock::new(()));
    let closed = gate.write().unwrap_or_else(PoisonError::into_inner);
    let mut started = Vec::new();
    let mut outcome = Ok(());
    for _ in 0..threads {
        let gate = gate.clone();
        match thread::Builder::new().spawn(move || drop(gate.read())) {
            Ok(one) => started.push(one),
            Err(error) => {
                outcome = Err(error);
                break;
            }
        }
    }
    drop(closed);
    for one in started {
        one.join().ok();
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_there_are_can_be_had() {
        can_be_had(4).unwrap();
        drop(runtime().unwrap());
    }
}
