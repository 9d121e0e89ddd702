//! The objects that programs get. Their keys and the order of these are a contract: a key is never left out, and never
//! changes its meaning.

use super::status::{BreakerView, Overview};
use super::time;
use crate::ledger::{Attempt, Books, Counts, InSink, Millis, Record, RunRow, Standing};
use crate::rules::fault::{Evidence, MESSAGE_MAX};
use base64::Engine;
use serde_json::{Map, Value, json};

/// The keys of a document's object, in their order.
pub const COLUMNS: &[&str] = &[
    "id",
    "source",
    "path",
    "path_bytes",
    "parent",
    "state",
    "why",
    "class",
    "kind",
    "stage",
    "message",
    "hostile",
    "format",
    "media_type",
    "size",
    "sha256",
    "mtime",
    "attempts",
    "first_seen",
    "first_failed",
    "last_attempt",
    "next_attempt",
    "pipeline",
    "damage",
    "same_as",
    "in_sink",
    "text",
    "usage",
    "evidence",
];

/// A document's object, as `list` prints it; `source` is the source's name.
pub fn record(source: &str, record: &Record) -> Value {
    let utc = |at: Option<Millis>| at.map(time::utc);
    let path_bytes = record.identity.raw_if_not_utf8();
    let text = record.text.as_ref().map(|text| {
        json!({"chars": text.chars, "words": text.words, "language": text.language, "quality": text.quality})
    });
    json!({
        "id": record.id.to_string(),
        "source": source,
        "path": record.identity.shown(),
        "path_bytes": path_bytes.map(|raw| base64::engine::general_purpose::STANDARD.encode(raw)),
        "parent": record.parent.map(|id| id.to_string()),
        "state": record.state,
        "why": record.why,
        "class": record.class,
        "kind": record.kind,
        "stage": record.stage,
        "message": record.message.as_deref().map(capped),
        "hostile": record.hostile,
        "format": record.format,
        "media_type": record.media_type,
        "size": record.size,
        // Of bytes that a listing saw and nothing has read yet there is no hash: that of the ones before would be a lie.
        "sha256": record.sha256.filter(|_| record.fetched).map(|hash| hash.to_string()),
        "mtime": record.mtime_ns.map(time::utc_of_ns),
        "attempts": record.attempts,
        "first_seen": time::utc(record.first_seen),
        "first_failed": utc(record.first_failed),
        "last_attempt": utc(record.last_attempt),
        "next_attempt": utc(record.next_attempt),
        "pipeline": record.pipeline,
        "damage": record.damage,
        "same_as": record.same_as.map(|id| id.to_string()),
        "in_sink": record.in_sink.as_ref().map(in_sink),
        "text": text,
        "usage": record.usage,
        "evidence": evidence(record.evidence.as_ref()),
    })
}

/// A document's object with its history, as `show` prints it.
pub fn record_with_history(source: &str, of: &Record, history: &[Attempt]) -> Value {
    let mut object = record(source, of);
    let history = history.iter().map(attempt).collect();
    if let Value::Object(map) = &mut object {
        map.insert("history".to_owned(), Value::Array(history));
    }
    object
}

fn in_sink(in_sink: &InSink) -> Value {
    json!({
        "sink": in_sink.sink,
        "sha256": in_sink.sha256.map(|hash| hash.to_string()),
        "pipeline": in_sink.pipeline,
    })
}

fn capped(message: &str) -> &str {
    message.get(..message.floor_char_boundary(MESSAGE_MAX)).unwrap_or_default()
}

/// The evidence with its eight fixed keys first; what else there is follows. `null` where nothing is known.
fn evidence(evidence: Option<&Evidence>) -> Value {
    let Some(evidence) = evidence.filter(|evidence| **evidence != Evidence::default()) else {
        return Value::Null;
    };
    let known = serde_json::to_value(evidence).expect("evidence is plain data with text keys");
    with_fixed_keys(known)
}

fn with_fixed_keys(known: Value) -> Value {
    let Value::Object(mut known) = known else { return known };
    let mut out = Map::new();
    for key in ["signal", "exit_code", "syscall", "fingerprint", "limit", "parts", "inferred", "layers"] {
        let absent = || match key {
            "inferred" => Value::Bool(false),
            "layers" => Value::Array(Vec::new()),
            _ => Value::Null,
        };
        out.insert(key.to_owned(), known.shift_remove(key).unwrap_or_else(absent));
    }
    out.append(&mut known);
    Value::Object(out)
}

/// An attempt, with its evidence in the same form as a record's.
fn attempt(attempt: &Attempt) -> Value {
    let mut attempt = attempt.clone();
    if let Some(evidence) = attempt.get_mut("evidence") {
        *evidence = with_fixed_keys(evidence.take());
    }
    attempt
}

/// The equation, as `status` prints it.
pub fn books(books: &Books) -> Value {
    let sources: Vec<Value> = books
        .sources
        .iter()
        .map(|counts| {
            let mut object = Map::new();
            object.insert("name".to_owned(), counts.name.clone().into());
            object.append(&mut self::counts(counts));
            Value::Object(object)
        })
        .collect();
    json!({"sources": sources, "total": counts(&books.total), "balanced": books.balanced})
}

