//! Whether external commands are contained: the worker's program attacks their cage as one of them. And which of the
//! programs that the settings want are there.

use super::{Attack, LayerState, Texts, name_of};
use crate::pool::command::{CommandJob, Commands, Missing, OutputKind, Program};
use crate::pool::{JobLimits, Outcome};
use crate::rules::kind::Stage;
use crate::settings::{Command, Engine, Settings};
use crate::source::fetch::sealed;
use serde::Serialize;
use shared::Format;
use std::fs;
use std::sync::Arc;

const LIMITS: JobLimits =
    JobLimits { wall_ms: 20_000, stalled_ms: 5_000, cpu_ms: 5_000, memory: 64 << 20, output: 1 << 20 };

/// The cage of external commands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CommandCage {
    pub state: LayerState,
    /// Why it is not all that it could be; what holds, where it is.
    pub reason: String,
    pub layers: Vec<String>,
    /// Layer and reason.
    pub absent: Vec<(String, String)>,
}

/// One program that the settings want.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Wanted {
    pub program: String,
    /// What for.
    pub purpose: String,
    /// Name, hash and its own word, where it was found.
    pub version: Option<String>,
    pub missing: Option<String>,
    /// What a person can do.
    pub fix: Option<String>,
    /// The settings name it: without it a run does not start.
    pub required: bool,
}

/// Looks at the cage and attacks it.
pub(super) async fn examine(commands: &Commands) -> (CommandCage, Vec<Attack>) {
    let standing = match commands.standing().await {
        Ok(standing) => standing,
        Err(reason) => {
            let (state, layers, absent) = (LayerState::Absent, Vec::new(), Vec::new());
            return (CommandCage { state, reason, layers, absent }, Vec::new());
        }
    };
    let (state, reason) = if standing.namespaces {
        (LayerState::Enforced, "namespaces, Landlock and a filter".to_owned())
    } else {
        let why = standing.absent.first().map_or_else(String::new, |(_, why)| format!(": {why}"));
        let reason = format!("Landlock and a filter alone, and no scratch folder; no namespaces{why}");
        (LayerState::Degraded, reason)
    };
    let attacks = attacks(commands).await;
    (CommandCage { state, reason, layers: standing.layers, absent: standing.absent }, attacks)
}

async fn attacks(commands: &Commands) -> Vec<Attack> {
    // Everybody may read it, and no command may see it.
    let secret = std::env::temp_dir().join(format!("lazaret-doctor-{}", std::process::id()));
    // A command is shown the files that its arguments name: these it is told without their first slash.
    let secret_name = secret.to_string_lossy().trim_start_matches('/').to_owned();
    if let Err(error) = fs::write(&secret, "secret") {
        tracing::warn!(%error, "no file can be made that a command is not to read");
    }
    let mut attacks = Vec::new();
    for (name, words, lines) in [
        ("network", &["network"][..], 2),
        ("files of the machine", &["read", "etc/shadow", "etc/passwd", "proc/1/environ", &secret_name], 4),
        ("writing outside of its scratch folder", &["write", "/", "/usr", "/etc", "/dev", "/var/tmp"], 5),
        ("filling its scratch folder", &["fill"], 1),
        ("fork bomb", &["fork"], 1),
    ] {
        attacks.push(attack(commands, name, words, lines).await);
    }
    attacks.push(orphan(commands).await);
    if let Err(error) = fs::remove_file(&secret) {
        tracing::debug!(%error, "the file was not there any more");
    }
    attacks
}

/// Each attempt must have been answered with an error.
async fn attack(commands: &Commands, name: &str, words: &[&str], lines: usize) -> Attack {
    let (outcome, text) = match act(commands, words).await {
        Ok(done) => done,
        Err(why) => return judged(name, false, format!("no probe could be run: {why}")),
    };
    // Where the kernel does not count processes they are counted from outside, and killed.
    let counted =
        matches!(&outcome, Outcome::Failed(fault) if fault.evidence.detail.as_deref() == Some("processes"));
    let refused = text.lines().count() == lines && text.lines().all(|line| !line.ends_with(" ok"));
    let got = if counted { name_of(&outcome) } else { text.lines().collect::<Vec<_>>().join(", ") };
    judged(name, counted || refused, if got.is_empty() { name_of(&outcome) } else { got })
}

