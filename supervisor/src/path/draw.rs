//! Text out of one document: by the engines for its format one after the other, then by text recognition, as far as the
//! verdict on what came out asks for it.
//!
//! The first engine whose text passes the check ends the chain. Where none does, the best that came out stands, and the record
//! keeps what each engine said.

use super::bytes::Had;
use super::collect::{Collector, Member};
use super::engines::Engine;
use super::spool::Spool;
use super::{Came, Carried, Errand, Means, Product, Trip, builtin, failed, members, note_format, recognise};
use crate::ledger::{Facts, Listed, Record};
use crate::pool::command::CommandJob;
use crate::pool::{Ending, Job, Outcome};
use crate::rules::check::{self, Route};
use crate::rules::fault::{Evidence, Fault, Said};
use crate::rules::identify::Identified;
use crate::rules::kind::{Class, Kind, Stage, State};
use crate::rules::normalise;
use crate::rules::versions::{NONE, THEN};
use shared::format::Role;
use shared::{Format, Work, versions};
use std::io;
use std::sync::Arc;

/// One document before its engines.
pub(super) struct Drawing<'a> {
    pub(super) means: &'a Means,
    pub(super) record: &'a Record,
    pub(super) trip: Trip,
    pub(super) had: Had,
    pub(super) known: Identified,
    facts: Facts,
}

impl<'a> Drawing<'a> {
    pub(super) fn new(
        means: &'a Means,
        record: &'a Record,
        trip: Trip,
        had: Had,
        known: Identified,
        facts: Facts,
    ) -> Self {
        Drawing { means, record, trip, had, known, facts }
    }

    /// Draws it.
    pub(super) async fn draw(self) -> Carried {
        if self.trip.errand == Errand::Members {
            return self.through(&Engine::Builtin, Work::Members).await;
        }
        let drawn = self.extracted().await;
        match &drawn {
            None => recognise::picture(&self, self.facts.clone()).await,
            Some(carried) => match &carried.came {
                Came::Text(product) if self.route(product, carried) == Route::Recognise => {
                    recognise::pages(&self, drawn.expect("it was just looked at")).await
                }
                _ => drawn.expect("it was just looked at"),
            },
        }
    }

    fn route(&self, product: &Product, carried: &Carried) -> Route {
        let format = carried.facts.format.as_deref().and_then(Format::named).unwrap_or(self.known.format);
        let metadata = carried.facts.evidence.as_ref().and_then(|evidence| evidence.metadata.as_ref());
        match product.fault.as_ref() {
            Some(fault) => check::route(fault.kind, format, metadata, false),
            None => Route::Suspect,
        }
    }

    /// What the chain of engines makes of it; `None` where no engine takes the format.
    async fn extracted(&self) -> Option<Carried> {
        let chain = self.means.engines.chain(self.known.format);
        let (mut best, mut said, mut used) = (None, Vec::new(), Vec::new());
        for (n, engine) in chain.iter().enumerate() {
            let carried = self.through(engine, Work::Extract).await;
            let format = carried.facts.format.as_deref().and_then(Format::named).unwrap_or(self.known.format);
            used.push(engine.version(format));
            said.push(verdict(engine.name(format), &carried));
            let goes_on = n + 1 < chain.len() && asks_for_another(&carried);
            best = Some(better(best, carried));
            if !goes_on {
                break;
            }
        }
        let mut best = best?;
        if best.facts.pipeline.contains_key(&Stage::Extract) {
            best.facts.pipeline.insert(Stage::Extract, used.join(THEN));
        }
        if chain.len() > 1 {
            keep_verdicts(&mut best, &said);
        }
        Some(best)
    }

    /// Through the gate and through one engine.
    async fn through(&self, engine: &Engine, work: Work) -> Carried {
        let name = engine.name(self.known.format).to_owned();
        let try_out = builtin::try_out(self.means, engine, self.known.format);
        if let Err(fault) = self.means.gate.enter(&name, Stage::Extract, self.record.id, try_out).await {
            return Carried::of(self.facts.clone(), Came::Held(fault));
        }
        let carried = match self.with(engine, work).await {
            Ok(carried) => carried,
            Err(error) => return super::broken(error),
        };
        let fault = if let Came::Failed(fault) = &carried.came { Some(fault) } else { None };
        if let Err(broken) = self.means.gate.left(&name, self.record.id, fault) {
            // What was said of contents meanwhile was the extractor's doing.
            self.means.contents.forget();
            return Carried::of(self.facts.clone(), Came::Held(broken));
        }
        carried
    }