/// All that `status` prints: the equation, each source with how its failures stand, the breakers and the last run.
pub fn overview(of: &Overview) -> Value {
    let mut object = books(&of.books);
    for source in object["sources"].as_array_mut().into_iter().flatten() {
        let standing = source["name"].as_str().and_then(|name| of.standings.get(name));
        let Value::Object(mut more) = self::standing(&standing.cloned().unwrap_or_default()) else {
            continue;
        };
        if let Value::Object(source) = source {
            source.append(&mut more);
        }
    }
    if let Value::Object(map) = &mut object {
        map.insert("breakers".to_owned(), of.breakers.iter().map(breaker).collect());
        map.insert("last_run".to_owned(), of.last_run.as_ref().map_or(Value::Null, last_run));
    }
    object
}

fn standing(standing: &Standing) -> Value {
    json!({
        "oldest_failure": standing.oldest_failure.map(time::utc),
        "due_now": standing.due.now,
        "next_due": standing.next_due.map(time::utc),
        "due": {
            "now": standing.due.now,
            "within_hour": standing.due.within_hour,
            "within_day": standing.due.within_day,
            "later": standing.due.later,
        },
    })
}

fn breaker(breaker: &BreakerView) -> Value {
    json!({
        "scope": breaker.scope,
        "name": breaker.name,
        "state": breaker.state,
        "kind": breaker.kind,
        "message": breaker.message.as_deref().map(capped),
        "since": breaker.since.map(time::utc),
        "next_probe": breaker.next_probe.map(time::utc),
        "failures": breaker.failures,
    })
}

fn last_run(run: &RunRow) -> Value {
    json!({
        "began": time::utc(run.began),
        "ended": run.ended.map(time::utc),
        "outcome": run.end.map(crate::ledger::RunEnd::name),
    })
}

