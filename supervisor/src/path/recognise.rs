//! Text recognition: for pictures, and for the pages of a PDF that are pictures.
//!
//! A picture goes to the program as it is. The pictures of pages are taken out of a PDF by a child of our own, and go there one
//! after the other. The program is a command like any other that the settings could name, in the same cage.

use super::collect::Collector;
use super::draw::{Drawing, product, unrecognised};
use super::spool::Spool;
use super::{Came, Carried, builtin, failed};
use crate::ledger::{Facts, Usage};
use crate::pool::command::{CommandJob, Program};
use crate::pool::{Ending, Flow, Job, Outcome, Receiver};
use crate::rules::budget::Budget;
use crate::rules::due;
use crate::rules::fault::{Evidence, Fault, Said};
use crate::rules::kind::{Kind, Stage};
use crate::rules::normalise;
use shared::{Answer, Format, Parts, Work, versions};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Takes text alone.
#[derive(Debug, Default)]
struct Text(String);

impl Receiver for Text {
    fn take(&mut self, answer: Answer) -> Flow {
        if let Answer::Text(text) = answer {
            self.0.push_str(&text);
        }
        Flow::Continue
    }
}

/// A document that is a picture.
pub(super) async fn picture(drawing: &Drawing<'_>, mut facts: Facts) -> Carried {
    let format = drawing.known.format;
    let program = match drawing.means.engines.recognise() {
        Ok(program) => program.clone(),
        Err(why) => {
            unrecognised(&mut facts);
            let message = format!("a {} picture has no text of its own, and {why}", format.name());
            return failed(facts, Fault::new(Stage::Recognise, Kind::ExtractorUnavailable, message));
        }
    };
    if let Err(fault) = gate(drawing, &program).await {
        return Carried::of(facts, Came::Held(fault));
    }
    let document = drawing.had.document.clone();
    facts.pipeline.insert(Stage::Recognise, program.version().to_owned());
    facts.pipeline.insert(Stage::Normalise, versions::NORMALISE.to_owned());
    facts.pipeline.insert(Stage::Check, versions::CHECK.to_owned());
    let (text, ending) = read(drawing, &program, document, drawing.had.size, format).await;
    facts.usage = Some(ending.usage);
    let mut evidence = ending.evidence;
    evidence.extension_mismatch.clone_from(&drawing.known.extension_mismatch);
    let text = match ending.outcome {
        Outcome::Failed(fault) if !is_silent(&fault) => {
            if let Err(broken) = drawing.means.gate.left(program.name(), drawing.record.id, Some(&fault)) {
                return Carried::of(facts, Came::Held(broken));
            }
            facts.evidence = Some(fault.evidence.clone());
            return failed(facts, fault);
        }
        // It looked, and there was nothing to read.
        Outcome::Failed(_) | Outcome::Stopped | Outcome::Ended(_) => text,
    };
    // A success has nothing to wait for.
    drawing.means.gate.left(program.name(), drawing.record.id, None).ok();
    let product = product(drawing.means, &mut facts, evidence, format, text, None);
    Carried::of(facts, Came::Text(product))
}

/// A PDF that has pages without text: what stands on their pictures is added to what came out of the others.
pub(super) async fn pages(drawing: &Drawing<'_>, mut carried: Carried) -> Carried {
    let Ok(program) = drawing.means.engines.recognise().cloned() else {
        unrecognised(&mut carried.facts);
        return carried;
    };
    if gate(drawing, &program).await.is_err() {
        // Its text stands as doubtful as it is; without this stage's version it is due when the program works again.
        unrecognised(&mut carried.facts);
        return carried;
    }
    carried.facts.pipeline.insert(Stage::Recognise, program.version().to_owned());
    let read = match read_pages(drawing, &program).await {
        Ok(read) => read,
        Err(error) => return super::broken(error),
    };
    with_pages(drawing, carried, &program, read)
}

/// What the pictures of a document's pages gave.
#[derive(Default)]
struct Read {
    text: String,
    /// Pages on which something was read.
    with_text: u32,
    done: u64,
    total: u64,
    /// Why the rest could not be read.
    fault: Option<Fault>,
    /// What it cost, beside what extract did.
    usage: Usage,
}

