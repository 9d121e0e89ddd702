//! The way of one document: fetch → identify → extract → normalise → check. What comes out is a [`Carried`]; nothing is
//! claimed here: the writer makes it true, then the ledger says so.
//!
//! A document meets the stages in one function, [`carry`]. It asks [`crate::rules`] what to think of what it sees, and touches
//! neither the sink nor the ledger. What has members is a tree, see [`tree`].

pub mod collect;

pub mod spool;

pub mod tree;

use crate::ledger::{Facts, Listed, Pipeline, Record, Stat};
use crate::pool::{Ending, Job, JobLimits, Outcome, Pool};
use crate::rules::budget::Budget;
use crate::rules::check;
use crate::rules::fault::{Evidence, Fault};
use crate::rules::identify::identify;
use crate::rules::kind::{Kind, Stage, State};
use crate::rules::normalise;
use crate::rules::policy;
use crate::settings::{Check, Settings};
use crate::source::fetch::{self, Fetch, Fetched};
use collect::{Collector, Member, Spooled};
use shared::format::Role;
use shared::{ContentHash, End, Format, Limits, Metadata, Refused, Work, versions};
use spool::Spool;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What every document of a run is carried with.
#[derive(Debug)]
pub struct Means {
    pub settings: Settings,
    pub pool: Pool,
    /// Members wait here.
    pub spool: PathBuf,
    /// Documents up to this size are held in memory: bytes.
    pub memory_cap: u64,
}

/// Where a document's bytes are.
#[derive(Debug, Clone)]
pub enum Place {
    /// An item of this root, at this raw path.
    Item { root: Arc<PathBuf>, path: Vec<u8> },
    /// A member, spooled.
    Member { spool: Option<Arc<Spool>>, bytes: Spooled },
}

/// What came of carrying one document.
#[derive(Debug)]
pub struct Carried {
    pub facts: Facts,
    pub came: Came,
    /// What came out of it, in order. Only with [`Came::Text`].
    pub members: Vec<Member>,
    /// The bytes of `members`.
    pub spool: Option<Arc<Spool>>,
}

/// What came of it.
#[derive(Debug)]
pub enum Came {
    /// A text, perhaps with a doubt.
    Text(Product),
    /// The bytes are those of the last time, and so is everything that a result depends on.
    Same,
    /// A fault of this document.
    Failed(Fault),
    /// Our own disk failed: structural.
    Broken(io::Error),
}

/// A text, and what to think of it.
#[derive(Debug)]
pub struct Product {
    pub text: String,
    pub title: Option<String>,
    /// `indexed` or `suspect`.
    pub state: State,
    /// Why it is `suspect`.
    pub fault: Option<Fault>,
}

/// What to do with a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Errand {
    /// All of it.
    Carry,
    /// Its members' bytes are wanted again; nothing is settled.
    Members,
}

/// A document's bytes, had.
struct Had {
    document: OwnedFd,
    size: u64,
    sha256: ContentHash,
    stat: Option<Stat>,
    head: Vec<u8>,
}

/// Carries one document. `limits` are those of its lane; `budget` is what is left of the outermost item's.
pub async fn carry(means: &Means, record: &Record, place: &Place, errand: Errand, budget: Budget) -> Carried {
    let limits = &means.settings.limits;
    let had = match have(means, place, limits).await {
        Ok(had) => had,
        Err(Trouble::Fault(fault)) => return failed(Facts::default(), *fault),
        Err(Trouble::Broken(error)) => return broken(error),
    };
    let name = record.identity.0.last().map_or(&[][..], |level| &level.name);
    let known = identify(&had.head, had.size, name, means.settings.cage.faults);
    let mut facts = Facts {
        sha256: Some(had.sha256),
        size: Some(had.size),
        stat: had.stat,
        pipeline: pipeline(known.format),
        ..Facts::default()
    };
    note_format(&mut facts, known.format);
    if errand == Errand::Carry && unchanged(record, had.sha256) {
        let facts = Facts { stat: facts.stat, ..Facts::default() };
        return Carried { facts, came: Came::Same, members: Vec::new(), spool: None };
    }
    if let Some(fault) = unread(known.format, &means.settings) {
        return failed(facts, fault);
    }
    let mut collector = Collector::new(&means.spool, budget, means.settings.cage.faults);
    let ending = extract(means, had, known.format, name, errand, &mut collector).await;
    if let Some(error) = collector.broken.take() {
        return broken(error);
    }
    let mut evidence = ending.evidence.clone();
    evidence.extension_mismatch = known.extension_mismatch;
    evidence.metadata = collector.metadata.clone();
    facts.usage = Some(ending.usage);
    let spool = collector.take_spool().map(Arc::new);
    judge(&means.settings.check, facts, evidence, ending, known.format, collector, spool)
}

/// What stands in the way of having the bytes.
enum Trouble {
    Fault(Box<Fault>),
    Broken(io::Error),
}