fn counts(counts: &Counts) -> Map<String, Value> {
    let pairs: [(&str, Value); 9] = [
        ("discovered", counts.discovered.into()),
        ("indexed", counts.indexed.into()),
        ("suspect", counts.suspect.into()),
        ("retrying", counts.retrying.into()),
        ("quarantined", counts.quarantined.into()),
        ("excluded", counts.excluded.into()),
        ("pending", counts.pending.into()),
        ("deleted", counts.deleted.into()),
        ("coverage", coverage(counts).into()),
    ];
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// The share of what can be indexed that is; 1 of nothing.
pub fn coverage(counts: &Counts) -> f64 {
    match counts.discovered.saturating_sub(counts.excluded) {
        0 => 1.0,
        #[expect(clippy::cast_precision_loss, reason = "counts of documents stay far below 2^53")]
        wanted => counts.indexed as f64 / wanted as f64,
    }
}

/// A hit, as `search` prints it.
pub fn hit(source: &str, record: &Record, stale: bool, score: f32, snippet: &str) -> Value {
    json!({
        "id": record.id.to_string(),
        "source": source,
        "path": record.identity.shown(),
        "state": record.state,
        "stale": stale,
        "score": score,
        "snippet": snippet,
    })
}

/// One line of JSON.
pub fn line(value: &Value) -> String {
    value.to_string()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::ledger::{SourceId, TextFacts, Usage};
    use crate::rules::kind::{Class, Kind, Stage, State, Why};
    use shared::{ContentHash, DocumentId, Identity};

    pub(crate) fn sample() -> Record {
        let identity = Identity::item(b"mail/a.eml").member(b"q3-\xff.pdf", 0);
        let container = DocumentId::derive("docs", &Identity::item(b"mail/a.eml"));
        Record {
            id: DocumentId::derive("docs", &identity),
            source: SourceId(1),
            identity,
            parent: Some(container),
            root: container,
            position: 0,
            revision: 4,
            state: State::Quarantined,
            why: Some(Why::Permanent),
            class: Some(Class::Permanent),
            kind: Some(Kind::CrashSegv),
            stage: Some(Stage::Extract),
            message: Some("the child died by SIGSEGV".to_owned()),
            hostile: false,
            format: Some("pdf".to_owned()),
            media_type: Some("application/pdf".to_owned()),
            size: Some(1234),
            sha256: Some(ContentHash::of(b"x")),
            mtime_ns: Some(1_700_000_000_123_456_789),
            stat: None,
            attempts: 1,
            crashes: 0,
            alone: false,
            tried: 0,
            large: None,
            first_seen: 1_700_000_000_000,
            first_failed: Some(1_700_000_001_000),
            last_attempt: Some(1_700_000_001_000),
            next_attempt: None,
            pipeline: [(Stage::Extract, "pdf-1".to_owned())].into(),
            damage: None,
            same_as: None,
            in_sink: Some(InSink {
                sink: "embedded".to_owned(),
                sha256: Some(ContentHash::of(b"old")),
                pipeline: [(Stage::Extract, "pdf-0".to_owned())].into(),
                text: ContentHash::of(b"text"),
                state: State::Indexed,
            }),
            unsent: None,
            text: Some(TextFacts { chars: 10, words: 2, language: None, quality: 0.5 }),
            usage: Some(Usage { wall_ms: 5, cpu_ms: 4, peak_rss_kib: 999 }),
            evidence: Some(Evidence {
                signal: Some("SIGSEGV".to_owned()),
                place: Some("a.rs:1".to_owned()),
                ..Evidence::default()
            }),
            rested: None,
            task: None,
            fetched: true,
            listed_whole: None,
            listed: None,
            requeued_at: None,
        }
    }

    #[test]
    fn every_key_is_there_in_its_order() {
        let object = record("docs", &sample());
        let keys: Vec<&String> = object.as_object().unwrap().keys().collect();
        assert_eq!(keys, COLUMNS);
        let mut bare = sample();
        (bare.text, bare.usage, bare.in_sink, bare.message) = (None, None, None, None);
        bare.evidence = Some(Evidence::default());
        let bare = record("docs", &bare);
        assert_eq!(bare.as_object().unwrap().len(), COLUMNS.len());
        assert_eq!(bare["evidence"], Value::Null);
        let mut changed = sample();
        changed.fetched = false;
        assert_eq!(record("docs", &changed)["sha256"], Value::Null);
    }

    #[test]
    fn a_record_reads_as_the_contract_says() {
        let expected = concat!(
            r#"{"id":"ID","source":"docs","path":"mail/a.eml!/q3-�.pdf","path_bytes":"bWFpbC9hLmVtbCEvcTMt/y5wZGY=","#,
            r#""parent":"PARENT","state":"quarantined","why":"permanent","class":"permanent","kind":"crash.segv","#,
            r#""stage":"extract","message":"the child died by SIGSEGV","hostile":false,"format":"pdf","#,
            r#""media_type":"application/pdf","size":1234,"#,
            r#""sha256":"2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881","#,
            r#""mtime":"2023-11-14T22:13:20.123Z","attempts":1,"first_seen":"2023-11-14T22:13:20.000Z","#,
            r#""first_failed":"2023-11-14T22:13:21.000Z","last_attempt":"2023-11-14T22:13:21.000Z","next_attempt":null,"#,
            r#""pipeline":{"extract":"pdf-1"},"damage":null,"same_as":null,"in_sink":{"sink":"embedded","#,
            r#""sha256":"OLD","pipeline":{"extract":"pdf-0"}},"#,
            r#""text":{"chars":10,"words":2,"language":null,"quality":0.5},"#,
            r#""usage":{"wall_ms":5,"cpu_ms":4,"peak_rss_kib":999},"#,
            r#""evidence":{"signal":"SIGSEGV","exit_code":null,"syscall":null,"fingerprint":null,"limit":null,"#,
            r#""parts":null,"inferred":false,"layers":[],"place":"a.rs:1"}}"#,
        );
        let sample = sample();
        let expected = expected
            .replace("ID", &sample.id.to_string())
            .replace("PARENT", &sample.parent.unwrap().to_string())
            .replace("OLD", &ContentHash::of(b"old").to_string());
        assert_eq!(line(&record("docs", &sample)), expected);
    }

    #[test]
    fn a_message_is_capped_at_its_limit() {
        let mut long = sample();
        long.message = Some("ä".repeat(MESSAGE_MAX));
        assert_eq!(record("docs", &long)["message"].as_str().unwrap().len(), MESSAGE_MAX);
    }

    #[test]
    fn the_history_follows_and_its_evidence_has_the_same_form() {
        let history =
            vec![json!({"attempt": 1, "evidence": {"place": "x"}}), json!({"attempt": 2, "evidence": null})];
        let object = record_with_history("docs", &sample(), &history);
        assert_eq!(object.as_object().unwrap().keys().next_back().unwrap(), "history");
        assert_eq!(object["history"][0]["evidence"]["layers"], json!([]));
        assert_eq!(object["history"][1]["evidence"], Value::Null);
    }

    #[test]
    fn the_equation_reads_as_the_contract_says() {
        let counts = Counts {
            name: "a".to_owned(),
            discovered: 4,
            indexed: 1,
            excluded: 2,
            pending: 1,
            ..Counts::default()
        };
        let nothing = Counts::default();
        let books = Books { sources: vec![counts], total: nothing, balanced: true, differences: vec![] };
        assert_eq!(
            line(&super::books(&books)),
            concat!(
                r#"{"sources":[{"name":"a","discovered":4,"indexed":1,"suspect":0,"retrying":0,"quarantined":0,"excluded":2,"#,
                r#""pending":1,"deleted":0,"coverage":0.5}],"total":{"discovered":0,"indexed":0,"suspect":0,"retrying":0,"#,
                r#""quarantined":0,"excluded":0,"pending":0,"deleted":0,"coverage":1.0},"balanced":true}"#
            )
        );
    }
}
