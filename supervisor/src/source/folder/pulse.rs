//! Where a walk is, for whoever watches it. A file system that hangs holds the walk's thread for ever, and no signal frees
//! it: then another walk begins, which passes by the place where this one hangs.

use super::ListingError;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Places that a walk passes by, since an earlier one hangs there: raw bytes, below the root.
pub type Hung = BTreeSet<Vec<u8>>;

/// So many places of one source may hang; with one more its file system is taken as gone.
const HUNG_MAX: usize = 8;

/// From now on this place is passed by.
///
/// # Errors
/// It is the root, or too much hangs: the source cannot be listed.
pub fn pass_by(hung: &mut Hung, path: Vec<u8>, root: &Path) -> Result<(), ListingError> {
    tracing::warn!(path = %String::from_utf8_lossy(&path), "the file system does not answer; the listing passes it by");
    if path.is_empty() || hung.len() >= HUNG_MAX || !hung.insert(path) {
        let source = io::Error::from(io::ErrorKind::TimedOut);
        return Err(ListingError::Root { path: root.to_owned(), source });
    }
    Ok(())
}

/// What a walk asks of the file system at the moment.
#[derive(Debug, Default)]
pub struct Pulse(Mutex<Question>);

#[derive(Debug, Default)]
struct Question {
    /// Of all questions of this walk.
    number: u64,
    open: bool,
    path: Vec<u8>,
}

impl Pulse {
    /// Notes that `ask` is asked at this path, until it is answered.
    pub(super) fn during<T>(&self, path: &[u8], ask: impl FnOnce() -> T) -> T {
        {
            let mut question = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            question.number += 1;
            question.open = true;
            question.path.clear();
            question.path.extend_from_slice(path);
        }
        let answer = ask();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).open = false;
        answer
    }

    /// What was asked is being answered, bit by bit: whoever watches takes the rest for another question.
    pub(super) fn beat(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).number += 1;
    }

    /// The number and the path of the question that is not answered yet.
    pub fn question(&self) -> Option<(u64, Vec<u8>)> {
        let question = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        question.open.then(|| (question.number, question.path.clone()))
    }
}

/// Looks at a pulse from time to time.
#[derive(Debug, Default)]
pub struct Eye {
    /// The question that was open at the last look, and since when.
    asked: Option<(u64, Instant)>,
}

impl Eye {
    /// The place where the walk has had no answer for so long, or longer.
    pub fn hangs(&mut self, pulse: &Pulse, patience: Duration) -> Option<Vec<u8>> {
        let question = pulse.question();
        let number = question.as_ref().map(|(number, _)| *number);
        let since = match self.asked {
            Some((asked, since)) if Some(asked) == number => since,
            _ => Instant::now(),
        };
        self.asked = number.map(|number| (number, since));
        question.filter(|_| since.elapsed() >= patience).map(|(_, path)| path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_much_may_hang_and_never_the_root() {
        let mut hung = Hung::new();
        let root = Path::new("/share");
        assert!(pass_by(&mut hung, Vec::new(), root).is_err());
        for place in 0..HUNG_MAX {
            pass_by(&mut hung, vec![b'a', u8::try_from(place).unwrap()], root).unwrap();
        }
        assert!(pass_by(&mut hung, b"b".to_vec(), root).is_err());
    }

    #[test]
    fn what_is_asked_is_told_until_it_is_answered() {
        let pulse = Pulse::default();
        assert_eq!(pulse.question(), None);
        pulse.during(b"a", || assert_eq!(pulse.question(), Some((1, b"a".to_vec()))));
        assert_eq!(pulse.question(), None);
        pulse.during(b"", || {
            assert_eq!(pulse.question(), Some((2, Vec::new())));
            pulse.beat();
            assert_eq!(pulse.question(), Some((3, Vec::new())), "slow is not silent");
        });
    }
}
