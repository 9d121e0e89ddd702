//! A ledger of any size, made by events alone, with a mix of states as a share has it: most documents indexed, some failed in
//! a dozen ways, some shut out, some gone.

use shared::{ContentHash, DocumentId, Identity};
use std::path::Path;
use supervisor::ledger::{
    Change, Durability, Event, Facts, InSink, Ledger, LedgerError, Millis, Pipeline, Seen, Settle, SourceRow,
    Stat, TextFacts, Usage,
};
use supervisor::rules::fault::{Evidence, Fault, Limit};
use supervisor::rules::kind::{Kind, Stage, State, Why};

/// When the first of the documents was seen.
pub const BEGAN: Millis = 1_700_000_000_000;
/// Documents of one transaction.
const BATCH: u64 = 1000;
/// Documents of one folder.
const FOLDER: u64 = 400;

/// Makes a ledger in `state` with so many documents, in two sources.
///
/// # Errors
/// It cannot be made or written.
pub fn fill(state: &Path, documents: u64) -> Result<(), LedgerError> {
    let ledger = Ledger::open(state)?;
    let handle = ledger.handle();
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime can be made");
    let sources = runtime.block_on(async {
        let first = handle.source("contracts", Path::new("/srv/contracts")).await?;
        Ok::<_, LedgerError>([first, handle.source("mail", Path::new("/srv/mail")).await?])
    })?;
    for begin in (0..documents).step_by(usize::try_from(BATCH).expect("it is small")) {
        let events = (begin..documents.min(begin + BATCH)).flat_map(|n| life(&sources, n)).collect();
        handle.append_blocking(events, Durability::Journal)?;
    }
    ledger.close()
}

/// All events of the document of this number.
fn life(sources: &[SourceRow; 2], n: u64) -> Vec<Event> {
    let source = &sources[usize::from(n / 200 % 10 == 9)];
    let path = format!("department-{:04}/{:02}/document number {n:07}.pdf", n / FOLDER, n % FOLDER / 40);
    let identity = Identity::item(path.as_bytes());
    let doc = DocumentId::derive(&source.name, &identity);
    let at = BEGAN + i64::try_from(n).expect("a count of documents");
    let changes = [vec![seen(source, identity, n)], behind(n, at)].concat();
    (0..)
        .zip(changes)
        .map(|(revision, change)| Event {
            doc,
            expects: Some(revision),
            at: at + 5 * i64::try_from(revision).unwrap_or(0),
            change,
        })
        .collect()
}

/// What happened to a document behind its first sight.
fn behind(n: u64, at: Millis) -> Vec<Change> {
    let started = Change::Started { stage: Stage::Fetch, alone: false };
    let fetched = Change::Fetched {
        sha256: bytes_of(n),
        size: 1000 + n % 100_000,
        format: Some("pdf".to_owned()),
        media_type: None,
    };
    let quarantined = |why| Settle::Quarantine { why };
    let later = Settle::Retry { next_attempt: Some(at + i64::try_from(n % 500).unwrap_or(0) * 3_600_000) };
    match n % 200 {
        0..=174 => vec![started, fetched, Change::Ready, written(n, None)],
        175..=177 => vec![started, fetched, Change::Ready, written(n, Some(Kind::ContentNearEmpty))],
        178 => vec![started, fetched, Change::Ready, written(n, None), Change::Gone, Change::Left],
        179 => vec![Change::Gone],
        180..=182 => vec![started, fetched, failed(n, Kind::ParseEncrypted, quarantined(Why::Permanent))],
        183..=184 => vec![started, fetched, failed(n, Kind::ParseMalformed, quarantined(Why::Corrupt))],
        185 => vec![started, fetched, failed(n, Kind::CrashSegv, quarantined(Why::Permanent))],
        186 => vec![started, fetched, failed(n, Kind::MemoryLimit, quarantined(Why::Permanent))],
        187 => vec![started, fetched, failed(n, Kind::FormatUnsupported, quarantined(Why::Permanent))],
        188..=190 => {
            vec![started.clone(), failed(n, Kind::SourceDenied, Settle::Retry { next_attempt: None })]
        }
        191..=192 => {
            vec![started.clone(), failed(n, Kind::TimeWall, later), started, failed(n, Kind::TimeWall, later)]
        }
        193 => vec![started, Change::PutBack],
        194 => vec![started, Change::Lost { stage: Stage::Extract, alone: false, settle: Settle::AtOnce }],
        195 => vec![started, fetched, Change::Ready, written(n, None), Change::RequeuedByHand],
        196 => vec![started, fetched, Change::Ready, written(n, None), Change::Unwritten],
        197 => vec![started, fetched, Change::Ready, written(n, None), rejected()],
        198 => vec![rejected()],
        _ => Vec::new(),
    }
}

