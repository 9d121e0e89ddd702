//! Takes what a child says of one document: text, metadata, and members into the spool.
//!
//! Everything counted here is counted by the supervisor itself; what the child claims plays no part.

use super::spool::Spool;
use crate::fault_point::{self, Point};
use crate::pool::{Flow, Receiver};
use crate::rules::budget::Budget;
use crate::rules::fault::Fault;
use crate::rules::identify::identify;
use crate::rules::kind::Damage;
use sha2::{Digest, Sha256};
use shared::{Answer, ContentHash, Format, MemberEnd, MemberHead, MemberKind, Metadata, Refused};
use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::path::Path;

/// How many bytes of a member's head are kept for `identify`.
const HEAD: usize = crate::source::fetch::HEAD;

/// A member as it came out of its container.
#[derive(Debug, Clone)]
pub struct Member {
    pub head: MemberHead,
    /// Counts equal names in this container; the position for nameless members.
    pub occurrence: u32,
    pub position: u64,
    pub bytes: Spooled,
    /// Why its bytes cannot be had, or not all of them.
    pub refusal: Option<shared::Refusal>,
    /// The limit that it passed. It is the last, then.
    pub over: Option<Box<Fault>>,
    /// Where the damage is, where its own bytes did not come out whole and its item was read a second time.
    pub damage: Option<Damage>,
}

impl Member {
    /// Whether its container says that its bytes are broken.
    pub fn is_corrupt(&self) -> bool {
        let why = self.refusal.as_ref().map(|refusal| refusal.why);
        matches!(why, Some(Refused::Malformed | Refused::Truncated))
    }
}

/// A member's bytes.
#[derive(Debug, Clone)]
pub struct Spooled {
    pub range: Range<u64>,
    pub sha256: ContentHash,
    /// What its first bytes say it is. They are not held: there may be very many members.
    pub format: Format,
}

impl Spooled {
    /// How many bytes.
    pub fn size(&self) -> u64 {
        self.range.end - self.range.start
    }
}

/// What one child said, as it says it.
#[derive(Debug)]
pub struct Collector<'a> {
    pub text: String,
    pub metadata: Option<Metadata>,
    pub members: Vec<Member>,
    /// Why the child was stopped, if it was.
    pub over: Option<Box<Fault>>,
    /// Our own disk failed while spooling: structural.
    pub broken: Option<io::Error>,
    folder: &'a Path,
    spool: Option<Spool>,
    /// A copy: bounds what is spooled. What counts is the replay in order, see [`super::tree`].
    budget: Budget,
    /// Whether the fault language is a format here.
    faults: bool,
    names: HashMap<Vec<u8>, u32>,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    head: MemberHead,
    start: u64,
    hash: Sha256,
    first: Vec<u8>,
}

impl<'a> Collector<'a> {
    /// Spools into a file of its own below `folder`, at most what `budget` has left.
    pub fn new(folder: &'a Path, budget: Budget, faults: bool) -> Self {
        Collector {
            text: String::new(),
            metadata: None,
            members: Vec::new(),
            over: None,
            broken: None,
            folder,
            spool: None,
            budget,
            faults,
            names: HashMap::new(),
            open: None,
        }
    }

    /// Gives up the file with the members' bytes, if there is one.
    pub fn take_spool(&mut self) -> Option<Spool> {
        self.spool.take()
    }

    fn spooled(&self) -> u64 {
        self.spool.as_ref().map_or(0, Spool::end)
    }

    fn begin(&mut self, head: MemberHead) -> Flow {
        self.open = Some(Open { head, start: self.spooled(), hash: Sha256::new(), first: Vec::new() });
        match self.budget.member_begins() {
            Ok(()) => Flow::Continue,
            Err(fault) => self.stop(fault),
        }
    }

    fn data(&mut self, bytes: &[u8]) -> Flow {
        // The pool has checked the order of frames: data comes inside of a member alone.
        let Some(open) = &mut self.open else { return Flow::Stop };
        if let Err(fault) = self.budget.member_bytes(bytes.len() as u64) {
            return self.stop(fault);
        }
        open.hash.update(bytes);
        let room = HEAD.saturating_sub(open.first.len()).min(bytes.len());
        open.first.extend_from_slice(bytes.get(..room).unwrap_or_default());
        let spool = match &mut self.spool {
            Some(spool) => Ok(spool),
            empty => Spool::new(self.folder).map(|spool| empty.insert(spool)),
        };
        if let Err(error) = spool.and_then(|spool| spool.append(bytes)) {
            self.broken = Some(error);
            return Flow::Stop;
        }
        Flow::Continue
    }

    fn end(&mut self, refusal: Option<shared::Refusal>, over: Option<Box<Fault>>) {
        let Some(open) = self.open.take() else { return };
        let position = self.members.len() as u64;
        let occurrence = if open.head.name.is_empty() {
            u32::try_from(position).unwrap_or(u32::MAX)
        } else {
            let next = self.names.entry(open.head.name.clone()).or_insert(0);
            *next += 1;
            *next - 1
        };
        let range = open.start..self.spooled();
        let size = range.end - range.start;
        let format = identify(&open.first, size, &open.head.name, self.faults).format;
        self.members.push(Member {
            head: open.head,
            occurrence,
            position,
            bytes: Spooled { range, sha256: ContentHash(open.hash.finalize().into()), format },
            refusal,
            over,
            damage: None,
        });
    }

    fn stop(&mut self, fault: Fault) -> Flow {
        let fault = Box::new(fault);
        self.over = Some(fault.clone());
        self.end(None, Some(fault));
        Flow::Stop
    }
}

impl Receiver for Collector<'_> {
    fn take(&mut self, answer: Answer) -> Flow {
        match answer {
            Answer::Text(text) => self.text.push_str(&text),
            Answer::Metadata(metadata) => self.metadata = Some(metadata),
            Answer::Member(head) => return self.begin(head),
            Answer::MemberData(bytes) => return self.data(&bytes),
            Answer::MemberEnd(MemberEnd::Whole) => self.end(None, None),
            Answer::MemberEnd(MemberEnd::Failed(refusal)) => self.end(Some(refusal), None),
            Answer::Locked(_) => fault_point::reach(Point::ChildRunning),
            Answer::Progress { .. } | Answer::End(_) => {}
        }
        Flow::Continue
    }
}

/// Whether a member is one that has bytes.
pub fn has_bytes(member: &Member) -> bool {
    member.head.kind == MemberKind::File
}
