//! The way to an extractor: whether it works at all, and whether its breaker is open.
//!
//! Before an extractor's first document in a run its own built-in document goes through it. What then fails alike again and again
//! is the extractor's doing and no document's. The gate only remembers; what follows a trip (the record of it, the alert, the
//! documents that are let off) is the run's.

use crate::rules::breaker::{Policy, Window};
use crate::rules::fault::Fault;
use crate::rules::kind::{Kind, Stage};
use shared::DocumentId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::OnceCell;

/// The gate before all extractors of a run.
#[derive(Debug, Default)]
pub struct Gate {
    policy: Policy,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    extractors: HashMap<String, Standing>,
    trips: Vec<Trip>,
}

#[derive(Debug, Default)]
struct Standing {
    works: Arc<OnceCell<()>>,
    window: Window<String, DocumentId>,
    /// Why it is shut, if it is.
    shut: Option<String>,
    /// What the failures have in common that shut it.
    fingerprint: Option<String>,
    /// Let through although it is shut: a probe, with the containers around it.
    probe: Vec<DocumentId>,
}

/// An extractor's breaker has opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trip {
    pub extractor: String,
    /// What the failures were.
    pub kind: Kind,
    pub message: String,
    /// Which failed with one fingerprint: none where the built-in document did not come back.
    pub documents: Vec<DocumentId>,
}

impl Gate {
    /// With this breaker before each extractor.
    pub fn new(policy: Policy) -> Self {
        Gate { policy, inner: Mutex::default() }
    }

    /// Before a document is given to an extractor; `try_out` carries its built-in document, and says why it did not come
    /// back. At most once a run, however many wait.
    ///
    /// # Errors
    /// `extractor.broken`: the document has to wait.
    pub(super) async fn enter(
        &self,
        extractor: &str,
        stage: Stage,
        document: DocumentId,
        try_out: impl Future<Output = Result<(), Fault>>,
    ) -> Result<(), Fault> {
        let works = {
            let mut inner = self.lock();
            let standing = inner.extractors.entry(extractor.to_owned()).or_default();
            if let Some(why) = standing.shut.as_ref().filter(|_| !standing.probe.contains(&document)) {
                return Err(broken(extractor, stage, why));
            }
            standing.works.clone()
        };
        if self.policy.window == 0 {
            return Ok(());
        }
        let tried = works
            .get_or_try_init(move || async move {
                try_out.await.map_err(|fault| {
                    let message =
                        format!("its built-in document did not come back: {}: {}", fault.kind, fault.message);
                    self.trip(extractor, fault.kind, message, Vec::new());
                })
            })
            .await;
        match tried {
            Ok(()) => Ok(()),
            Err(()) => {
                let why = self.lock().extractors.get(extractor).and_then(|standing| standing.shut.clone());
                Err(broken(extractor, stage, &why.unwrap_or_default()))
            }
        }
    }

    /// What became of a document.
    ///
    /// # Errors
    /// `extractor.broken`: it failed like those that shut the extractor, and has to wait with them.
    pub(super) fn left(
        &self,
        extractor: &str,
        document: DocumentId,
        fault: Option<&Fault>,
    ) -> Result<(), Fault> {
        let fingerprint = fault.and_then(|fault| fault.evidence.fingerprint.clone());
        let opened = {
            let mut inner = self.lock();
            let standing = inner.extractors.entry(extractor.to_owned()).or_default();
            standing.window.note(fingerprint.clone(), document, self.policy)
        };
        let Some(fault) = fault else { return Ok(()) };
        if let Some((fingerprint, documents)) = opened {
            let message = format!(
                "{} of its last {} documents failed with {} (fingerprint {fingerprint})",
                documents.len(),
                self.policy.window,
                fault.kind
            );
            self.lock().extractors.entry(extractor.to_owned()).or_default().fingerprint = Some(fingerprint);
            self.trip(extractor, fault.kind, message, documents);
        }
        let inner = self.lock();
        let standing = inner.extractors.get(extractor).filter(|standing| !standing.probe.contains(&document));
        match standing.and_then(|standing| standing.shut.as_ref().zip(standing.fingerprint.as_ref())) {
            Some((why, shared)) if fingerprint.as_ref() == Some(shared) => {
                Err(broken(extractor, fault.stage, why))
            }
            _ => Ok(()),
        }
    }

    fn trip(&self, extractor: &str, kind: Kind, message: String, documents: Vec<DocumentId>) {
        let mut inner = self.lock();
        let standing = inner.extractors.entry(extractor.to_owned()).or_default();
        if standing.shut.is_none() {
            standing.shut = Some(message.clone());
            inner.trips.push(Trip { extractor: extractor.to_owned(), kind, message, documents });
        }
    }

