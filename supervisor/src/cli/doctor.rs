//! `lazaret doctor`: from the command line to the call.

use super::args::DoctorArgs;
use super::{Common, Outcome};
use crate::report::Printer;

pub(super) fn run(_common: &Common, _args: &DoctorArgs, _printer: &mut Printer) -> Outcome {
    unimplemented!("the call")
}
