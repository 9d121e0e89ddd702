//! What the supervisor says to a launcher, the process that starts external commands, and what comes back: from the
//! launcher itself ([`Reply`]) and from the first process of each command's cage ([`Report`]).
//!
//! The command has none of these sockets. What it says is bytes on two pipes, and nothing here is ever read from it.

use serde::{Deserialize, Serialize};

/// Both ends must be of the same version: they are built together.
pub const PROTOCOL: u32 = 1;

/// The only argument with which the worker's program becomes a launcher.
pub const WORD: &str = "launcher";

/// The first argument with which the worker's program becomes a probe: a command that attacks its cage and says what
/// came of it, a line an attempt: what was tried, then `ok` or the name of the system's error.
pub const PROBE: &str = "probe";

/// Where a command finds its scratch folder: `HOME`, `TMPDIR` and its working directory.
pub const SCRATCH: &str = "/scratch";

/// Stands in an argument for the place where the document lies in the cage.
pub const INPUT: &str = "{input}";

/// The first message to a launcher.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Greeting {
    /// [`PROTOCOL`] of the supervisor.
    pub protocol: u32,
    /// The user id that commands get, which nothing else has; taken up only where started by root.
    pub user: u32,
    /// Go without namespaces. Honoured only by a worker built with the feature `omit-layers`.
    pub bare: bool,
}

/// What a launcher says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// After the greeting, once: commands can be run.
    Ready {
        /// [`PROTOCOL`] of the launcher.
        protocol: u32,
        /// The names of the layers that hold for every command.
        layers: Vec<String>,
        /// Those that do not, and why, in words.
        absent: Vec<(String, String)>,
        /// Commands have a root and processes of their own; otherwise only what Landlock and the filter give.
        namespaces: bool,
    },
    /// Instead of `Ready`: no command may be run here, and why, in words.
    Unfit { why: String },
    /// The first process of a cage runs. Its pidfd comes along.
    Spawned,
    /// It could not be made.
    Refused { step: String, errno: i32 },
}

/// Every later message to a launcher: one command for one document. Four descriptors come along, in this order: the
/// socket for [`Report`]s, the document, the writing ends of the pipes for output and for complaints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// The program's absolute path; empty for the launcher's own program, wherever that lies.
    pub program: Vec<u8>,
    /// What it is called with, its own name first. [`INPUT`] in them is replaced.
    pub arguments: Vec<Vec<u8>>,
    /// The document is on standard input, not a file.
    pub stdin: bool,
    /// What the file's name ends in, without the dot.
    pub extension: String,
    /// Bytes of the document.
    pub size: u64,
    /// Files and folders that the command may read besides the system's own.
    pub shown: Vec<Vec<u8>>,
    /// The command may make memory executable that it has written.
    pub jit: bool,
    pub limits: LaunchLimits,
}

/// What the kernel enforces on a command and its children.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchLimits {
    /// Bytes of memory of all processes together.
    pub memory: u64,
    /// Milliseconds of processor time.
    pub cpu_ms: u64,
    /// Bytes of the largest file.
    pub file: u64,
    /// Processes and threads at a time.
    pub processes: u64,
    /// Bytes of the scratch folder, and files in it.
    pub scratch: u64,
    pub inodes: u64,
}

/// What the first process of a cage says of the command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// The cage is shut, and the program runs.
    Started,
    /// A step of the cage's setup failed: nothing was run.
    NotStarted { step: String, errno: i32 },
    /// The command has ended. What it left behind is being killed.
    Ended {
        /// The exit status, or the signal where `killed`.
        status: i32,
        killed: bool,
        core: bool,
    },
}
