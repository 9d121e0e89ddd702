//! One execution over a list of connectors, from opening the ledger to the summary.
//!
//! Order: ledger (its lock makes this the one supervisor of the state folder), stores, what the last supervisor left in hand,
//! the cage, then the connectors one after the other. What fails here is structural and stops the run; what fails for a
//! document is a record, made further down. Whatever happens, `close` runs and the summary tells what the ledger says.

pub mod alerts;
pub mod breakers;
pub mod connector;
pub mod control;
mod delivery;
pub mod desk;
mod error;
mod falling_due;
mod listing;
mod looking;
mod machine;
mod orders;
mod readers;
pub mod reconcile;
mod recover;
mod sweep;
mod verify;
mod watch;
mod work;
pub mod writer;

pub use error::RunError;
pub use machine::Machine;
pub use orders::{Order, Orders};
pub use readers::Readers;

use crate::ledger::{
    Books, Cluster, Ledger, LedgerError, LedgerHandle, Millis, Reader, RunEnd, SourceId, SourceRow,
};
use crate::path::{Earlier, Means, Room, spool_folder};
use crate::pool::Pool;
use crate::rules::breaker::Scope;
use crate::settings::Settings;
use crate::sink::embedded::Embedded;
use crate::sink::texts::Texts;
use alerts::{Alerts, Topic};
use breakers::Breakers;
use connector::Connector;
use delivery::{Delivery, SinkState};
use desk::{Desk, Shown, now};
use shared::{DocumentId, Layer};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use writer::{InHand, Message, Store};

/// What to do.
#[derive(Debug)]
pub struct Plan {
    pub settings: Settings,
    pub state: PathBuf,
    /// In this order.
    pub sources: Vec<Named>,
    pub accept_deletions: bool,
    /// Waits for what is due later, until nothing is.
    pub until_settled: bool,
}

/// A source by its name and its root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    pub name: String,
    pub root: PathBuf,
}

/// What others may look at while a run is on.
#[derive(Debug, Clone)]
pub struct Window {
    pub readers: Arc<Readers>,
    pub shown: Arc<Mutex<HashMap<DocumentId, Shown>>>,
    /// Items that the listing of the moment has seen.
    pub listed: Arc<AtomicU64>,
    /// Moves as long as the listing does, also where it sees no items.
    pub walked: Arc<AtomicU64>,
    /// Whether a listing is on.
    pub listing: Arc<AtomicBool>,
    /// Attempts that have come to an end.
    pub carried: Arc<AtomicU64>,
    pub began: Instant,
    pub sources: Vec<SourceId>,
}

/// How a run went.
#[derive(Debug)]
pub struct Outcome {
    pub end: RunEnd,
    /// Why it was aborted.
    pub error: Option<RunError>,
    pub took_ms: u64,
    /// Attempts that came to an end.
    pub carried: u64,
    /// After the run; `None` where not even that could be read.
    pub books: Option<Books>,
    pub clusters: Vec<Cluster>,
    pub alerts: Vec<String>,
    /// Breakers that are open at its end: scope and name.
    pub breakers: Vec<(Scope, String)>,
    /// Layers of the cage that do not hold here, and why.
    pub missing: Vec<(Layer, String)>,
    pub next_due: Option<Millis>,
    /// The names of the sources of this run.
    pub names: Vec<String>,
}

/// Runs the plan. `window` is called once, when there is something to look at.
pub async fn run(plan: Plan, orders: Orders, window: impl FnOnce(Window) + Send) -> Outcome {
    let began = Instant::now();
    let mut told = Told { alerts: Alerts::new(&plan.settings.alert), ..Told::default() };
    let (end, error) = match whole(&plan, &orders, window, began, &mut told).await {
        Ok(()) if orders.is_stopped() => (RunEnd::Interrupted, None),
        Ok(()) => (RunEnd::Completed, None),
        Err(error) => (RunEnd::Aborted, Some(error)),
    };
    let mut outcome = Outcome {
        end,
        error,
        took_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        carried: told.carried.load(Ordering::Relaxed),
        books: None,
        clusters: Vec::new(),
        alerts: told.alerts.close(&orders).await,
        breakers: Vec::new(),
        missing: told.missing,
        next_due: None,
        names: plan.sources.iter().map(|source| source.name.clone()).collect(),
    };
    let names = outcome.names.clone();
    read_books(&plan.state, &told.sources, &names, &mut outcome);
    outcome
}

