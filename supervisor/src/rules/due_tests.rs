//! What makes a document due, and what does not, as a table.
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

use super::*;
use crate::ledger::{Change, Event, Facts, Seen, Settle, SourceId};
use crate::rules::account::{Verdict, apply};
use crate::rules::fault::{Evidence, Fault, Limit};
use crate::rules::kind::Why;
use shared::{DocumentId, Identity};

fn pipeline(stages: &[(Stage, &str)]) -> Pipeline {
    stages.iter().map(|(stage, version)| (*stage, (*version).to_owned())).collect()
}

fn made_with() -> Pipeline {
    pipeline(&[(Stage::Identify, "1"), (Stage::Extract, "a 1"), (Stage::Normalise, "1"), (Stage::Check, "1")])
}

fn step(record: Option<&Record>, change: Change) -> Record {
    let doc = DocumentId::derive("s", &Identity::item(b"a.pdf"));
    match apply(record, &Event { doc, expects: None, at: 1, change }) {
        Verdict::Changed(record) => *record,
        Verdict::Overtaken => panic!("overtaken"),
    }
}

/// A document that failed like this.
fn failed(fault: Fault, made: Pipeline) -> Record {
    let seen = Seen::named(SourceId(1), Identity::item(b"a.pdf"));
    let new = step(None, Change::Seen(Box::new(seen)));
    let facts = Facts { pipeline: made, format: Some("pdf".to_owned()), ..Facts::default() };
    let settle = Settle::Quarantine { why: Why::Permanent };
    step(Some(&new), Change::Failed { fault: Box::new(fault), settle, facts: Box::new(facts) })
}

fn is_due(record: &Record, current: &Pipeline, settings: &Settings) -> bool {
    due(record, current, Present { settings, large: true }).is_some()
}

fn changed(stage: Stage, version: &str) -> Pipeline {
    let mut current = made_with();
    current.insert(stage, version.to_owned());
    current
}

#[test]
fn another_version_makes_due_what_failed_in_that_stage_or_behind_it() {
    let settings = Settings::default();
    let of = |stage, kind| failed(Fault::new(stage, kind, ""), made_with());
    let (crash, empty) = (of(Stage::Extract, Kind::CrashSegv), of(Stage::Check, Kind::ContentEmpty));
    for (record, current, expected) in [
        (&crash, made_with(), false),
        (&crash, changed(Stage::Extract, "a 2"), true),
        (&crash, changed(Stage::Identify, "2"), true),
        (&crash, changed(Stage::Check, "2"), false),
        (&empty, made_with(), false),
        (&empty, changed(Stage::Check, "2"), true),
        (&empty, changed(Stage::Extract, "a 2"), true),
        (&empty, changed(Stage::Recognise, "tesseract 5"), false),
    ] {
        assert_eq!(is_due(record, &current, &settings), expected, "{:?} {current:?}", record.kind);
    }
    // A fault that no stage of ours has a version for.
    let denied = of(Stage::Fetch, Kind::SourceIo);
    assert!(!is_due(&denied, &changed(Stage::Identify, "2"), &settings));
}

#[test]
fn a_failure_to_have_the_bytes_does_not_stand_once_they_are_had() {
    let settings = Settings::default();
    let present = Present { settings: &settings, large: true };
    let bytes = ContentHash::of(b"v1");
    let stand = |record: &Record| stands(record, bytes, &made_with(), present);
    for (stage, kind, expected) in [
        (Stage::Extract, Kind::CrashSegv, true),
        (Stage::Extract, Kind::TimeStalled, true),
        (Stage::Fetch, Kind::SupervisorLost, true),
        (Stage::Fetch, Kind::SourceIo, false),
        (Stage::Fetch, Kind::TransferDamaged, false),
        (Stage::Extract, Kind::ExtractorBroken, false),
    ] {
        let of = failed(Fault::new(stage, kind, ""), made_with());
        let known = Record { sha256: Some(bytes), fetched: true, ..of };
        let retrying = Record { state: State::Retrying, why: None, ..known.clone() };
        assert_eq!((stand(&known), stand(&retrying)), (expected, expected), "{kind}");
        let of_bytes_before = Record { fetched: false, ..known };
        assert!(!stand(&of_bytes_before), "{kind}");
    }
}

#[test]
fn an_engine_that_appears_makes_due_what_had_none() {
    let settings = Settings::default();
    let made = pipeline(&[(Stage::Identify, "1")]);
    let unread = failed(Fault::new(Stage::Identify, Kind::FormatUnsupported, ""), made.clone());
    assert!(!is_due(&unread, &made, &settings));
    assert!(is_due(&unread, &made_with(), &settings));
    let made = pipeline(&[(Stage::Identify, "1"), (Stage::Recognise, versions::NONE)]);
    let picture = failed(Fault::new(Stage::Recognise, Kind::ExtractorUnavailable, ""), made.clone());
    assert!(!is_due(&picture, &made, &settings));
    let current = pipeline(&[(Stage::Identify, "1"), (Stage::Recognise, "tesseract 5"), (Stage::Check, "1")]);
    assert!(is_due(&picture, &current, &settings));
}

