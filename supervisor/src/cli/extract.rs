//! `lazaret extract`: from the command line to the call.

use super::args::ExtractArgs;
use super::{Common, Outcome};
use crate::report::Printer;

pub(super) fn run(_common: &Common, _args: &ExtractArgs, _printer: &mut Printer) -> Outcome {
    unimplemented!("the call")
}