/// What the parts of a run tell, whatever its end.
#[derive(Default)]
struct Told {
    alerts: Alerts,
    missing: Vec<(Layer, String)>,
    sources: Vec<SourceId>,
    carried: Arc<AtomicU64>,
}

fn read_books(state: &Path, sources: &[SourceId], names: &[String], outcome: &mut Outcome) {
    let Ok(reader) = Reader::open(state) else { return };
    outcome.books = reader.books().ok();
    outcome.clusters = reader.clusters(sources).unwrap_or_default();
    outcome.next_due = reader.next_due(sources).unwrap_or_default();
    let open = reader.breakers().unwrap_or_default().into_iter();
    let concerns = |scope: Scope, name: &String| scope != Scope::Source || names.contains(name);
    outcome.breakers =
        open.map(|(scope, name, _)| (scope, name)).filter(|(scope, name)| concerns(*scope, name)).collect();
}

async fn whole(
    plan: &Plan,
    orders: &Orders,
    window: impl FnOnce(Window) + Send,
    began: Instant,
    told: &mut Told,
) -> Result<(), RunError> {
    let machine = Machine::look();
    let slots = slots(&plan.settings, &machine)?;
    let (state, settings) = (plan.state.clone(), plan.settings.retry);
    let opened = tokio::task::spawn_blocking(move || open(&state));
    let Opened { ledger, store, anew } = opened.await.map_err(|_| RunError::Ended)??;
    let readers = Arc::new(Readers::new(&plan.state));
    let handle = ledger.handle();
    let outcome = async {
        recover::recover(&handle, &readers, &settings, anew.then_some(&store.index), &told.alerts).await?;
        let shared = (handle.clone(), readers, orders.clone(), told.carried.clone());
        let session = Session::begin(plan, store, shared, (machine, slots, began), &told.alerts).await?;
        told.missing = session.desk.means.pool.layers().1;
        session.carry(plan, orders, window, told).await
    }
    .await;
    let closed = tokio::task::spawn_blocking(move || ledger.close());
    let closed = closed.await.map_err(|_| RunError::Ended)?;
    outcome.map_err(|error| match error {
        // Whoever met the error first may not have been the one whose word ended the run.
        RunError::Ledger(LedgerError::Ended) => {
            RunError::Ledger(handle.cause().unwrap_or(LedgerError::Ended))
        }
        other => other,
    })?;
    Ok(closed?)
}

struct Opened {
    ledger: Ledger,
    store: Store,
    /// The index is new or was damaged: what the ledger believes to be in it has to be written again.
    anew: bool,
}

/// Opens all that lies in the state folder. The ledger first: its lock keeps others away from the rest.
fn open(state: &Path) -> Result<Opened, RunError> {
    let ledger = Ledger::open(state)?;
    let spool = spool_folder(state);
    std::fs::create_dir_all(&spool).map_err(|error| RunError::spool(&spool, error))?;
    let texts = Texts::open(state)?;
    let (index, anew) = Embedded::open(state)?;
    Ok(Opened { ledger, store: Store { index, texts }, anew })
}

/// All that lives as long as the connectors.
struct Session {
    desk: Desk,
    writer: JoinHandle<Result<(), RunError>>,
    window: Window,
    width: usize,
}

impl Session {
    async fn begin(
        plan: &Plan,
        store: Store,
        (ledger, readers, orders, carried): (LedgerHandle, Arc<Readers>, Orders, Arc<AtomicU64>),
        (machine, slots, began): (Machine, usize, Instant),
        alerts: &Alerts,
    ) -> Result<Self, RunError> {
        let pool = Pool::start(&plan.settings.cage, slots).await?;
        let (outbox, inbox) = mpsc::channel::<Message>(256);
        let in_hand = InHand::default();
        let sink = Arc::new(SinkState::default());
        let open = readers.with(|reader| reader.breakers()).await?;
        let delivery = Delivery::new(
            Arc::new(plan.settings.clone()),
            ledger.clone(),
            alerts.clone(),
            sink.clone(),
            breakers::of_sink(open),
        );
        let writing = writer::run(store, ledger.clone(), readers.clone(), inbox, in_hand.clone(), delivery);
        let writer = tokio::spawn(writing);
        let shown = Arc::new(Mutex::new(HashMap::new()));
        let window = Window {
            readers: readers.clone(),
            shown: shown.clone(),
            listed: Arc::default(),
            walked: Arc::default(),
            // Until the first listing has ended, nothing is known of how much there is.
            listing: Arc::new(AtomicBool::new(true)),
            carried: carried.clone(),
            began,
            sources: Vec::new(),
        };
        let room = Room {
            spool: spool_folder(&plan.state),
            memory_cap: machine.total / 4 / slots as u64,
            large: large_lane(&plan.settings, machine, alerts),
        };
        let earlier = Earlier::new(readers.clone(), &plan.state);
        let means = Means::new(plan.settings.clone(), pool, room, Some(earlier)).await?;
        let desk = Desk {
            means: Arc::new(means),
            orders,
            ledger,
            readers,
            writer: outbox,
            in_hand,
            shown,
            carried,
            width: slots + 1,
            room: Arc::new(Semaphore::new(desk::TEXTS_UNDER_WAY_KIB)),
            began: Arc::new(AtomicI64::new(now())),
            breakers: Arc::new(Breakers::new(plan.settings.breakers.source)),
            alerts: alerts.clone(),
            sink,
        };
        Ok(Session { desk, writer, window, width: 4 * slots })
    }