    /// The breakers that have opened since the last call.
    pub fn trips(&self) -> Vec<Trip> {
        std::mem::take(&mut self.lock().trips)
    }

    /// It was open when the last run ended.
    pub fn shut(&self, extractor: &str, why: &str) {
        self.lock().extractors.entry(extractor.to_owned()).or_default().shut = Some(why.to_owned());
    }

    /// Its breaker is closed.
    pub fn reopen(&self, extractor: &str) {
        let mut inner = self.lock();
        let standing = inner.extractors.entry(extractor.to_owned()).or_default();
        standing.shut = None;
        standing.fingerprint = None;
        standing.probe.clear();
    }

    /// Lets these documents through although it is shut, and no others.
    pub fn let_through(&self, extractor: &str, probe: Vec<DocumentId>) {
        self.lock().extractors.entry(extractor.to_owned()).or_default().probe = probe;
    }

    /// Whether this extractor's breaker is open, and why.
    pub fn is_shut(&self, extractor: &str) -> Option<String> {
        self.lock().extractors.get(extractor)?.shut.clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a document is told that has to wait for an extractor.
pub fn broken(extractor: &str, stage: Stage, why: &str) -> Fault {
    let mut fault = Fault::new(
        stage,
        Kind::ExtractorBroken,
        format!(
            "the extractor {extractor} is not used: {why}; a probe that passes at the start of a run makes it due"
        ),
    );
    fault.evidence.engine = Some(extractor.to_owned());
    fault
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(n: u8) -> DocumentId {
        DocumentId([n; 20])
    }

    fn crash(fingerprint: &str) -> Fault {
        let mut fault = Fault::new(Stage::Extract, Kind::CrashSegv, "");
        fault.evidence.fingerprint = Some(fingerprint.to_owned());
        fault
    }

    async fn works() -> Result<(), Fault> {
        Ok(())
    }

    #[tokio::test]
    async fn an_extractor_that_fails_its_own_document_takes_no_other() {
        let gate = Gate::new(Policy::default());
        let fails = || async { Err(crash("a")) };
        let refused = gate.enter("pdf", Stage::Extract, document(1), fails()).await.unwrap_err();
        assert_eq!(refused.kind, Kind::ExtractorBroken);
        assert!(
            refused.message.contains("built-in document did not come back: crash.segv"),
            "{}",
            refused.message
        );
        assert!(gate.enter("docx", Stage::Extract, document(2), works()).await.is_ok(), "the others go on");
        assert!(gate.enter("pdf", Stage::Extract, document(3), works()).await.is_err());
        let trips = gate.trips();
        assert_eq!((trips.len(), trips[0].extractor.as_str(), trips[0].documents.len()), (1, "pdf", 0));
        assert!(gate.trips().is_empty());
        gate.reopen("pdf");
        assert!(gate.enter("pdf", Stage::Extract, document(3), works()).await.is_ok());
    }

    #[tokio::test]
    async fn one_fingerprint_on_most_documents_shuts_it_and_a_probe_is_let_through() {
        let gate = Gate::new(Policy { window: 5, share: 0.8 });
        for n in 0..4 {
            assert!(gate.left("pdf", document(n), Some(&crash("a"))).is_ok());
        }
        assert!(gate.left("pdf", document(8), None).is_ok());
        assert!(gate.left("pdf", document(9), Some(&crash("a"))).is_err());
        // What was on its way meanwhile waits as well, but for what has a reason of its own.
        assert!(gate.left("pdf", document(4), Some(&crash("a"))).is_err());
        assert!(gate.left("pdf", document(4), Some(&crash("b"))).is_ok());
        let trip = gate.trips().pop().unwrap();
        assert_eq!(trip.documents, [1, 2, 3, 9].map(document));
        assert!(gate.enter("pdf", Stage::Extract, document(5), works()).await.is_err());
        gate.let_through("pdf", vec![document(5)]);
        assert!(gate.enter("pdf", Stage::Extract, document(6), works()).await.is_err());
        assert!(gate.enter("pdf", Stage::Extract, document(5), works()).await.is_ok());
    }

    #[tokio::test]
    async fn a_window_of_nothing_lets_everything_through() {
        let gate = Gate::new(Policy { window: 0, share: 0.8 });
        for n in 0..200 {
            assert!(gate.left("pdf", document(n), Some(&crash("a"))).is_ok());
        }
        let never = || async { panic!("not tried out") };
        assert!(gate.enter("pdf", Stage::Extract, document(1), never()).await.is_ok());
        assert!(gate.trips().is_empty());
    }
}
