//! stub
use super::args::ReconcileArgs;
use super::{Common, Exit, Outcome};
use crate::report::Printer;
pub(super) fn run(_common: &Common, _args: &ReconcileArgs, _printer: &mut Printer) -> Outcome {
    Ok(Exit::Completed)
}