/// Nothing with this mark may be left.
async fn orphan(commands: &Commands) -> Attack {
    let name = "outliving its end";
    let mark = format!("lazaret-orphan-{}", std::process::id());
    match act(commands, &["orphan", &mark]).await {
        Ok((_, text)) if text == "orphan left\n" => {
            let left = processes_with(&mark);
            let got = if left.is_empty() { "nothing is left".to_owned() } else { format!("left: {left:?}") };
            judged(name, left.is_empty(), got)
        }
        Ok((outcome, _)) => judged(name, false, name_of(&outcome)),
        Err(why) => judged(name, false, format!("no probe could be run: {why}")),
    }
}

fn judged(name: &str, held: bool, got: String) -> Attack {
    Attack { name: format!("a command: {name}"), expected: "refused".to_owned(), got, held }
}

fn processes_with(mark: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let is_marked = |pid: &String| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(mark)
    };
    pids.filter(is_marked).collect()
}

async fn act(commands: &Commands, words: &[&str]) -> Result<(Outcome, String), String> {
    let job = CommandJob {
        program: Arc::new(Program::probe(words)),
        document: Arc::new(sealed(b"").map_err(|error| error.to_string())?),
        size: 0,
        name: b"doctor".to_vec(),
        format: Format::Unknown,
        stage: Stage::Extract,
        limits: LIMITS,
    };
    let mut texts = Texts::default();
    let ending = commands.run(job, &mut texts).await;
    Ok((ending.outcome, texts.text))
}

/// The programs that the settings want.
pub(super) async fn programs(commands: &Commands, settings: &Settings) -> Vec<Wanted> {
    let mut wanted = Vec::new();
    for extractor in &settings.extractors {
        if let Engine::Command(command) = &extractor.engine {
            let names: Vec<_> = extractor.formats.iter().map(|format| format.name()).collect();
            let purpose = format!("extracts {}", names.join(", "));
            wanted.push(look_for(commands, command, purpose, true).await);
        }
    }
    if settings.recognise.enabled {
        let command = settings.recognise.command();
        let named = settings.recognise.command.is_some();
        let mut ocr = look_for(commands, &command, "reads pictures".to_owned(), named).await;
        if !named {
            advise(commands, settings, &mut ocr).await;
        }
        wanted.push(ocr);
    }
    wanted
}

async fn look_for(commands: &Commands, command: &Command, purpose: String, required: bool) -> Wanted {
    let found = Program::find(commands, command).await;
    let (version, missing) = match found {
        Ok(program) => (Some(program.version().to_owned()), None),
        Err(missing) => (None, Some(missing)),
    };
    let fix = matches!(missing, Some(Missing::NotFound { .. }))
        .then(|| format!("install {}, or name its path in the settings", command.program));
    let missing = missing.map(|missing| missing.to_string());
    Wanted { program: command.program.clone(), purpose, version, missing, fix, required }
}

/// What is to be done for tesseract, and for the languages that it lacks.
async fn advise(commands: &Commands, settings: &Settings, ocr: &mut Wanted) {
    let languages = &settings.recognise.languages;
    if ocr.version.is_none() {
        ocr.fix = Some(
            "apt-get install tesseract-ocr; for languages apt-get install tesseract-ocr-deu and the like, and \
             recognise.languages = [\"eng\", \"deu\"]"
                .to_owned(),
        );
        return;
    }
    let Some(known) = known_languages(commands).await else { return };
    let lacking: Vec<_> = languages.iter().filter(|language| !known.contains(language)).cloned().collect();
    if !lacking.is_empty() {
        ocr.missing = Some(format!("its data for {}", lacking.join(", ")));
        let packages: Vec<_> =
            lacking.iter().map(|name| format!("tesseract-ocr-{}", name.replace('_', "-"))).collect();
        ocr.fix = Some(format!("apt-get install {}", packages.join(" ")));
    }
}

async fn known_languages(commands: &Commands) -> Option<Vec<String>> {
    let settings = Command {
        program: "tesseract".to_owned(),
        arguments: vec!["--list-langs".to_owned()],
        output: OutputKind::Text,
        jit: false,
    };
    let program = Program::find(commands, &settings).await.ok()?;
    let job = CommandJob {
        program: Arc::new(program),
        document: Arc::new(sealed(b"").ok()?),
        size: 0,
        name: b"doctor".to_vec(),
        format: Format::Unknown,
        stage: Stage::Recognise,
        limits: JobLimits { memory: 512 << 20, ..LIMITS },
    };
    let mut texts = Texts::default();
    match commands.run(job, &mut texts).await.outcome {
        // The first line is a heading.
        Outcome::Ended(_) => Some(texts.text.lines().skip(1).map(|line| line.trim().to_owned()).collect()),
        Outcome::Stopped | Outcome::Failed(_) => None,
    }
}