fn seen(source: &SourceRow, identity: Identity, n: u64) -> Change {
    let size = 1000 + n % 100_000;
    let mtime_ns = (BEGAN - 1_000_000_000) * 1_000_000 + i64::try_from(n).expect("a count of documents");
    Change::Seen(Box::new(Seen {
        source: source.id,
        identity,
        within: None,
        position: 0,
        size: Some(size),
        mtime_ns: Some(mtime_ns),
        stat: Some(Stat { size, mtime_ns, ctime_ns: mtime_ns, dev: 2049, ino: n }),
        sha256: None,
        fault: None,
        settle: None,
        damage: None,
    }))
}

fn bytes_of(n: u64) -> ContentHash {
    ContentHash::of(&n.to_be_bytes())
}

fn pipeline() -> Pipeline {
    [(Stage::Identify, "1"), (Stage::Extract, "1 lopdf 0.37"), (Stage::Normalise, "1"), (Stage::Check, "1")]
        .map(|(stage, version)| (stage, version.to_owned()))
        .into()
}

fn facts(n: u64) -> Facts {
    Facts {
        sha256: Some(bytes_of(n)),
        format: Some("pdf".to_owned()),
        media_type: Some("application/pdf".to_owned()),
        pipeline: pipeline(),
        text: Some(TextFacts {
            chars: n % 50_000,
            words: n % 9_000,
            language: Some("eng".to_owned()),
            quality: 0.93,
        }),
        usage: Some(Usage { wall_ms: n % 900, cpu_ms: n % 800, peak_rss_kib: 20_000 + n % 9_000 }),
        ..Facts::default()
    }
}

fn evidence() -> Evidence {
    Evidence {
        fingerprint: Some("8c7a64f0e2b1d953".to_owned()),
        limit: Some(Limit { name: "memory".to_owned(), value: 512 << 20, measured: None }),
        layers: ["descriptors", "environment", "no-new-privileges", "landlock"].map(str::to_owned).into(),
        engine: Some("lopdf 0.37".to_owned()),
        ..Evidence::default()
    }
}

fn failed(n: u64, kind: Kind, settle: Settle) -> Change {
    let fault = Fault::new(Stage::Extract, kind, "what the parser said when it gave up").with(evidence());
    Change::Failed { fault: Box::new(fault), settle, facts: Box::new(facts(n)) }
}

fn rejected() -> Change {
    Change::Rejected {
        fault: Box::new(Fault::new(Stage::Discover, Kind::PolicyPath, "policy.exclude matches it")),
    }
}

fn written(n: u64, suspect: Option<Kind>) -> Change {
    let state = if suspect.is_some() { State::Suspect } else { State::Indexed };
    let text = ContentHash::of(&(n + 1_000_000_000).to_be_bytes());
    let in_sink =
        InSink { sink: "embedded".to_owned(), sha256: Some(bytes_of(n)), pipeline: pipeline(), text, state };
    let fault = suspect.map(|kind| Box::new(Fault::new(Stage::Check, kind, "nearly nothing came out of it")));
    Change::Written { state, facts: Box::new(facts(n)), in_sink, fault }
}
