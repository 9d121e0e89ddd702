//! `lazaret ctl`: asks a live run, or steers it.

use super::args::{CtlArgs, CtlCommand, Format};
use super::{Cause, CliError, Common, Exit, Outcome};
use crate::report::show::in_words;
use crate::report::style::safe;
use crate::report::time::span;
use crate::report::{Printer, json};
use crate::run::control::{AskError, Query, ask};
use serde_json::Value;

pub(super) fn run(common: &Common, args: &CtlArgs, printer: &mut Printer) -> Outcome {
    let (query, wanted) = match args.command {
        CtlCommand::Status(wanted) => (Query::Status, wanted),
        CtlCommand::Pause(wanted) => (Query::Pause, wanted),
        CtlCommand::Resume(wanted) => (Query::Resume, wanted),
        CtlCommand::Drain(wanted) => (Query::Drain, wanted),
    };
    let answer = ask(&common.state, query).map_err(|error| failed(&error))?;
    match wanted.format {
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

/// One line for each key, in the answer's order; one for each document that children are at work on.
fn for_people(answer: &Value) -> String {
    let line = |key: &str, value: &str| format!("{:<16}{}", safe(&key.replace('_', " ")), safe(value));
    let lines = answer.as_object().into_iter().flatten().map(|(key, value)| match value {
        Value::Array(documents) if documents.is_empty() => line(key, "nothing"),
        Value::Array(documents) => {
            documents.iter().map(|document| line(key, &at_work(document))).collect::<Vec<_>>().join("\n")
        }
        Value::Bool(yes) => line(key, if *yes { "yes" } else { "no" }),
        Value::Number(ms) if key == "running_ms" => line("running", &span(ms.as_u64().unwrap_or_default())),
        other => line(key, &in_words(other).unwrap_or_default()),
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn at_work(document: &Value) -> String {
    let path = document["path"].as_str().unwrap_or_default();
    format!("{path}, for {}", span(document["running_ms"].as_u64().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_answer_is_told_key_by_key() {
        let answer = json!({"running_ms": 1500, "listing": false, "indexed": 2,
            "in_flight": [{"path": "a\u{1b}", "running_ms": 20}, {"path": "b", "running_ms": 10}]});
        assert_eq!(
            for_people(&answer),
            "running         1.5 s\nlisting         no\nindexed         2\n\
             in flight       a\\u{1b}, for 20 ms\nin flight       b, for 10 ms"
        );
        assert_eq!(for_people(&json!({"in_flight": []})), "in flight       nothing");
    }
}
