//! Whose result can be had, as a table of what may stand in the way.
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

use super::*;
use crate::ledger::{Change, Event, Facts, InSink, Seen, Settle, SourceId, TextFacts};
use crate::rules::account::{Verdict, apply};
use crate::rules::fault::Fault;
use crate::rules::kind::Why;
use crate::settings::Settings;
use shared::{ContentHash, DocumentId, Identity};

fn document(name: &[u8], changes: Vec<Change>) -> Record {
    let identity = Identity::item(name);
    let doc = DocumentId::derive("s", &identity);
    let seen = Seen::named(SourceId(1), identity);
    let mut record: Option<Record> = None;
    for (n, change) in std::iter::once(Change::Seen(Box::new(seen))).chain(changes).enumerate() {
        let at = 100 * i64::try_from(n).unwrap();
        match apply(record.as_ref(), &Event { doc, expects: None, at, change }) {
            Verdict::Changed(new) => record = Some(*new),
            Verdict::Overtaken => panic!("overtaken"),
        }
    }
    record.unwrap()
}

fn pipeline(extract: &str) -> Pipeline {
    Pipeline::from([(Stage::Identify, "1".to_owned()), (Stage::Extract, extract.to_owned())])
}

fn facts() -> Box<Facts> {
    let text = TextFacts { chars: 1, words: 1, language: None, quality: 1.0 };
    Box::new(Facts {
        sha256: Some(ContentHash::of(b"same")),
        format: Some("pdf".to_owned()),
        pipeline: pipeline("a 1"),
        text: Some(text),
        ..Facts::default()
    })
}

fn started() -> Change {
    Change::Started { stage: Stage::Fetch, alone: false }
}

fn written() -> Change {
    let in_sink = InSink {
        sink: "embedded".to_owned(),
        sha256: Some(ContentHash::of(b"same")),
        pipeline: pipeline("a 1"),
        text: ContentHash::of(b"text"),
        state: State::Indexed,
    };
    Change::Written { state: State::Indexed, facts: facts(), in_sink, fault: None }
}

fn failed(stage: Stage, kind: Kind, settle: Settle) -> Change {
    Change::Failed { fault: Box::new(Fault::new(stage, kind, "")), settle, facts: facts() }
}

const PERMANENT: Settle = Settle::Quarantine { why: Why::Permanent };

fn shared(of: &Record, whom: &Record) -> Option<Share> {
    shared_as(of, whom, Format::Pdf, "a 1")
}

fn shared_as(of: &Record, whom: &Record, format: Format, extract: &str) -> Option<Share> {
    let settings = Settings::default();
    share(of, whom, format, &pipeline(extract), Present { settings: &settings, large: false })
}

#[test]
fn a_text_is_shared_until_it_has_left_the_sink() {
    let whom = document(b"new", vec![]);
    let mut of = document(b"old", vec![started(), written()]);
    assert_eq!(shared(&of, &whom), Some(Share::Text));
    assert_eq!(shared(&of, &of), None, "not with itself");
    assert_eq!(shared_as(&of, &whom, Format::Text, "a 1"), None, "another format has another text");
    assert_eq!(shared_as(&of, &whom, Format::Pdf, "a 2"), None, "another version as well");
    let leaving = document(b"old", vec![started(), written(), Change::Gone]);
    assert_eq!(shared(&leaving, &whom), Some(Share::Text), "it was moved");
    let gone = document(b"old", vec![started(), written(), Change::Gone, Change::Left]);
    assert_eq!(shared(&gone, &whom), None);
    of.listed_whole = Some(true);
    assert_eq!(shared(&of, &whom), None, "what has members is a place of its own");
}

#[test]
fn a_fault_of_the_content_is_shared_and_no_other() {
    let whom = document(b"new", vec![]);
    for (stage, kind, expected) in [
        (Stage::Extract, Kind::CrashSegv, Some(Share::Fault)),
        (Stage::Recognise, Kind::TimeCpu, Some(Share::Fault)),
        (Stage::Extract, Kind::InternalPanic, None),
        (Stage::Fetch, Kind::SourceIo, None),
        (Stage::Write, Kind::SinkRejected, None),
    ] {
        let of = document(b"old", vec![started(), failed(stage, kind, PERMANENT)]);
        assert_eq!(shared(&of, &whom), expected, "{kind}");
    }
    let gone = |kind, facts| {
        let fault = Box::new(Fault::new(Stage::Extract, kind, ""));
        document(b"old", vec![started(), Change::Failed { fault, settle: PERMANENT, facts }, Change::Gone])
    };
    let no_text = || Box::new(Facts { text: None, ..*facts() });
    assert_eq!(shared(&gone(Kind::CrashSegv, no_text()), &whom), Some(Share::Fault), "it was moved");
    assert_eq!(
        shared_as(&gone(Kind::CrashSegv, no_text()), &whom, Format::Pdf, "a 2"),
        None,
        "another version"
    );
    assert_eq!(shared(&gone(Kind::CrashSegv, facts()), &whom), None, "there was a text, and it is gone");
    assert_eq!(shared(&gone(Kind::TimeWall, no_text()), &whom), None, "it may end well");
    let later = Settle::Retry { next_attempt: Some(9) };
    let retrying = document(b"old", vec![started(), failed(Stage::Extract, Kind::TimeWall, later)]);
    assert_eq!(shared(&retrying, &whom), None, "it may end well");
}

#[test]
fn what_a_person_wants_tried_again_takes_nothing_of_before() {
    let old = document(b"old", vec![started(), written()]);
    let asked = document(b"new", vec![Change::RequeuedByHand]);
    assert_eq!(asked.requeued_at, Some(100));
    assert_eq!(shared(&old, &asked), None);
    let again = document(b"old", vec![started(), written(), Change::RequeuedByHand, started(), written()]);
    assert_eq!(shared(&again, &asked), Some(Share::Text), "it was made since");
    let waiting = document(b"old", vec![started(), written(), Change::RequeuedByHand]);
    assert_eq!(shared(&waiting, &document(b"new", vec![])), None, "its own result is in doubt");
}
