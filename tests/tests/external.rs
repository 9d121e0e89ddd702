//! External commands in their cage: each way to misbehave has its verdict, and nothing is left behind.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use shared::{Answer, Format, Layer, Layers, Metadata};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use supervisor::pool::command::{CommandJob, Commands, Missing, OutputKind, Program};
use supervisor::pool::{Ending, Flow, JobLimits, Outcome, Receiver};
use supervisor::rules::fault::Fault;
use supervisor::rules::kind::{Class, Kind, Stage};
use supervisor::settings::{Cage, Command, Recognise};
use supervisor::source::fetch::sealed;

const PYTHON: &str = "/usr/bin/python3";
const LIMITS: JobLimits =
    JobLimits { wall_ms: 20_000, stalled_ms: 1_500, cpu_ms: 2_000, memory: 96 << 20, output: 4 << 20 };

fn cage() -> Cage {
    Cage {
        uid_base: 2_100_000_000,
        worker: Some(PathBuf::from(env!("CARGO_BIN_EXE_worker-under-test"))),
        ..Cage::default()
    }
}

/// The same without namespaces: Landlock and the filter have to do.
fn bare() -> Cage {
    Cage { uid_base: 2_101_000_000, omit: Layers::NONE.with(Layer::MountNamespace), ..cage() }
}

fn block<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

#[derive(Default)]
struct Kept {
    text: String,
    metadata: Option<Metadata>,
    stop: bool,
    on_text: Option<Box<dyn FnMut() + Send>>,
}

impl Receiver for Kept {
    fn take(&mut self, answer: Answer) -> Flow {
        match answer {
            Answer::Text(text) => self.text.push_str(&text),
            Answer::Metadata(metadata) => self.metadata = Some(metadata),
            other => panic!("no command says {other:?}"),
        }
        if let Some(act) = &mut self.on_text {
            act();
        }
        if self.stop { Flow::Stop } else { Flow::Continue }
    }
}

/// A copy of the script where every user may read it, in a folder of its own.
struct Script {
    folder: PathBuf,
}

impl Script {
    fn new() -> Script {
        use std::os::unix::fs::PermissionsExt;
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("lazaret-external-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        let script = folder.join("misbehaving.py");
        fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("misbehaving.py"), &script).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o644)).unwrap();
        Script { folder }
    }

    fn command(&self, words: &[&str]) -> Command {
        let script = self.folder.join("misbehaving.py").to_str().unwrap().to_owned();
        let words = words.iter().map(|word| (*word).to_owned());
        Command {
            program: PYTHON.to_owned(),
            arguments: ["-I", "-S", "-B"]
                .map(str::to_owned)
                .into_iter()
                .chain([script])
                .chain(words)
                .collect(),
            output: OutputKind::Text,
            jit: false,
        }
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.folder).unwrap();
    }
}

fn command(words: &[&str]) -> Command {
    let (program, arguments) = words.split_first().unwrap();
    Command {
        program: (*program).to_owned(),
        arguments: arguments.iter().map(|word| (*word).to_owned()).collect(),
        output: OutputKind::Text,
        jit: false,
    }
}

async fn find(commands: &Commands, settings: &Command) -> Arc<Program> {
    let found = Program::find(commands, settings).await;
    Arc::new(found.unwrap_or_else(|missing| panic!("{missing}")))
}

async fn carry(commands: &Commands, program: &Arc<Program>, bytes: &[u8], kept: &mut Kept) -> Ending {
    carry_within(commands, program, bytes, kept, LIMITS).await
}

async fn carry_within(
    commands: &Commands,
    program: &Arc<Program>,
    bytes: &[u8],
    kept: &mut Kept,
    limits: JobLimits,
) -> Ending {
    let job = CommandJob {
        program: Arc::clone(program),
        document: sealed(bytes).unwrap().into(),
        size: bytes.len() as u64,
        name: b"-o/etc/passwd\n".to_vec(),
        format: Format::Pdf,
        stage: Stage::Extract,
        limits,
    };
    commands.run(job, kept).await
}

