//! External commands in their cage: each way to misbehave has its verdict, and nothing is left behind.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::path::Path;
use std::time::Duration;
use supervisor::pool::command::Commands;
use supervisor::pool::{JobLimits, Outcome};
use supervisor::rules::kind::{Class, Kind, Stage};
use supervisor::settings::Cage;
use tests::caged::{block, fault};
use tests::external::{self, Kept, LIMITS, Script, act, carry, carry_within, find, kind, processes};

const WORKER: &str = env!("CARGO_BIN_EXE_worker-under-test");

fn cage() -> Cage {
    external::cage(WORKER)
}

fn bare() -> Cage {
    external::bare(WORKER)
}

fn mounts() -> usize {
    fs::read_to_string("/proc/self/mountinfo").unwrap().lines().count()
}

/// What each act is called; what is in the message, where that is part of it.
const ACTS: &[(&[&str], &str, &str)] = &[
    (&["echo"], "ended", ""),
    (&["echo", "{input}"], "ended", ""),
    (&["exit-3"], "extractor.failed", "ValueError: a page that cannot be read"),
    (&["nothing"], "extractor.failed", "said nothing"),
    (&["no-such-act"], "extractor.failed", "KeyError"),
    (&["hang"], "time.stalled", ""),
    (&["spin"], "time.cpu", ""),
    (&["spin-in-children"], "time.cpu", ""),
    (&["allocate"], "memory.limit", ""),
    (&["hungry-child"], "memory.limit", ""),
    (&["daemon"], "ended", ""),
    (&["fork-bomb"], "extractor.failed", "Resource temporarily unavailable"),
    (&["fill"], "extractor.failed", "File too large"),
    (&["fill-by-files"], "extractor.failed", "No space left on device"),
    (&["fill-by-names"], "extractor.failed", "No space left on device"),
    (&["exceed-file-size"], "output.limit", ""),
    (&["flood"], "output.limit", ""),
    (&["say-just-too-much"], "output.limit", ""),
    (&["say-just-enough"], "ended", ""),
    (&["complain"], "extractor.failed", "the last word"),
    (&["passwd"], "extractor.failed", "No such file"),
    (&["shadow"], "extractor.failed", "No such file"),
    (&["run-from-scratch"], "extractor.failed", "Permission denied"),
    (&["open-socket"], "extractor.failed", "Permission denied"),
    (&["namespace"], "extractor.failed", "Operation not permitted"),
    (&["kill-parent"], "extractor.failed", "Operation not permitted"),
    (&["kill-itself"], "crash.signal", ""),
    (&["terminate-itself"], "crash.signal", ""),
    (&["ignore-term"], "time.stalled", ""),
    (&["close-stdout"], "time.stalled", ""),
    (&["stop"], "time.stalled", ""),
    (&["segv"], "crash.segv", ""),
    (&["abort"], "crash.abort", ""),
    (&["broken-text"], "ended", ""),
];

/// Those of these acts that did not end as expected, or that left processes behind.
async fn surprises(commands: &Commands, script: &Script, acts: &[(&[&str], &str, &str)]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (words, expected, message) in acts {
        let (ending, kept) = act(commands, script, words).await;
        let said = match &ending.outcome {
            Outcome::Failed(fault) => fault.message.clone(),
            _ => String::new(),
        };
        if kind(&ending) != *expected || !said.contains(message) {
            let text = kept.text.chars().take(80).collect::<String>();
            wrong.push(format!("{words:?}: {ending:?} {text:?}"));
        }
        let left = processes(script.folder.to_str().unwrap());
        if !left.is_empty() {
            wrong.push(format!("{words:?} left {left:?}"));
        }
    }
    wrong
}

#[test]
fn every_misdeed_has_its_verdict_and_leaves_nothing_behind() {
    let (script, mounted) = (Script::copied(), mounts());
    block(async {
        let commands = Commands::new(&cage());
        let wrong = surprises(&commands, &script, ACTS).await;
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    });
    assert_eq!(mounts(), mounted, "no mount is left");
    assert_eq!(fs::read_dir(&script.folder).unwrap().count(), 1, "no file is left");
    assert!(!Path::new("/usr/lazaret-was-here").exists());
}

