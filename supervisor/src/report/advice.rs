//! One sentence on a document for whoever looks at it: what is due next and why not before, or what to do.

use super::time::local;
use crate::ledger::{Record, Task};
use crate::rules::due::PAGES;
use crate::rules::kind::{Damage, Kind, Stage, State, Why};
use crate::rules::versions::NONE;
use jiff::tz::TimeZone;

/// The sentence; times in `zone`.
pub fn advice(record: &Record, zone: &TimeZone) -> String {
    let id: String = record.id.to_string().chars().take(super::table::ID_SHOWN).collect();
    match record.state {
        State::Indexed => "Nothing: it is read again when its bytes change.".to_owned(),
        State::Suspect => suspect(record, &id),
        State::Retrying => retrying(record, &id, zone),
        State::Quarantined => quarantined(record, &id),
        State::Excluded => excluded(record),
        State::Pending => pending(record).to_owned(),
        State::Deleted => {
            "Nothing: it is gone from the source, and taken up again if it comes back.".to_owned()
        }
    }
}

fn pending(record: &Record) -> &'static str {
    match record.task {
        Some(Task::Delete | Task::Exclude) => {
            "Nothing: it is leaving the index, and the next `lazaret run`, or the one that is on, finishes that."
        }
        Some(Task::Large) => {
            "Nothing: it met a limit, and is tried once more under those of the large lane at the end of the next \
             `lazaret run`, or of the one that is on."
        }
        Some(Task::Write { .. }) => {
            "Nothing: its kept text is written again by the next `lazaret run`, or the one that is on."
        }
        Some(Task::Carry) | None => "Nothing: the next `lazaret run`, or the one that is on, takes it up.",
    }
}

fn suspect(record: &Record, id: &str) -> String {
    if let Some(sentence) = raise_the_limit(record) {
        return sentence;
    }
    if record.pipeline.get(&Stage::Recognise).is_some_and(|version| version == NONE) {
        return "Install tesseract, and the next run takes it: its pages are pictures, and nothing here recognises text. \
                `lazaret doctor` tells what is missing."
            .to_owned();
    }
    if matches!(record.kind, Some(Kind::ParseMalformed | Kind::ParseTruncated)) {
        return format!("{} What could be read is in the index, flagged.", sound_copy(record));
    }
    format!(
        "Compare `lazaret text {id}` with the document: what is in the index may not be its text. It is carried again when its \
         bytes change, or with `lazaret retry --id {id}`."
    )
}

fn retrying(record: &Record, id: &str, zone: &TimeZone) -> String {
    let attempts = super::style::count(record.attempts.into(), "attempt", "attempts");
    match (record.kind, record.next_attempt) {
        _ if record.alone => {
            "Nothing: the next run tries it with nothing beside it, since the supervisor died while it had it.".to_owned()
        }
        _ if record.unsent.is_some() => {
            "Nothing, once the index can be written to: its text is kept, and a later run writes it without extracting it again."
                .to_owned()
        }
        (Some(Kind::SourceDenied), None) => {
            "Give lazaret the right to read it: every run tries to open it once, for as long as it takes; while its source's \
             breaker is open, one document for all."
                .to_owned()
        }
        (Some(Kind::ExtractorBroken), _) => {
            "Mend its extractor: the next run probes it, and takes all that wait for it when it works.".to_owned()
        }
        (_, Some(at)) => format!(
            "Nothing: a run at {} or later tries it again, not before ({attempts} so far); `lazaret retry --id {id}` makes it due at once.",
            local(at, zone)
        ),
        (_, None) => "Nothing: the next run tries it again.".to_owned(),
    }
}

fn quarantined(record: &Record, id: &str) -> String {
    if record.why == Some(Why::GaveUp) {
        let attempts = super::style::count(record.attempts.into(), "attempt", "attempts");
        return format!(
            "Find out what is in its way: {attempts} came to nothing, and no more is made until its bytes change or \
             `lazaret retry --id {id}` says so."
        );
    }
    if let Some(sentence) = raise_the_limit(record) {
        return sentence;
    }
    match record.kind {
        Some(Kind::ParseEncrypted) => {
            "Put its password into the file that `passwords.file` names, and the next run tries it: without it the same bytes \
             stay closed."
                .to_owned()
        }
        Some(Kind::FormatUnsupported) => {
            "Nothing here reads its format: it becomes due when an engine for it appears.".to_owned()
        }
        Some(Kind::ExtractorUnavailable) => {
            "Install the engine that its format needs: then it becomes due. `lazaret doctor` tells what is missing.".to_owned()
        }
        Some(Kind::SinkRejected) => {
            format!("See why the sink does not take it, then `lazaret retry --id {id}`: it would be refused again.")
        }
        Some(Kind::InternalPanic) => {
            "Report it: this is a bug of lazaret, and the same bytes would meet it again.".to_owned()
        }
        Some(Kind::ParseMalformed | Kind::ParseTruncated | Kind::ContentGarbled) => sound_copy(record),
        _ if record.hostile => {
            format!("Ask where it comes from: no honest document does this. `lazaret list --kind {}` shows its like.", kind(record))
        }
        _ => format!(
            "It waits for another version of its extractor: the same bytes would fail in the same way again. \
             `lazaret retry --id {id}` tries all the same."
        ),
    }
}

