//! What may cross the boundary between the supervisor and a sandboxed child, and the rules of that crossing.
//!
//! The supervisor asks ([`ask`]), a child answers in frames ([`answer`], [`frame`]) and leaves notes in a page
//! of shared memory ([`recorder`]). Everything that a child says is data: every length is capped before it is
//! allocated, and no field is trusted because it decoded. This crate does no I/O.
#![forbid(unsafe_code)]

pub mod answer;
pub mod ask;
pub mod format;
pub mod frame;
pub mod ids;
pub mod launch;
pub mod layers;
pub mod limits;
pub mod recorder;
pub mod versions;

pub use answer::{Answer, End, MemberEnd, MemberHead, MemberKind, Metadata, Parts, Refusal, Refused};
pub use ask::{Ask, ChildLimits, Hello, Reply, Request, Work};
pub use format::Format;
pub use ids::{ContentHash, DocumentId, Identity, Level};
pub use layers::{Layer, Layers};
pub use limits::Limits;