    async fn carry(
        mut self,
        plan: &Plan,
        orders: &Orders,
        window: impl FnOnce(Window) + Send,
        told: &mut Told,
    ) -> Result<(), RunError> {
        let run = self.desk.ledger.begin_run(now()).await?;
        let mut sources = Vec::new();
        for named in &plan.sources {
            sources.push(Arc::new(self.desk.ledger.source(&named.name, &named.root).await?));
        }
        told.sources = sources.iter().map(|source| source.id).collect();
        self.window.sources.clone_from(&told.sources);
        window(self.window.clone());
        let (window, watch) = (self.window.clone(), plan.settings.watch);
        let outcome = tokio::select! {
            outcome = self.connectors(plan, orders, sources, told) => outcome,
            error = watch::overrun(&window, watch.deadline_ms, watch.watchdog_ms) => Err(error),
            () = orders.abandoned() => Ok(()),
        };
        let (ledger, readers) = (self.desk.ledger.clone(), self.desk.readers.clone());
        drop(self.desk);
        let written = self.writer.await.map_err(|_| RunError::Ended)?;
        // The writer's own trouble is the cause; that nobody could hand it anything any more only follows.
        let outcome = match (outcome, written) {
            (Err(RunError::Ended) | Ok(()), Err(error)) => Err(error),
            (outcome, _) => outcome,
        };
        let outcome = match outcome {
            Ok(()) if !orders.is_stopped() => sweep::sweep(&ledger, &readers, &plan.state).await,
            other => other,
        };
        let end = match &outcome {
            Err(_) => RunEnd::Aborted,
            Ok(()) if orders.is_stopped() => RunEnd::Interrupted,
            Ok(()) => RunEnd::Completed,
        };
        if outcome.is_err() || orders.is_abandoned() {
            recover::put_back(&ledger, &readers).await;
        }
        let noted = ledger.end_run(run, now(), end).await;
        outcome?;
        Ok(noted?)
    }

    /// Strictly in order: a later one begins when all of an earlier one has come to rest.
    async fn connectors(
        &mut self,
        plan: &Plan,
        orders: &Orders,
        sources: Vec<Arc<SourceRow>>,
        told: &mut Told,
    ) -> Result<(), RunError> {
        if self.desk.sink.down().is_some() {
            self.desk.probe_sink().await?;
            self.is_sink_up()?;
        }
        let mut closings = Vec::new();
        for source in &sources {
            if orders.is_stopped() {
                return Ok(());
            }
            self.connector(plan, orders, source, true, told).await?;
            closings.push(self.desk.sink.closings());
        }
        // What waited for the sink when its connector ended has been due since the breaker closed.
        for (source, closed) in sources.iter().zip(closings) {
            if closed != self.desk.sink.closings() && !orders.is_stopped() {
                self.connector(plan, orders, source, false, told).await?;
            }
        }
        if plan.until_settled {
            self.until_settled(plan, orders, &sources, told).await?;
        }
        if orders.is_stopped() { Ok(()) } else { self.is_sink_up() }
    }

    fn is_sink_up(&self) -> Result<(), RunError> {
        self.desk.sink.down().map_or(Ok(()), |why| Err(RunError::SinkDown { why }))
    }

