//! `lazaret search`: which documents say this.

use super::args::{SearchArgs, SearchFormat};
use super::{CliError, Common, Exit, Outcome, open};
use crate::ledger::Record;
use crate::report::style::safe;
use crate::report::{Printer, json, show};
use crate::rules::kind::State;
use crate::sink::SinkError;
use crate::sink::embedded::{Search, has_words, snippet};
use crate::sink::texts::Texts;
use serde_json::Value;
use std::ops::Range;

struct Found {
    source: String,
    record: Record,
    score: f32,
    snippet: String,
    marks: Vec<Range<usize>>,
}

pub(super) fn run(common: &Common, args: &SearchArgs, printer: &mut Printer) -> Outcome {
    let found = find(common, args)?;
    let objects = || found.iter().map(object);
    match args.format {
        SearchFormat::Json => printer.line(&Value::Array(objects().collect()).to_string())?,
        SearchFormat::Jsonl => objects().try_for_each(|hit| printer.line(&json::line(&hit)))?,
        SearchFormat::Text => {
            if found.is_empty() {
                let words = has_words(&args.query.join(" "));
                printer.note(if words { "nothing found" } else { "nothing found: the query has no word" });
            }
            let marked = printer.is_terminal();
            found.iter().try_for_each(|hit| printer.line(&for_people(hit, marked)))?;
        }
    }
    Ok(Exit::Completed)
}

fn find(common: &Common, args: &SearchArgs) -> Result<Vec<Found>, CliError> {
    let reader = open::ledger(common)?;
    let query = args.query.join(" ");
    let Some(index) = Search::open(&common.state)? else { return Ok(Vec::new()) };
    let texts = Texts::open_reader(&common.state)?;
    let names = open::source_names(&reader)?;
    let mut found = Vec::new();
    for hit in index.find(&query, usize::try_from(args.limit).unwrap_or(usize::MAX))? {
        // What is in the index and not in the ledger is between two commits of a live run.
        let Some(record) = reader.record(hit.id)? else { continue };
        let kept = record.in_sink.as_ref().map(|in_sink| in_sink.text);
        let text = match (&texts, kept) {
            (Some(texts), Some(kept)) => match texts.get(kept) {
                // One text that is damaged costs its own snippet.
                Err(SinkError::Damaged { .. }) => String::new(),
                text => text?.unwrap_or_default(),
            },
            _ => String::new(),
        };
        let (snippet, marks) = snippet(&query, &text);
        let source = names.get(&record.source).cloned().unwrap_or_default();
        found.push(Found { source, record, score: hit.score, snippet, marks });
    }
    Ok(found)
}

fn object(found: &Found) -> Value {
    let stale = show::is_stale(&found.record);
    json::hit(&found.source, &found.record, stale, found.score, &found.snippet)
}

fn for_people(found: &Found, marked: bool) -> String {
    let mut notes = String::new();
    let in_sink = found.record.in_sink.as_ref().map(|in_sink| in_sink.state);
    if found.record.state == State::Suspect || in_sink == Some(State::Suspect) {
        notes.push_str("  [suspect: the text may not be the document's]");
    }
    if show::is_stale(&found.record) {
        notes.push_str("  [stale: of an earlier reading]");
    }
    let snippet = if marked { bold(&found.snippet, &found.marks) } else { safe(&found.snippet) };
    let path = safe(&found.record.identity.shown());
    format!("{path}{notes}\n  {snippet}\n  {} in {}\n", found.record.id, safe(&found.source))
}

/// The snippet, safe, with what matched in bold.
fn bold(snippet: &str, marks: &[Range<usize>]) -> String {
    let mut out = String::new();
    let mut at = 0;
    let piece = |range: Range<usize>| safe(snippet.get(range).unwrap_or_default());
    for mark in marks {
        out.push_str(&piece(at..mark.start));
        out.push_str("\u{1b}[1m");
        out.push_str(&piece(mark.clone()));
        out.push_str("\u{1b}[0m");
        at = mark.end;
    }
    out.push_str(&piece(at..snippet.len()));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::json::tests::sample;

    fn found() -> Found {
        let mut record = sample();
        record.state = State::Suspect;
        Found {
            source: "docs".to_owned(),
            record,
            score: 1.5,
            snippet: "a \u{1b}b c".to_owned(),
            marks: vec![3..4, 5..6],
        }
    }

    #[test]
    fn suspect_and_stale_are_said() {
        let found = found();
        assert_eq!(
            for_people(&found, false),
            format!(
                "mail/a.eml!/q3-\u{fffd}.pdf  [suspect: the text may not be the document's]  [stale: of an earlier reading]\n  a \\u{{1b}}b c\n  {} in docs\n",
                found.record.id
            )
        );
        assert_eq!(bold(&found.snippet, &found.marks), "a \\u{1b}\u{1b}[1mb\u{1b}[0m \u{1b}[1mc\u{1b}[0m");
    }

    #[test]
    fn a_hit_reads_as_the_contract_says() {
        let found = found();
        let expected = format!(
            r#"{{"id":"{}","source":"docs","path":"mail/a.eml!/q3-{}.pdf","state":"suspect","stale":true,"score":1.5,"snippet":"a \u001bb c"}}"#,
            found.record.id, '\u{fffd}'
        );
        assert_eq!(object(&found).to_string(), expected);
    }
}
