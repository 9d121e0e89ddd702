//! External commands in their cage, without the rest of the program: a script that misbehaves on purpose, what it said, and
//! which processes are left of it.

use crate::caged;
use shared::{Answer, Format, Layer, Layers, Metadata};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use supervisor::pool::command::{CommandJob, Commands, OutputKind, Program};
use supervisor::pool::{Ending, Flow, JobLimits, Outcome, Receiver};
use supervisor::rules::kind::Stage;
use supervisor::settings::{Cage, Command};
use supervisor::source::fetch::sealed;

const PYTHON: &str = "/usr/bin/python3";

/// As for documents; a Python takes longer to start.
pub const LIMITS: JobLimits = JobLimits { cpu_ms: 2_000, ..caged::LIMITS };

/// The settings of a cage made by this worker.
pub fn cage(worker: &str) -> Cage {
    Cage { uid_base: 2_100_000_000, worker: Some(PathBuf::from(worker)), ..Cage::default() }
}

/// The same without namespaces: Landlock and the filter have to do.
pub fn bare(worker: &str) -> Cage {
    Cage { uid_base: 2_101_000_000, omit: Layers::NONE.with(Layer::MountNamespace), ..cage(worker) }
}

/// What a command said.
#[derive(Default)]
pub struct Kept {
    pub text: String,
    pub metadata: Option<Metadata>,
    /// Whether its first word is enough.
    pub stop: bool,
    /// To be done at each of its words.
    pub on_text: Option<Box<dyn FnMut() + Send>>,
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kept")
            .field("text", &self.text)
            .field("metadata", &self.metadata)
            .finish_non_exhaustive()
    }
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

/// A copy of `misbehaving.py` where every user may read it, in a folder of its own that goes with it.
#[derive(Debug)]
pub struct Script {
    pub folder: PathBuf,
}

impl Script {
    /// A copy of its own for each who asks.
    pub fn copied() -> Script {
        use std::os::unix::fs::PermissionsExt;
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("lazaret-external-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).expect("the folder can be made");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).expect("the mode can be set");
        let script = folder.join("misbehaving.py");
        fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("misbehaving.py"), &script)
            .expect("the script can be copied");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o644)).expect("the mode can be set");
        Script { folder }
    }

    /// The command that starts it with these words.
    pub fn command(&self, words: &[&str]) -> Command {
        let script = self.folder.join("misbehaving.py").to_str().expect("scratch paths are UTF-8").to_owned();
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
        fs::remove_dir_all(&self.folder).expect("nothing of it is in use");
    }
}

/// The command of these words.
pub fn command(words: &[&str]) -> Command {
    let (program, arguments) = words.split_first().expect("a command has a name");
    Command {
        program: (*program).to_owned(),
        arguments: arguments.iter().map(|word| (*word).to_owned()).collect(),
        output: OutputKind::Text,
        jit: false,
    }
}

/// The program of a command that is there.
pub async fn find(commands: &Commands, settings: &Command) -> Arc<Program> {
    let found = Program::find(commands, settings).await;
    Arc::new(found.unwrap_or_else(|missing| panic!("{missing}")))
}

/// One document through a program.
pub async fn carry(commands: &Commands, program: &Arc<Program>, bytes: &[u8], kept: &mut Kept) -> Ending {
    carry_within(commands, program, bytes, kept, LIMITS).await
}

/// The same within these limits.
pub async fn carry_within(
    commands: &Commands,
    program: &Arc<Program>,
    bytes: &[u8],
    kept: &mut Kept,
    limits: JobLimits,
) -> Ending {
    let job = CommandJob {
        program: Arc::clone(program),
        document: sealed(bytes).expect("memory can be sealed").into(),
        size: bytes.len() as u64,
        name: b"-o/etc/passwd\n".to_vec(),
        format: Format::Pdf,
        stage: Stage::Extract,
        limits,
    };
    commands.run(job, kept).await
}

/// One act of the script: its ending and what was said.
pub async fn act(commands: &Commands, script: &Script, words: &[&str]) -> (Ending, Kept) {
    let program = find(commands, &script.command(words)).await;
    let mut kept = Kept::default();
    let ending = carry(commands, &program, b"a document", &mut kept).await;
    (ending, kept)
}

/// The kind of fault in which it ended; `ended` and `stopped` for none.
pub fn kind(ending: &Ending) -> &'static str {
    match &ending.outcome {
        Outcome::Failed(fault) => fault.kind.name(),
        Outcome::Ended(_) => "ended",
        Outcome::Stopped => "stopped",
    }
}

/// Processes whose command line contains this.
pub fn processes(mark: &str) -> Vec<i32> {
    let entries = fs::read_dir("/proc").expect("there is a /proc").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_marked = |pid: &i32| {
        fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| String::from_utf8_lossy(&line).contains(mark))
    };
    pids.filter(is_marked).collect()
}
