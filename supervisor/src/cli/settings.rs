//! The settings of a command: the file and `--set`, all errors at once.

use super::{Cause, CliError, Common};
use crate::settings::Settings;

pub(super) fn settings(common: &Common) -> Result<Settings, CliError> {
    Settings::load(common.config.as_deref(), &common.set)
        .map_err(|errors| CliError::all(Cause::Usage, errors.iter().map(ToString::to_string)))
}