    async fn with(&self, engine: &Engine, work: Work) -> io::Result<Carried> {
        let limits = self.means.limits(self.trip.lane);
        let faults = self.means.settings.cage.faults;
        let mut collector = Collector::new(&self.means.spool, self.trip.budget.clone(), faults);
        let ending = match engine {
            Engine::Builtin => {
                let job = Job {
                    document: self.had.document.clone(),
                    size: self.had.size,
                    format: self.known.format,
                    work,
                    name: self.name().to_vec(),
                    passwords: self.means.settings.passwords.clone(),
                    limits: limits.into(),
                };
                self.means.pool.lend().await.run(job, &mut collector).await
            }
            Engine::Command(program) => {
                let job = CommandJob {
                    program: program.clone(),
                    document: self.had.document.clone(),
                    size: self.had.size,
                    name: self.name().to_vec(),
                    format: self.known.format,
                    stage: Stage::Extract,
                    limits: limits.into(),
                };
                let _place = self.means.pool.place().await;
                self.means.engines.commands.run(job, &mut collector).await
            }
        };
        if let Some(error) = collector.broken.take() {
            return Err(error);
        }
        Ok(self.judge(engine, ending, collector))
    }

    /// The innermost name, raw.
    pub(super) fn name(&self) -> &[u8] {
        let name = self.record.identity.0.last().map_or(&[][..], |level| &level.name);
        name.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
    }

    fn judge(&self, engine: &Engine, ending: Ending, mut collector: Collector<'_>) -> Carried {
        let spool: Option<Arc<Spool>> = collector.take_spool().map(Arc::new);
        let mut facts = Facts { usage: Some(ending.usage), ..self.facts.clone() };
        let mut evidence = ending.evidence.clone();
        evidence.extension_mismatch.clone_from(&self.known.extension_mismatch);
        evidence.metadata.clone_from(&collector.metadata);
        let (format, trouble) = match ending.outcome {
            Outcome::Failed(mut fault) => {
                fault.evidence.extension_mismatch = evidence.extension_mismatch;
                self.made_with(&mut facts, engine, self.known.format);
                facts.evidence = Some(fault.evidence.clone());
                return failed(facts, fault);
            }
            Outcome::Stopped => (self.known.format, collector.over.take().map(|over| over_limit(&over))),
            Outcome::Ended(end) => {
                note_format(&mut facts, end.format);
                let refused = |refusal| members::refused(refusal, end.parts, &self.means.settings);
                (end.format, end.refusal.as_ref().map(refused))
            }
        };
        self.made_with(&mut facts, engine, format);
        let members = std::mem::take(&mut collector.members);
        let text = text_of(format, std::mem::take(&mut collector.text), &members);
        facts.evidence = Some(evidence.clone());
        if let Some(fault) = trouble.as_ref().filter(|fault| hopeless(fault, &text, &members)) {
            let mut fault = fault.clone();
            fault.evidence =
                Evidence { parts: fault.evidence.parts, passwords: fault.evidence.passwords, ..evidence };
            facts.evidence = Some(fault.evidence.clone());
            return failed(facts, fault);
        }
        if !members.is_empty() || format.role() == Role::Archive {
            facts.listed_whole = Some(trouble.is_none());
            facts.listed = Some(Listed {
                entries: members.len() as u64,
                bytes: members.iter().map(|member| member.bytes.size()).sum(),
            });
        }
        let product = product(self.means, &mut facts, evidence, format, text, trouble);
        Carried { members, spool, ..Carried::of(facts, Came::Text(product)) }
    }

    fn made_with(&self, facts: &mut Facts, engine: &Engine, format: Format) {
        facts.pipeline.insert(Stage::Extract, engine.version(format));
        facts.pipeline.insert(Stage::Normalise, versions::NORMALISE.to_owned());
        facts.pipeline.insert(Stage::Check, versions::CHECK.to_owned());
    }
}