async fn read_pages(drawing: &Drawing<'_>, program: &Arc<Program>) -> std::io::Result<Read> {
    let means = drawing.means;
    let limits = means.limits(drawing.trip.lane);
    // Pictures of pages are no members: they are counted by themselves, against the limits of one item.
    let budget = Budget::new(u64::MAX / limits.ratio.max(1), limits);
    let mut collector = Collector::new(&means.spool, budget, false);
    let job = Job {
        document: drawing.had.document.clone(),
        size: drawing.had.size,
        format: Format::Pdf,
        work: Work::Pictures,
        name: drawing.name().to_vec(),
        passwords: means.settings.passwords.clone(),
        limits: limits.into(),
    };
    let ending = means.pool.lend().await.run(job, &mut collector).await;
    if let Some(error) = collector.broken.take() {
        return Err(error);
    }
    let mut read = Read { total: collector.members.len() as u64, usage: ending.usage, ..Read::default() };
    if let Outcome::Failed(fault) = ending.outcome {
        read.fault = Some(fault);
        return Ok(read);
    }
    let (members, spool) = (std::mem::take(&mut collector.members), collector.take_spool());
    let most = means.settings.recognise.pages;
    for (n, member) in members.iter().enumerate() {
        if n >= most {
            read.fault.get_or_insert_with(|| over(most, members.len()));
            break;
        }
        let (text, usage) = page(drawing, program, spool.as_ref(), member).await?;
        read.usage = sum(read.usage, usage);
        match text {
            Ok(text) => {
                read.done += 1;
                read.with_text += u32::from(text.chars().any(char::is_alphanumeric));
                read.text.push_str(&text);
                read.text.push('\n');
            }
            Err(fault) => {
                read.fault.get_or_insert(fault);
            }
        }
    }
    Ok(read)
}

async fn page(
    drawing: &Drawing<'_>,
    program: &Arc<Program>,
    spool: Option<&Spool>,
    member: &super::Member,
) -> std::io::Result<(Result<String, Fault>, Usage)> {
    let (Some(spool), None) = (spool, &member.refusal) else {
        let why = member.refusal.as_ref().map_or("it has no bytes", |refusal| &refusal.message);
        let message = format!("the picture of a page could not be had: {why}");
        let fault = Fault::new(Stage::Recognise, Kind::ContentUnderExtracted, message);
        return Ok((Err(fault), Usage::default()));
    };
    let range = &member.bytes.range;
    let document = spool.document(range, drawing.means.memory_cap, &drawing.means.spool)?;
    let document = Arc::new(document);
    let (text, ending) = read(drawing, program, document, member.bytes.size(), member.bytes.format).await;
    spool.forget(range);
    let fault = match ending.outcome {
        Outcome::Failed(fault) if !is_silent(&fault) => Some(fault),
        Outcome::Failed(_) | Outcome::Stopped | Outcome::Ended(_) => None,
    };
    let broken = drawing.means.gate.left(program.name(), drawing.record.id, fault.as_ref()).err();
    let fault = broken.or(fault);
    Ok((fault.map_or(Ok(text), Err), ending.usage))
}

fn sum(one: Usage, other: Usage) -> Usage {
    Usage {
        wall_ms: one.wall_ms.saturating_add(other.wall_ms),
        cpu_ms: one.cpu_ms.saturating_add(other.cpu_ms),
        peak_rss_kib: one.peak_rss_kib.max(other.peak_rss_kib),
    }
}

fn over(most: usize, all: usize) -> Fault {
    let limit = crate::rules::fault::Limit {
        name: due::PAGES.to_owned(),
        value: most as u64,
        measured: Some(all as u64),
    };
    let evidence = Evidence { limit: Some(limit), ..Evidence::default() };
    let message = format!("{all} of its pages are pictures, and no more than {most} are read");
    Fault::new(Stage::Recognise, Kind::ContentUnderExtracted, message).with(evidence)
}

