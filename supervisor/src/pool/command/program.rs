//! The program of a command: where it is, which files it consists of, and which version of it this is.
//!
//! What a stage's result depends on is asked once: the hash of the program's file and of the files that its arguments
//! name, and what it says to `--version`, in the cage like everything that it says.

use super::{Call, CommandJob, Commands, Stand, launch_limits};
use crate::pool::{Flow, JobLimits, Receiver};
use crate::rules::classify::Wait;
use crate::settings::{self, OutputKind};
use crate::source::fetch::sealed;
use nix::unistd::{AccessFlags, access};
use sha2::{Digest, Sha256};
use shared::Answer;
use shared::launch::{INPUT, Launch};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Where the system's own programs and libraries are, which every command sees.
const SYSTEM: &[&str] = &["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"];
/// Links from one name of a file to the next that are followed.
const LINKS_MAX: usize = 16;
/// The longest first line of a version that is kept, in bytes.
const VERSION_MAX: usize = 128;
/// Digits of the hash that are shown.
const HASH_DIGITS: usize = 12;
/// For the question after the version.
const QUESTION: JobLimits =
    JobLimits { wall_ms: 10_000, stalled_ms: 10_000, cpu_ms: 5_000, memory: 512 << 20, output: 64 << 10 };

/// A program that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    path: PathBuf,
    /// Behind the program's own name.
    arguments: Vec<String>,
    stdin: bool,
    output: OutputKind,
    jit: bool,
    shown: Vec<PathBuf>,
    name: String,
    version: String,
}

/// Why there is no such program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    /// There is no file of this name that may be run: on the `PATH`, or at the place that it names.
    NotFound { program: String },
    /// It is there and cannot be read.
    Unreadable { path: PathBuf, why: String },
    /// It cannot be started in the cage.
    NotRunnable { path: PathBuf, why: String },
    /// No command can be run on this machine.
    NoCage { why: String },
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Missing::NotFound { program } if program.contains('/') => {
                write!(f, "there is no program {program}")
            }
            Missing::NotFound { program } => write!(f, "there is no program {program} on the PATH"),
            Missing::Unreadable { path, why } => write!(f, "{} cannot be read: {why}", path.display()),
            Missing::NotRunnable { path, why } => {
                write!(f, "{} cannot be run in the cage: {why}", path.display())?;
                if nix::unistd::geteuid().is_root() {
                    f.write_str(
                        "; started by root, commands run as another user, who must be able to read it",
                    )?;
                }
                Ok(())
            }
            Missing::NoCage { why } => write!(f, "no command can be run on this machine: {why}"),
        }
    }
}

impl std::error::Error for Missing {}

impl Program {
    /// Finds the program and asks it for its version. Of several on the `PATH` it is the first that can be run.
    ///
    /// # Errors
    /// See [`Missing`].
    pub async fn find(commands: &Commands, settings: &settings::Command) -> Result<Program, Missing> {
        commands.ready().await.map_err(|why| Missing::NoCage { why })?;
        let mut missing = Missing::NotFound { program: settings.program.clone() };
        for path in candidates(&settings.program) {
            match Program::at(commands, settings, path).await {
                Ok(program) => return Ok(program),
                Err(why) => missing = why,
            }
        }
        Err(missing)
    }

    async fn at(
        commands: &Commands,
        settings: &settings::Command,
        path: PathBuf,
    ) -> Result<Program, Missing> {
        let files: Vec<PathBuf> = settings.arguments.iter().filter_map(|text| named_file(text)).collect();
        let hashed = hash(settings, std::iter::once(&path).chain(&files))
            .map_err(|(path, error)| Missing::Unreadable { path, why: error.to_string() })?;
        let mut shown = shown_for(&path);
        shown.extend(files.iter().flat_map(|file| links(file)).filter(|file| !is_systems(file)));
        shown.dedup();
        let name = name_of(&path, &files);
        let mut program = Program {
            stdin: !settings.arguments.iter().any(|argument| argument.contains(INPUT)),
            path,
            arguments: settings.arguments.clone(),
            output: settings.output,
            jit: settings.jit,
            shown,
            name,
            version: String::new(),
        };
        let mut said = program.ask(commands, "--version", |_| true).await?;
        if said.is_empty() {
            // Some know no long words. To others this means something else.
            said = program.ask(commands, "-v", is_version).await?;
        }
        program.version = format!("{} {hashed} {said}", program.name).trim_end().to_owned();
        Ok(program)
    }

    /// The same program, with these arguments behind its own.
    pub fn with(&self, more: [&str; 2]) -> Program {
        let arguments = self.arguments.iter().cloned().chain(more.map(str::to_owned)).collect();
        Program { arguments, ..self.clone() }
    }

    /// The worker's own program, as a probe of the cage.
    pub(crate) fn probe(words: &[&str]) -> Program {
        let words = [shared::launch::PROBE].iter().chain(words);
        Program {
            path: PathBuf::new(),
            arguments: words.map(|word| (*word).to_owned()).collect(),
            stdin: true,
            output: OutputKind::Text,
            jit: false,
            shown: Vec::new(),
            name: "probe".to_owned(),
            version: "probe".to_owned(),
        }
    }

