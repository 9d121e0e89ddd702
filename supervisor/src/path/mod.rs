//! The way of one document: fetch → identify → extract → recognise → normalise → check. What comes out is a [`Carried`];
//! nothing is claimed here: the writer makes it true, then the ledger says so.
//!
//! A document meets the stages in one function, [`carry`]. It asks [`crate::rules`] what to think of what it sees, and touches
//! neither the sink nor the ledger. What has members is a tree, see [`tree`]. What the bytes say is said once for all documents
//! that have the same ([`contents`]); where the verdict is that they are damaged, they are read once more ([`bytes`]).

mod builtin;
pub mod bytes;
pub mod collect;
pub mod contents;
mod draw;
pub mod engines;
pub mod gate;
mod members;
mod recognise;
pub mod spool;
pub mod tree;

use crate::idle::Idle;
use crate::ledger::{Facts, Pipeline, Record};
use crate::pool::Pool;
use crate::pool::command::Missing;
use crate::rules::account;
use crate::rules::budget::Budget;
use crate::rules::due::{self, Present};
use crate::rules::fault::Fault;
use crate::rules::identify::identify;
use crate::rules::kind::{Class, Kind, Stage, State, Why};
use crate::rules::retry::Lane;
use crate::rules::sharing::{Share, share};
use crate::rules::{identify as identifying, policy};
use crate::run::Readers;
use crate::run::desk::now;
use crate::settings::Settings;
use crate::sink::texts::Texts;
use bytes::{Had, Outermost, Trouble};
use collect::{Member, Spooled};
use contents::{Contents, Ending, Turn};
use draw::Drawing;
use engines::Engines;
use gate::Gate;
use shared::format::Role;
use shared::{DocumentId, Format, Limits, versions};
use spool::Spool;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What every document of a run is carried with.
#[derive(Debug)]
pub struct Means {
    pub settings: Settings,
    pub pool: Pool,
    pub engines: Engines,
    pub gate: Gate,
    pub contents: Contents,
    /// Results of before; `None` where nothing is stored.
    pub earlier: Option<Earlier>,
    /// Members wait here.
    pub spool: PathBuf,
    /// Documents up to this size are held in memory: bytes.
    pub memory_cap: u64,
    /// Whether there is a large lane.
    pub large: bool,
}

impl Means {
    /// With what the settings name.
    ///
    /// # Errors
    /// A command that is named is not there.
    pub async fn new(
        settings: Settings,
        pool: Pool,
        room: Room,
        earlier: Option<Earlier>,
    ) -> Result<Means, Missing> {
        let engines = Engines::find(&settings).await?;
        let gate = Gate::new(settings.breakers.extractor);
        let (contents, Room { spool, memory_cap, large }) = (Contents::default(), room);
        Ok(Means { settings, pool, engines, gate, contents, earlier, spool, memory_cap, large })
    }

    /// Carries the built-in document of the extractor of this name, as the gate names it. One that is not used any more has
    /// nothing to prove.
    ///
    /// # Errors
    /// Why it did not come back.
    pub async fn try_out(&self, extractor: &str) -> Result<(), Fault> {
        if let Some(format) = Format::named(extractor) {
            return builtin::try_out(self, &engines::Engine::Builtin, format).await;
        }
        if let Ok(program) = self.engines.recognise()
            && program.name() == extractor
        {
            return builtin::try_recognition(self, program).await;
        }
        match self.engines.command(extractor) {
            Some((engine, format)) => builtin::try_out(self, engine, format).await,
            None => Ok(()),
        }
    }

    /// The limits of a lane.
    pub fn limits(&self, lane: Lane) -> &Limits {
        match lane {
            Lane::Normal | Lane::Alone => &self.settings.limits,
            Lane::Large => &self.settings.large,
        }
    }

    /// What records are held against.
    pub fn present(&self) -> Present<'_> {
        Present { settings: &self.settings, large: self.large }
    }
}

/// What the machine has for documents.
#[derive(Debug)]
pub struct Room {
    /// See [`Means`] for each.
    pub spool: PathBuf,
    pub memory_cap: u64,
    pub large: bool,
}

/// Where results of before are found.
#[derive(Debug)]
pub struct Earlier {
    readers: Arc<Readers>,
    state: PathBuf,
    texts: Arc<Idle<Texts>>,
}

impl Earlier {
    /// In this state folder.
    pub fn new(readers: Arc<Readers>, state: &Path) -> Self {
        Earlier { readers, state: state.to_owned(), texts: Arc::default() }
    }

    async fn text(&self, of: &Record) -> Option<String> {
        let hash = of.in_sink.as_ref()?.text;
        let (state, idle) = (self.state.clone(), self.texts.clone());
        let read = tokio::task::spawn_blocking(move || {
            let texts = match idle.take() {
                Some(texts) => texts,
                None => Texts::open_reader(&state).ok()??,
            };
            let text = texts.get(hash).ok()?;
            idle.give(texts);
            text
        });
        read.await.ok()?
    }
}

