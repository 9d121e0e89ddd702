//! The one thread that writes. It takes every request that waits, does them in order inside one transaction, commits,
//! and only then answers. The first error ends it: whatever it is, it concerns the run, and a ledger that may be damaged
//! must not be written to again.

use super::error::{LedgerError, io, sql};
use super::event::Event;
use super::items::Directories;
use super::post::Posting;
use super::record::{Millis, SourceId};
use super::{Applied, Durability, RunEnd, SourceRow};
use crate::fault_point::{Point, reach};
use crate::rules::breaker::{Breaker, Scope};
use rusqlite::{Connection, TransactionBehavior};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use tokio::sync::oneshot;

/// How many requests at most go into one transaction.
const GROUP: usize = 512;

/// What is asked of the writer.
#[derive(Debug)]
enum Work {
    Append(Vec<Event>),
    Source {
        name: String,
        root: PathBuf,
    },
    RootDevice {
        source: SourceId,
        device: u64,
    },
    BeginRun {
        at: Millis,
        boot_id: Option<String>,
    },
    EndRun {
        run: i64,
        at: Millis,
        end: RunEnd,
    },
    /// A breaker stands like this from now on; `None`: it is closed.
    Breaker {
        scope: Scope,
        name: String,
        breaker: Option<Box<Breaker>>,
    },
    /// A number under a name.
    Note {
        name: String,
        value: i64,
    },
    /// Ends the thread; marks the ledger as cleanly closed where it is.
    Close {
        clean: bool,
    },
}

/// What came of it.
#[derive(Debug)]
enum Done {
    Applied(Vec<Applied>),
    Source(SourceRow),
    Run(i64),
    Nothing,
}

#[derive(Debug)]
struct Request {
    work: Work,
    durability: Durability,
    answer: oneshot::Sender<Result<Done, LedgerError>>,
}

/// Appends events; cheap to clone, usable from any task.
#[derive(Debug, Clone)]
pub struct LedgerHandle {
    requests: mpsc::Sender<Request>,
    /// Why the writer has ended, where it met an error.
    cause: Cause,
}

type Cause = Arc<Mutex<Option<LedgerError>>>;

impl LedgerHandle {
    /// Applies `events` in order, as one transaction (perhaps together with those of other callers), and returns what
    /// became of each.
    ///
    /// # Errors
    /// A structural one: nothing of this call was recorded, and nothing will be any more.
    pub async fn append(
        &self,
        events: Vec<Event>,
        durability: Durability,
    ) -> Result<Vec<Applied>, LedgerError> {
        self.settled(self.ask(Work::Append(events), durability).await?)
    }

    /// The same for a thread outside of the runtime; blocks.
    ///
    /// # Errors
    /// As [`LedgerHandle::append`].
    pub fn append_blocking(
        &self,
        events: Vec<Event>,
        durability: Durability,
    ) -> Result<Vec<Applied>, LedgerError> {
        self.settled(self.ask_blocking(Work::Append(events), durability)?)
    }

    fn settled(&self, done: Done) -> Result<Vec<Applied>, LedgerError> {
        match done {
            Done::Applied(applied) => Ok(applied),
            _ => Err(LedgerError::Ended),
        }
    }

    /// The source of this name, made where it is new. The root is brought up to date.
    ///
    /// # Errors
    /// As [`LedgerHandle::append`].
    pub async fn source(&self, name: &str, root: &Path) -> Result<SourceRow, LedgerError> {
        let work = Work::Source { name: name.to_owned(), root: root.to_owned() };
        match self.ask(work, Durability::Synced).await? {
            Done::Source(row) => Ok(row),
            _ => Err(LedgerError::Ended),
        }
    }

    /// Notes on which device the root was, after a listing that walked it.
    ///
    /// # Errors
    /// As [`LedgerHandle::append`].
    pub async fn root_device(&self, source: SourceId, device: u64) -> Result<(), LedgerError> {
        self.ask(Work::RootDevice { source, device }, Durability::Journal).await.map(drop)
    }

    /// Notes the beginning of a run (with the machine's boot id) and gives its number.
    ///
    /// # Errors
    /// As [`LedgerHandle::append`].
    pub async fn begin_run(&self, at: Millis) -> Result<i64, LedgerError> {
        match self.ask(Work::BeginRun { at, boot_id: boot_id() }, Durability::Synced).await? {
            Done::Run(run) => Ok(run),
            _ => Err(LedgerError::Ended),
        }
    }

