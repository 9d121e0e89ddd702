//! `lazaret ctl`: asks a live run.

use super::args::{CtlArgs, CtlCommand, Format};
use super::{Cause, CliError, Common, Exit, Outcome};
use crate::report::style::safe;
use crate::report::{Printer, json};
use crate::run::control::{AskError, Query, ask};
use serde_json::Value;

pub(super) fn run(common: &Common, args: &CtlArgs, printer: &mut Printer) -> Outcome {
    let CtlCommand::Status(status) = args.command;
    let answer = ask(&common.state, Query::Status).map_err(|error| failed(&error))?;
    match status.format {
        Format::Json => printer.line(&json::line(&answer))?,
        Format::Text => printer.line(&for_people(&answer))?,
    }
    Ok(Exit::Completed)
}

fn failed(error: &AskError) -> CliError {
    let out = CliError::of(Cause::Absent, error);
    match error {
        AskError::NoRun { .. } => out.hint("`lazaret status` tells what the ledger knows without a run"),
        AskError::Io { .. } | AskError::Answer { .. } => out,
    }
}

/// One line for each key, in the answer's order.
fn for_people(answer: &Value) -> String {
    let line = |(key, value): (&String, &Value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        format!("{:<16}{}", safe(&key.replace('_', " ")), safe(&value))
    };
    match answer.as_object() {
        Some(object) => object.iter().map(line).collect::<Vec<_>>().join("\n"),
        None => safe(&answer.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_answer_is_told_key_by_key() {
        let answer = json!({"in_flight": 2, "source": "a\u{1b}"});
        assert_eq!(for_people(&answer), "in flight       2\nsource          a\\u{1b}");
    }
}