#[test]
fn a_limit_makes_due_what_met_it_below_its_new_value_and_nothing_else() {
    let limit = Limit { name: "memory".to_owned(), value: 2 << 30, measured: None };
    let evidence = Evidence { limit: Some(limit), ..Evidence::default() };
    let record = failed(Fault::new(Stage::Extract, Kind::MemoryLimit, "").with(evidence), made_with());
    let of = |memory: u64, large: u64, cpu: u64| {
        let mut settings = Settings::default();
        (settings.limits.memory, settings.large.memory, settings.limits.cpu_ms) = (memory, large, cpu);
        settings
    };
    for (settings, expected) in [
        (of(512 << 20, 2 << 30, 30_000), false),
        (of(512 << 20, 2 << 30, 90_000), false),
        (of(512 << 20, (2 << 30) + 1, 30_000), true),
        (of(4 << 30, 4 << 30, 30_000), true),
        (of(1 << 20, 1 << 20, 30_000), false),
    ] {
        assert_eq!(is_due(&record, &made_with(), &settings), expected, "{:?}", settings.limits.memory);
    }
    // Where only the large lane has more, only that can help.
    for (normal, large, expected) in [(512 << 20, 8 << 30, Due::Large), (4 << 30, 8 << 30, Due::Itself)] {
        let settings = of(normal, large, 30_000);
        let present = Present { settings: &settings, large: true };
        assert_eq!(due(&record, &made_with(), present), Some(expected));
    }
    // Without a large lane its limits help nobody.
    let present = Present { settings: &of(512 << 20, 8 << 30, 30_000), large: false };
    assert_eq!(due(&record, &made_with(), present), None);
}

#[test]
fn every_limit_has_its_value() {
    let limits = Limits::default();
    for (name, value) in [
        ("input", limits.input),
        ("fetch_ms", limits.fetch_ms),
        ("wall_ms", limits.wall_ms),
        ("stalled_ms", limits.stalled_ms),
        ("cpu_ms", limits.cpu_ms),
        ("memory", limits.memory),
        ("output", limits.output),
        ("expansion", limits.expansion),
        ("ratio", limits.ratio),
        ("depth", 8),
        ("entries", limits.entries),
    ] {
        assert_eq!(value_of(name, &limits), Some(value));
    }
    assert_eq!(value_of("else", &limits), None);
}

#[test]
fn other_passwords_make_due_what_was_locked() {
    let settings = Settings { passwords: vec!["secret".to_owned()], ..Settings::default() };
    let evidence = Evidence { passwords: settings.passwords_mark(), ..Evidence::default() };
    let locked = failed(Fault::new(Stage::Extract, Kind::ParseEncrypted, "").with(evidence), made_with());
    assert!(!is_due(&locked, &made_with(), &settings));
    let more = Settings { passwords: vec!["secret".to_owned(), "open".to_owned()], ..Settings::default() };
    assert!(is_due(&locked, &made_with(), &more));
    assert!(is_due(&locked, &made_with(), &Settings::default()));
    let crash = failed(Fault::new(Stage::Extract, Kind::CrashSegv, ""), made_with());
    assert!(!is_due(&crash, &made_with(), &more));
}

#[test]
fn a_member_that_was_left_out_makes_its_container_due() {
    let limit = Limit { name: "entries".to_owned(), value: 10, measured: None };
    let evidence = Evidence { limit: Some(limit), ..Evidence::default() };
    let fault = Fault::new(Stage::Discover, Kind::PolicyEntries, "").with(evidence);
    let mut record = failed(fault, made_with());
    record.state = State::Excluded;
    record.parent = Some(DocumentId([1; 20]));
    let mut settings = Settings::default();
    let asked =
        |record: &Record, settings: &Settings| due(record, &made_with(), Present { settings, large: true });
    assert_eq!(asked(&record, &settings), Some(Due::Container));
    settings.limits.entries = 10;
    settings.large.entries = 10;
    assert_eq!(asked(&record, &settings), None);
    record.parent = None;
    settings.limits.entries = 11;
    assert_eq!(asked(&record, &settings), None, "an item is judged by each listing");
}

#[test]
fn a_format_that_is_let_in_again_is_due() {
    let mut record = failed(Fault::new(Stage::Identify, Kind::PolicyType, ""), made_with());
    record.state = State::Excluded;
    let mut settings = Settings::default();
    settings.policy.types = Some(vec![Format::Docx]);
    assert!(!is_due(&record, &made_with(), &settings));
    assert_eq!(is_rejected(&record, &settings).unwrap().kind, Kind::PolicyType);
    settings.policy.types = Some(vec![Format::Docx, Format::Pdf]);
    assert!(is_due(&record, &made_with(), &settings));
    assert!(is_rejected(&record, &settings).is_none());
}