/// Where a document's bytes are.
#[derive(Debug, Clone)]
pub enum Place {
    /// The outermost item itself.
    Item,
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
    /// How often it was tried, where another document of the same bytes was.
    pub attempts: Option<u32>,
}

impl Carried {
    /// Without members.
    fn of(facts: Facts, came: Came) -> Self {
        Carried { facts, came, members: Vec::new(), spool: None, attempts: None }
    }
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
    /// It has to wait for an extractor whose breaker is open: no attempt.
    Held(Fault),
    /// Our own disk failed: structural.
    Broken(io::Error),
}

/// A text, and what to think of it.
#[derive(Debug, Clone)]
pub struct Product {
    pub text: Arc<str>,
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

/// How a document is to be carried.
#[derive(Debug, Clone)]
pub struct Trip {
    pub errand: Errand,
    pub lane: Lane,
    /// What is left of the outermost item's.
    pub budget: Budget,
    pub outermost: Outermost,
}

/// Carries one document.
pub async fn carry(means: &Means, record: &Record, place: &Place, trip: Trip) -> Carried {
    let limits = means.limits(trip.lane);
    let had = match bytes::have(means, &trip.outermost, place, limits).await {
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
        pipeline: before_extract(),
        ..Facts::default()
    };
    note_format(&mut facts, known.format);
    if trip.errand == Errand::Carry && unchanged(means, record, &had) {
        let facts = Facts { stat: facts.stat, ..Facts::default() };
        return Carried::of(facts, Came::Same);
    }
    if let Some(fault) = policy::judge_format(known.format, &means.settings.policy) {
        return failed(facts, fault);
    }
    if means.engines.chain(known.format).is_empty() && known.format.role() != Role::Picture {
        let fault = Fault::new(Stage::Identify, Kind::FormatUnsupported, unreadable(known.format));
        return failed(facts, fault);
    }
    let (limits, outermost) = (limits.clone(), trip.outermost.clone());
    let carried = match trip.errand {
        Errand::Members => Drawing::new(means, record, trip, had, known, facts).draw().await,
        Errand::Carry => once(means, record, trip, had, known, facts).await,
    };
    // Broken members of a container that is otherwise sound are worth further tries, and not the container.
    let last = record.attempts >= means.settings.retry.attempts;
    looked_at_again(carried, &outermost, &limits, last).await
}

/// What the content says: taken from another document of the same bytes, or found out.
async fn once(
    means: &Means,
    record: &Record,
    trip: Trip,
    had: Had,
    known: identifying::Identified,
    facts: Facts,
) -> Carried {
    let key = (had.sha256, known.format, trip.lane == Lane::Large);
    let claim = match means.contents.turn(key, record.id, record.requeued_at).await {
        Turn::Theirs(Ending::Text { maker, facts: theirs, product }) => {
            return shared_with(maker, facts, *theirs, Came::Text(*product), None);
        }
        Turn::Theirs(Ending::Fault { maker, facts: theirs, fault, attempts }) => {
            return shared_with(maker, facts, *theirs, Came::Failed(*fault), Some(attempts));
        }
        Turn::Theirs(Ending::NotShared) => None,
        Turn::Mine(claim) => Some(claim),
    };
    let earlier = match trip.lane {
        // In the large lane it has been looked up before, and alone it is to show itself.
        Lane::Normal => earlier(means, record, &had, known.format).await,
        Lane::Large | Lane::Alone => None,
    };
    let mut carried = match earlier {
        Some((of, came)) => shared_with(of.maker(), facts, facts_of(&of), came, Some(tries_of(&of))),
        None => Drawing::new(means, record, trip, had, known, facts).draw().await,
    };
    if let Came::Failed(fault) = &mut carried.came {
        means.settings.classify(fault);
    }
    if let Some(claim) = claim {
        let has_members = !carried.members.is_empty() || carried.facts.listed_whole.is_some();
        let maker = carried.facts.same_as.unwrap_or(record.id);
        let attempts = carried.attempts.unwrap_or(record.attempts);
        claim.end(now(), maker, attempts, &carried, has_members);
    }
    carried
}

/// Another document's result, in this place.
fn shared_with(maker: DocumentId, here: Facts, theirs: Facts, came: Came, attempts: Option<u32>) -> Carried {
    let facts = Facts {
        sha256: here.sha256,
        size: here.size,
        stat: here.stat,
        usage: None,
        damage: None,
        same_as: Some(maker),
        tried: attempts,
        ..theirs
    };
    Carried { attempts, ..Carried::of(facts, came) }
}

/// How many records of the same bytes are looked at.
const LOOKED_AT: usize = 8;

/// What the ledger and the kept texts have of these bytes.
async fn earlier(means: &Means, record: &Record, had: &Had, format: Format) -> Option<(Record, Came)> {
    let earlier = means.earlier.as_ref()?;
    let sha256 = had.sha256;
    // A ledger that cannot be read shows itself elsewhere.
    let candidates =
        earlier.readers.with(move |reader| reader.with_content(sha256, LOOKED_AT)).await.unwrap_or_default();
    for of in candidates {
        // A text that only its sink is without is a text.
        let of = account::once_taken(&of).unwrap_or(of);
        let current = means.engines.pipeline(of.format.as_deref().and_then(Format::named).unwrap_or(format));
        match share(&of, record, format, &current, means.present()) {
            Some(Share::Fault) => {
                let Some(fault) = of.fault() else { continue };
                return Some((of, Came::Failed(fault)));
            }
            Some(Share::Text) => {
                let Some(text) = earlier.text(&of).await else { continue };
                let state = of.in_sink.as_ref().map_or(State::Suspect, |in_sink| in_sink.state);
                let fault = of.fault().filter(|_| state == State::Suspect);
                let title =
                    of.evidence.as_ref().and_then(|e| e.metadata.as_ref()).and_then(|m| m.title.clone());
                let product = Product { text: text.into(), title, state, fault };
                return Some((of, Came::Text(product)));
            }
            None => {}
        }
    }
    None
}

/// One that was given up has had all the tries that there are.
fn tries_of(of: &Record) -> u32 {
    if of.why == Some(Why::GaveUp) { u32::MAX } else { of.attempts.max(1) }
}

fn facts_of(of: &Record) -> Facts {
    Facts {
        format: of.format.clone(),
        media_type: of.media_type.clone(),
        pipeline: of.pipeline.clone(),
        text: of.text.clone(),
        evidence: of.evidence.clone(),
        ..Facts::default()
    }
}

/// Where the verdict is that the bytes are damaged, they are read a second time: the source's damage is somebody else's to
/// mend, the transfer's is ours.
async fn looked_at_again(
    mut carried: Carried,
    outermost: &Outermost,
    limits: &Limits,
    last: bool,
) -> Carried {
    let corrupt = match &carried.came {
        Came::Failed(fault) => Some(fault),
        Came::Text(product) => product.fault.as_ref(),
        Came::Same | Came::Held(_) | Came::Broken(_) => None,
    };
    let Some(fault) = corrupt.filter(|fault| fault.class == Some(Class::Corrupt)).cloned() else {
        return members_looked_at_again(carried, outermost, limits, last).await;
    };
    let Some(verdict) = outermost.look_again(limits).await else { return carried };
    // A text with a doubt is better than none; of what gave none, more than a doubt is asked before it is given up for good.
    if matches!((&verdict, &carried.came), (bytes::Verdict::Unread(_), Came::Text(_))) {
        return carried;
    }
    let (other, damage) = bytes::settled(verdict, &fault);
    carried.facts.damage = damage;
    if let Some(other) = other {
        return failed(Facts { damage, stat: carried.facts.stat, ..Facts::default() }, other);
    }
    carried
}

/// The same for what is broken inside of a container that is sound itself: the members say where the damage is, or all of
/// it is read again. `last`: there will be no further try.
async fn members_looked_at_again(
    mut carried: Carried,
    outermost: &Outermost,
    limits: &Limits,
    last: bool,
) -> Carried {
    if !matches!(carried.came, Came::Text(_)) || !carried.members.iter().any(Member::is_corrupt) {
        return carried;
    }
    let Some(verdict) = outermost.look_again(limits).await else { return carried };
    let broken = Fault::new(Stage::Extract, Kind::ParseMalformed, "some of its members are broken");
    let (other, damage) = bytes::settled(verdict, &broken);
    match other.filter(|other| matches!(other.kind, Kind::TransferDamaged | Kind::SourceChanged) && !last) {
        Some(other) => failed(Facts { damage, stat: carried.facts.stat, ..Facts::default() }, other),
        None => {
            for member in carried.members.iter_mut().filter(|member| member.is_corrupt()) {
                member.damage = damage;
            }
            carried
        }
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

fn before_extract() -> Pipeline {
    Pipeline::from([(Stage::Identify, versions::IDENTIFY.to_owned())])
}

/// Whether the last result stands: the same bytes, and the same version of what was done to them.
fn unchanged(means: &Means, record: &Record, had: &Had) -> bool {
    let Some(rested) = &record.rested else { return false };
    let Some(format) = rested.format.as_deref().and_then(Format::named) else { return false };
    due::stands(rested, had.sha256, &means.engines.pipeline(format), means.present())
}

fn failed(mut facts: Facts, fault: Fault) -> Carried {
    facts.evidence.get_or_insert_with(|| fault.evidence.clone());
    Carried::of(facts, Came::Failed(fault))
}

fn broken(error: io::Error) -> Carried {
    Carried::of(Facts::default(), Came::Broken(error))
}

/// The folder for what is spooled, below the state folder.
pub fn spool_folder(state: &Path) -> PathBuf {
    state.join("spool")
}
