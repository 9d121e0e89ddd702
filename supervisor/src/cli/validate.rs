//! `lazaret validate`: all errors in the settings at once; touches nothing.

use super::{Cause, CliError, Common, Outcome};
use crate::report::Printer;

pub(super) fn run(common: &Common, printer: &mut Printer) -> Outcome {
    if common.config.is_none() && common.set.is_empty() {
        return Err(CliError::new(Cause::Usage, "there is nothing to validate")
            .hint("name a file with `--config FILE`, or settings with `--set KEY=VALUE`"));
    }
    super::settings::settings(common)?;
    printer.line("The settings are valid.")?;
    Ok(super::Exit::Completed)
}
