//! One launcher as the supervisor holds it: socket, pidfd, cgroup leaf, and what it said of the cages that it makes.

use super::super::cgroup::{Leaf, Place};
use super::super::control::Control;
use super::super::process::Process;
use super::super::spawner::{self, Wanted};
use super::super::zygote::{Plan, sockets};
use shared::Layer;
use shared::launch::{Greeting, Launch, PROTOCOL, Reply, WORD};
use std::ffi::CString;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

/// How long a launcher may take to try out its cage, on a machine that may be busy.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// How long it may take to make a process.
const SPAWNED_WITHIN: Duration = Duration::from_secs(10);
/// User ids of children, from the first on, and how many of the last of them are for commands.
const USERS: u32 = 4096;
const FOR_COMMANDS: u32 = 1024;

/// Why there is no launcher.
#[derive(Debug)]
pub(super) enum NoLauncher {
    /// No command may be run on this machine.
    Unfit(String),
    /// It could not be started, now.
    Broken { step: &'static str, source: io::Error },
}

impl NoLauncher {
    /// In words, for people.
    pub(super) fn words(&self) -> String {
        match self {
            NoLauncher::Unfit(why) => why.clone(),
            NoLauncher::Broken { step, source } => {
                format!("no launcher could be started, at the step '{step}': {source}")
            }
        }
    }
}

/// A running launcher. Killed and buried when dropped.
#[derive(Debug)]
pub(super) struct Launcher {
    control: Control,
    pub(super) process: Process,
    pub(super) leaf: Option<Leaf>,
    pub(super) layers: Vec<String>,
    pub(super) absent: Vec<(String, String)>,
    /// Its cages are namespaces of their own, and die with their first process.
    pub(super) namespaces: bool,
}

impl Launcher {
    /// Starts the `number`th one and waits until it has tried out its cage.
    pub(super) async fn start(plan: &Plan, number: u32) -> Result<Launcher, NoLauncher> {
        let broken = |step| move |source| NoLauncher::Broken { step, source };
        let (ours, theirs) = sockets().map_err(broken("make a socket"))?;
        let control = Control::new(ours).map_err(broken("watch its socket"))?;
        let program = CString::new(plan.program.as_os_str().as_bytes())
            .map_err(|error| NoLauncher::Broken { step: "name the program", source: error.into() })?;
        let word = CString::new(WORD).ok();
        let wanted = Wanted { program, word, control: theirs, variable: None };
        let leaf = plan.cgroups.as_ref().map_err(Clone::clone).and_then(leaf);
        let (pid, pidfd) = spawner::start(wanted).await.map_err(broken("start the program"))?;
        // From here on dropping it kills it.
        let mut launcher = Launcher {
            control,
            process: Process::new(pid, pidfd).map_err(broken("watch it"))?,
            leaf: None,
            layers: Vec::new(),
            absent: Vec::new(),
            namespaces: false,
        };
        launcher.enter_leaf(leaf);
        let user = plan.uid_base + USERS - 1 - number % FOR_COMMANDS;
        let greeting = Greeting { protocol: PROTOCOL, user, bare: plan.omit.has(Layer::MountNamespace) };
        launcher.control.send(&greeting, &[]).map_err(broken("greet it"))?;
        let answer = tokio::time::timeout(READY_WITHIN, launcher.control.receive()).await;
        let (reply, _) = answer
            .map_err(|_| broken("wait for its cage")(io::ErrorKind::TimedOut.into()))?
            .map_err(broken("hear from it"))?;
        match reply {
            Reply::Ready { protocol: PROTOCOL, layers, absent, namespaces } => {
                launcher.layers.splice(0..0, layers);
                launcher.absent.extend(absent);
                launcher.namespaces = namespaces;
                Ok(launcher)
            }
            Reply::Unfit { why } => Err(NoLauncher::Unfit(why)),
            _ => Err(broken("greet it")(nonsense())),
        }
    }

    /// Its memory is counted where its commands' is: they are born there.
    fn enter_leaf(&mut self, leaf: Result<Leaf, String>) {
        let entered = leaf.and_then(|leaf| {
            leaf.admit(self.process.pid).map_err(|error| error.to_string())?;
            Ok(leaf)
        });
        match entered {
            Ok(leaf) => {
                self.leaf = Some(leaf);
                self.layers.push(Layer::Cgroup.name().to_owned());
            }
            Err(why) => self.absent.push((Layer::Cgroup.name().to_owned(), why)),
        }
    }

    /// Has it make a cage. Gives the pidfd of its first process.
    pub(super) async fn launch(
        &mut self,
        launch: &Launch,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<OwnedFd> {
        self.control.send(launch, descriptors)?;
        let answer = tokio::time::timeout(SPAWNED_WITHIN, self.control.receive()).await;
        let (reply, descriptors) = answer.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        match (reply, descriptors.into_iter().next()) {
            (Reply::Spawned, Some(pidfd)) => Ok(pidfd),
            (Reply::Refused { errno, .. }, _) => Err(io::Error::from_raw_os_error(errno)),
            _ => Err(nonsense()),
        }
    }

    /// Whether it has not ended yet, and nothing of a command is left in its leaf.
    pub(super) fn is_sound(&self) -> bool {
        let alone = self.leaf.as_ref().is_none_or(|leaf| {
            leaf.members().is_ok_and(|members| members.iter().all(|&member| member == self.process.pid))
        });
        self.process.lives() && alone
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        self.process.kill();
        self.process.bury(self.leaf.take());
    }
}

fn leaf(place: &Place) -> Result<Leaf, String> {
    place.leaf().map_err(|error| error.to_string())
}

fn nonsense() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "an answer to what was not asked")
}
