//! What is costly to open and used by one at a time: a few are kept open for whoever asks next.

use std::sync::{Mutex, PoisonError};

/// So many are kept; what more there was at a busy moment is closed.
const KEPT: usize = 4;

/// Those that nobody uses at the moment.
#[derive(Debug)]
pub(crate) struct Idle<T>(Mutex<Vec<T>>);

impl<T> Default for Idle<T> {
    fn default() -> Self {
        Idle(Mutex::default())
    }
}

impl<T> Idle<T> {
    /// One of them, if there is one.
    pub(crate) fn take(&self) -> Option<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Back from its use, or new.
    pub(crate) fn give(&self, one: T) {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < KEPT {
            idle.push(one);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_are_kept() {
        let idle = Idle::default();
        for one in 0..KEPT + 3 {
            idle.give(one);
        }
        assert_eq!(std::iter::from_fn(|| idle.take()).count(), KEPT);
    }
}