#[test]
fn a_command_sees_its_document_and_little_else() {
    let script = Script::copied();
    block(async {
        let commands = Commands::new(&cage());
        for words in [&["echo"][..], &["echo", "{input}"]] {
            let (ending, kept) = act(&commands, &script, words).await;
            assert_eq!((kind(&ending), kept.text.as_str()), ("ended", "a document"));
        }
        let (_, kept) = act(&commands, &script, &["where", "{input}"]).await;
        assert_eq!(kept.text, "/input/document.pdf\n", "never the document's own name");
        let (_, kept) = act(&commands, &script, &["around", "{input}"]).await;
        let expected = "pid 2 parent 1\n\
                        variables HOME,LANG,LC_ALL,OMP_THREAD_LIMIT,PATH,TMPDIR\n\
                        descriptors 0,1,2\n\
                        root bin,dev,etc,input,usr\n\
                        folder /scratch\n";
        assert_eq!(kept.text, expected);
        let (_, kept) = act(&commands, &script, &["write-outside", "{input}"]).await;
        assert_eq!(kept.text.lines().count(), 6);
        assert!(!kept.text.contains("written"), "{}", kept.text);
    });
}

#[test]
fn no_file_of_the_machine_is_in_sight_whoever_may_read_it() {
    let script = Script::copied();
    let secret = script.folder.join("state");
    fs::write(&secret, "a secret").unwrap();
    let name = secret.to_str().unwrap().trim_start_matches('/');
    block(async {
        for (cage, answer) in [(cage(), "No such file"), (bare(), "Permission denied")] {
            let (ending, kept) = act(&Commands::new(&cage), &script, &["look", name]).await;
            assert_eq!(kept.text, "");
            let fault = fault(ending);
            assert!(fault.message.contains(answer), "{}", fault.message);
        }
    });
}

#[test]
fn evidence_says_what_held_who_it_was_and_what_it_used() {
    let script = Script::copied();
    block(async {
        let commands = Commands::new(&cage());
        let (ending, _) = act(&commands, &script, &["exit-3"]).await;
        assert!(ending.usage.wall_ms > 0 && ending.usage.peak_rss_kib > 1024, "{:?}", ending.usage);
        let failed = fault(ending);
        assert_eq!((failed.stage, failed.class), (Stage::Extract, Some(Class::Permanent)));
        assert_eq!(failed.evidence.exit_code, Some(3));
        let engine = failed.evidence.engine.unwrap();
        assert!(engine.starts_with("python3 ") && engine.contains(" Python 3."), "{engine}");
        for layer in ["no-new-privileges", "rlimits", "seccomp", "descriptors"] {
            assert!(
                failed.evidence.layers.contains(&layer.to_owned()),
                "{layer}: {:?}",
                failed.evidence.layers
            );
        }
        let (spun, _) = act(&commands, &script, &["spin-in-children"]).await;
        assert!(spun.usage.cpu_ms >= LIMITS.cpu_ms, "all its processes count: {:?}", spun.usage);
        let (one, two) =
            (act(&commands, &script, &["segv"]).await.0, act(&commands, &script, &["segv"]).await.0);
        let fingerprint = |ending| fault(ending).evidence.fingerprint.unwrap();
        assert_eq!(fingerprint(one), fingerprint(two));
    });
}

