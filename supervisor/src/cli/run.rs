//! `lazaret run`: which sources, then the run, its progress, its summary and its exit code.

use super::args::{Format, RunArgs};
use super::settings::settings;
use super::{Cause, CliError, Common, Exit, Outcome, coverage, threads};
use crate::ledger::{Books, Counts, Reader, RunEnd};
use crate::report::progress::{Progress, Snapshot};
use crate::report::style::safe;
use crate::report::summary::Summary;
use crate::report::{Printer, json};
use crate::rules::kind::State;
use crate::run::control::{self, Query};
use crate::run::{self, Named, Order, Orders, Plan, Window};
use jiff::tz::TimeZone;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// How often the progress is looked up.
const LOOK: Duration = Duration::from_millis(400);

pub(super) fn run(common: &Common, args: &RunArgs, printer: &mut Printer) -> Outcome {
    let settings = settings(common)?;
    let sources = sources(common, args, &settings.connectors)?;
    let plan = Plan {
        settings,
        state: common.state.clone(),
        sources,
        accept_deletions: args.accept_deletions,
        until_settled: args.until_settled,
    };
    let runtime = threads::runtime()?;
    let signalled = Arc::new(AtomicU8::new(0));
    let outcome = runtime.block_on(carry_out(plan, signalled.clone()));
    // Threads that hang in a read of a dead file system must not keep the program.
    runtime.shutdown_background();
    report(args, outcome, printer, signalled.load(Ordering::Relaxed))
}

/// The sources of the command line; without any those of the settings; without those all that the ledger knows.
fn sources(
    common: &Common,
    args: &RunArgs,
    connectors: &[crate::settings::Connector],
) -> Result<Vec<Named>, CliError> {
    if !args.sources.is_empty() {
        return args.sources.iter().map(|path| named(common, path)).collect();
    }
    if !connectors.is_empty() {
        return Ok(connectors
            .iter()
            .map(|connector| Named { name: connector.name.clone(), root: connector.path.clone() })
            .collect());
    }
    let known = match Reader::open(&common.state) {
        Ok(reader) => reader.sources()?,
        Err(crate::ledger::LedgerError::Missing(_)) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    if known.is_empty() {
        return Err(CliError::new(Cause::Usage, "there is no source to run over")
            .hint("name a folder: `lazaret run SOURCE-DIR`, or a [[connector]] in the settings"));
    }
    Ok(known.into_iter().map(|source| Named { name: source.name, root: source.root }).collect())
}

/// A folder is named by its canonical absolute path. One that is not there (any more) is none of the command line's
/// business where the ledger knows it: then its source is down.
fn named(common: &Common, path: &Path) -> Result<Named, CliError> {
    let why = match path.canonicalize() {
        Ok(root) if root.is_dir() => return Ok(Named { name: name_of(&root), root }),
        Ok(_) => "it is no folder".to_owned(),
        Err(error) => error.to_string(),
    };
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let name = name_of(&absolute);
    let known = Reader::open(&common.state).and_then(|reader| reader.sources()).unwrap_or_default();
    if known.iter().any(|source| source.name == name) {
        return Ok(Named { name, root: absolute });
    }
    Err(CliError::new(Cause::Usage, format!("cannot ingest {}: {why}", safe(&path.display().to_string())))
        .hint("SOURCE-DIR is an existing folder"))
}

/// Lossless: bytes that are no UTF-8 are escaped.
pub(super) fn name_of(root: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    match root.to_str() {
        Some(name) => name.to_owned(),
        None => root.as_os_str().as_bytes().escape_ascii().to_string(),
    }
}

async fn carry_out(plan: Plan, signalled: Arc<AtomicU8>) -> run::Outcome {
    let orders = Orders::default();
    let listening = tokio::spawn(listen(orders.clone(), signalled.clone()));
    let (feed, snapshots) = watch::channel(Snapshot::default());
    let state = plan.state.clone();
    let shown = Progress::start(snapshots.clone());
    let (sender, windows) = tokio::sync::oneshot::channel();
    let steered = orders.clone();
    let looking = tokio::spawn(async move {
        if let Ok(window) = windows.await {
            look(window, feed, state, steered).await;
        }
    });
    let outcome = run::run(plan, orders, move |window| {
        // Whoever shows the progress may have gone; the run goes on.
        sender.send(window).ok();
    })
    .await;
    looking.abort();
    listening.abort();
    drop(shown);
    outcome
}

/// The first signal drains, the second puts back what is in flight, the third ends at once: what is in hand then is found by
/// the next run.
async fn listen(orders: Orders, signalled: Arc<AtomicU8>) {
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return;
    };
    for order in [Order::Stop, Order::Abandon] {
        let number = signalled_by(&mut interrupt, &mut terminate).await;
        signalled.store(number, Ordering::Relaxed);
        orders.give(order);
    }
    super::leave_at_once(128 + signalled_by(&mut interrupt, &mut terminate).await);
}

async fn signalled_by(interrupt: &mut Signal, terminate: &mut Signal) -> u8 {
    tokio::select! {
        _ = interrupt.recv() => 2,
        _ = terminate.recv() => 15,
    }
}

