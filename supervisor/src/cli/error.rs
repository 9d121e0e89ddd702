//! What went wrong with a command, its exit code, and the one printer for it.

use super::exit::Exit;
use crate::ledger::LedgerError;
use crate::pool::PoolError;
use crate::report::Printer;
use crate::run::RunError;
use crate::sink::{SinkError, is_full};
use std::error::Error;

/// What an error concerns; the exit code follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The run, the state folder, the machine.
    Structural,
    /// What was asked for is not there.
    Absent,
    /// The command line or the settings.
    Usage,
    /// Whoever read our output has left. Not worth a word.
    ReaderGone,
}

/// Why a command could not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CliError {
    cause: Cause,
    /// What is wrong; more than one where all errors are told at once.
    messages: Vec<String>,
    /// The chain below, outermost first.
    causes: Vec<String>,
    hints: Vec<String>,
}

impl CliError {
    /// An error with this message.
    pub fn new(cause: Cause, message: impl Into<String>) -> Self {
        CliError { cause, messages: vec![message.into()], causes: Vec::new(), hints: Vec::new() }
    }

    /// All of these at once.
    pub fn all(cause: Cause, messages: impl IntoIterator<Item = String>) -> Self {
        CliError { cause, messages: messages.into_iter().collect(), causes: Vec::new(), hints: Vec::new() }
    }

    /// Of an error and what is behind it.
    pub fn of(cause: Cause, error: &dyn Error) -> Self {
        let mut out = CliError::new(cause, error.to_string());
        let mut below = error.source();
        while let Some(error) = below {
            out.causes.push(error.to_string());
            below = error.source();
        }
        out
    }

    /// With one more thing that a person can do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// The exit code.
    pub fn exit(&self) -> Exit {
        match self.cause {
            Cause::Structural | Cause::Absent => Exit::Aborted,
            Cause::Usage => Exit::Usage,
            Cause::ReaderGone => Exit::Completed,
        }
    }

    /// As a person reads it.
    pub fn text(&self) -> String {
        let messages = self.messages.iter().map(|message| format!("error: {message}"));
        let causes = self.causes.iter().map(|cause| format!("  caused by: {cause}"));
        let hints = self.hints.iter().map(|hint| format!("hint: {hint}"));
        messages.chain(causes).chain(hints).collect::<Vec<_>>().join("\n")
    }

    /// Tells the user, on standard error.
    pub fn print(&self, printer: &mut Printer) {
        if self.cause != Cause::ReaderGone {
            printer.note(&self.text());
        }
    }
}

/// What to do about a text that is not there or is not what was kept.
pub(super) const MADE_ANEW: &str = "`lazaret reprocess --id ID` and a run extract it again";

impl From<std::io::Error> for CliError {
    /// Of writing the output.
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return CliError::new(Cause::ReaderGone, "");
        }
        let mut out = CliError::new(Cause::Structural, "cannot write the output");
        out.causes.push(error.to_string());
        out
    }
}

impl From<LedgerError> for CliError {
    /// Its own text says what a person can do.
    fn from(error: LedgerError) -> Self {
        CliError::of(Cause::Structural, &error)
    }
}

impl From<SinkError> for CliError {
    fn from(error: SinkError) -> Self {
        let out = CliError::of(Cause::Structural, &error);
        match error {
            SinkError::Index { .. } => {
                out.hint("the next `lazaret run` makes a damaged index anew from the kept texts")
            }
            SinkError::Full { .. } => out.hint("make room and run again; nothing is lost"),
            SinkError::Damaged { .. } => out.hint(MADE_ANEW),
            SinkError::Io { .. } | SinkError::Texts { .. } => out,
        }
    }
}

impl From<PoolError> for CliError {
    fn from(error: PoolError) -> Self {
        CliError::of(Cause::Structural, &error)
            .hint("`lazaret doctor` tells which layers hold here, and what to do")
    }
}

impl From<RunError> for CliError {
    fn from(error: RunError) -> Self {
        let out = CliError::of(Cause::Structural, &error);
        match error {
            RunError::Ledger(error) => error.into(),
            RunError::Sink(error) => error.into(),
            RunError::Pool(error) => error.into(),
            RunError::Listing(_) => out.hint("nothing was deleted; run again when the source is back"),
            RunError::Extractor(_) => out.hint("install it, or take its [[extractor]] out of the settings"),
            RunError::Descriptors { .. } => out.hint(
                "raise the limit (`ulimit -n`), or have fewer documents worked on at a time (`children`)",
            ),
            RunError::SinkDown { .. } => out.hint(
                "the texts are kept: once it can be written to, the next `lazaret run` writes what waits, and extracts nothing again",
            ),
            RunError::Spool { source, .. } if is_full(&source) => {
                out.hint("make room, or name another state folder with `--state DIR`")
            }
            RunError::ListingStalled { .. } => {
                out.hint("what was recorded stays; `policy.exclude` spares a folder that hangs")
            }
            RunError::Deadline { .. } | RunError::Stalled { .. } => {
                out.hint("what was in flight was put back; the next `lazaret run` goes on")
            }
            RunError::Spool { .. } | RunError::NoProgress { .. } | RunError::Ended => out,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn an_error_its_causes_and_its_hints_read_top_down() {
        let source = io::Error::from_raw_os_error(13);
        let error = SinkError::Io { path: "/s/index".into(), source };
        let error = CliError::from(error).hint("look at its rights");
        assert_eq!(
            error.text(),
            "\
error: cannot read or write /s/index
  caused by: Permission denied (os error 13)
hint: look at its rights"
        );
        assert_eq!(error.exit(), Exit::Aborted);
    }

    #[test]
    fn a_reader_that_left_is_no_error() {
        let error = CliError::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!(error.exit(), Exit::Completed);
    }

    #[test]
    fn all_errors_in_the_settings_are_told_at_once() {
        let error = CliError::all(Cause::Usage, ["a".to_owned(), "b".to_owned()]);
        assert_eq!((error.text().as_str(), error.exit().code()), ("error: a\nerror: b", 2));
    }
}
