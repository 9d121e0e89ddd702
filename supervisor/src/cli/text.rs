//! `lazaret text`: the kept text of a document.

use super::args::TextArgs;
use super::error::MADE_ANEW;
use super::{Cause, CliError, Common, Exit, Outcome, open};
use crate::ledger::Record;
use crate::report::style::quoted;
use crate::report::{Printer, show};
use crate::sink::texts::Texts;

pub(super) fn run(common: &Common, args: &TextArgs, printer: &mut Printer) -> Outcome {
    let reader = open::ledger(common)?;
    let (_, record) = open::document(&reader, &args.doc)?;
    let Some(in_sink) = &record.in_sink else { return Err(no_text(&record)) };
    let kept = Texts::open_reader(&common.state)?.map(|texts| texts.get(in_sink.text)).transpose()?;
    let Some(text) = kept.flatten() else {
        return Err(
            CliError::new(Cause::Structural, "the text should be kept, and is not there").hint(MADE_ANEW)
        );
    };
    if show::is_stale(&record) {
        printer.note(&stale_note(&record));
    }
    printer.document(&text)?;
    Ok(Exit::Completed)
}

fn stale_note(record: &Record) -> String {
    format!("stale: this text is of an earlier reading; the document is {}", standing(record))
}

fn no_text(record: &Record) -> CliError {
    CliError::new(Cause::Absent, format!("there is no text: the document is {}", standing(record)))
        .hint(format!("`lazaret show {}` tells why", quoted(&record.id.to_string())))
}

fn standing(record: &Record) -> String {
    let kind = record.kind.map_or(String::new(), |kind| format!(", {kind}"));
    format!("{}{kind}", record.state)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::json::tests::sample;

    #[test]
    fn without_a_text_state_and_kind_are_told() {
        let error = no_text(&sample());
        assert!(
            error
                .text()
                .starts_with("error: there is no text: the document is quarantined, crash.segv\nhint: ")
        );
        assert_eq!(error.exit(), Exit::Aborted);
        let note = stale_note(&sample());
        assert_eq!(
            note,
            "stale: this text is of an earlier reading; the document is quarantined, crash.segv"
        );
    }
}