    /// Notes how a run ended.
    ///
    /// # Errors
    /// As [`LedgerHandle::append`].
    pub async fn end_run(&self, run: i64, at: Millis, end: RunEnd) -> Result<(), LedgerError> {
        self.ask(Work::EndRun { run, at, end }, Durability::Synced).await.map(drop)
    }

    /// Notes how a breaker stands; `None`: it is closed.
    ///
    /// # Errors
    /// As [`LedgerHandle::append`].
    pub async fn breaker(
        &self,
        scope: Scope,
        name: &str,
        breaker: Option<&Breaker>,
    ) -> Result<(), LedgerError> {
        let breaker = breaker.cloned().map(Box::new);
        self.ask(Work::Breaker { scope, name: name.to_owned(), breaker }, Durability::Synced).await.map(drop)
    }

    /// Keeps a number under a name, for [`super::Reader::note`].
    ///
    /// # Errors
    /// As [`LedgerHandle::append`].
    pub async fn note(&self, name: &str, value: i64) -> Result<(), LedgerError> {
        self.ask(Work::Note { name: name.to_owned(), value }, Durability::Journal).await.map(drop)
    }

    /// Why the writer has ended, where it met an error: for those who were only told that it has.
    pub fn cause(&self) -> Option<LedgerError> {
        self.cause.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(LedgerError::again)
    }

    async fn ask(&self, work: Work, durability: Durability) -> Result<Done, LedgerError> {
        let answer = async { self.send(work, durability)?.await.unwrap_or(Err(LedgerError::Ended)) };
        answer.await.map_err(|error| self.explained(error))
    }

    fn ask_blocking(&self, work: Work, durability: Durability) -> Result<Done, LedgerError> {
        let answer = self
            .send(work, durability)
            .and_then(|answer| answer.blocking_recv().unwrap_or(Err(LedgerError::Ended)));
        answer.map_err(|error| self.explained(error))
    }

    /// Whoever comes after the one whose work met the error is told why as well: it may be the only one that people hear.
    fn explained(&self, error: LedgerError) -> LedgerError {
        match error {
            LedgerError::Ended => self.cause().unwrap_or(LedgerError::Ended),
            other => other,
        }
    }

    fn send(
        &self,
        work: Work,
        durability: Durability,
    ) -> Result<oneshot::Receiver<Result<Done, LedgerError>>, LedgerError> {
        let (answer, receiver) = oneshot::channel();
        self.requests.send(Request { work, durability, answer }).map_err(|_| LedgerError::Ended)?;
        Ok(receiver)
    }

    /// Ends the writer; blocks until it has.
    pub(super) fn close(&self, clean: bool) -> Result<(), LedgerError> {
        self.ask_blocking(Work::Close { clean }, Durability::Synced).map(drop)
    }
}

/// Tells one boot of this machine from another. Without one, every end is taken for one on another boot.
pub fn boot_id() -> Option<String> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned())
}

/// Starts the thread that writes to `db`, which is the file at `path`.
pub(super) fn start(db: Connection, path: PathBuf) -> Result<(LedgerHandle, JoinHandle<()>), LedgerError> {
    let (requests, waiting) = mpsc::channel();
    let named = path.clone();
    let cause = Cause::default();
    let writer =
        Writer { db, path, durability: None, directories: Directories::default(), cause: cause.clone() };
    let thread = std::thread::Builder::new()
        .name("ledger".to_owned())
        .spawn(move || writer.serve(&waiting))
        .map_err(|error| io(&named, error))?;
    Ok((LedgerHandle { requests, cause }, thread))
}

struct Writer {
    db: Connection,
    path: PathBuf,
    /// What the connection is set to.
    durability: Option<Durability>,
    directories: Directories,
    cause: Cause,
}