async fn have(means: &Means, place: &Place, limits: &Limits) -> Result<Had, Trouble> {
    match place {
        Place::Item { root, path } => {
            let fetch = Fetch {
                root,
                path,
                fetch_ms: limits.fetch_ms,
                input_limit: limits.input,
                memory_cap: means.memory_cap,
                spool: &means.spool,
            };
            let Fetched { document, size, sha256, stat, head } =
                fetch::fetch(fetch).await.map_err(trouble)?;
            Ok(Had { document, size, sha256, stat: Some(stat), head })
        }
        Place::Member { spool, bytes } => member(means, spool.as_deref(), bytes).map_err(Trouble::Broken),
    }
}

/// A full disk of ours is no fault of the document.
fn trouble(fault: Fault) -> Trouble {
    let ours = fault.evidence.detail.as_deref() == Some(fetch::OUR_OWN);
    if ours && fault.evidence.errno.as_deref() == Some("ENOSPC") {
        return Trouble::Broken(io::Error::from_raw_os_error(libc::ENOSPC));
    }
    Trouble::Fault(Box::new(fault))
}

fn member(means: &Means, spool: Option<&Spool>, bytes: &Spooled) -> io::Result<Had> {
    let document = match spool {
        Some(spool) => spool.document(&bytes.range, means.memory_cap, &means.spool)?,
        None => fetch::sealed(&[])?,
    };
    let file = File::from(document);
    let length = usize::try_from(bytes.size()).unwrap_or(fetch::HEAD).min(fetch::HEAD);
    let mut head = vec![0; length];
    file.read_exact_at(&mut head, 0)?;
    Ok(Had { document: file.into(), size: bytes.size(), sha256: bytes.sha256, stat: None, head })
}

async fn extract(
    means: &Means,
    had: Had,
    format: Format,
    name: &[u8],
    errand: Errand,
    collector: &mut Collector<'_>,
) -> Ending {
    let limits = &means.settings.limits;
    let name = name.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let job = Job {
        document: had.document,
        size: had.size,
        format,
        work: match errand {
            Errand::Carry => Work::Extract,
            Errand::Members => Work::Members,
        },
        name: name.to_vec(),
        passwords: means.settings.passwords.clone(),
        limits: JobLimits {
            wall_ms: limits.wall_ms,
            stalled_ms: limits.stalled_ms,
            cpu_ms: limits.cpu_ms,
            memory: limits.memory,
            output: limits.output,
        },
    };
    let mut lease = means.pool.lend().await;
    lease.run(job, collector).await
}

fn judge(
    thresholds: &Check,
    mut facts: Facts,
    evidence: Evidence,
    ending: Ending,
    format: Format,
    mut collector: Collector<'_>,
    spool: Option<Arc<Spool>>,
) -> Carried {
    let (format, trouble) = match ending.outcome {
        Outcome::Failed(mut fault) => {
            fault.evidence.extension_mismatch = evidence.extension_mismatch;
            facts.evidence = Some(fault.evidence.clone());
            return failed(facts, fault);
        }
        Outcome::Stopped => (format, collector.over.take().map(|over| over_limit(&over))),
        Outcome::Ended(end) => {
            note_format(&mut facts, end.format);
            (end.format, refused(&end))
        }
    };
    facts.pipeline = pipeline(format);
    let members = std::mem::take(&mut collector.members);
    let text = text_of(format, std::mem::take(&mut collector.text), &members);
    facts.evidence = Some(evidence.clone());
    if let Some(fault) = trouble.as_ref().filter(|fault| hopeless(fault, &text, &members)) {
        let mut fault = fault.clone();
        fault.evidence = Evidence { parts: fault.evidence.parts, ..evidence };
        facts.evidence = Some(fault.evidence.clone());
        return failed(facts, fault);
    }
    if !members.is_empty() || format.role() == Role::Archive {
        facts.listed_whole = Some(trouble.is_none());
        facts.listed = Some(Listed {
            entries: members.len() as u64,
            bytes: members.iter().map(|member| member.bytes.size()).sum(),
        });
    }
    let product =
        product(&mut facts, evidence, format, text, collector.metadata.as_ref(), trouble, thresholds);
    Carried { facts, came: Came::Text(product), members, spool }
}