    /// The program's file name and those of the files that its arguments name, for people and records: two scripts of one
    /// interpreter are two.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Name, the first digits of the hash of its files, and the first line that it says to `--version`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// What it writes.
    pub fn output(&self) -> OutputKind {
        self.output
    }

    pub(super) fn launch(&self, job: &CommandJob) -> Launch {
        let extension = job.format.name().to_owned();
        self.call(self.arguments.iter().map(String::as_str), self.stdin, job.size, extension, &job.limits)
    }

    fn call<'a>(
        &self,
        arguments: impl Iterator<Item = &'a str>,
        stdin: bool,
        size: u64,
        extension: String,
        limits: &JobLimits,
    ) -> Launch {
        let path = self.path.as_os_str().as_bytes().to_vec();
        let behind = arguments.map(|argument| argument.as_bytes().to_vec());
        Launch {
            arguments: std::iter::once(path.clone()).chain(behind).collect(),
            program: path,
            stdin,
            extension,
            size,
            shown: self.shown.iter().map(|path| path.as_os_str().as_bytes().to_vec()).collect(),
            jit: self.jit,
            limits: launch_limits(limits),
        }
    }

    /// The first line of this kind that it says to a question about its version; empty where that means nothing to it.
    async fn ask(
        &self,
        commands: &Commands,
        question: &str,
        is_it: impl Fn(&str) -> bool,
    ) -> Result<String, Missing> {
        let not_runnable = |why: String| Missing::NotRunnable { path: self.path.clone(), why };
        let nothing = sealed(b"").map_err(|error| not_runnable(error.to_string()))?;
        let launch = self.call(std::iter::once(question), true, 0, String::new(), &QUESTION);
        let call = Call { launch: &launch, output: OutputKind::Text, limits: QUESTION };
        let mut said = Said::default();
        let seen = commands.attempt(call, &nothing, &mut said, Instant::now()).await;
        let seen = seen.map_err(|fault| not_runnable(fault.message))?;
        if let Stand::Failed { step, errno } = seen.cage {
            let errno = nix::errno::Errno::from_raw(errno);
            return Err(not_runnable(format!("{step}: {}", errno.desc())));
        }
        let answer = match seen.death.wait {
            // Some say it where they complain.
            Wait::Exited(0) => first_line(&said.0, &is_it).or_else(|| first_line(&seen.complaints, &is_it)),
            // Some say it and then that it was no proper call.
            Wait::Exited(_) => {
                first_line(&said.0, is_version).or_else(|| first_line(&seen.complaints, is_version))
            }
            _ => None,
        };
        let mut line = answer.unwrap_or_default();
        line.retain(|character| !character.is_control());
        line.truncate(line.floor_char_boundary(VERSION_MAX));
        Ok(line)
    }
}

fn first_line(text: &str, is_it: impl Fn(&str) -> bool) -> Option<String> {
    text.lines().map(str::trim).find(|line| !line.is_empty() && is_it(line)).map(str::to_owned)
}

/// Whether a line says `version 1…`.
fn is_version(line: &str) -> bool {
    let behind = line.split_once("version").map(|(_, behind)| behind.trim_start());
    behind.is_some_and(|behind| behind.starts_with(|first: char| first.is_ascii_digit()))
}

/// Keeps what is said.
#[derive(Debug, Default)]
struct Said(String);

impl Receiver for Said {
    fn take(&mut self, answer: Answer) -> Flow {
        if let Answer::Text(text) = answer {
            self.0.push_str(&text);
        }
        Flow::Continue
    }
}

/// Files of this name that may be run: the one that it names, or those on the `PATH`, in its order.
fn candidates(program: &str) -> Vec<PathBuf> {
    let may_run = |path: &PathBuf| path.is_file() && access(path, AccessFlags::X_OK).is_ok();
    if program.contains('/') {
        return std::path::absolute(program).into_iter().filter(may_run).collect();
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    std::env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(program))
        .filter(may_run)
        .collect()
}