/// Keeps the snapshot up to date and answers at the control socket, until it is aborted.
async fn look(window: Window, feed: watch::Sender<Snapshot>, state: PathBuf, orders: Orders) {
    let _served = serve(&state, feed.subscribe(), window.began, orders.clone())
        .await
        .map_err(|error| tracing::warn!(%error, "no control socket: `lazaret ctl` will not work"));
    let mut last = (window.carried.load(Ordering::Relaxed), tokio::time::Instant::now());
    loop {
        let carried = window.carried.load(Ordering::Relaxed);
        #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
        let rate = (carried - last.0) as f64 / last.1.elapsed().max(LOOK).as_secs_f64();
        last = (carried, tokio::time::Instant::now());
        let sources = window.sources.clone();
        // Where the ledger cannot be read at the moment, what was last known is shown on.
        if let Ok(counted) = window.readers.with(move |reader| reader.counted(&sources)).await {
            let seen = snapshot(&window, &counted, orders.is_stopped());
            feed.send_modify(|now| {
                let smoothed = if now.rate == 0.0 { rate } else { 0.8 * now.rate + 0.2 * rate };
                *now = Snapshot { rate: smoothed, ..seen };
            });
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Answers at the control socket for as long as what this gives lives.
async fn serve(
    state: &Path,
    answers: watch::Receiver<Snapshot>,
    began: Instant,
    orders: Orders,
) -> std::io::Result<control::ControlGuard> {
    control::serve(state, move |query| {
        let order = match query {
            Query::Status => {
                let running_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(0);
                return status(&answers.borrow(), running_ms, orders.now());
            }
            Query::Pause => Order::Pause,
            Query::Resume => Order::Go,
            Query::Drain => Order::Stop,
        };
        // A run that is told to stop stays told: the answer says what holds.
        orders.give(order);
        json!({"order": orders.now().name()})
    })
    .await
}

/// Where the run stands, but for its rate.
fn snapshot(window: &Window, counted: &BTreeMap<State, u64>, stopping: bool) -> Snapshot {
    let count = |state: State| counted.get(&state).copied().unwrap_or(0);
    Snapshot {
        known: true,
        stopping,
        listed: window.listed.load(Ordering::Relaxed),
        listing: window.listing.load(Ordering::Relaxed),
        indexed: count(State::Indexed),
        suspect: count(State::Suspect),
        retrying: count(State::Retrying),
        quarantined: count(State::Quarantined),
        excluded: count(State::Excluded),
        deleted: count(State::Deleted),
        pending: count(State::Pending),
        in_flight: in_flight(window),
        rate: 0.0,
    }
}

/// Path and time in ms of each document in hand, the one that takes longest first.
fn in_flight(window: &Window) -> Vec<(String, u64)> {
    let shown = window.shown.lock().unwrap_or_else(PoisonError::into_inner);
    let ms = |since: Instant| u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
    let mut in_flight: Vec<_> = shown.values().map(|one| (one.path.clone(), ms(one.since))).collect();
    in_flight.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    in_flight
}

fn status(now: &Snapshot, running_ms: u64, order: Order) -> Value {
    let in_flight: Vec<_> =
        now.in_flight.iter().map(|(path, ms)| json!({"path": path, "running_ms": ms})).collect();
    json!({
        "running_ms": running_ms,
        "order": order.name(),
        "listing": now.listing,
        "listed": now.listed,
        "indexed": now.indexed,
        "suspect": now.suspect,
        "retrying": now.retrying,
        "quarantined": now.quarantined,
        "excluded": now.excluded,
        "pending": now.pending,
        "deleted": now.deleted,
        "per_second": (now.rate * 10.0).round() / 10.0,
        "in_flight": in_flight,
    })
}

fn report(args: &RunArgs, mut outcome: run::Outcome, printer: &mut Printer, signalled: u8) -> Outcome {
    let books = outcome.books.take().map(|books| of_the_run(books, &outcome.names));
    if let Some(books) = books {
        let summary = Summary {
            outcome: outcome.end,
            reason: outcome.error.as_ref().map(ToString::to_string),
            took_ms: outcome.took_ms,
            carried: outcome.carried,
            books,
            clusters: outcome.clusters,
            alerts: outcome.alerts,
            next_due: outcome.next_due,
            degraded: outcome
                .missing
                .into_iter()
                .map(|(layer, why)| (layer.name().to_owned(), why))
                .collect(),
        };
        match args.format {
            Format::Text => printer.line(&summary.text(&TimeZone::system()))?,
            Format::Json => printer.line(&json::line(&summary.json()))?,
        }
        if outcome.error.is_none() {
            let is_covered = coverage::reaches(&summary.books, args.require_coverage, printer)?;
            let is_short = !summary.books.balanced || !outcome.breakers.is_empty() || !is_covered;
            return Ok(exit(outcome.end, is_short, signalled));
        }
    }
    match outcome.error {
        Some(error) => Err(error.into()),
        None => Err(CliError::new(Cause::Structural, "the ledger could not be read after the run")),
    }
}

/// The books of the run's sources; whether all balances is said of the whole ledger.
fn of_the_run(mut books: Books, names: &[String]) -> Books {
    books.sources.retain(|source| names.contains(&source.name));
    let mut total = Counts::default();
    for source in &books.sources {
        total.add(source);
    }
    Books { total, ..books }
}

fn exit(end: RunEnd, is_short: bool, signalled: u8) -> Exit {
    match end {
        RunEnd::Interrupted if signalled == 15 => Exit::Terminated,
        RunEnd::Interrupted => Exit::Interrupted,
        RunEnd::Completed | RunEnd::Aborted if is_short => Exit::Short,
        RunEnd::Completed | RunEnd::Aborted => Exit::Completed,
    }
}
