//! Once per content: of documents with the same bytes one is worked on at a time, and the others take its ending.
//!
//! What has ended is remembered for a while, since it takes a moment until the ledger knows of it; the ledger's own word is
//! asked for everything else. A transient end is nothing to remember: it says nothing about the next try.
//!
//! A claim is held only while a document is in a child's hands, and nobody who waits for one holds another: a chain of
//! waiting documents always ends at one that works.

use super::{Came, Carried, Product};
use crate::ledger::{Facts, Millis};
use crate::rules::fault::Fault;
use crate::rules::kind::Class;
use shared::{ContentHash, DocumentId, Format};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// Bytes, what they were found to be, and whether it is the large lane's.
pub(super) type Key = (ContentHash, Format, bool);

/// So many endings are remembered, …
const REMEMBERED: usize = 512;
/// … with texts of so many bytes in all; always the last one.
const REMEMBERED_BYTES: usize = 64 << 20;

/// What is being worked on.
#[derive(Debug, Clone, Default)]
pub struct Contents {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    at_work: HashMap<Key, watch::Receiver<Option<Ending>>>,
    ended: VecDeque<(Key, Millis, Ending)>,
    /// Of the texts in `ended`.
    bytes: usize,
}

/// How the work on a content ended, for all that have the same.
#[derive(Debug, Clone)]
pub(super) enum Ending {
    Text {
        maker: DocumentId,
        facts: Box<Facts>,
        product: Box<Product>,
    },
    Fault {
        maker: DocumentId,
        facts: Box<Facts>,
        fault: Box<Fault>,
        attempts: u32,
    },
    /// It has members, or it never came to an end: everyone for himself.
    NotShared,
}

/// Whose turn it is.
pub(super) enum Turn {
    /// Ours: whoever comes now waits until this is dropped.
    Mine(Claim),
    /// Another was at work on it, and this is how it ended.
    Theirs(Ending),
}

/// Work on one content.
pub(super) struct Claim {
    key: Key,
    contents: Contents,
    ended: watch::Sender<Option<Ending>>,
}

impl Contents {
    /// Waits for whoever is at work on this content, takes an ending that another than `whom` made after `since`, else takes
    /// it up.
    pub(super) async fn turn(&self, key: Key, whom: DocumentId, since: Option<Millis>) -> Turn {
        let mut waiting = {
            let mut inner = self.lock();
            match inner.at_work.get(&key) {
                Some(waiting) => waiting.clone(),
                None => {
                    if let Some(ending) = inner.remembered(&key, whom, since) {
                        return Turn::Theirs(ending);
                    }
                    let (ended, waiting) = watch::channel(None);
                    inner.at_work.insert(key, waiting);
                    return Turn::Mine(Claim { key, contents: self.clone(), ended });
                }
            }
        };
        // Whoever was at work and is gone without a word has come to no end.
        let ending = waiting.wait_for(Option::is_some).await.ok().and_then(|ending| ending.clone());
        Turn::Theirs(ending.unwrap_or(Ending::NotShared))
    }

    /// Forgets how any work ended: what was said of a content was not the content's.
    pub(crate) fn forget(&self) {
        let mut inner = self.lock();
        inner.ended.clear();
        inner.bytes = 0;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// What a document made itself is nothing new to it: it would only hear again why it is tried once more.
    fn remembered(&self, key: &Key, whom: DocumentId, since: Option<Millis>) -> Option<Ending> {
        let fits = |ended: &&(Key, Millis, Ending)| {
            ended.0 == *key && ended.2.maker() != Some(whom) && since.is_none_or(|since| ended.1 > since)
        };
        self.ended.iter().rev().find(fits).map(|(_, _, ending)| ending.clone())
    }

    fn remember(&mut self, key: Key, now: Millis, ending: &Ending) {
        if !ending.is_lasting() {
            return;
        }
        self.bytes += ending.bytes();
        self.ended.push_back((key, now, ending.clone()));
        while self.ended.len() > REMEMBERED || (self.bytes > REMEMBERED_BYTES && self.ended.len() > 1) {
            let forgotten = self.ended.pop_front().map_or(0, |(_, _, ending)| ending.bytes());
            self.bytes -= forgotten;
        }
    }
}

impl Ending {
    fn maker(&self) -> Option<DocumentId> {
        match self {
            Ending::Text { maker, .. } | Ending::Fault { maker, .. } => Some(*maker),
            Ending::NotShared => None,
        }
    }

    fn bytes(&self) -> usize {
        if let Ending::Text { product, .. } = self { product.text.len() } else { 0 }
    }

