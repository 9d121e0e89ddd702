//! `lazaret run`: from the command line to the call.

use super::args::RunArgs;
use super::{Common, Outcome};
use crate::report::Printer;

pub(super) fn run(_common: &Common, _args: &RunArgs, _printer: &mut Printer) -> Outcome {
    unimplemented!("the call")
}
