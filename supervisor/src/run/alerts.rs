//! What people have to know beyond single documents: kept for the summary, and given to a command of the user's at once.
//!
//! The command is the user's own program, outside of any cage. It gets one JSON object on its standard input; how it ends
//! changes nothing about the run, and is said where it failed.

use crate::report::time;
use crate::run::Orders;
use crate::run::desk::now;
use serde_json::json;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::task::JoinSet;

/// How long the command may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The alerts of a run; cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Alerts {
    command: Arc<[String]>,
    raised: Arc<Mutex<Vec<String>>>,
    under_way: Arc<Mutex<JoinSet<()>>>,
}

/// What an alert is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topic {
    /// A breaker has opened, or is still open.
    Breaker,
    /// A listing lost what no listing should lose.
    Deletions,
    /// The last run ended without warning, or the index was not what it should be.
    Recovery,
}

impl Topic {
    fn name(self) -> &'static str {
        match self {
            Topic::Breaker => "breaker",
            Topic::Deletions => "deletions",
            Topic::Recovery => "recovery",
        }
    }
}

impl Alerts {
    /// With this command for each; empty: none.
    pub fn new(command: &[String]) -> Self {
        Alerts { command: command.into(), ..Alerts::default() }
    }

    /// Raises one: once, however often it is said in a run.
    pub fn raise(&self, topic: Topic, source: Option<&str>, message: &str) {
        if !self.mention(source, message) || self.command.is_empty() {
            return;
        }
        let object = json!({
            "topic": topic.name(),
            "source": source,
            "message": message,
            "at": time::utc(now()),
        });
        let (command, raised) = (self.command.clone(), self.raised.clone());
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner).spawn(async move {
            if let Err(why) = tell(&command, object.to_string()).await {
                let message = format!("the alert command failed: {why}");
                raised.lock().unwrap_or_else(PoisonError::into_inner).push(message);
            }
        });
    }

    /// Says it in the summary alone. Gives whether it is new there.
    pub fn mention(&self, source: Option<&str>, message: &str) -> bool {
        let line = source.map_or_else(|| message.to_owned(), |source| format!("{source}: {message}"));
        let mut raised = self.raised.lock().unwrap_or_else(PoisonError::into_inner);
        let new = !raised.contains(&line);
        if new {
            raised.push(line);
        }
        new
    }

    /// Waits for the commands that were started, unless the run is to end now, and gives all that was raised.
    pub async fn close(&self, orders: &Orders) -> Vec<String> {
        let mut under_way =
            std::mem::take(&mut *self.under_way.lock().unwrap_or_else(PoisonError::into_inner));
        loop {
            tokio::select! {
                ended = under_way.join_next() => if ended.is_none() { break },
                // What is dropped here is killed.
                () = orders.abandoned() => break,
            }
        }
        std::mem::take(&mut self.raised.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn tell(command: &[String], object: String) -> Result<(), String> {
    let Some((program, arguments)) = command.split_first() else { return Ok(()) };
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("{program}: {error}"))?;
    let done = async {
        if let Some(mut stdin) = child.stdin.take() {
            // One that does not want to read it has been started all the same.
            drop(stdin.write_all(object.as_bytes()).await);
            drop(stdin.write_all(b"\n").await);
        }
        child.wait().await.map_err(|error| error.to_string())
    };
    let status = tokio::time::timeout(PATIENCE, done).await;
    let status = status.map_err(|_| format!("{program} took longer than {} s", PATIENCE.as_secs()))??;
    if status.success() { Ok(()) } else { Err(format!("{program}: {status}")) }
}
