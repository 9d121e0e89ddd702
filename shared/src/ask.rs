//! What the supervisor says to a zygote, and what the zygote answers. One message a packet on a SEQPACKET socket;
//! descriptors travel beside it.

use crate::{Format, Layer, Layers};
use serde::{Deserialize, Serialize};

/// Both ends must be of the same version: they are built together.
pub const PROTOCOL: u32 = 3;

/// The largest message in either direction, in bytes.
pub const MESSAGE_MAX: usize = 64 << 10;

/// The descriptor on which a zygote finds its socket.
pub const CONTROL_FD: i32 = 3;

/// The first message to a zygote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL`] of the supervisor.
    pub protocol: u32,
    /// Which of the supervisor's zygotes this is: the user id is `uid_base + slot`.
    pub slot: u32,
    /// The first of a range of user ids that nothing else uses; taken up only where started by root.
    pub uid_base: u32,
    /// Whether documents of the fault language are carried out. Otherwise an [`Ask`] for one is refused.
    pub faults: bool,
    /// Layers to leave out. Honoured only by a worker built with the feature `omit-layers`.
    pub omit: Layers,
}

/// Every later message to a zygote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Make a child for one document. Three descriptors come along, in this order: the document (a sealed memfd, or a
    /// file open for reading), the writing end of the result pipe, the memfd of the recorder page.
    Spawn(Ask),
}

/// One document for one child.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// Stands in every frame of the answer, so that none can be taken for another's.
    pub nonce: [u8; 16],
    /// What to do.
    pub work: Work,
    /// What the first bytes say it is; the child may find it to be something finer.
    pub format: Format,
    /// How many bytes the document has.
    pub size: u64,
    /// The raw bytes of the innermost name: a hint and nothing more.
    pub name: Vec<u8>,
    /// What this child may use.
    pub limits: ChildLimits,
    /// To be tried on an encrypted document, after the empty one.
    pub passwords: Vec<String>,
}

/// What a child is to do with its document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Work {
    /// Text, metadata and members.
    Extract,
    /// The members alone: some of them are wanted again.
    Members,
    /// As members, the pictures of those pages of a PDF that have hardly any text: `page-0001.jpg` (`.jp2`, `.pnm`), named by
    /// the page's number, in the order of the pages; a page's second picture is `page-0001-2.jpg`. One that cannot be had ends as
    /// failed, with the reason.
    Pictures,
}

/// What the child enforces on itself and the kernel on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildLimits {
    /// Bytes that may be allocated.
    pub memory: u64,
    /// Milliseconds of processor time, rounded up to seconds for the kernel.
    pub cpu_ms: u64,
}

/// How an attack on a layer ended that the zygote made on itself, before its filter shut.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    /// The layer that was attacked.
    pub layer: Layer,
    /// Whether it held.
    pub held: Held,
    /// What was tried and what the kernel answered, in words.
    pub words: String,
}

/// Whether a layer held under attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Held {
    /// Against everything.
    Wholly,
    /// Against everything that this kernel knows to forbid, which is not everything that the layer is there for.
    Partly,
    /// Something got through that must not.
    Not,
}

/// What a zygote says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// After the hello, once: the cage stands. The descriptor of the seccomp listener comes along, where there is one.
    Ready {
        /// [`PROTOCOL`] of the zygote.
        protocol: u32,
        /// What holds for every child of this zygote, those included that a child puts up for itself.
        layers: Layers,
        /// What does not, and why, in words.
        absent: Vec<(Layer, String)>,
        /// How the zygote's own attacks ended, on layers that nothing can attack once the filter stands.
        proofs: Vec<Proof>,
        /// KiB of memory that the zygote has touched: the price of each fork grows with it.
        touched_kib: u64,
        /// Where the zygote's code lies, so that an address can be told as an offset into its file.
        code_base: u64,
    },
    /// Instead of `Ready`: the cage cannot be put up.
    Broken {
        /// The step of the setup.
        step: String,
        /// The system's error number, or 0.
        errno: i32,
    },
    /// A child runs. Its pidfd comes along.
    Spawned {
        /// Of the [`Ask`].
        nonce: [u8; 16],
    },
    /// No child could be made.
    Refused {
        /// Of the [`Ask`].
        nonce: [u8; 16],
        /// The step that failed.
        step: String,
        /// The system's error number, or 0.
        errno: i32,
    },
}