    /// Waits for what is due later, and carries it, until there is no such thing any more.
    async fn until_settled(
        &mut self,
        plan: &Plan,
        orders: &Orders,
        sources: &[Arc<SourceRow>],
        told: &mut Told,
    ) -> Result<(), RunError> {
        let mut last = None;
        loop {
            let Some(next) = self.next(sources).await? else { return Ok(()) };
            if last.replace(next) == Some(next) {
                // Whatever keeps it from being taken up takes a while.
                tokio::select! {
                    () = tokio::time::sleep(LOOK_AT_THE_CLOCK) => {}
                    () = orders.stopped() => {}
                }
            }
            self.wait_until(next, orders).await;
            for source in sources {
                if orders.is_stopped() {
                    return Ok(());
                }
                self.connector(plan, orders, source, false, told).await?;
            }
        }
    }

    /// When something is due next. Where a source's breaker is open that is its probe: nothing else of it is tried before.
    async fn next(&self, sources: &[Arc<SourceRow>]) -> Result<Option<Millis>, RunError> {
        let open = self.desk.readers.with(|reader| reader.breakers()).await?;
        let (waits, goes): (Vec<_>, Vec<_>) =
            sources.iter().partition(|source| breakers::is_open(&open, &source.name));
        let names: Vec<_> = waits.iter().map(|source| source.name.clone()).collect();
        let ids: Vec<_> = goes.iter().map(|source| source.id).collect();
        let due = self.desk.readers.with(move |reader| reader.next_due(&ids)).await?;
        let sink = breakers::of_sink(open.clone()).map(|breaker| breaker.next_probe);
        Ok(due.into_iter().chain(breakers::next_probe(&open, &names)).chain(sink).min())
    }

    /// By the wall clock, which may jump: a wait that it makes longer than any is over.
    async fn wait_until(&self, next: Millis, orders: &Orders) {
        let longest = Millis::try_from(self.desk.rules().longest_wait_ms()).unwrap_or(Millis::MAX);
        loop {
            let left = next.saturating_sub(now());
            if left <= 0 || left > longest || orders.is_stopped() {
                return;
            }
            let left = Duration::from_millis(u64::try_from(left).unwrap_or(0)).min(LOOK_AT_THE_CLOCK);
            tokio::select! {
                () = tokio::time::sleep(left) => {}
                () = orders.stopped() => return,
            }
        }
    }

    async fn connector(
        &mut self,
        plan: &Plan,
        orders: &Orders,
        source: &Arc<SourceRow>,
        lists: bool,
        told: &mut Told,
    ) -> Result<(), RunError> {
        let connector = Connector {
            desk: self.desk.clone(),
            source: source.clone(),
            state: plan.state.clone(),
            accept_deletions: plan.accept_deletions,
            lists,
            orders,
            listed: self.window.listed.clone(),
            walked: self.window.walked.clone(),
            listing: self.window.listing.clone(),
            width: self.width,
        };
        let deadline_ms = plan.settings.deadline_of(&source.name);
        let listed = within(deadline_ms, &source.name, connector.run()).await?;
        for alert in &listed.alerts {
            told.alerts.raise(Topic::Deletions, Some(&source.name), alert);
        }
        if listed.root_device != 0 {
            self.desk.ledger.root_device(source.id, listed.root_device).await?;
        }
        Ok(())
    }
}

/// How long is slept at most before the wall clock is looked at again.
const LOOK_AT_THE_CLOCK: Duration = Duration::from_secs(5);

/// How many children at a time; an error where so many cannot be carried.
fn slots(settings: &Settings, machine: &Machine) -> Result<usize, RunError> {
    let slots = settings.children.unwrap_or_else(|| machine.children(settings.limits.memory));
    let needed = machine::descriptors(slots);
    if machine.descriptors < needed {
        return Err(RunError::Descriptors { have: machine.descriptors, needed, children: slots });
    }
    Ok(slots)
}

/// Whether there is a large lane; says so where there is none for want of memory.
fn large_lane(settings: &Settings, machine: Machine, alerts: &Alerts) -> bool {
    if settings.large == settings.limits {
        return false;
    }
    let has = machine.has_large_lane(settings.large.memory);
    if !has {
        let words = format!(
            "there is no large lane: this machine has {} MiB of memory, and `limits.large.memory` is {} MiB",
            machine.total >> 20,
            settings.large.memory >> 20
        );
        alerts.mention(None, &words);
    }
    has
}

/// Ends what takes longer than it may.
async fn within<T>(
    deadline_ms: Option<u64>,
    connector: &str,
    work: impl Future<Output = Result<T, RunError>>,
) -> Result<T, RunError> {
    let Some(ms) = deadline_ms else { return work.await };
    let ended = tokio::time::timeout(Duration::from_millis(ms), work).await;
    ended.unwrap_or_else(|_| Err(RunError::Deadline { what: format!("the connector {connector}"), ms }))
}
