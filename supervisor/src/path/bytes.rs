//! A document's bytes: had from its source or from the spool, and looked at once more where the verdict on them is that they
//! are damaged.
//!
//! The second look goes past the page cache. The same bytes again: the source's copy is damaged. Others, while size, times and
//! inode stood still: the transfer was. Members are not stored anywhere by themselves: for them the outermost item is
//! hashed again, once for all of them.

use super::collect::Spooled;
use super::spool::Spool;
use super::{Means, Place};
use crate::ledger::Stat;
use crate::rules::fault::Fault;
use crate::rules::kind::{Class, Damage, Kind, Stage};
use crate::source::fetch::{self, Fetch, Fetched};
use shared::{ContentHash, Limits};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::OnceCell;

/// A document's bytes, had.
pub(super) struct Had {
    pub(super) document: Arc<OwnedFd>,
    pub(super) size: u64,
    pub(super) sha256: ContentHash,
    pub(super) stat: Option<Stat>,
    pub(super) head: Vec<u8>,
}

/// What stands in the way of having the bytes.
pub(super) enum Trouble {
    Fault(Box<Fault>),
    /// Our own disk.
    Broken(io::Error),
}

/// The outermost item of a tree, as it was when this run read it.
#[derive(Debug, Clone)]
pub struct Outermost {
    pub root: Arc<PathBuf>,
    /// Raw path below the root.
    pub path: Arc<[u8]>,
    read: Arc<OnceCell<(ContentHash, Stat)>>,
    damage: Arc<OnceCell<Option<Verdict>>>,
}

/// Where the damage is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The same bytes came again.
    Source,
    /// Others came, and nothing at the source has moved.
    Transfer,
    /// Others came, and the item is another one by now.
    Changed,
    /// Nothing came this time: the question stays open until the source answers.
    Unread(Box<Fault>),
}

impl Outermost {
    /// The item at this raw path below `root`.
    pub fn new(root: Arc<PathBuf>, path: &[u8]) -> Self {
        Outermost { root, path: path.into(), read: Arc::default(), damage: Arc::default() }
    }

    /// Notes what was read.
    fn note(&self, sha256: ContentHash, stat: Stat) {
        // Read twice in one run, where a container is passed through again: the first reading is what its members are of.
        drop(self.read.set((sha256, stat)));
    }

    /// Reads the item a second time, unless that has been done, and says where the damage is. `None`: it cannot be told.
    pub(super) async fn look_again(&self, limits: &Limits) -> Option<Verdict> {
        let (sha256, stat) = *self.read.get()?;
        self.damage
            .get_or_init(|| async {
                let again = fetch::rehash(&self.root, &self.path, limits.fetch_ms, limits.input).await;
                match again {
                    Ok(again) if again.sha256 == sha256 => Some(Verdict::Source),
                    Ok(again) if again.stat == stat => Some(Verdict::Transfer),
                    Ok(_) => Some(Verdict::Changed),
                    Err(fault) if fault.kind == Kind::SourceChanged => Some(Verdict::Changed),
                    Err(fault) if fault.class == Some(Class::Transient) => {
                        Some(Verdict::Unread(Box::new(fault)))
                    }
                    Err(_) => None,
                }
            })
            .await
            .clone()
    }
}

/// Has the bytes of the document at `place`.
pub(super) async fn have(
    means: &Means,
    outermost: &Outermost,
    place: &Place,
    limits: &Limits,
) -> Result<Had, Trouble> {
    match place {
        Place::Item => {
            let fetch = Fetch {
                root: &outermost.root,
                path: &outermost.path,
                fetch_ms: limits.fetch_ms,
                input_limit: limits.input,
                memory_cap: means.memory_cap,
                spool: &means.spool,
            };
            let Fetched { document, size, sha256, stat, head } =
                fetch::fetch(fetch).await.map_err(trouble)?;
            outermost.note(sha256, stat);
            Ok(Had { document: Arc::new(document), size, sha256, stat: Some(stat), head })
        }
        Place::Member { spool, bytes } => member(means, spool.as_deref(), bytes).map_err(Trouble::Broken),
    }
}

/// A full disk of ours is no fault of the document.
fn trouble(fault: Fault) -> Trouble {
    let ours = fault.is_our_own();
    if ours && fault.evidence.errno.as_deref() == Some("ENOSPC") {
        return Trouble::Broken(io::Error::from_raw_os_error(libc::ENOSPC));
    }
    Trouble::Fault(Box::new(fault))
}

fn member(means: &Means, spool: Option<&Spool>, bytes: &Spooled) -> io::Result<Had> {
    let document = match spool {
        Some(spool) => spool.document(&bytes.range, means.memory_cap, &means.spool)?,
        None => fetch::sealed(&[])?,
    };
    let file = File::from(document);
    let length = usize::try_from(bytes.size()).unwrap_or(fetch::HEAD).min(fetch::HEAD);
    let mut head = vec![0; length];
    file.read_exact_at(&mut head, 0)?;
    Ok(Had { document: Arc::new(file.into()), size: bytes.size(), sha256: bytes.sha256, stat: None, head })
}

/// The fault of a document whose second reading gave other bytes or none, and where the damage is.
pub(super) fn settled(verdict: Verdict, of: &Fault) -> (Option<Fault>, Option<Damage>) {
    let again = |kind, words: &str| {
        let message = format!("{words}; the bytes of the first reading: {}: {}", of.kind, of.message);
        Fault::new(Stage::Fetch, kind, message)
    };
    match verdict {
        Verdict::Source => (None, Some(Damage::Source)),
        Verdict::Transfer => {
            let fault = again(
                Kind::TransferDamaged,
                "a second reading gave other bytes, and nothing at the source had moved",
            );
            (Some(fault), Some(Damage::Transfer))
        }
        Verdict::Unread(fault) => {
            let message = format!("a second look could not be had: {}", fault.message);
            (Some(Fault { message: again(fault.kind, &message).message, ..*fault }), None)
        }
        Verdict::Changed => (Some(again(Kind::SourceChanged, "it has changed since it was read")), None),
    }
}