fn sound_copy(record: &Record) -> String {
    let at = match record.damage {
        Some(Damage::Source) => "at the source, a second fetch gave the same",
        Some(Damage::Transfer) => "on the way, a second fetch gave others",
        None => "and would fail in the same way again",
    };
    format!("Put a sound copy in its place, and the next run takes it: its bytes are damaged, {at}.")
}

fn excluded(record: &Record) -> String {
    if let Some(sentence) = raise_the_limit(record) {
        return sentence;
    }
    let setting = match record.kind {
        Some(Kind::PolicyEmptyFile) => return "Nothing: it is taken when it has bytes.".to_owned(),
        Some(Kind::PolicySpecialFile) => {
            return "Nothing: only regular files are read; links are not followed.".to_owned();
        }
        Some(Kind::PolicyTooOld) => "policy.max_age",
        Some(Kind::PolicyType) => "policy.types",
        _ => "policy.include` and `policy.exclude",
    };
    format!("Nothing, if that is meant: `{setting}` keeps it out, and the first run without that takes it.")
}

/// Of what met a limit of `[limits]`.
fn raise_the_limit(record: &Record) -> Option<String> {
    let limit = record.evidence.as_ref()?.limit.as_ref().filter(|limit| limit.name != "max_age")?;
    let (setting, value) = as_set(&limit.name, limit.value);
    Some(format!(
        "Raise `{setting}`, if the document is worth it: it becomes due with the first run that allows more than {value}; the \
         same limit would be met again."
    ))
}

/// A limit's setting, and its value as one writes it there.
fn as_set(name: &str, value: u64) -> (String, String) {
    const MIB: u64 = 1 << 20;
    let setting = match name {
        PAGES => name.to_owned(),
        _ => format!("limits.{}", name.strip_suffix("_ms").unwrap_or(name)),
    };
    let value = match name {
        "input" | "memory" | "output" | "expansion" if value.is_multiple_of(MIB) => {
            format!("{}MiB", value / MIB)
        }
        "input" | "memory" | "output" | "expansion" => format!("{value} bytes"),
        _ if !name.ends_with("_ms") => value.to_string(),
        _ if value.is_multiple_of(1_000) => format!("{}s", value / 1_000),
        _ => format!("{value}ms"),
    };
    (setting, value)
}

fn kind(record: &Record) -> &'static str {
    record.kind.map_or("", Kind::name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::json::tests::sample;
    use crate::rules::fault::{Evidence, Limit};

    fn told(change: impl FnOnce(&mut Record)) -> String {
        let mut record = sample();
        change(&mut record);
        advice(&record, &TimeZone::UTC)
    }

    #[test]
    fn every_state_and_kind_has_one_sentence() {
        for &state in State::ALL {
            for &kind in Kind::ALL {
                let sentence = told(|record| (record.state, record.kind) = (state, Some(kind)));
                assert!(sentence.ends_with('.') && !sentence.contains("  "), "{state} {kind}: {sentence}");
            }
        }
    }

    #[test]
    fn what_is_due_says_when_and_what_waits_says_for_what() {
        let due = told(|record| {
            (record.state, record.next_attempt, record.attempts) =
                (State::Retrying, Some(1_700_000_000_000), 2);
            record.kind = Some(Kind::TimeWall);
        });
        assert!(due.contains("a run at 2023-11-14 22:13:20 or later") && due.contains("2 attempts"), "{due}");
        let limit = Limit { name: "memory".to_owned(), value: 512, measured: None };
        let limited = told(|record| {
            record.evidence = Some(Evidence { limit: Some(limit), ..Evidence::default() });
        });
        assert!(limited.contains("`limits.memory`") && limited.contains("512 bytes"), "{limited}");
        assert_eq!(as_set("cpu_ms", 8_000), ("limits.cpu".to_owned(), "8s".to_owned()));
        assert_eq!(as_set("stalled_ms", 1_500), ("limits.stalled".to_owned(), "1500ms".to_owned()));
        assert_eq!(as_set("memory", 2 << 30), ("limits.memory".to_owned(), "2048MiB".to_owned()));
        assert_eq!(as_set("ratio", 200), ("limits.ratio".to_owned(), "200".to_owned()));
        assert_eq!(as_set(PAGES, 200), ("recognise.pages".to_owned(), "200".to_owned()));
        let scanned = told(|record| {
            record.state = State::Suspect;
            record.pipeline.insert(Stage::Recognise, NONE.to_owned());
        });
        assert!(scanned.starts_with("Install tesseract"), "{scanned}");
        let gave_up = told(|record| record.why = Some(Why::GaveUp));
        assert!(gave_up.contains("1 attempt came to nothing"), "{gave_up}");
        let leaving = told(|record| (record.state, record.task) = (State::Pending, Some(Task::Delete)));
        assert!(leaving.contains("leaving"), "{leaving}");
        let damaged = told(|record| {
            (record.kind, record.damage) = (Some(Kind::ParseTruncated), Some(Damage::Source));
        });
        assert!(damaged.contains("damaged, at the source"), "{damaged}");
    }
}
