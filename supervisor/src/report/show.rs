//! One document for people: what it is, where it stands and why, and every attempt with its evidence.

use super::advice::advice;
use super::style::{grouped, safe};
use super::time::{local, span};
use crate::ledger::{Attempt, Record};
use jiff::tz::TimeZone;
use serde_json::Value;
use std::fmt::Write;

/// `show` as people read it; times in `zone`.
pub fn show(source: &str, record: &Record, history: &[Attempt], zone: &TimeZone) -> String {
    let mut page = Page::default();
    what(&mut page, source, record, zone);
    standing(&mut page, record, zone);
    page.section("What to do");
    page.text.push_str("\n  ");
    page.text.push_str(&safe(&advice(record, zone)));
    if let Some(text) = &record.text {
        page.section("Text");
        page.row("characters", Some(grouped(text.chars)));
        page.row("words", Some(grouped(text.words)));
        page.row("language", text.language.clone());
        page.row("quality", Some(format!("{:.2}", text.quality)));
    }
    let mut evidence = serde_json::to_value(&record.evidence).unwrap_or_default();
    let metadata = evidence.as_object_mut().and_then(|evidence| evidence.remove("metadata"));
    page.object("Metadata", &metadata.unwrap_or_default());
    page.object("Evidence", &evidence);
    for attempt in history {
        self::attempt(&mut page, attempt, &evidence, zone);
    }
    page.text
}

fn what(page: &mut Page, source: &str, record: &Record, zone: &TimeZone) {
    page.text = safe(&record.identity.shown());
    page.row("id", Some(record.id.to_string()));
    page.row("source", Some(source.to_owned()));
    page.row("container", record.parent.map(|id| id.to_string()));
    page.row("format", record.format.clone());
    page.row("media type", record.media_type.clone());
    page.row("size", record.size.map(|size| format!("{} bytes", grouped(size))));
    page.row("sha256", record.sha256.map(|hash| hash.to_string()));
    page.row("modified", record.mtime_ns.map(|ns| local(ns.div_euclid(1_000_000), zone)));
}

fn standing(page: &mut Page, record: &Record, zone: &TimeZone) {
    page.section("State");
    let why = record.why.map_or(String::new(), |why| format!(" ({why})"));
    page.row("state", Some(format!("{}{why}", record.state)));
    let class = record.class.map_or(String::new(), |class| format!(" ({class})"));
    page.row("kind", record.kind.map(|kind| format!("{kind}{class}")));
    page.row("stage", record.stage.map(|stage| stage.to_string()));
    page.row("message", record.message.clone());
    page.row("hostile", record.hostile.then(|| "yes: no honest parser does this".to_owned()));
    page.row("damaged at", record.damage.map(|damage| damage.to_string()));
    page.row("attempts", Some(record.attempts.to_string()));
    page.row("first seen", Some(local(record.first_seen, zone)));
    page.row("first failed", record.first_failed.map(|at| local(at, zone)));
    page.row("last attempt", record.last_attempt.map(|at| local(at, zone)));
    page.row("requeued", record.requeued_at.map(|at| format!("by hand, {}", local(at, zone))));
    page.row("next attempt", record.next_attempt.map(|at| local(at, zone)));
    page.row("same as", record.same_as.map(|id| id.to_string()));
    let versions: Vec<String> =
        record.pipeline.iter().map(|(stage, version)| format!("{stage} {version}")).collect();
    page.row("made with", (!versions.is_empty()).then(|| versions.join(", ")));
    page.row(
        "in the sink",
        record.in_sink.as_ref().map(|in_sink| {
            let stale = if is_stale(record) { " (stale: of an earlier reading)" } else { "" };
            format!("{}, as {}{stale}", in_sink.sink, in_sink.state)
        }),
    );
    page.row("cost", cost(&serde_json::to_value(record.usage).unwrap_or_default()));
}

/// Whether what can be found of a document is not what its newest bytes say.
pub fn is_stale(record: &Record) -> bool {
    use crate::rules::kind::State;
    let current = matches!(record.state, State::Indexed | State::Suspect);
    !current || record.in_sink.as_ref().is_none_or(|in_sink| in_sink.sha256 != record.sha256)
}

/// Where its evidence is all that of the record, `told`, it is not said again.
fn attempt(page: &mut Page, attempt: &Attempt, told: &Value, zone: &TimeZone) {
    let word = |key: &str| attempt[key].as_str().map(str::to_owned);
    let time = |key: &str| {
        let at: Option<jiff::Timestamp> = attempt[key].as_str().and_then(|text| text.parse().ok());
        at.map(|at| local(at.as_millisecond(), zone))
    };
    page.section(&format!("Attempt {}", attempt["attempt"]));
    page.row("started", time("started"));
    page.row("ended", time("ended").or_else(|| Some("not yet".to_owned())));
    page.row("stage", word("stage"));
    let class = word("class").map_or(String::new(), |class| format!(" ({class})"));
    page.row(
        "outcome",
        Some(word("kind").map_or_else(|| "no fault".to_owned(), |kind| format!("{kind}{class}"))),
    );
    page.row("message", word("message"));
    let versions = attempt["pipeline"].as_object().into_iter().flatten();
    let versions: Vec<String> = versions
        .map(|(stage, version)| format!("{stage} {}", version.as_str().unwrap_or_default()))
        .collect();
    page.row("made with", (!versions.is_empty()).then(|| versions.join(", ")));
    page.row("damaged at", word("damage"));
    page.row("cost", cost(&attempt["usage"]));
    let evidence = attempt["evidence"].as_object().into_iter().flatten();
    let evidence: Vec<_> = evidence.filter(|(key, _)| *key != "metadata").collect();
    if !evidence.is_empty() && evidence.iter().all(|(key, value)| *value == &told[*key]) {
        page.row("evidence", Some("as above".to_owned()));
        return;
    }
    for (key, value) in evidence {
        page.field(key, value);
    }
}

