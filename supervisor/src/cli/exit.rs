//! The exit codes. They are a contract, and `--help` quotes them.

use std::process::ExitCode;

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Completed,
    /// A structural error; of `show` and `text`: there is nothing to show.
    Aborted,
    /// The command line or the settings are wrong.
    Usage,
    /// Completed, and short of what was asked for.
    Short,
    /// By SIGINT.
    Interrupted,
    /// By SIGTERM.
    Terminated,
}

/// As `--help` shows them.
pub(super) const HELP: &str = "\
Exit codes:
  0    completed, also where documents failed
  1    stopped by a structural error; show, text: no such document, or no text;
       doctor: a required layer is missing
  2    the command line or the settings are wrong
  3    completed, but the coverage asked for was not reached, the books do not
       balance, or a breaker is open; reconcile: drift that is not repaired;
       extract: no text; doctor: degraded
  130  interrupted and drained, by SIGINT or `ctl drain`
  143  interrupted and drained, by SIGTERM";

impl Exit {
    /// The number.
    pub fn code(self) -> u8 {
        match self {
            Exit::Completed => 0,
            Exit::Aborted => 1,
            Exit::Usage => 2,
            Exit::Short => 3,
            Exit::Interrupted => 130,
            Exit::Terminated => 143,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_in_the_help() {
        let all =
            [Exit::Completed, Exit::Aborted, Exit::Usage, Exit::Short, Exit::Interrupted, Exit::Terminated];
        for exit in all {
            assert!(HELP.lines().any(|line| line.starts_with(&format!("  {:<5}", exit.code()))), "{exit:?}");
        }
    }
}
