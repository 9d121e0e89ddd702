//! One zygote as the supervisor holds it: socket, pidfd, listener, cgroup leaf, and what it said of itself.

use super::PoolError;
use super::cgroup::{Leaf, Place};
use super::control::Control;
use super::process::Process;
use super::spawner::{self, Wanted};
use crate::settings::Cage;
use crate::sys;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use shared::ask::{Hello, PROTOCOL, Proof, Reply};
use shared::{Layer, Layers};
use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::unix::AsyncFd;

/// How long a zygote may take to put up its cage. It warms its parsers in that time, on a machine that may be busy.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// What every zygote of a pool is started with.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) program: PathBuf,
    /// Bytes of the program's file: no address of its code lies further from its base.
    pub(super) program_size: u64,
    pub(super) uid_base: u32,
    pub(super) faults: bool,
    pub(super) omit: Layers,
    pub(super) require: Layers,
    pub(super) cgroups: Result<Place, String>,
}

/// A running zygote. Killed and buried when dropped.
#[derive(Debug)]
pub(super) struct Zygote {
    pub(super) control: Control,
    pub(super) process: Process,
    pub(super) listener: Option<AsyncFd<OwnedFd>>,
    pub(super) leaf: Option<Leaf>,
    pub(super) layers: Layers,
    pub(super) absent: Vec<(Layer, String)>,
    pub(super) proofs: Vec<Proof>,
    pub(super) touched_kib: u64,
    pub(super) code_base: u64,
    pub(super) children: u32,
}

impl Plan {
    /// Finds the worker's program and the place for its cgroups.
    pub(super) fn new(cage: &Cage) -> Result<Arc<Plan>, PoolError> {
        let program = match &cage.worker {
            Some(path) => path.clone(),
            None => std::env::current_exe()
                .map_err(|source| PoolError::Start { step: "find our own program".to_owned(), source })?
                .with_file_name("lazaret-worker"),
        };
        let program_size = match std::fs::metadata(&program) {
            Ok(metadata) if metadata.is_file() => metadata.len(),
            _ => return Err(PoolError::WorkerMissing { path: program }),
        };
        let omit = if cfg!(feature = "fault-points") { cage.omit } else { Layers::NONE };
        let cgroups = if omit.has(Layer::Cgroup) { Err("left out".to_owned()) } else { Place::ours() };
        Ok(Arc::new(Plan {
            program,
            program_size,
            uid_base: cage.uid_base,
            faults: cage.faults,
            omit,
            require: cage.require,
            cgroups,
        }))
    }
}

impl Zygote {
    /// Starts one and waits until its cage stands.
    pub(super) async fn start(plan: &Plan, slot: u32) -> Result<Zygote, PoolError> {
        let failed = |step: &str| {
            let step = step.to_owned();
            move |source| PoolError::Start { step, source }
        };
        let (ours, theirs) = sockets().map_err(failed("make a socket"))?;
        let control = Control::new(ours).map_err(failed("watch its socket"))?;
        let program = CString::new(plan.program.as_os_str().as_bytes())
            .map_err(|_| PoolError::WorkerMissing { path: plan.program.clone() })?;
        let variable = plan.omit.has(Layer::Environment).then(|| c"LAZARET_CANARY=1".to_owned());
        let wanted = Wanted { program, word: None, control: theirs, variable };
        let leaf = plan.cgroups.as_ref().ok().map(Place::leaf).transpose();
        let (pid, pidfd) = spawner::start(wanted).await.map_err(failed("start the program"))?;
        // From here on dropping it kills it.
        let mut zygote = Zygote {
            control,
            process: Process::new(pid, pidfd).map_err(failed("watch it"))?,
            listener: None,
            leaf: None,
            layers: Layers::NONE,
            absent: Vec::new(),
            proofs: Vec::new(),
            touched_kib: 0,
            code_base: 0,
            children: 0,
        };
        zygote.enter_leaf(leaf, plan);
        let hello =
            Hello { protocol: PROTOCOL, slot, uid_base: plan.uid_base, faults: plan.faults, omit: plan.omit };
        zygote.control.send(&hello, &[]).map_err(failed("greet it"))?;
        let answer = tokio::time::timeout(READY_WITHIN, zygote.control.receive()).await;
        let (reply, descriptors) = answer
            .map_err(|_| PoolError::Start {
                step: "wait for its cage".to_owned(),
                source: io::ErrorKind::TimedOut.into(),
            })?
            .map_err(failed("hear from it"))?;
        zygote.settle(reply, descriptors, &plan.program)?;
        Ok(zygote)
    }

    fn enter_leaf(&mut self, leaf: io::Result<Option<Leaf>>, plan: &Plan) {
        let entered = leaf.and_then(|leaf| match leaf {
            Some(leaf) => leaf.admit(self.process.pid).map(|()| Some(leaf)),
            None => Ok(None),
        });
        match (entered, &plan.cgroups) {
            (Ok(Some(leaf)), _) => {
                self.leaf = Some(leaf);
                self.layers = self.layers.with(Layer::Cgroup);
            }
            (Ok(None), Err(why)) => self.absent.push((Layer::Cgroup, why.clone())),
            (Ok(None), Ok(_)) => {}
            (Err(error), _) => self.absent.push((Layer::Cgroup, error.to_string())),
        }
        if plan.omit.has(Layer::Cgroup) {
            // A claim that is not true, as of every layer that a test leaves out.
            self.layers = self.layers.with(Layer::Cgroup);
        }
    }

    fn settle(&mut self, reply: Reply, descriptors: Vec<OwnedFd>, program: &Path) -> Result<(), PoolError> {
        match reply {
            Reply::Ready { protocol, layers, absent, proofs, touched_kib, code_base } => {
                if protocol != PROTOCOL {
                    return Err(PoolError::Version {
                        path: program.to_owned(),
                        ours: PROTOCOL,
                        theirs: protocol,
                    });
                }
                self.listener = descriptors.into_iter().next().map(sys::watch).transpose().map_err(
                    |(_listener, source)| PoolError::Start { step: "watch the listener".to_owned(), source },
                )?;
                // Whether there is a cgroup is known here alone.
                self.layers = self.layers.union(layers.without(Layer::Cgroup));
                self.absent.extend(absent.into_iter().filter(|(layer, _)| *layer != Layer::Cgroup));
                self.proofs = proofs;
                self.touched_kib = touched_kib;
                self.code_base = code_base;
                Ok(())
            }
            Reply::Broken { step, errno } => {
                Err(PoolError::Start { step, source: io::Error::from_raw_os_error(errno) })
            }
            Reply::Spawned { .. } | Reply::Refused { .. } => Err(PoolError::Start {
                step: "greet it".to_owned(),
                source: io::Error::new(io::ErrorKind::InvalidData, "an answer to what was not asked"),
            }),
        }
    }
}

impl Drop for Zygote {
    fn drop(&mut self) {
        self.process.kill();
        self.process.bury(self.leaf.take());
    }
}

/// Our end of the socket, which does not block, and the zygote's, which does.
pub(super) fn sockets() -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)?;
    no_block(&ours)?;
    Ok((ours, theirs))
}

/// Makes reads on this end return at once.
pub(super) fn no_block(fd: &OwnedFd) -> io::Result<()> {
    fcntl(fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok(())
}