/// The text of the pages that had some, and that of the others' pictures behind it; judged anew.
fn with_pages(drawing: &Drawing<'_>, mut carried: Carried, program: &Arc<Program>, read: Read) -> Carried {
    carried.facts.usage = carried.facts.usage.map(|usage| sum(usage, read.usage));
    let mut evidence = carried.facts.evidence.clone().unwrap_or_default();
    let Came::Text(before) = &carried.came else { return carried };
    if let (Some(kind), true) = (before.fault.as_ref().map(|fault| fault.kind), read.with_text > 0) {
        let engine = evidence.engine.clone().unwrap_or_default();
        let message = before.fault.as_ref().map_or_else(String::new, |fault| fault.message.clone());
        evidence.verdicts.push(Said { engine, kind: Some(kind), message });
    }
    if read.with_text == 0 {
        // Nothing was added: the doubt stands, with what stood in the way.
        if let (Came::Text(product), Some(fault)) = (&mut carried.came, read.fault) {
            let said =
                Said { engine: program.name().to_owned(), kind: Some(fault.kind), message: fault.message };
            if let Some(doubt) = &mut product.fault {
                doubt.evidence.verdicts.push(said.clone());
            }
            carried.facts.evidence.get_or_insert_default().verdicts.push(said);
        }
        return carried;
    }
    evidence.engine = Some(program.version().to_owned());
    evidence.parts = Some(Parts { done: read.done, total: read.total });
    if let Some(metadata) = &mut evidence.metadata {
        let all = metadata.pages_with_text.unwrap_or(0).saturating_add(read.with_text);
        metadata.pages_with_text = Some(metadata.pages.map_or(all, |pages| all.min(pages)));
    }
    let garbled = before.fault.as_ref().is_some_and(|fault| fault.kind == Kind::ContentGarbled);
    // What does not read like text is not kept beside what does.
    let text = if garbled { read.text } else { format!("{}\n{}", before.text, read.text) };
    let trouble = read.fault.map(|fault| {
        let parts = Some(Parts { done: read.done, total: read.total });
        let evidence = Evidence { parts, limit: fault.evidence.limit.clone(), ..Evidence::default() };
        Fault { evidence, class: None, kind: Kind::ContentUnderExtracted, ..fault }
    });
    let mut facts = carried.facts;
    let product = product(drawing.means, &mut facts, evidence, Format::Pdf, text, trouble);
    Carried { members: carried.members, spool: carried.spool, ..Carried::of(facts, Came::Text(product)) }
}

async fn gate(drawing: &Drawing<'_>, program: &Arc<Program>) -> Result<(), Fault> {
    let try_out = builtin::try_recognition(drawing.means, program);
    drawing.means.gate.enter(program.name(), Stage::Recognise, drawing.record.id, try_out).await
}

/// Reads a picture; what came out as no language is read once more, the right way up.
async fn read(
    drawing: &Drawing<'_>,
    program: &Arc<Program>,
    document: Arc<OwnedFd>,
    size: u64,
    format: Format,
) -> (String, Ending) {
    let (text, mut ending) = once(drawing, program, document.clone(), size, format).await;
    let turned = drawing.means.engines.turned().filter(|_| normalise::reads_like_nothing(&text));
    let (Some(turned), Outcome::Ended(_)) = (turned, &ending.outcome) else { return (text, ending) };
    let (again, second) = once(drawing, turned, document, size, format).await;
    ending.usage = sum(ending.usage, second.usage);
    let is_read = matches!(second.outcome, Outcome::Ended(_)) && !normalise::reads_like_nothing(&again);
    (if is_read && !again.trim().is_empty() { again } else { text }, ending)
}

async fn once(
    drawing: &Drawing<'_>,
    program: &Arc<Program>,
    document: Arc<OwnedFd>,
    size: u64,
    format: Format,
) -> (String, Ending) {
    let job = CommandJob {
        program: program.clone(),
        document,
        size,
        name: drawing.name().to_vec(),
        format,
        stage: Stage::Recognise,
        limits: drawing.means.limits(drawing.trip.lane).into(),
    };
    let mut text = Text::default();
    let _place = drawing.means.pool.place().await;
    let ending = drawing.means.engines.commands.run(job, &mut text).await;
    (text.0, ending)
}

/// The program ended well and said nothing: there is nothing to read on that picture.
fn is_silent(fault: &Fault) -> bool {
    fault.kind == Kind::ExtractorFailed && fault.evidence.exit_code == Some(0)
}