/// The text with the verdict on it.
pub(super) fn product(
    means: &Means,
    facts: &mut Facts,
    mut evidence: Evidence,
    format: Format,
    text: String,
    trouble: Option<Fault>,
) -> Product {
    let raw = check::Raw::of(&text);
    let text = normalise::normalise(text);
    facts.text = Some(normalise::facts(&text));
    let mut fault = trouble;
    let metadata = evidence.metadata.clone();
    if format.role() != Role::Archive {
        let thresholds = &means.settings.check;
        let (kind, measures) =
            check::check(&text, &raw, format, facts.size.unwrap_or(0), metadata.as_ref(), thresholds);
        evidence.measures = Some(measures);
        if fault.is_none() {
            fault = kind.map(|kind| Fault::new(Stage::Check, kind, check::explain(kind)));
        }
    }
    if let Some(fault) = &mut fault {
        evidence.limit = fault.evidence.limit.take();
        evidence.parts = fault.evidence.parts.take();
        fault.evidence = evidence.clone();
    }
    facts.evidence = Some(evidence);
    let state = if fault.is_some() { State::Suspect } else { State::Indexed };
    Product { text: text.into(), title: metadata.and_then(|metadata| metadata.title), state, fault }
}

/// Whether what one engine said leaves room for another: it failed for good, or its text is doubtful.
fn asks_for_another(carried: &Carried) -> bool {
    match &carried.came {
        Came::Text(product) => product.fault.is_some(),
        // The next engine may work where this one is broken.
        Came::Held(_) => true,
        Came::Failed(fault) => matches!(fault.class, Some(Class::Permanent | Class::Corrupt)),
        Came::Same | Came::Broken(_) => false,
    }
}

/// Of two results the one to keep: a text that passed before a doubtful one, the longer of two doubtful ones, any text
/// before none, and what the first engine said where there is none at all.
fn better(best: Option<Carried>, next: Carried) -> Carried {
    let Some(best) = best else { return next };
    if rank(&next) > rank(&best) { next } else { best }
}

fn rank(carried: &Carried) -> (u8, u64) {
    let letters = || {
        let measures = carried.facts.evidence.as_ref().and_then(|evidence| evidence.measures.as_ref());
        measures.map_or(0, |measures| measures.letters)
    };
    match &carried.came {
        Came::Broken(_) => (4, 0),
        Came::Text(Product { fault: None, .. }) => (3, 0),
        // A document that only waits is not yet lost.
        Came::Text(_) => (2, letters()),
        Came::Held(_) => (1, 0),
        Came::Failed(_) | Came::Same => (0, 0),
    }
}

fn verdict(engine: &str, carried: &Carried) -> Said {
    let fault = match &carried.came {
        Came::Failed(fault) | Came::Held(fault) => Some(fault),
        Came::Text(product) => product.fault.as_ref(),
        Came::Same | Came::Broken(_) => None,
    };
    Said {
        engine: engine.to_owned(),
        kind: fault.map(|fault| fault.kind),
        message: fault.map_or_else(String::new, |fault| fault.message.chars().take(SAID_MAX).collect()),
    }
}

/// So much of a message is kept beside the verdicts of others, in characters.
const SAID_MAX: usize = 500;

fn keep_verdicts(carried: &mut Carried, said: &[Said]) {
    let fault = match &mut carried.came {
        Came::Failed(fault) => Some(fault),
        Came::Text(product) => product.fault.as_mut(),
        Came::Same | Came::Held(_) | Came::Broken(_) => None,
    };
    if let Some(fault) = fault {
        fault.evidence.verdicts = said.to_vec();
    }
    carried.facts.evidence.get_or_insert_default().verdicts = said.to_vec();
}

/// Whether an honest refusal leaves nothing to use: always for what is encrypted or not supported, else where
/// neither text nor member came out.
fn hopeless(fault: &Fault, text: &str, members: &[Member]) -> bool {
    match fault.kind {
        Kind::ParseEncrypted | Kind::FormatUnsupported => true,
        Kind::ContentUnderExtracted => false,
        _ => members.is_empty() && !text.chars().any(char::is_alphanumeric),
    }
}

/// What a container is told whose members passed a limit: they were left out behind it.
pub(super) fn over_limit(over: &Fault) -> Fault {
    let evidence = Evidence { limit: over.evidence.limit.clone(), ..Evidence::default() };
    Fault::new(Stage::Extract, Kind::ContentUnderExtracted, over.message.clone()).with(evidence)
}

/// An archive's text is its members' names.
fn text_of(format: Format, text: String, members: &[Member]) -> String {
    if format.role() != Role::Archive {
        return text;
    }
    let mut names = text;
    for member in members {
        names.push_str(&String::from_utf8_lossy(&member.head.name));
        names.push('\n');
    }
    names
}

/// There is no text recognition: the record says so, and is due when there is.
pub(super) fn unrecognised(facts: &mut Facts) {
    facts.pipeline.insert(Stage::Recognise, NONE.to_owned());
}
