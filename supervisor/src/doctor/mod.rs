//! Whether the cage holds on this machine: found out by attacking it, through the same pool that carries documents.
//!
//! No layer is believed because the worker names it. It is looked at from outside, in what the kernel says of a live
//! child, or it is attacked from inside: by documents of the fault language, and by the zygote where its own filter
//! leaves a document nothing to attack it with. Prints nothing.

mod attacks;
mod commands;
mod facts;
mod observe;
mod remedies;

use crate::pool::command::Commands;
use crate::pool::{Flow, Job, JobLimits, Lease, Outcome, Pool, PoolError, Receiver};
use crate::settings::{Cage, Settings};
use crate::source::fetch::sealed;
pub use commands::{CommandCage, Wanted};
use observe::{Evidence, Finding, Seen};
use serde::Serialize;
use shared::{Answer, Format, Layer, Layers, Work};
use std::time::Instant;

/// What was found. The names of the fields are the keys in JSON.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// Facts about the machine: name and value.
    pub facts: Vec<(String, String)>,
    /// One for each layer, in the order in which they are put up.
    pub layers: Vec<LayerReport>,
    pub attacks: Vec<Attack>,
    /// The cage of external commands; `None` where no child could be made.
    pub commands: Option<CommandCage>,
    /// Programs that the settings want.
    pub programs: Vec<Wanted>,
    /// `None` where no child could be made.
    pub cost: Option<Cost>,
    /// Why there is no cage at all.
    pub broken: Option<String>,
}

/// One layer of the cage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LayerReport {
    pub layer: &'static str,
    pub state: LayerState,
    /// What proves it, or why it is not so.
    pub reason: String,
    /// What a person can do.
    pub fix: Option<&'static str>,
    /// The settings demand it.
    pub required: bool,
}

/// Whether a layer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LayerState {
    Enforced,
    /// It holds against what this kernel can forbid, and that is not all of it.
    Degraded,
    Absent,
}

/// One attack, and how it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Attack {
    pub name: String,
    pub expected: String,
    pub got: String,
    pub held: bool,
}

/// What a child costs here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Cost {
    /// Microseconds from handing a small text over to its end, in the median.
    pub document_us: u64,
    /// Memory that a zygote has touched, in KiB.
    pub zygote_touched_kib: u64,
}

impl Report {
    /// 0 where all layers are enforced, 3 where some are not, 1 where a layer or a program that is required is not there,
    /// or there is no cage.
    pub fn exit_code(&self) -> u8 {
        let missing = |layer: &LayerReport| layer.required && layer.state == LayerState::Absent;
        let not_there = |wanted: &Wanted| wanted.required && wanted.version.is_none();
        if self.broken.is_some() || self.layers.iter().any(missing) || self.programs.iter().any(not_there) {
            return 1;
        }
        let whole = self.layers.iter().all(|layer| layer.state == LayerState::Enforced)
            && self.commands.as_ref().is_none_or(|cage| cage.state == LayerState::Enforced)
            && self.attacks.iter().all(|attack| attack.held);
        if whole { 0 } else { 3 }
    }
}

/// Attacks the cage, looks for the programs that the settings want, and reports. Takes some seconds.
pub async fn examine_all(settings: &Settings) -> Report {
    let mut report = examine(&settings.cage).await;
    if report.broken.is_none() {
        report.programs = commands::programs(&Commands::new(&settings.cage), settings).await;
    }
    report
}

/// Attacks the cage and reports. Takes some seconds.
pub async fn examine(cage: &Cage) -> Report {
    let mut own = cage.clone();
    own.faults = true;
    // A missing layer is to be reported, not to keep the pool from starting.
    own.require = Layers::NONE;
    let mut report = Report { facts: facts::all(), ..Report::default() };
    match Pool::start(&own, 1).await {
        Ok(pool) => {
            look(&pool, cage, &mut report).await;
            let (commands, attacks) = commands::examine(&Commands::new(cage)).await;
            report.commands = Some(commands);
            report.attacks.extend(attacks);
        }
        Err(error) => nothing(&error, cage, &mut report),
    }
    report
}

async fn look(pool: &Pool, cage: &Cage, report: &mut Report) {
    let mut lease = pool.lend().await;
    let (zygote, proofs) = (lease.zygote_pid().unwrap_or(0), lease.proofs());
    let mut observer = Observer { child: Box::new(pool.watcher()), zygote, seen: None };
    let held = carry(&mut lease, "stall", &mut observer).await;
    let seen = observer.seen.unwrap_or_default();
    tracing::debug!(outcome = %name_of(&held), "a child was looked at");
    let mut texts = Texts::default();
    for line in ["probe environ", "probe fds", "probe dumpable", "probe parent-death"] {
        let outcome = carry(&mut lease, line, &mut texts).await;
        tracing::debug!(line, outcome = %name_of(&outcome), "probed");
    }
    for attack in attacks::ALL {
        let outcome = carry(&mut lease, attack.act, &mut Texts::default()).await;
        report.attacks.push(attack.judge(&outcome));
    }
    let (claimed, absent) = pool.layers();
    report.layers = Layer::ALL
        .iter()
        .map(|&layer| {
            let finding = if claimed.has(layer) {
                let evidence =
                    Evidence { seen: &seen, probes: &texts.text, attacks: &report.attacks, proofs: &proofs };
                observe::judge(layer, &evidence)
            } else {
                let why = absent.iter().find(|(other, _)| *other == layer).map(|(_, why)| why.clone());
                Err(why.unwrap_or_else(|| "the worker does not say why".to_owned()))
            };
            layer_report(layer, finding, cage)
        })
        .collect();
    report.cost = measure(&mut lease)
        .await
        .map(|document_us| Cost { document_us, zygote_touched_kib: pool.touched_kib() });
}

