//! The pool against the real worker: each way to misbehave has its name, and nothing is left behind.

use shared::{Answer, Layer, Layers};
use std::path::PathBuf;
use std::time::Duration;
use supervisor::doctor::LayerState;
use supervisor::pool::{Ending, Flow, Lease, Outcome, Pool, Receiver};
use supervisor::rules::kind::Kind;
use supervisor::settings::Cage;
use tests::caged::{LIMITS, block, fault, fault_job};

fn cage() -> Cage {
    Cage {
        require: [Layer::NoNewPrivileges, Layer::SeccompZygote, Layer::Rlimits].into_iter().collect(),
        faults: true,
        uid_base: 2_000_000_000,
        omit: Layers::NONE,
        worker: Some(PathBuf::from(env!("CARGO_BIN_EXE_worker-under-test"))),
    }
}

#[derive(Default)]
struct Kept {
    text: String,
    answers: usize,
    stop_after: Option<usize>,
    on_text: Option<Box<dyn FnMut() + Send>>,
}

impl Receiver for Kept {
    fn take(&mut self, answer: Answer) -> Flow {
        self.answers += 1;
        if let Answer::Text(text) = &answer {
            self.text.push_str(text);
        }
        if let (Answer::Progress { .. } | Answer::Text(_), Some(act)) = (answer, &mut self.on_text) {
            act();
        }
        if self.stop_after == Some(self.answers) { Flow::Stop } else { Flow::Continue }
    }
}

async fn carry(lease: &mut Lease, lines: &str) -> (Ending, Kept) {
    let mut kept = Kept::default();
    let ending = lease.run(fault_job(lines, LIMITS), &mut kept).await;
    (ending, kept)
}

fn kind(ending: &Ending) -> String {
    match &ending.outcome {
        Outcome::Failed(fault) => fault.kind.name().to_owned(),
        Outcome::Ended(end) => {
            end.refusal.as_ref().map_or_else(|| "ended".to_owned(), |refusal| format!("{:?}", refusal.why))
        }
        Outcome::Stopped => "stopped".to_owned(),
    }
}

const ACTS: &[(&str, &str)] = &[
    ("text hello", "ended"),
    ("metadata\ntext a", "ended"),
    ("member a.txt hello", "ended"),
    ("encrypted", "Encrypted"),
    ("malformed", "Malformed"),
    ("truncated", "Truncated"),
    ("unsupported", "Unsupported"),
    ("nothing-like-it", "Malformed"),
    ("signal segv", "crash.segv"),
    ("signal wild-jump", "crash.segv"),
    ("signal bus", "crash.bus"),
    ("signal ill", "crash.ill"),
    ("signal fpe", "crash.fpe"),
    ("signal abort", "crash.abort"),
    ("signal trap", "crash.signal"),
    ("half", "crash.segv"),
    ("stack-overflow", "crash.stack_overflow"),
    ("deep-frames", "crash.stack_overflow"),
    ("panic at the disco", "parse.panic"),
    ("panic-twice", "parse.panic"),
    ("alloc 1073741824", "memory.limit"),
    ("grow", "memory.limit"),
    ("spin", "time.cpu"),
    ("spin-ignoring-xcpu", "time.cpu"),
    ("sleep", "time.stalled"),
    ("stall", "time.stalled"),
    ("drip 300", "time.stalled"),
    ("exit 7", "violation.protocol"),
    ("exit 120", "violation.protocol"),
    ("syscall openat", "ended"),
    ("syscall statx", "ended"),
    ("syscall socket-inet", "violation.syscall"),
    ("syscall socket-unix", "violation.syscall"),
    ("syscall socket-vsock", "violation.syscall"),
    ("syscall fork", "violation.syscall"),
    ("syscall vfork", "violation.syscall"),
    ("syscall clone", "violation.syscall"),
    ("syscall kill-parent", "violation.syscall"),
    ("syscall kill-all", "violation.syscall"),
    ("syscall ptrace", "violation.syscall"),
    ("syscall process_vm_readv", "violation.syscall"),
    ("syscall execve", "violation.syscall"),
    ("syscall mmap-rwx", "violation.syscall"),
    ("syscall mprotect-exec", "violation.syscall"),
    ("syscall io_uring_setup", "violation.syscall"),
    ("syscall userfaultfd", "violation.syscall"),
    ("syscall bpf", "violation.syscall"),
    ("syscall keyctl", "violation.syscall"),
    ("syscall prctl-dumpable", "violation.syscall"),
    ("syscall prlimit", "violation.syscall"),
    ("syscall unshare", "violation.syscall"),
    ("syscall mount", "violation.syscall"),
    ("syscall rt_sigaction", "violation.syscall"),
    ("syscall nanosleep", "violation.syscall"),
    ("syscall unknown-number", "violation.syscall"),
    ("raise KILL", "violation.syscall"),
    ("raise STOP", "violation.syscall"),
    ("raise SYS", "violation.syscall"),
    ("raise XCPU", "violation.syscall"),
    ("x32", "violation.arch"),
    ("int80", "violation.arch"),
    ("read-fd 3", "violation.syscall"),
    ("write-fd 9", "violation.syscall"),
    ("mmap-shared", "violation.syscall"),
    ("garbage", "violation.protocol"),
    ("wrong-magic", "violation.protocol"),
    ("wrong-nonce", "violation.protocol"),
    ("oversized", "violation.protocol"),
    ("half-frame", "violation.protocol"),
    ("two-ends", "violation.protocol"),
    ("after-end", "violation.protocol"),
    ("no-end", "violation.protocol"),
    ("no-locked", "violation.protocol"),
    ("wrong-counts", "violation.protocol"),
    ("bad-payload utf8", "violation.protocol"),
    ("bad-payload bool", "violation.protocol"),
    ("end-then-crash", "crash.segv"),
    ("flood", "output.limit"),
    ("zero-flood", "output.limit"),
    ("recorder-lies", "ended"),
];