#[test]
fn without_namespaces_the_rest_contains_it() {
    const DIFFERENT: &[(&[&str], &str, &str)] = &[
        (&["echo", "{input}"], "ended", ""),
        (&["echo"], "ended", ""),
        (&["passwd"], "extractor.failed", "Permission denied"),
        (&["open-socket"], "extractor.failed", "Permission denied"),
        (&["daemon"], "ended", ""),
        (&["fill"], "extractor.failed", "No such file"),
        (&["kill-parent"], "extractor.failed", "Operation not permitted"),
        (&["kill-all"], "extractor.failed", "Operation not permitted"),
        (&["spin-in-children"], "time.cpu", ""),
        (&["hungry-child"], "memory.limit", ""),
        (&["hang"], "time.stalled", ""),
        (&["segv"], "extractor.failed", "Operation not permitted"),
        (&["abort"], "crash.abort", ""),
        (&["flood"], "output.limit", ""),
        (&["fork-bomb"], "extractor.failed", ""),
    ];
    let script = Script::copied();
    block(async {
        let commands = Commands::new(&bare());
        let standing = commands.standing().await.unwrap();
        assert!(!standing.namespaces);
        assert!(standing.absent.iter().any(|(layer, _)| layer == "mount-namespace"), "{standing:?}");
        let wrong = surprises(&commands, &script, DIFFERENT).await;
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    });
}

#[test]
fn who_listens_may_stop_it_and_who_waits_may_give_up() {
    let script = Script::copied();
    block(async {
        for cage in [cage(), bare()] {
            let commands = Commands::new(&cage);
            let program = find(&commands, &script.command(&["drip"])).await;
            let mut kept = Kept { stop: true, ..Kept::default() };
            let ending = carry(&commands, &program, b"", &mut kept).await;
            assert_eq!(kind(&ending), "stopped");
            let mut kept = Kept::default();
            let run = carry(&commands, &program, b"", &mut kept);
            assert!(tokio::time::timeout(Duration::from_millis(500), run).await.is_err());
            drop(commands);
            assert_eq!(processes(script.folder.to_str().unwrap()), [0; 0]);
        }
    });
}

#[test]
fn a_cage_that_is_killed_from_outside_is_no_fault_of_the_document() {
    let script = Script::copied();
    block(async {
        let commands = Commands::new(&cage());
        let program = find(&commands, &script.command(&["drip"])).await;
        let mark = script.folder.to_str().unwrap().to_owned();
        let act = move || {
            for pid in processes(&mark) {
                // Its parent is the first process of its cage.
                let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
                let parent =
                    stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse().ok());
                if let Some(parent) = parent {
                    kill(Pid::from_raw(parent), Signal::SIGKILL).ok();
                }
            }
        };
        let mut kept = Kept { on_text: Some(Box::new(act)), ..Kept::default() };
        let ending = carry(&commands, &program, b"", &mut kept).await;
        let fault = fault(ending);
        assert_eq!((fault.kind, fault.class), (Kind::WorkerLost, Some(Class::Transient)), "{fault:?}");
        assert_eq!(processes(script.folder.to_str().unwrap()), [0; 0]);
    });
}

const HELD: &str = "LAZARET_TEST_HELD";

#[test]
fn a_supervisor_that_is_killed_takes_its_commands_along() {
    let script = Script::copied();
    let mark = script.folder.to_str().unwrap();
    let mut supervisor = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "holds_a_command_until_it_is_killed"])
        .env(HELD, mark)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    eventually(|| processes(mark).iter().filter(|pid| is_python(**pid)).count() == 2);
    supervisor.kill().unwrap();
    supervisor.wait().unwrap();
    eventually(|| processes(mark).is_empty());
}

/// The other process of the test above; not one of its own.
#[test]
#[ignore = "the test of a killed supervisor starts it"]
fn holds_a_command_until_it_is_killed() {
    let Some(folder) = std::env::var_os(HELD) else { return };
    let script = std::mem::ManuallyDrop::new(Script { folder: folder.into() });
    block(async {
        let limits = JobLimits { stalled_ms: 20_000, ..LIMITS };
        let mut both = tokio::task::JoinSet::new();
        for cage in [cage(), bare()] {
            let commands = Commands::new(&cage);
            let program = find(&commands, &script.command(&["hang"])).await;
            both.spawn(async move {
                carry_within(&commands, &program, b"", &mut Kept::default(), limits).await;
            });
        }
        both.join_all().await;
    });
}

fn is_python(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.starts_with("python"))
}

/// Fails the test where this does not come true.
fn eventually(is_so: impl Fn() -> bool) {
    let started = std::time::Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(60), "it does not come true");
        std::thread::sleep(Duration::from_millis(20));
    }
}