fn name_of(program: &Path, files: &[PathBuf]) -> String {
    let names =
        std::iter::once(program).chain(files.iter().map(PathBuf::as_path)).filter_map(Path::file_name);
    names.map(|name| name.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// The file that an argument names by its absolute path.
fn named_file(argument: &str) -> Option<PathBuf> {
    let path = Path::new(argument);
    (path.is_absolute() && path.is_file()).then(|| path.to_owned())
}

fn is_systems(path: &Path) -> bool {
    SYSTEM.iter().any(|folder| path.starts_with(folder))
}

/// A path, and what it leads to where it is a symbolic link, link by link.
fn links(path: &Path) -> Vec<PathBuf> {
    let mut all = vec![path.to_owned()];
    while all.len() < LINKS_MAX
        && let Some(last) = all.last()
        && let Ok(points_to) = fs::read_link(last)
    {
        let next = last.parent().unwrap_or(last).join(points_to);
        let folder = next.parent().and_then(|folder| folder.canonicalize().ok());
        match (folder, next.file_name()) {
            (Some(folder), Some(name)) => all.push(folder.join(name)),
            _ => break,
        }
    }
    all
}

/// What a command has to see of a program that is none of the system's: a script alone; of a compiled one its folder, where its
/// libraries may lie; of a Python environment all of it.
fn shown_for(path: &Path) -> Vec<PathBuf> {
    let mut shown = Vec::new();
    for file in links(path) {
        if is_systems(&file) {
            continue;
        }
        let folder = file.parent().filter(|folder| *folder != Path::new("/"));
        let environment = folder.and_then(Path::parent).filter(|above| above.join("pyvenv.cfg").is_file());
        match (environment, folder) {
            (Some(environment), _) => shown.push(environment.to_owned()),
            (None, Some(folder)) if is_compiled(&file) => shown.push(folder.to_owned()),
            _ => shown.push(file),
        }
    }
    shown.dedup();
    shown
}

fn is_compiled(path: &Path) -> bool {
    let mut magic = [0; 4];
    File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok() && magic == *b"\x7fELF"
}

/// The first digits of a hash over the files, and over how the program is called.
fn hash<'a>(
    settings: &settings::Command,
    files: impl Iterator<Item = &'a PathBuf>,
) -> Result<String, (PathBuf, io::Error)> {
    let mut all = Sha256::new();
    all.update(format!("{:?} {:?}", settings.arguments, settings.output));
    for path in files {
        let one = hash_of(path).map_err(|error| (path.clone(), error))?;
        all.update(one);
    }
    Ok(all
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect::<String>()
        .chars()
        .take(HASH_DIGITS)
        .collect())
}

fn hash_of(path: &Path) -> io::Result<[u8; 32]> {
    let mut file = File::open(path)?;
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; 128 << 10]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hash.finalize().into()),
            length => hash.update(buffer.get(..length).unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_by_name_and_by_path() {
        assert!(!candidates("sh").is_empty());
        assert_eq!(candidates("/bin/sh"), [PathBuf::from("/bin/sh")]);
        assert!(candidates("/bin").is_empty() && candidates("no-such-program").is_empty());
        assert!(candidates("/etc/ld.so.cache").is_empty(), "it may not be run");
    }

    #[test]
    fn two_scripts_of_one_interpreter_have_two_names() {
        let of = |files: &[&str]| {
            name_of(Path::new("/usr/bin/python3"), &files.iter().map(PathBuf::from).collect::<Vec<_>>())
        };
        assert_eq!(of(&["/srv/one.py"]), "python3 one.py");
        assert_eq!(of(&["/srv/two.py"]), "python3 two.py");
        assert_eq!(of(&[]), "python3");
    }

    #[test]
    fn a_version_is_told_from_a_complaint() {
        let of = |text| first_line(text, is_version);
        assert_eq!(of("\n  pdftotext version 22.12.0\nusage").as_deref(), Some("pdftotext version 22.12.0"));
        assert_eq!(of("unrecognised option '--version'"), None);
        assert_eq!(first_line("\n\n a b \n", |_| true).as_deref(), Some("a b"));
    }

    #[test]
    fn of_a_foreign_program_what_it_needs_is_shown() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let put = |name: &str, bytes: &[u8]| {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, bytes).unwrap();
            path
        };
        let script = put("a/script", b"#!/bin/sh\n");
        let compiled = put("b/tool", b"\x7fELF....");
        put("venv/pyvenv.cfg", b"");
        let python = put("venv/bin/tool", b"#!/x\n");
        symlink("../a/script", folder.join("b/link")).unwrap();
        assert_eq!(shown_for(&script), std::slice::from_ref(&script));
        assert_eq!(shown_for(&compiled), [folder.join("b")]);
        assert_eq!(shown_for(&python), [folder.join("venv")]);
        assert_eq!(shown_for(&folder.join("b/link")), [folder.join("b/link"), script]);
        assert!(shown_for(Path::new("/bin/sh")).is_empty());
    }

    #[test]
    fn the_hash_is_of_all_files_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (folder.path().join("1"), folder.path().join("2"));
        fs::write(&one, "1").unwrap();
        fs::write(&two, "2").unwrap();
        let command = |argument: &str| settings::Command {
            program: "x".to_owned(),
            arguments: vec![argument.to_owned()],
            output: OutputKind::Text,
            jit: false,
        };
        let called_with =
            |argument, files: &[&PathBuf]| hash(&command(argument), files.iter().copied()).unwrap();
        let of = |files: &[&PathBuf]| called_with("-", files);
        assert_ne!(of(&[&one]), called_with("-layout", &[&one]));
        assert_eq!(of(&[&one]).len(), HASH_DIGITS);
        assert_ne!(of(&[&one, &two]), of(&[&two, &one]));
        let before = of(&[&one, &two]);
        fs::write(&two, "3").unwrap();
        assert_ne!(of(&[&one, &two]), before);
    }
}