/// The text with the verdict on it.
fn product(
    facts: &mut Facts,
    mut evidence: Evidence,
    format: Format,
    text: String,
    metadata: Option<&Metadata>,
    trouble: Option<Fault>,
    thresholds: &Check,
) -> Product {
    let raw = check::Raw::of(&text);
    let text = normalise::normalise(text);
    facts.text = Some(normalise::facts(&text));
    let mut fault = trouble;
    if format.role() != Role::Archive {
        let (kind, measures) =
            check::check(&text, &raw, format, facts.size.unwrap_or(0), metadata, thresholds);
        evidence.measures = Some(measures);
        if fault.is_none() {
            fault = kind.map(|kind| Fault::new(Stage::Check, kind, check::explain(kind)));
        }
    }
    if let Some(fault) = &mut fault {
        evidence.limit = fault.evidence.limit.take();
        evidence.parts = fault.evidence.parts.take();
        fault.evidence = evidence.clone();
    }
    facts.evidence = Some(evidence);
    let state = if fault.is_some() { State::Suspect } else { State::Indexed };
    Product { text, title: metadata.and_then(|metadata| metadata.title.clone()), state, fault }
}

/// Whether an honest refusal leaves nothing to use: always for what is encrypted or not supported, else where
/// neither text nor member came out.
fn hopeless(fault: &Fault, text: &str, members: &[Member]) -> bool {
    match fault.kind {
        Kind::ParseEncrypted | Kind::FormatUnsupported => true,
        Kind::ContentUnderExtracted => false,
        _ => members.is_empty() && !text.chars().any(char::is_alphanumeric),
    }
}

fn refused(end: &End) -> Option<Fault> {
    let refusal = end.refusal.as_ref()?;
    let kind = match refusal.why {
        Refused::Encrypted => Kind::ParseEncrypted,
        Refused::Malformed => Kind::ParseMalformed,
        Refused::Truncated => Kind::ParseTruncated,
        Refused::Unsupported => Kind::FormatUnsupported,
    };
    let evidence = Evidence { parts: end.parts, ..Evidence::default() };
    Some(Fault::new(Stage::Extract, kind, refusal.message.clone()).with(evidence))
}

/// What a container is told whose members passed a limit: they were left out behind it.
fn over_limit(over: &Fault) -> Fault {
    let evidence = Evidence { limit: over.evidence.limit.clone(), ..Evidence::default() };
    Fault::new(Stage::Extract, Kind::ContentUnderExtracted, over.message.clone()).with(evidence)
}

/// An archive's text is its members' names.
fn text_of(format: Format, text: String, members: &[Member]) -> String {
    if format.role() != Role::Archive {
        return text;
    }
    let mut names = text;
    for member in members {
        names.push_str(&String::from_utf8_lossy(&member.head.name));
        names.push('\n');
    }
    names
}

/// What no child is asked about.
fn unread(format: Format, settings: &Settings) -> Option<Fault> {
    if let Some(fault) = policy::judge_format(format, &settings.policy) {
        return Some(fault);
    }
    match format.role() {
        Role::Document | Role::Archive => None,
        Role::Unsupported => Some(Fault::new(Stage::Identify, Kind::FormatUnsupported, unreadable(format))),
        Role::Picture => Some(Fault::new(
            Stage::Recognise,
            Kind::ExtractorUnavailable,
            format!("a {} picture has no text of its own, and no text recognition is set up", format.name()),
        )),
    }
}

fn unreadable(format: Format) -> String {
    if format == Format::Unknown {
        return "its bytes are of no format that is known here".to_owned();
    }
    format!("nothing here reads {} ({})", format.name(), format.media_type())
}

fn note_format(facts: &mut Facts, format: Format) {
    facts.format = Some(format.name().to_owned());
    facts.media_type = Some(format.media_type().to_owned());
}

/// The stage versions for a document of this format.
pub fn pipeline(format: Format) -> Pipeline {
    let mut pipeline = Pipeline::new();
    pipeline.insert(Stage::Identify, versions::IDENTIFY.to_owned());
    match format.role() {
        Role::Document | Role::Archive => {
            pipeline.insert(Stage::Extract, versions::extract(format).to_owned());
            pipeline.insert(Stage::Normalise, versions::NORMALISE.to_owned());
            pipeline.insert(Stage::Check, versions::CHECK.to_owned());
        }
        Role::Picture | Role::Unsupported => {}
    }
    pipeline
}

/// Whether the last result stands: the same bytes, and the same version of what was done to them.
fn unchanged(record: &Record, sha256: ContentHash) -> bool {
    let Some(rested) = &record.rested else { return false };
    let settled = matches!(rested.state, State::Indexed | State::Suspect | State::Quarantined);
    let current = rested.format.as_deref().and_then(Format::named).map(pipeline);
    settled && rested.sha256 == Some(sha256) && current.as_ref() == Some(&rested.pipeline)
}

fn failed(mut facts: Facts, fault: Fault) -> Carried {
    facts.evidence.get_or_insert_with(|| fault.evidence.clone());
    Carried { facts, came: Came::Failed(fault), members: Vec::new(), spool: None }
}

fn broken(error: io::Error) -> Carried {
    Carried { facts: Facts::default(), came: Came::Broken(error), members: Vec::new(), spool: None }
}

/// The folder for what is spooled, below the state folder.
pub fn spool_folder(state: &Path) -> PathBuf {
    state.join("spool")
}
