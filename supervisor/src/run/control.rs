//! The operator's control socket, `control.sock` in the state folder: one line of JSON asks, one line answers.
//!
//! It never steers by itself: what an answer says, and what follows from an order, is the caller's. The folder is the user's alone (0700), so whoever can
//! connect may ask. The address of a socket holds 108 bytes, the path of a state folder may be longer: both sides go by way
//! of a descriptor of the folder, `/proc/self/fd/N/control.sock`. Only the holder of the folder's lock serves, so whatever
//! bears that name before is left over from a dead run and is replaced.

use interprocess::local_socket::tokio::{Listener, Stream as AsyncStream};
use interprocess::local_socket::traits::Stream as _;
use interprocess::local_socket::traits::tokio::Listener as _;
use interprocess::local_socket::{GenericFilePath, ListenerOptions, Name, Stream, ToFsName};
use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

const NAME: &str = "control.sock";
/// The longest question, in bytes.
const QUESTION_MAX: usize = 4 << 10;
/// The longest answer, in bytes.
const ANSWER_MAX: u64 = 1 << 20;
/// How long a client may take for its question, and for taking the answer; and how long it waits for one.
const PATIENCE: Duration = Duration::from_secs(5);
/// So many clients at a time; more of them wait.
const CLIENTS_MAX: usize = 8;

/// What can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "query", rename_all = "snake_case", deny_unknown_fields)]
pub enum Query {
    /// Where the run stands.
    Status,
    /// To take up nothing new.
    Pause,
    /// To go on after a pause.
    Resume,
    /// To finish what is in flight, and end.
    Drain,
}

/// Serves until it is dropped; then the socket is gone.
#[derive(Debug)]
pub struct ControlGuard {
    folder: OwnedFd,
    task: JoinHandle<()>,
}

impl Drop for ControlGuard {
    fn drop(&mut self) {
        self.task.abort();
        // It may be gone already, with the state folder itself.
        drop(std::fs::remove_file(below(&self.folder)));
    }
}

/// Answers questions at the socket of this state folder with what `answer` says. Runs on the current runtime.
///
/// # Errors
/// The socket cannot be made.
pub async fn serve(
    state: &Path,
    answer: impl Fn(Query) -> Value + Send + Sync + 'static,
) -> io::Result<ControlGuard> {
    let folder = folder_of(state)?;
    match std::fs::remove_file(below(&folder)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let options = ListenerOptions::new().name(socket_name(&folder)?).reclaim_name(false);
    let listener: Listener = options.create_tokio()?;
    let task = tokio::spawn(accept_all(listener, Arc::new(answer)));
    Ok(ControlGuard { folder, task })
}

async fn accept_all(listener: Listener, answer: Arc<impl Fn(Query) -> Value + Send + Sync + 'static>) {
    let places = Arc::new(Semaphore::new(CLIENTS_MAX));
    // The semaphore is never closed.
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        match listener.accept().await {
            Ok(client) => {
                let answer = Arc::clone(&answer);
                tokio::spawn(async move {
                    if let Err(error) = converse(client, &*answer).await {
                        tracing::debug!(%error, "a client of the control socket was let go");
                    }
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "the control socket takes no client");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

/// One question, one answer.
async fn converse(
    mut client: AsyncStream,
    answer: &(dyn Fn(Query) -> Value + Send + Sync),
) -> io::Result<()> {
    let question = tokio::time::timeout(PATIENCE, question(&mut client)).await??;
    let reply = match serde_json::from_slice::<Query>(&question) {
        Ok(query) => answer(query),
        Err(error) => serde_json::json!({"error": format!("no such question: {error}")}),
    };
    tokio::time::timeout(PATIENCE, client.write_all(format!("{reply}\n").as_bytes())).await??;
    client.flush().await
}

async fn question(client: &mut AsyncStream) -> io::Result<Vec<u8>> {
    let mut question = Vec::new();
    let mut chunk = [0; 512];
    loop {
        let count = client.read(&mut chunk).await?;
        let new = chunk.get(..count).unwrap_or_default();
        if let Some(end) = new.iter().position(|byte| *byte == b'\n') {
            question.extend_from_slice(new.get(..end).unwrap_or_default());
            return Ok(question);
        }
        question.extend_from_slice(new);
        if count == 0 || question.len() > QUESTION_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "no whole question came"));
        }
    }
}

/// Why a live run gave no answer.
#[derive(Debug)]
pub enum AskError {
    /// No run is on in this state folder.
    NoRun { state: PathBuf },
    /// The run does not answer.
    Io { state: PathBuf, source: io::Error },
    /// What it says is no answer.
    Answer { state: PathBuf, message: String },
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AskError::NoRun { state } => write!(f, "no run is on in {}", state.display()),
            AskError::Io { state, .. } => write!(f, "the run in {} does not answer", state.display()),
            AskError::Answer { state, message } => {
                write!(f, "the run in {} gave no answer: {message}", state.display())
            }
        }
    }
}