#[test]
fn every_misdeed_has_its_name() {
    block(async {
        let pool = Pool::start(&cage(), 1).await.unwrap();
        let mut lease = pool.lend().await;
        let mut wrong = Vec::new();
        for (act, expected) in ACTS {
            let (ending, _) = carry(&mut lease, act).await;
            if kind(&ending) != *expected {
                wrong.push(format!("{act}: {ending:?}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    });
}

#[test]
fn the_kernel_names_the_call_and_the_crash_its_place() {
    block(async {
        let pool = Pool::start(&cage(), 1).await.unwrap();
        let mut lease = pool.lend().await;
        let socket = fault(carry(&mut lease, "syscall socket-inet").await.0);
        assert_eq!(socket.evidence.syscall.as_deref(), Some("socket"));
        assert!(socket.hostile);
        let one = fault(carry(&mut lease, "signal segv").await.0);
        let two = fault(carry(&mut lease, "text before\nsignal segv").await.0);
        assert!(!one.evidence.frames.is_empty());
        assert_eq!(one.evidence.fingerprint, two.evidence.fingerprint);
        assert!(one.evidence.layers.contains(&"no-new-privileges".to_owned()));
    });
}

#[test]
fn a_killed_zygote_costs_one_document() {
    block(async {
        let pool = Pool::start(&cage(), 1).await.unwrap();
        let mut lease = pool.lend().await;
        let zygote = lease.zygote_pid().unwrap();
        let mut kept =
            Kept { on_text: Some(Box::new(move || send(zygote, libc::SIGKILL))), ..Kept::default() };
        let ending = lease.run(fault_job("stall", LIMITS), &mut kept).await;
        assert_eq!(fault(ending).kind, Kind::WorkerLost);
        let (next, kept) = carry(&mut lease, "text next").await;
        assert_eq!(kind(&next), "ended");
        assert!(kept.text.contains("next"));
        assert_ne!(lease.zygote_pid(), Some(zygote));
        // Killed while nothing runs, it costs none.
        send(lease.zygote_pid().unwrap(), libc::SIGKILL);
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(kind(&carry(&mut lease, "text after").await.0), "ended");
    });
}

#[test]
fn signals_from_outside_are_told_from_the_document_s_own() {
    block(async {
        let pool = std::sync::Arc::new(Pool::start(&cage(), 1).await.unwrap());
        let mut lease = pool.lend().await;
        for (signal, expected) in [(libc::SIGSTOP, Kind::TimeStalled), (libc::SIGKILL, Kind::WorkerLost)] {
            let watched = std::sync::Arc::clone(&pool);
            let act = move || watched.in_flight().iter().for_each(|child| send(child.pid, signal));
            let mut kept = Kept { on_text: Some(Box::new(act)), ..Kept::default() };
            // The sign of life of `stall` is when it is known to be at work.
            let ending = lease.run(fault_job("stall", LIMITS), &mut kept).await;
            assert_eq!(fault(ending).kind, expected);
        }
    });
}

#[test]
fn the_receiver_stops_a_child() {
    block(async {
        let pool = Pool::start(&cage(), 1).await.unwrap();
        let mut lease = pool.lend().await;
        let zygote = lease.zygote_pid();
        let mut kept = Kept { stop_after: Some(3), ..Kept::default() };
        let ending = lease.run(fault_job("member-flood", LIMITS), &mut kept).await;
        assert_eq!(kind(&ending), "stopped");
        assert_eq!(kept.answers, 3);
        assert_eq!(lease.zygote_pid(), zygote, "it costs no zygote");
        assert_eq!(kind(&carry(&mut lease, "text a").await.0), "ended");
    });
}

#[test]
fn a_dropped_run_kills_its_child() {
    block(async {
        let pool = Pool::start(&cage(), 1).await.unwrap();
        let mut lease = pool.lend().await;
        let mut kept = Kept::default();
        let run = lease.run(fault_job("stall", LIMITS), &mut kept);
        assert!(tokio::time::timeout(Duration::from_millis(300), run).await.is_err());
        assert_eq!(kind(&carry(&mut lease, "text a").await.0), "ended");
    });
}

#[test]
fn a_missing_worker_and_a_missing_layer_are_structural() {
    block(async {
        let mut missing = cage();
        missing.worker = Some(PathBuf::from("/nowhere/lazaret-worker"));
        let error = Pool::start(&missing, 1).await.unwrap_err();
        assert!(error.to_string().contains("/nowhere/lazaret-worker"), "{error}");
        let mut wrong = cage();
        wrong.worker = Some(PathBuf::from("/bin/true"));
        assert!(Pool::start(&wrong, 1).await.is_err());
    });
}

fn send(pid: i32, signal: i32) {
    let signal = nix::sys::signal::Signal::try_from(signal).unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal).unwrap();
}

#[test]
fn doctor_proves_what_holds() {
    block(async {
        let whole = supervisor::doctor::examine(&cage()).await;
        assert_eq!(whole.broken, None);
        for attack in &whole.attacks {
            assert!(attack.held, "{attack:?}");
        }
        for layer in &whole.layers {
            // What this machine does not give is said; what is claimed is proven.
            let said = layer.state == LayerState::Absent && !layer.reason.starts_with("claimed");
            assert!(layer.state == LayerState::Enforced || said, "{layer:?}");
        }
    });
}

#[test]
fn doctor_names_each_layer_that_was_left_out() {
    const AT_A_TIME: usize = 4;
    block(async {
        let mut wrong = Vec::new();
        for layers in Layer::ALL.chunks(AT_A_TIME) {
            let mut under_way = tokio::task::JoinSet::new();
            for &layer in layers {
                under_way.spawn(left_out(layer));
            }
            wrong.extend(under_way.join_all().await.into_iter().flatten());
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    });
}

/// What doctor says, where it does not find that this layer was left out.
async fn left_out(layer: Layer) -> Option<String> {
    let mut without = cage();
    // Not the user of another examination that is under way.
    without.uid_base += 100 * (layer as u32 + 1);
    without.omit = Layers::NONE.with(layer);
    if layer == Layer::NoNewPrivileges {
        // What locks itself in needs either that or a capability, and sees to it.
        without.omit = without.omit.with(Layer::LandlockZygote).with(Layer::Capabilities);
    }
    let report = supervisor::doctor::examine(&without).await;
    let found = report.layers.iter().find(|found| found.layer == layer.name()).unwrap();
    (found.state != LayerState::Absent).then(|| format!("{found:?}, {:?}", report.broken))
}