fn layer_report(layer: Layer, finding: Result<Finding, String>, cage: &Cage) -> LayerReport {
    let (state, reason) = match finding {
        Ok(Finding::Whole(how)) => (LayerState::Enforced, how),
        Ok(Finding::Part(why)) => (LayerState::Degraded, why),
        Err(why) => (LayerState::Absent, why),
    };
    let fix = (state != LayerState::Enforced).then(|| remedies::of(layer)).flatten();
    LayerReport { layer: layer.name(), state, reason, fix, required: cage.require.has(layer) }
}

fn nothing(error: &PoolError, cage: &Cage, report: &mut Report) {
    let cause = std::error::Error::source(error).map_or_else(String::new, |cause| format!(": {cause}"));
    report.broken = Some(format!("{error}{cause}"));
    report.layers = Layer::ALL
        .iter()
        .map(|&layer| layer_report(layer, Err("no worker could be started".to_owned()), cage))
        .collect();
}

/// Looks at the child from outside at its first sign of life, then stops it.
struct Observer {
    child: Box<dyn Fn() -> Option<i32> + Send>,
    zygote: i32,
    seen: Option<Seen>,
}

impl Receiver for Observer {
    fn take(&mut self, answer: Answer) -> Flow {
        match (answer, (self.child)()) {
            (Answer::Progress { .. }, Some(pid)) => {
                self.seen = Some(Seen::of(pid, self.zygote));
                Flow::Stop
            }
            _ => Flow::Continue,
        }
    }
}

/// Keeps what the probes say.
#[derive(Default)]
struct Texts {
    text: String,
}

impl Receiver for Texts {
    fn take(&mut self, answer: Answer) -> Flow {
        if let Answer::Text(text) = answer {
            self.text.push_str(&text);
        }
        Flow::Continue
    }
}

const LIMITS: JobLimits =
    JobLimits { wall_ms: 10_000, stalled_ms: 2_000, cpu_ms: 1_000, memory: 64 << 20, output: 1 << 20 };

async fn carry(lease: &mut Lease, act: &str, receiver: &mut dyn Receiver) -> Outcome {
    let bytes = format!("#!lazaret-fault 1\n{act}\n");
    match job(bytes.as_bytes(), Format::Fault) {
        Ok(job) => lease.run(job, receiver).await.outcome,
        Err(error) => {
            tracing::warn!(%error, "no document can be made");
            Outcome::Stopped
        }
    }
}

fn job(bytes: &[u8], format: Format) -> std::io::Result<Job> {
    Ok(Job {
        document: std::sync::Arc::new(sealed(bytes)?),
        size: bytes.len() as u64,
        format,
        work: Work::Extract,
        name: b"doctor".to_vec(),
        passwords: Vec::new(),
        limits: LIMITS,
    })
}

/// The outcome in the product's words.
fn name_of(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Ended(_) => "ended".to_owned(),
        Outcome::Stopped => "stopped".to_owned(),
        Outcome::Failed(fault) => fault.kind.name().to_owned(),
    }
}

/// Microseconds for a small text, in the median.
async fn measure(lease: &mut Lease) -> Option<u64> {
    const ROUNDS: usize = 101;
    let mut times = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let job = job(b"a small text\n", Format::Text).ok()?;
        let started = Instant::now();
        if let Outcome::Ended(_) = lease.run(job, &mut Texts::default()).await.outcome {
            times.push(started.elapsed());
        }
    }
    times.sort_unstable();
    u64::try_from(times.get(times.len() / 2)?.as_micros()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(state: LayerState, required: bool) -> Report {
        let layer = LayerReport { layer: "uid", state, reason: String::new(), fix: None, required };
        Report { layers: vec![layer], ..Report::default() }
    }

    #[test]
    fn the_exit_code_says_how_bad_it_is() {
        assert_eq!(report(LayerState::Enforced, true).exit_code(), 0);
        assert_eq!(report(LayerState::Absent, false).exit_code(), 3);
        assert_eq!(report(LayerState::Degraded, true).exit_code(), 3);
        assert_eq!(report(LayerState::Absent, true).exit_code(), 1);
        let mut broken = report(LayerState::Enforced, false);
        broken.broken = Some("no worker".to_owned());
        assert_eq!(broken.exit_code(), 1);
        let mut pierced = report(LayerState::Enforced, false);
        let word = |word: &str| word.to_owned();
        pierced.attacks.push(Attack { name: word("a"), expected: word("b"), got: word("c"), held: false });
        assert_eq!(pierced.exit_code(), 3);
        let mut lacking = report(LayerState::Enforced, false);
        let wanted = |required| Wanted {
            program: word("x"),
            purpose: String::new(),
            version: None,
            missing: Some(word("y")),
            fix: None,
            required,
        };
        lacking.programs = vec![wanted(false)];
        assert_eq!(lacking.exit_code(), 0, "what is used where it is found may be missing");
        lacking.programs = vec![wanted(true)];
        assert_eq!(lacking.exit_code(), 1);
        let mut bare = report(LayerState::Enforced, false);
        let (reason, layers, absent) = (String::new(), Vec::new(), Vec::new());
        bare.commands = Some(CommandCage { state: LayerState::Degraded, reason, layers, absent });
        assert_eq!(bare.exit_code(), 3);
    }
}