/// One act of the script: its ending and what was said.
async fn act(commands: &Commands, script: &Script, words: &[&str]) -> (Ending, Kept) {
    let program = find(commands, &script.command(words)).await;
    let mut kept = Kept::default();
    let ending = carry(commands, &program, b"a document", &mut kept).await;
    (ending, kept)
}

fn fault(ending: Ending) -> Fault {
    match ending.outcome {
        Outcome::Failed(fault) => fault,
        other => panic!("no fault: {other:?}"),
    }
}

fn kind(ending: &Ending) -> &'static str {
    match &ending.outcome {
        Outcome::Failed(fault) => fault.kind.name(),
        Outcome::Ended(_) => "ended",
        Outcome::Stopped => "stopped",
    }
}

/// Processes whose command line contains this.
fn processes(mark: &str) -> Vec<i32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_marked = |pid: &i32| {
        fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| String::from_utf8_lossy(&line).contains(mark))
    };
    pids.filter(is_marked).collect()
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

#[test]
fn every_misdeed_has_its_verdict_and_leaves_nothing_behind() {
    let (script, mounted) = (Script::new(), mounts());
    block(async {
        let commands = Commands::new(&cage());
        let mut wrong = Vec::new();
        for (words, expected, message) in ACTS {
            let (ending, kept) = act(&commands, &script, words).await;
            let said = match &ending.outcome {
                Outcome::Failed(fault) => fault.message.clone(),
                _ => String::new(),
            };
            if kind(&ending) != *expected || !said.contains(message) {
                wrong.push(format!(
                    "{words:?}: {ending:?} {:?}",
                    kept.text.chars().take(80).collect::<String>()
                ));
            }
            let left = processes(script.folder.to_str().unwrap());
            if !left.is_empty() {
                wrong.push(format!("{words:?} left {left:?}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    });
    assert_eq!(mounts(), mounted, "no mount is left");
    assert_eq!(fs::read_dir(&script.folder).unwrap().count(), 1, "no file is left");
    assert!(!Path::new("/usr/lazaret-was-here").exists());
}

#[test]
fn a_command_sees_its_document_and_little_else() {
    let script = Script::new();
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
    let script = Script::new();
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
fn a_document_in_a_file_is_read_like_one_in_memory_and_always_from_its_start() {
    use std::os::fd::OwnedFd;
    let script = Script::new();
    let path = script.folder.join("spooled");
    fs::write(&path, "a spooled document").unwrap();
    let document = OwnedFd::from(fs::File::open(&path).unwrap());
    fs::remove_file(&path).unwrap();
    block(async {
        for cage in [cage(), bare()] {
            let commands = Commands::new(&cage);
            for words in [&["echo"][..], &["echo", "{input}"], &["echo"]] {
                let job = CommandJob {
                    program: find(&commands, &script.command(words)).await,
                    document: document.try_clone().unwrap().into(),
                    size: 18,
                    name: Vec::new(),
                    format: Format::Text,
                    stage: Stage::Extract,
                    limits: LIMITS,
                };
                let mut kept = Kept::default();
                let ending = commands.run(job, &mut kept).await;
                assert_eq!(
                    (kind(&ending), kept.text.as_str()),
                    ("ended", "a spooled document"),
                    "{ending:?}"
                );
            }
        }
    });
}

#[test]
fn evidence_says_what_held_who_it_was_and_what_it_used() {
    let script = Script::new();
    block(async {
        let commands = Commands::new(&cage());
        let (ending, _) = act(&commands, &script, &["exit-3"]).await;
        assert!(ending.usage.wall_ms > 0 && ending.usage.peak_rss_kib > 1024, "{:?}", ending.usage);
        let fault = fault(ending);
        assert_eq!((fault.stage, fault.class), (Stage::Extract, Some(Class::Permanent)));
        assert_eq!(fault.evidence.exit_code, Some(3));
        let engine = fault.evidence.engine.unwrap();
        assert!(engine.starts_with("python3 ") && engine.contains(" Python 3."), "{engine}");
        for layer in ["no-new-privileges", "rlimits", "seccomp", "descriptors"] {
            assert!(
                fault.evidence.layers.contains(&layer.to_owned()),
                "{layer}: {:?}",
                fault.evidence.layers
            );
        }
        let (spun, _) = act(&commands, &script, &["spin-in-children"]).await;
        assert!(spun.usage.cpu_ms >= LIMITS.cpu_ms, "all its processes count: {:?}", spun.usage);
        let (one, two) =
            (act(&commands, &script, &["segv"]).await.0, act(&commands, &script, &["segv"]).await.0);
        let fingerprint = |ending| fault_of(ending).evidence.fingerprint.unwrap();
        assert_eq!(fingerprint(one), fingerprint(two));
    });
}

fn fault_of(ending: Ending) -> Fault {
    fault(ending)
}

#[test]
fn json_gives_metadata_and_text() {
    let script = Script::new();
    block(async {
        let commands = Commands::new(&cage());
        let as_json = |act| Command { output: OutputKind::Json, ..script.command(&[act]) };
        let program = find(&commands, &as_json("json")).await;
        let mut kept = Kept::default();
        let ending = carry(&commands, &program, b"", &mut kept).await;
        let Outcome::Ended(end) = &ending.outcome else { panic!("{ending:?}") };
        assert_eq!((end.format, end.text_bytes, end.refusal.clone()), (Format::Pdf, 8, None));
        assert_eq!(kept.text, "the text");
        assert_eq!(kept.metadata.unwrap().title.as_deref(), Some("The Title"));
        let program = find(&commands, &as_json("echo")).await;
        let ending = carry(&commands, &program, b"no JSON", &mut Kept::default()).await;
        let fault = fault(ending);
        assert_eq!(fault.kind, Kind::ExtractorFailed);
        assert!(fault.message.starts_with("its output is no JSON"), "{}", fault.message);
    });
}

#[test]
fn text_that_is_no_utf8_is_replaced() {
    let script = Script::new();
    block(async {
        let (_, kept) = act(&Commands::new(&cage()), &script, &["broken-text"]).await;
        assert_eq!(kept.text, "caf\u{fffd} \u{fffd}");
    });
}

#[test]
fn pdftotext_and_tesseract_read_what_is_theirs() {
    block(async {
        let commands = Commands::new(&cage());
        let program = find(&commands, &command(&["pdftotext", "{input}", "-"])).await;
        assert_eq!(program.name(), "pdftotext");
        assert!(program.version().contains("pdftotext version"), "{}", program.version());
        let report = fs::read(tests::repository().join("fixtures/files/office/report.pdf")).unwrap();
        let mut kept = Kept::default();
        let ending = carry(&commands, &program, &report, &mut kept).await;
        assert_eq!(kind(&ending), "ended", "{ending:?}");
        assert!(kept.text.starts_with("Harbour report for the first quarter.\n"), "{}", kept.text);
        let ending = carry(&commands, &program, b"%PDF-1.4 nonsense", &mut Kept::default()).await;
        assert_eq!(kind(&ending), "extractor.failed");
        let program = find(&commands, &Recognise::default().command()).await;
        assert!(
            program.version().contains("tesseract 5") || program.version().contains("tesseract 4"),
            "{}",
            program.version()
        );
        let mut kept = Kept::default();
        let ending = carry_within(
            &commands,
            &program,
            &page(),
            &mut kept,
            JobLimits { cpu_ms: 20_000, stalled_ms: 20_000, memory: 512 << 20, ..LIMITS },
        )
        .await;
        assert_eq!(kind(&ending), "ended", "{ending:?}");
        assert!(kept.text.contains("HELLO"), "{:?}", kept.text);
    });
}

/// The word HELLO as a picture, a stroke five dots wide: PGM.
fn page() -> Vec<u8> {
    const LETTERS: [[&str; 7]; 4] = [
        ["X   X", "X   X", "X   X", "XXXXX", "X   X", "X   X", "X   X"],
        ["XXXXX", "X    ", "X    ", "XXXX ", "X    ", "X    ", "XXXXX"],
        ["X    ", "X    ", "X    ", "X    ", "X    ", "X    ", "XXXXX"],
        [" XXX ", "X   X", "X   X", "X   X", "X   X", "X   X", " XXX "],
    ];
    const DOT: usize = 8;
    let (wide, high) = (400, 200);
    let mut dots = vec![255_u8; wide * high];
    for (place, letter) in [0, 1, 2, 2, 3].into_iter().enumerate() {
        for (row, line) in LETTERS[letter].iter().enumerate() {
            for (column, _) in line.bytes().enumerate().filter(|(_, dot)| *dot == b'X') {
                let (left, top) = (60 + place * 7 * DOT + column * DOT, 60 + row * DOT);
                for y in top..top + DOT {
                    dots[y * wide + left..][..DOT].fill(0);
                }
            }
        }
    }
    [format!("P5 {wide} {high} 255\n").as_bytes(), &dots].concat()
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
    let script = Script::new();
    block(async {
        let commands = Commands::new(&bare());
        let standing = commands.standing().await.unwrap();
        assert!(!standing.namespaces);
        assert!(standing.absent.iter().any(|(layer, _)| layer == "mount-namespace"), "{standing:?}");
        let mut wrong = Vec::new();
        for (words, expected, message) in DIFFERENT {
            let (ending, kept) = act(&commands, &script, words).await;
            let said = match &ending.outcome {
                Outcome::Failed(fault) => fault.message.clone(),
                _ => String::new(),
            };
            if kind(&ending) != *expected || !said.contains(message) {
                wrong.push(format!(
                    "{words:?}: {ending:?} {:?}",
                    kept.text.chars().take(80).collect::<String>()
                ));
            }
            let left = processes(script.folder.to_str().unwrap());
            if !left.is_empty() {
                wrong.push(format!("{words:?} left {left:?}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    });
}

#[test]
fn who_listens_may_stop_it_and_who_waits_may_give_up() {
    let script = Script::new();
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
    let script = Script::new();
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

#[test]
fn several_run_at_a_time() {
    let script = Script::new();
    block(async {
        let commands = Commands::new(&cage());
        let program = find(&commands, &script.command(&["echo"])).await;
        let mut all = tokio::task::JoinSet::new();
        for number in 0..6 {
            let (commands, program) = (commands.clone(), Arc::clone(&program));
            all.spawn(async move {
                let mut kept = Kept::default();
                let bytes = format!("document {number}");
                let ending = carry(&commands, &program, bytes.as_bytes(), &mut kept).await;
                (kind(&ending), kept.text == bytes)
            });
        }
        assert!(all.join_all().await.into_iter().all(|one| one == ("ended", true)));
    });
}

#[test]
fn a_program_that_is_not_to_be_had_is_missing_with_its_reason() {
    let script = Script::new();
    block(async {
        let commands = Commands::new(&cage());
        let missing = Program::find(&commands, &command(&["no-such-program"])).await.unwrap_err();
        assert_eq!(missing, Missing::NotFound { program: "no-such-program".to_owned() });
        let wrong = script.folder.join("wrong");
        fs::write(&wrong, "#!/no/such/interpreter\n").unwrap();
        std::process::Command::new("chmod").arg("755").arg(&wrong).status().unwrap();
        let missing = Program::find(&commands, &command(&[wrong.to_str().unwrap()])).await.unwrap_err();
        assert!(matches!(missing, Missing::NotRunnable { .. }), "{missing:?}");
        let mut nowhere = cage();
        nowhere.worker = Some(PathBuf::from("/nowhere/lazaret-worker"));
        let missing = Program::find(&Commands::new(&nowhere), &command(&["sh"])).await.unwrap_err();
        assert!(matches!(missing, Missing::NoCage { .. }), "{missing:?}");
    });
}

#[test]
fn the_version_changes_with_the_script() {
    let script = Script::new();
    block(async {
        let commands = Commands::new(&cage());
        let before = find(&commands, &script.command(&["echo"])).await;
        fs::write(script.folder.join("misbehaving.py"), "print('other')").unwrap();
        let after = find(&commands, &script.command(&["echo"])).await;
        assert_ne!(before.version(), after.version());
    });
}

const HELD: &str = "LAZARET_TEST_HELD";

#[test]
fn a_supervisor_that_is_killed_takes_its_commands_along() {
    let script = Script::new();
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