impl Writer {
    fn serve(mut self, waiting: &mpsc::Receiver<Request>) {
        while let Ok(first) = waiting.recv() {
            let group: Vec<Request> =
                std::iter::once(first).chain(waiting.try_iter().take(GROUP - 1)).collect();
            let closing = group.iter().any(|request| matches!(request.work, Work::Close { .. }));
            let (done, failed) = match self.commit(&group) {
                Ok(done) => (done, None),
                Err(error) => (Vec::new(), Some(error)),
            };
            let ended = failed.is_some();
            if let Some(error) = &failed {
                *self.cause.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.again());
            }
            if ended && let Err(error) = super::open::leave_the_log(&self.db, &self.path, true) {
                tracing::debug!(%error, "closing the ledger may still fold its log in");
            }
            answer(group, done, failed);
            if ended || closing {
                return;
            }
        }
    }

    /// Does a group as one transaction: all of it, or none.
    fn commit(&mut self, group: &[Request]) -> Result<Vec<Done>, LedgerError> {
        let synced = group.iter().any(|request| request.durability == Durability::Synced);
        let wanted = if synced { Durability::Synced } else { Durability::Journal };
        self.in_transaction(group, wanted).map_err(|error| sql(&self.path, error)).inspect_err(|_| {
            self.directories.forget();
        })
    }

    fn in_transaction(&mut self, group: &[Request], wanted: Durability) -> rusqlite::Result<Vec<Done>> {
        if self.durability != Some(wanted) {
            let level = if wanted == Durability::Synced { "FULL" } else { "NORMAL" };
            self.db.pragma_update(None, "synchronous", level)?;
            self.durability = Some(wanted);
        }
        let transaction = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut posting = Posting::new(&transaction, &mut self.directories);
        let done = group
            .iter()
            .map(|request| carry_out(&transaction, &mut posting, &request.work))
            .collect::<rusqlite::Result<Vec<Done>>>()?;
        posting.finish()?;
        reach(Point::InLedgerCommit);
        transaction.commit()?;
        Ok(done)
    }
}

fn carry_out(db: &Connection, posting: &mut Posting<'_>, work: &Work) -> rusqlite::Result<Done> {
    match work {
        Work::Append(events) => {
            events.iter().map(|event| posting.post(event)).collect::<rusqlite::Result<_>>().map(Done::Applied)
        }
        Work::Source { name, root } => source(db, name, root).map(Done::Source),
        Work::RootDevice { source, device } => {
            db.prepare_cached("UPDATE sources SET root_device = ?2 WHERE id = ?1")?
                .execute((source.0, super::row::bits(*device)))?;
            Ok(Done::Nothing)
        }
        Work::BeginRun { at, boot_id } => db
            .prepare_cached("INSERT INTO runs (began, boot_id) VALUES (?1, ?2)")?
            .insert((at, boot_id))
            .map(Done::Run),
        Work::EndRun { run, at, end } => {
            db.prepare_cached("UPDATE runs SET ended = ?2, end = ?3 WHERE id = ?1")?.execute((
                run,
                at,
                end.name(),
            ))?;
            Ok(Done::Nothing)
        }
        Work::Breaker { scope, name, breaker: Some(breaker) } => {
            db.prepare_cached("INSERT OR REPLACE INTO breakers (scope, name, body) VALUES (?1, ?2, ?3)")?
                .execute((scope.name(), name, super::row::json(breaker)?))?;
            Ok(Done::Nothing)
        }
        Work::Breaker { scope, name, breaker: None } => {
            db.prepare_cached("DELETE FROM breakers WHERE scope = ?1 AND name = ?2")?
                .execute((scope.name(), name))?;
            Ok(Done::Nothing)
        }
        Work::Note { name, value } => {
            db.prepare_cached("INSERT OR REPLACE INTO meta (name, value) VALUES (?1, ?2)")?
                .execute((name, value))?;
            Ok(Done::Nothing)
        }
        Work::Close { clean } => {
            if *clean {
                super::open::mark(db, true)?;
            }
            Ok(Done::Nothing)
        }
    }
}

fn source(db: &Connection, name: &str, root: &Path) -> rusqlite::Result<SourceRow> {
    db.prepare_cached(
        "INSERT INTO sources (name, root) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET root = ?2
         RETURNING id, name, root, root_device",
    )?
    .query_row((name, root.as_os_str().as_bytes()), super::reader::source_row)
}

/// Tells everyone; the first of a group that failed is told why.
fn answer(group: Vec<Request>, done: Vec<Done>, failed: Option<LedgerError>) {
    let mut done = done.into_iter();
    let mut failed = failed;
    for request in group {
        let outcome = done.next().ok_or_else(|| failed.take().unwrap_or(LedgerError::Ended));
        if request.answer.send(outcome).is_err() {
            // Whoever asked has stopped waiting; the work stands.
        }
    }
}