    fn is_lasting(&self) -> bool {
        match self {
            Ending::Text { .. } => true,
            Ending::Fault { fault, .. } => matches!(fault.class, Some(Class::Permanent | Class::Corrupt)),
            Ending::NotShared => false,
        }
    }
}

impl Claim {
    /// Tells those who wait how it ended.
    pub(super) fn end(
        self,
        now: Millis,
        maker: DocumentId,
        attempts: u32,
        carried: &Carried,
        has_members: bool,
    ) {
        let facts = || Box::new(Facts { stat: None, usage: None, damage: None, ..carried.facts.clone() });
        let ending = match &carried.came {
            _ if has_members => Ending::NotShared,
            Came::Text(product) => Ending::Text { maker, facts: facts(), product: Box::new(product.clone()) },
            Came::Failed(fault) => {
                Ending::Fault { maker, facts: facts(), fault: Box::new(fault.clone()), attempts }
            }
            Came::Same | Came::Held(_) | Came::Broken(_) => Ending::NotShared,
        };
        self.contents.lock().remember(self.key, now, &ending);
        self.ended.send_replace(Some(ending));
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.contents.lock().at_work.remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::kind::{Kind, Stage, State};

    fn key() -> Key {
        (ContentHash::of(b"same"), Format::Text, false)
    }

    fn failed(kind: Kind) -> Carried {
        Carried::of(Facts::default(), Came::Failed(Fault::new(Stage::Extract, kind, "x")))
    }

    const MAKER: DocumentId = DocumentId([7; 20]);
    const OTHER: DocumentId = DocumentId([8; 20]);

    async fn claim(contents: &Contents, key: Key) -> Claim {
        match contents.turn(key, OTHER, None).await {
            Turn::Mine(claim) => claim,
            Turn::Theirs(ending) => panic!("{ending:?}"),
        }
    }

    #[tokio::test]
    async fn those_who_wait_take_the_ending_transient_ones_included() {
        let contents = Contents::default();
        let mine = claim(&contents, key()).await;
        let waiting = tokio::spawn({
            let contents = contents.clone();
            async move { contents.turn(key(), OTHER, None).await }
        });
        // Another format, another lane, and other bytes wait for nobody.
        drop(claim(&contents, (key().0, Format::Csv, false)).await);
        drop(claim(&contents, (key().0, Format::Text, true)).await);
        drop(claim(&contents, (ContentHash::of(b"other"), Format::Text, false)).await);
        tokio::task::yield_now().await;
        mine.end(5, MAKER, 2, &failed(Kind::WorkerLost), false);
        match waiting.await.unwrap() {
            Turn::Theirs(Ending::Fault { maker: of, fault, attempts, .. }) => {
                assert_eq!((of, fault.kind, attempts), (MAKER, Kind::WorkerLost, 2));
            }
            Turn::Theirs(_) | Turn::Mine(_) => panic!(),
        }
        drop(claim(&contents, key()).await);
    }

    #[tokio::test]
    async fn a_lasting_end_is_remembered_for_who_wants_none_newer() {
        let contents = Contents::default();
        claim(&contents, key()).await.end(5, MAKER, 1, &failed(Kind::CrashSegv), false);
        assert!(matches!(contents.turn(key(), OTHER, None).await, Turn::Theirs(Ending::Fault { .. })));
        assert!(matches!(contents.turn(key(), OTHER, Some(4)).await, Turn::Theirs(Ending::Fault { .. })));
        assert!(
            matches!(contents.turn(key(), OTHER, Some(5)).await, Turn::Mine(_)),
            "a person wants it anew"
        );
        assert!(
            matches!(contents.turn(key(), MAKER, None).await, Turn::Mine(_)),
            "it says nothing to its maker"
        );
        let other = (ContentHash::of(b"archive"), Format::Zip, false);
        claim(&contents, other).await.end(5, MAKER, 1, &failed(Kind::CrashSegv), true);
        drop(claim(&contents, other).await);
    }

    #[tokio::test]
    async fn who_ends_without_a_word_shares_nothing() {
        let contents = Contents::default();
        let mine = claim(&contents, key()).await;
        let waiting = tokio::spawn({
            let contents = contents.clone();
            async move { contents.turn(key(), OTHER, None).await }
        });
        tokio::task::yield_now().await;
        drop(mine);
        assert!(matches!(waiting.await.unwrap(), Turn::Theirs(Ending::NotShared) | Turn::Mine(_)));
    }

    #[test]
    fn no_more_is_remembered_than_fits() {
        let mut inner = Inner::default();
        let text = |bytes: usize| {
            let text = "x".repeat(bytes).into();
            let product = Box::new(Product { text, title: None, state: State::Indexed, fault: None });
            Ending::Text { maker: MAKER, facts: Box::default(), product }
        };
        for _ in 0..2 * REMEMBERED {
            inner.remember(key(), 0, &text(1));
        }
        assert_eq!((inner.ended.len(), inner.bytes), (REMEMBERED, REMEMBERED));
        inner.remember(key(), 0, &text(REMEMBERED_BYTES));
        assert_eq!((inner.ended.len(), inner.bytes), (1, REMEMBERED_BYTES));
        inner.remember(key(), 0, &text(REMEMBERED_BYTES + 1));
        assert_eq!((inner.ended.len(), inner.bytes), (1, REMEMBERED_BYTES + 1));
    }
}