impl std::error::Error for AskError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            AskError::Io { source, .. } => Some(source),
            AskError::NoRun { .. } | AskError::Answer { .. } => None,
        }
    }
}

/// Asks the live run of this state folder. Blocks, for some seconds at most.
///
/// # Errors
/// There is none, or it does not answer.
pub fn ask(state: &Path, query: Query) -> Result<Value, AskError> {
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            AskError::NoRun { state: state.to_owned() }
        }
        _ => AskError::Io { state: state.to_owned(), source },
    };
    let line = exchange(state, query).map_err(failed)?;
    let answer: Value = serde_json::from_str(&line)
        .map_err(|error| AskError::Answer { state: state.to_owned(), message: error.to_string() })?;
    match answer.get("error").and_then(Value::as_str) {
        Some(message) => Err(AskError::Answer { state: state.to_owned(), message: message.to_owned() }),
        None => Ok(answer),
    }
}

fn exchange(state: &Path, query: Query) -> io::Result<String> {
    let folder = folder_of(state)?;
    let mut stream = Stream::connect(socket_name(&folder)?)?;
    stream.set_recv_timeout(Some(PATIENCE))?;
    stream.set_send_timeout(Some(PATIENCE))?;
    let question = serde_json::to_string(&query).map_err(io::Error::other)?;
    stream.write_all(format!("{question}\n").as_bytes())?;
    let mut line = String::new();
    BufReader::new(stream.take(ANSWER_MAX)).read_line(&mut line)?;
    Ok(line)
}

fn folder_of(state: &Path) -> io::Result<OwnedFd> {
    Ok(open(state, OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?)
}

/// A short path of the socket, for as long as the descriptor is open.
fn below(folder: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{NAME}", folder.as_raw_fd()))
}

fn socket_name(folder: &OwnedFd) -> io::Result<Name<'static>> {
    below(folder).to_fs_name::<GenericFilePath>().map(Name::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    async fn asked(state: &Path) -> Result<Value, AskError> {
        let state = state.to_owned();
        tokio::task::spawn_blocking(move || ask(&state, Query::Status)).await.unwrap()
    }

    async fn said(state: &Path, words: Vec<u8>) -> String {
        let folder = folder_of(state).unwrap();
        tokio::task::spawn_blocking(move || {
            let mut stream = Stream::connect(socket_name(&folder).unwrap()).unwrap();
            // The other side may let go before all is said.
            drop(stream.write_all(&words));
            let mut answer = String::new();
            drop(stream.read_to_string(&mut answer));
            answer
        })
        .await
        .unwrap()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_run_in_a_folder_with_a_long_path_answers() {
        let base = tempfile::tempdir().unwrap();
        let state = base.path().join("x".repeat(200));
        std::fs::create_dir(&state).unwrap();
        assert!(matches!(asked(&state).await, Err(AskError::NoRun { .. })));
        // Left over from a dead run.
        std::fs::write(state.join(NAME), "").unwrap();
        let guard = serve(&state, |query| json!({"asked": query})).await.unwrap();
        assert_eq!(asked(&state).await.unwrap(), json!({"asked": {"query": "status"}}));
        assert_eq!(asked(&state).await.unwrap(), json!({"asked": {"query": "status"}}));
        drop(guard);
        assert!(!state.join(NAME).exists());
        assert!(matches!(asked(&state).await, Err(AskError::NoRun { .. })));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_is_no_question_gets_an_error_and_what_is_too_long_nothing() {
        let base = tempfile::tempdir().unwrap();
        let _guard = serve(base.path(), |_| json!({})).await.unwrap();
        let answer = said(base.path(), b"{\"query\":\"stop\"}\n".to_vec()).await;
        assert!(answer.starts_with("{\"error\":\"no such question"), "{answer}");
        assert_eq!(said(base.path(), vec![b'x'; 2 * QUESTION_MAX]).await, "");
        assert_eq!(asked(base.path()).await.unwrap(), json!({}));
    }
}