fn cost(usage: &Value) -> Option<String> {
    let usage: crate::ledger::Usage = serde_json::from_value(usage.clone()).ok()?;
    Some(format!(
        "{} wall, {} CPU, {} KiB at most",
        span(usage.wall_ms),
        span(usage.cpu_ms),
        grouped(usage.peak_rss_kib)
    ))
}

/// A value in words; `None` where it says nothing.
pub fn in_words(value: &Value) -> Option<String> {
    let words = match value {
        Value::Null | Value::Bool(false) => return None,
        Value::Bool(true) => "yes".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) => in_figures(number),
        Value::Array(items) => {
            let between = if items.iter().any(Value::is_object) { "; " } else { ", " };
            items.iter().filter_map(in_words).collect::<Vec<_>>().join(between)
        }
        Value::Object(map) => {
            let pairs = map
                .iter()
                .filter_map(|(key, value)| Some(format!("{} {}", key.replace('_', " "), in_words(value)?)));
            pairs.collect::<Vec<_>>().join(", ")
        }
    };
    (!words.is_empty()).then_some(words)
}

fn in_figures(number: &serde_json::Number) -> String {
    match (number.as_u64(), number.as_f64()) {
        (None, Some(share)) => format!("{share:.2}"),
        _ => number.to_string(),
    }
}

#[derive(Debug, Default)]
struct Page {
    text: String,
}

impl Page {
    fn section(&mut self, title: &str) {
        self.text.push_str("\n\n");
        self.text.push_str(title);
    }

    /// Nothing where there is nothing to tell.
    fn row(&mut self, name: &str, value: Option<String>) {
        let Some(value) = value else { return };
        write!(self.text, "\n  {name:<13} {}", safe(&value)).expect("a String takes every text");
    }

    /// A section of its own, where there is anything to tell.
    fn object(&mut self, title: &str, object: &Value) {
        if in_words(object).is_none() {
            return;
        }
        self.section(title);
        for (key, value) in object.as_object().into_iter().flatten() {
            self.field(key, value);
        }
    }

    fn field(&mut self, key: &str, value: &Value) {
        self.row(&key.replace('_', " "), in_words(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::json::tests::sample;
    use crate::rules::kind::State;
    use serde_json::json;

    #[test]
    fn a_document_is_told_in_sections() {
        let history = [
            json!({"attempt": 1, "stage": "extract", "kind": "crash.segv", "class": "permanent",
            "message": "it \u{1b}died", "started": "2023-11-14T22:13:20.000Z", "ended": null,
            "pipeline": {"extract": "pdf-1"}, "usage": {"wall_ms": 5, "cpu_ms": 4, "peak_rss_kib": 999},
            "evidence": {"signal": "SIGSEGV", "layers": ["rlimits", "cgroup"]}}),
            json!({"attempt": 2, "stage": "extract", "evidence": {"signal": "SIGSEGV", "place": "a.rs:1"}}),
        ];
        let record = sample();
        let id = record.id.to_string();
        let container = record.parent.unwrap().to_string();
        let sha256 = record.sha256.unwrap().to_string();
        assert_eq!(
            show("docs", &record, &history, &TimeZone::UTC),
            format!(
                "\
mail/a.eml!/q3-\u{fffd}.pdf
  id            {id}
  source        docs
  container     {container}
  format        pdf
  media type    application/pdf
  size          1,234 bytes
  sha256        {sha256}
  modified      2023-11-14 22:13:20

State
  state         quarantined (permanent)
  kind          crash.segv (permanent)
  stage         extract
  message       the child died by SIGSEGV
  attempts      1
  first seen    2023-11-14 22:13:20
  first failed  2023-11-14 22:13:21
  last attempt  2023-11-14 22:13:21
  made with     extract pdf-1
  in the sink   embedded, as indexed (stale: of an earlier reading)
  cost          5 ms wall, 4 ms CPU, 999 KiB at most

What to do
  It waits for another version of its extractor: the same bytes would fail in the same way again. `lazaret retry --id {}` tries all the same.

Text
  characters    10
  words         2
  quality       0.50

Evidence
  signal        SIGSEGV
  place         a.rs:1

Attempt 1
  started       2023-11-14 22:13:20
  ended         not yet
  stage         extract
  outcome       crash.segv (permanent)
  message       it \\u{{1b}}died
  made with     extract pdf-1
  cost          5 ms wall, 4 ms CPU, 999 KiB at most
  signal        SIGSEGV
  layers        rlimits, cgroup

Attempt 2
  ended         not yet
  stage         extract
  outcome       no fault
  evidence      as above",
                id.get(..8).unwrap()
            )
        );
    }

    #[test]
    fn evidence_is_told_in_words() {
        let value = json!({"name": "ratio", "value": 200, "share": 0.285_7, "none": null, "no": false, "of": ["a", "b"]});
        assert_eq!(in_words(&value).unwrap(), "name ratio, value 200, share 0.29, of a, b");
        assert_eq!(in_words(&json!([{"a": 1, "b": 2}, {"a": 3}])).unwrap(), "a 1, b 2; a 3");
        assert_eq!(in_words(&json!({"none": null, "empty": []})), None);
    }

    #[test]
    fn stale_is_what_the_newest_bytes_do_not_say() {
        let mut record = sample();
        assert!(is_stale(&record));
        record.state = State::Indexed;
        assert!(is_stale(&record));
        record.in_sink.as_mut().unwrap().sha256 = record.sha256;
        assert!(!is_stale(&record));
        record.state = State::Pending;
        assert!(is_stale(&record));
    }
}
