//! One document through everything that can befall it, decided by the same functions and in the same order as a run decides.
//!
//! After each event the books balance, the document has a way on or rests under a name, and no attempt gives the same bytes,
//! under the same limits, to the same version of what they ended in for good, unless a person said so.
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

use super::account::{Verdict, apply};
use super::due::{self, Due, Present};
use super::fault::{Evidence, Fault, Limit};
use super::kind::{Class, Kind, Stage, State};
use super::retry::{self, Lane, Rules};
use crate::ledger::{
    Change, Event, Facts, InSink, Millis, Pipeline, Record, Seen, Settle, SourceId, Stat, Task, Unsent,
    rebuild,
};
use crate::settings::{KindPolicy, Settings};
use proptest::prelude::*;
use shared::{ContentHash, DocumentId, Identity, Limits};

/// What an attempt comes to.
#[derive(Debug, Clone, Copy)]
enum End {
    Fault(Kind),
    Good,
    Doubtful(Kind),
    /// The supervisor dies.
    Death,
    /// The run is given up.
    PutBack,
}

#[derive(Debug, Clone)]
enum Step {
    /// Other bytes or the same, and whether times moved and a policy stands against it.
    List {
        bytes: Option<u8>,
        touched: bool,
        rejected: bool,
    },
    Gone,
    /// A run in which attempts end like this; by each the clock moves so far.
    Run(Vec<(End, Millis)>),
    Reboot,
    Bump(Stage),
    Limits {
        normal: u64,
        large: u64,
    },
    Passwords,
    SourceBreaker(bool),
    /// One that opens does so by what was just crashed.
    ExtractorBreaker(bool),
    SinkBreaker(bool),
    Word,
    Clock(Millis),
}

/// An end for good, and what it was met with.
#[derive(Debug, Clone, PartialEq)]
struct ForGood {
    bytes: u8,
    limits: Limits,
    /// Up to the stage that failed.
    pipeline: Pipeline,
    passwords: Option<String>,
}

struct World {
    settings: Settings,
    versions: Pipeline,
    bytes: u8,
    stat: u64,
    source_is_open: bool,
    extractor_is_open: bool,
    sink_is_open: bool,
    now: Millis,
    began: Millis,
    rebooted: bool,
    /// In hand when the supervisor died: whether with nothing beside it.
    in_hand: Option<bool>,
    record: Option<Record>,
    events: Vec<Event>,
    for_good: Vec<ForGood>,
    /// Tries under the ordinary limits and under the others.
    tries: (usize, usize),
}

const STAGES: [Stage; 5] =
    [Stage::Identify, Stage::Extract, Stage::Recognise, Stage::Normalise, Stage::Check];

fn doc() -> DocumentId {
    DocumentId::derive("s", &Identity::item(b"a.pdf"))
}

impl World {
    fn new(settings: Settings) -> World {
        let versions = STAGES.iter().map(|stage| (*stage, "1".to_owned())).collect();
        World {
            settings,
            versions,
            bytes: 0,
            stat: 0,
            source_is_open: false,
            extractor_is_open: false,
            sink_is_open: false,
            now: 1_000_000_000,
            began: 1_000_000_000,
            rebooted: false,
            in_hand: None,
            record: None,
            events: Vec::new(),
            for_good: Vec::new(),
            tries: (0, 0),
        }
    }

    fn present(&self) -> Present<'_> {
        Present { settings: &self.settings, large: self.has_large() }
    }

    fn has_large(&self) -> bool {
        self.settings.large != self.settings.limits
    }

    fn rules(&self) -> Rules<'_> {
        Rules {
            retry: &self.settings.retry,
            kinds: &self.settings.kinds,
            large: self.has_large().then_some(&self.settings.large),
        }
    }

    fn limits(&self, lane: Lane) -> &Limits {
        if lane == Lane::Large { &self.settings.large } else { &self.settings.limits }
    }

    fn seen(&self) -> Seen {
        let stat = Stat { size: 1, mtime_ns: 0, ctime_ns: 0, dev: 0, ino: self.stat };
        Seen {
            source: SourceId(1),
            identity: Identity::item(b"a.pdf"),
            within: None,
            position: 0,
            size: Some(1),
            mtime_ns: Some(0),
            stat: Some(stat),
            sha256: None,
            fault: None,
            settle: None,
            damage: None,
        }
    }

    /// Applies an event; whether it changed anything.
    fn tell(&mut self, change: Change) -> bool {
        let event = Event { doc: doc(), expects: None, at: self.now, change };
        let Verdict::Changed(new) = apply(self.record.as_ref(), &event) else { return false };
        self.record = Some(*new);
        self.events.push(event);
        self.check();
        true
    }

    fn check(&self) {
        let record = self.record.as_ref().expect("something was told of it");
        assert_eq!(record.state == State::Pending, record.task.is_some(), "{record:?}");
        assert!(record.large.is_none() || !record.alone, "{record:?}");
        assert!(record.unsent.is_none() || record.unsent.as_ref().unwrap().in_sink.sha256 == record.sha256);
        let (records, counters) = rebuild(self.events.iter().cloned());
        assert_eq!(records.get(&doc()), Some(record), "the events alone make the same record");
        let counter =
            |name: &str| counters.iter().filter(|((_, of), _)| *of == name).map(|(_, n)| n).sum::<i64>();
        let states = State::ALL.iter().filter(|state| **state != State::Deleted);
        assert_eq!(counter("discovered"), states.map(|state| counter(state.name())).sum::<i64>());
        self.has_a_way_on();
    }

    /// Some later run takes it up, or it rests under a name.
    fn has_a_way_on(&self) {
        let record = self.record.as_ref().expect("something was told of it");
        match record.state {
            State::Quarantined => assert!(record.why.is_some() && record.kind.is_some(), "{record:?}"),
            State::Excluded => assert!(record.kind.is_some(), "{record:?}"),
            State::Indexed | State::Suspect => assert!(record.in_sink.is_some(), "{record:?}"),
            State::Deleted => {}
            State::Pending | State::Retrying if record.kind == Some(Kind::ExtractorBroken) => {
                assert!(record.state == State::Retrying || self.later(record), "{record:?}");
            }
            State::Pending | State::Retrying => assert!(self.later(record), "stuck: {record:?}"),
        }
    }

    fn later(&self, record: &Record) -> bool {
        let at = record.next_attempt.unwrap_or(self.now).max(self.now).saturating_add(1);
        matches!(record.task, Some(Task::Write { .. } | Task::Delete | Task::Exclude))
            || record.unsent.is_some()
            || self.lane_at(record, at, at).is_some()
    }

    /// In which lane a run that began then takes it up now, if it does.
    fn lane_at(&self, record: &Record, began: Millis, now: Millis) -> Option<Lane> {
        let lane = retry::lane(record, self.rules());
        let due = match (record.state, &record.task) {
            (State::Pending, Some(Task::Carry)) => true,
            (State::Pending, Some(Task::Large)) => lane == Lane::Large,
            (State::Retrying, None) => {
                record.unsent.is_none()
                    && record.kind != Some(Kind::ExtractorBroken)
                    && retry::is_due(record, began, now, self.rules().longest_wait_ms())
            }
            _ => false,
        };
        due.then_some(lane)
    }

    /// What the listing, what a run, and what people do.
    fn step(&mut self, step: Step) {
        match step {
            Step::List { bytes, touched, rejected } => self.list(bytes, touched, rejected),
            Step::Gone => {
                // Who comes back is new.
                if self.tell(Change::Gone) {
                    self.for_good.clear();
                }
            }
            Step::Run(ends) => self.run(&ends),
            Step::Reboot => self.rebooted = true,
            Step::Bump(stage) => {
                let version = self.versions.get_mut(&stage).expect("each stage has one");
                *version = (version.parse::<u32>().unwrap() + 1).to_string();
            }
            Step::Limits { normal, large } => self.set_limits(normal, large),
            Step::Passwords => self.settings.passwords.push("one more".to_owned()),
            Step::SourceBreaker(open) => self.source_breaker(open),
            Step::ExtractorBreaker(open) => self.extractor_breaker(open),
            Step::SinkBreaker(open) => self.sink_is_open = open,
            Step::Word => {
                if self.tell(Change::RequeuedByHand) {
                    self.for_good.clear();
                }
            }
            Step::Clock(by) => self.now = self.now.saturating_add(by),
        }
    }

    fn set_limits(&mut self, normal: u64, large: u64) {
        for (limits, level) in
            [(&mut self.settings.limits, normal), (&mut self.settings.large, normal.max(large))]
        {
            (limits.memory, limits.cpu_ms, limits.output) = (level, level, level);
        }
    }

    fn list(&mut self, bytes: Option<u8>, touched: bool, rejected: bool) {
        let other = bytes.is_some_and(|bytes| bytes != self.bytes);
        self.bytes = bytes.unwrap_or(self.bytes);
        self.stat += u64::from(other || touched);
        let policy = Fault::new(Stage::Discover, Kind::PolicyPath, "no");
        match &self.record {
            Some(record) if rejected && record.state != State::Deleted => {
                // A policy's change of mind is a change.
                self.for_good.clear();
                self.tell(Change::Rejected { fault: Box::new(policy) });
            }
            _ => {
                let fault = rejected.then(|| Box::new(policy));
                self.tell(Change::Seen(Box::new(Seen { fault, ..self.seen() })));
            }
        }
    }

    fn source_breaker(&mut self, open: bool) {
        self.source_is_open = open;
        let released = |record: &&Record| {
            record.state == State::Retrying && record.stage == Some(Stage::Fetch) && !record.alone
        };
        if !open && self.record.as_ref().filter(released).is_some() {
            self.tell(Change::Due);
        }
    }

    fn extractor_breaker(&mut self, open: bool) {
        self.extractor_is_open = open;
        let Some(record) = &self.record else { return };
        let crashed = record.state == State::Quarantined && record.kind == Some(Kind::CrashSegv);
        if open && crashed {
            // It was the extractor.
            self.for_good.clear();
            self.tell(Change::Held { fault: Box::new(broken()), attempted: true });
        }
    }

    fn run(&mut self, ends: &[(End, Millis)]) {
        self.began = self.now;
        if let Some(alone) = self.in_hand.take() {
            let alone = alone && !self.rebooted;
            let crashes = self.record.as_ref().map_or(0, |record| record.crashes);
            let settle = retry::supervisor_lost(crashes, alone, self.settings.retry.max_crashes);
            self.tell(Change::Lost { stage: Stage::Fetch, alone, settle });
        }
        self.rebooted = false;
        let waits =
            |record: &Record| record.state == State::Retrying && record.kind == Some(Kind::ExtractorBroken);
        if !self.extractor_is_open && self.record.as_ref().is_some_and(waits) {
            self.tell(Change::Due);
        }
        if !self.sink_is_open && self.record.as_ref().is_some_and(|record| record.unsent.is_some()) {
            self.tell(Change::Due);
        }
        let mut ends = ends.iter();
        let mut fallen_due = false;
        while let Some(record) = self.record.clone() {
            if self.without_an_attempt(&record) {
                continue;
            }
            self.began = self.began.min(self.now);
            let new = record.task == Some(Task::Carry);
            if self.source_is_open && !record.alone {
                if new {
                    self.tell(Change::Held { fault: Box::new(denied()), attempted: false });
                }
                return;
            }
            if !new && !std::mem::replace(&mut fallen_due, true) && self.fall_due(&record) {
                continue;
            }
            let Some(lane) = self.lane_at(&record, self.began, self.now) else { return };
            if record.large.is_some() && !due::large_has_more(&record, self.present()) {
                let fault = record.large.as_deref().cloned().expect("it was just asked");
                self.settle(fault, record.attempts, Lane::Large, Facts::default());
                continue;
            }
            let Some((end, by)) = ends.next() else { return };
            self.now = self.now.saturating_add(*by);
            if !self.attempt(lane, *end) {
                return;
            }
        }
    }

    /// What the writer does.
    fn without_an_attempt(&mut self, record: &Record) -> bool {
        match &record.task {
            Some(Task::Delete | Task::Exclude) => !self.sink_is_open && self.tell(Change::Left),
            Some(Task::Write { .. }) if record.unsent.is_some() => {
                let unsent = record.unsent.as_deref().cloned().expect("it was just asked");
                let Unsent { facts, in_sink, fault } = unsent;
                let written = Change::Written { state: in_sink.state, facts, in_sink, fault };
                self.give(written, false)
            }
            Some(Task::Write { state }) => {
                let in_sink = record.in_sink.clone().expect("it is written again");
                let in_sink = InSink { state: *state, ..in_sink };
                let fault = record.fault().filter(|_| *state == State::Suspect).map(Box::new);
                self.give(Change::Written { state: *state, facts: Box::default(), in_sink, fault }, false)
            }
            _ => false,
        }
    }

    /// What is written goes into the sink, or waits for it.
    fn give(&mut self, written: Change, attempted: bool) -> bool {
        match written {
            Change::Written { facts, in_sink, fault: of, .. } if self.sink_is_open => {
                let fault = Box::new(Fault::new(Stage::Write, Kind::SinkUnavailable, "its breaker is open"));
                let unsent = Box::new(Unsent { facts, in_sink, fault: of });
                let settle = Settle::Retry { next_attempt: None };
                self.tell(Change::Unsent { fault, settle, unsent, attempted })
            }
            written => self.tell(written),
        }
    }

    fn fall_due(&mut self, record: &Record) -> bool {
        match due::due(record, &self.versions, self.present()) {
            Some(Due::Itself) => self.tell(Change::Requeued),
            Some(Due::Large) => {
                let fault = Box::new(record.fault().expect("what is due has a fault"));
                self.tell(Change::Failed { fault, settle: Settle::Large, facts: Box::default() })
            }
            Some(Due::Container) | None => false,
        }
    }

    /// One attempt; whether the run goes on.
    fn attempt(&mut self, lane: Lane, end: End) -> bool {
        if lane == Lane::Large {
            self.tries.1 += 1;
        } else {
            self.tries.0 += 1;
        }
        assert!(self.tell(Change::Started { stage: Stage::Fetch, alone: lane != Lane::Normal }));
        let attempts = self.record.as_ref().expect("it was just started").attempts;
        match end {
            End::Death => {
                self.in_hand = Some(lane != Lane::Normal);
                return false;
            }
            End::PutBack => {
                self.tell(Change::PutBack);
                return false;
            }
            End::Fault(kind) if stage_of(kind) == Stage::Fetch => {
                self.settle(Fault::new(Stage::Fetch, kind, "no"), attempts, lane, Facts::default());
                return true;
            }
            _ => {}
        }
        if self.is_unchanged() {
            self.tell(Change::Same { stat: self.seen().stat });
            let record = self.record.clone().expect("it was carried");
            self.fall_due(&record);
            return true;
        }
        if self.extractor_is_open {
            return self.tell(Change::Held { fault: Box::new(broken()), attempted: true });
        }
        self.is_not_blind(lane);
        match end {
            End::Fault(kind) => {
                let mut fault = Fault::new(stage_of(kind), kind, "no");
                fault.evidence = self.evidence(kind, lane);
                self.settle(fault, attempts, lane, self.facts());
            }
            End::Doubtful(kind) => self.write(Some(Fault::new(Stage::Check, kind, "no")), lane),
            _ => self.write(None, lane),
        }
        true
    }

    fn is_unchanged(&self) -> bool {
        let Some(rested) = self.record.as_ref().and_then(|record| record.rested.as_deref()) else {
            return false;
        };
        let sha256 = ContentHash::of(&[self.bytes]);
        due::stands(rested, sha256, &self.versions, self.present())
    }

    fn facts(&self) -> Facts {
        Facts {
            sha256: Some(ContentHash::of(&[self.bytes])),
            format: Some("pdf".to_owned()),
            pipeline: self.versions.clone(),
            stat: self.seen().stat,
            ..Facts::default()
        }
    }

    fn evidence(&self, kind: Kind, lane: Lane) -> Evidence {
        let limits = self.limits(lane);
        let (name, value) = match kind {
            Kind::MemoryLimit => ("memory", limits.memory),
            Kind::TimeCpu => ("cpu_ms", limits.cpu_ms),
            Kind::OutputLimit => ("output", limits.output),
            _ => ("", 0),
        };
        Evidence {
            limit: (value > 0).then(|| Limit { name: name.to_owned(), value, measured: None }),
            passwords: self.settings.passwords_mark().filter(|_| kind == Kind::ParseEncrypted),
            fingerprint: (kind == Kind::CrashSegv).then(|| "a".to_owned()),
            ..Evidence::default()
        }
    }

    fn settle(&mut self, mut fault: Fault, attempts: u32, lane: Lane, facts: Facts) {
        self.settings.classify(&mut fault);
        self.remember(&fault, lane);
        let settle = retry::decide(&fault, attempts, lane, self.rules(), 0.5, self.now);
        let change = match settle {
            Settle::Exclude => Change::Rejected { fault: Box::new(fault) },
            _ => Change::Failed { fault: Box::new(fault), settle, facts: Box::new(facts) },
        };
        self.tell(change);
    }

    fn write(&mut self, fault: Option<Fault>, lane: Lane) {
        let facts = self.facts();
        let state = if fault.is_some() { State::Suspect } else { State::Indexed };
        self.for_good.clear();
        if let Some(fault) = &fault {
            self.remember(fault, lane);
        }
        let in_sink = InSink {
            sink: "embedded".to_owned(),
            sha256: facts.sha256,
            pipeline: facts.pipeline.clone(),
            text: ContentHash::of(b"text"),
            state,
        };
        self.tell(Change::Ready);
        let fault = fault.map(Box::new);
        self.give(Change::Written { state, facts: Box::new(facts), in_sink, fault }, true);
    }

    fn met_with(&self, stage: Stage, lane: Lane) -> ForGood {
        let pipeline = self.versions.iter().filter(|(at, _)| **at <= stage);
        ForGood {
            bytes: self.bytes,
            limits: self.limits(lane).clone(),
            pipeline: pipeline.map(|(at, version)| (*at, version.clone())).collect(),
            passwords: self.settings.passwords_mark(),
        }
    }

    fn remember(&mut self, fault: &Fault, lane: Lane) {
        self.for_good.retain(|end| end.bytes == self.bytes);
        if matches!(fault.class, Some(Class::Permanent | Class::Corrupt)) && fault.stage > Stage::Fetch {
            if lane == Lane::Large {
                // The record speaks of the last end: that one replaces the limit that led there.
                self.for_good.clear();
            }
            self.for_good.push(self.met_with(fault.stage, lane));
        }
    }

    fn is_not_blind(&self, lane: Lane) {
        for end in &self.for_good {
            let stage = *end.pipeline.keys().last().expect("each end has a stage");
            assert_ne!(*end, self.met_with(stage, lane), "tried blindly: {:#?}", self.record);
        }
    }
}

fn broken() -> Fault {
    Fault::new(Stage::Extract, Kind::ExtractorBroken, "its breaker is open")
}

fn denied() -> Fault {
    Fault::new(Stage::Fetch, Kind::SourceDenied, "its breaker is open")
}

fn stage_of(kind: Kind) -> Stage {
    match kind.name().split('.').next() {
        Some("source" | "transfer") => Stage::Fetch,
        Some("sink") => Stage::Write,
        Some("content") => Stage::Check,
        _ => Stage::Extract,
    }
}

/// What an attempt can come to by itself: what is decided elsewhere, or written, is no fault here.
fn faults() -> Vec<Kind> {
    let elsewhere = |kind: &Kind| {
        matches!(kind, Kind::SupervisorLost | Kind::ExtractorBroken)
            || kind.name().starts_with("content.")
            || kind.default_class() == Some(Class::Rejected)
    };
    Kind::ALL.iter().copied().filter(|kind| !elsewhere(kind)).collect()
}

fn end() -> impl Strategy<Value = (End, Millis)> {
    use Kind::{ContentEmpty, ContentGarbled, MemoryLimit, MemoryPressure, TimeCpu, TimeWall};
    let end = prop_oneof![
        8 => prop::sample::select(faults()).prop_map(End::Fault),
        6 => prop::sample::select(vec![MemoryLimit, TimeCpu, MemoryPressure, TimeWall]).prop_map(End::Fault),
        2 => Just(End::Good),
        2 => prop::sample::select(vec![ContentEmpty, ContentGarbled]).prop_map(End::Doubtful),
        4 => Just(End::Death),
        2 => Just(End::PutBack),
    ];
    (end, prop_oneof![6 => 0..1_000_i64, 1 => -100_000_000..100_000_000_i64])
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (prop::option::weighted(0.3, 0..3_u8), any::<bool>(), prop::bool::weighted(0.1))
            .prop_map(|(bytes, touched, rejected)| Step::List { bytes, touched, rejected }),
        1 => Just(Step::Gone),
        12 => prop::collection::vec(end(), 0..6).prop_map(Step::Run),
        1 => Just(Step::Reboot),
        2 => prop::sample::select(STAGES.to_vec()).prop_map(Step::Bump),
        3 => (1..5_u64, 1..9_u64).prop_map(|(normal, large)| Step::Limits { normal, large }),
        1 => Just(Step::Passwords),
        2 => any::<bool>().prop_map(Step::SourceBreaker),
        2 => any::<bool>().prop_map(Step::ExtractorBreaker),
        2 => any::<bool>().prop_map(Step::SinkBreaker),
        1 => Just(Step::Word),
        3 => prop_oneof![Just(30_000_000), -40_000_000..40_000_000_i64, Just(-31_536_000_000)].prop_map(Step::Clock),
    ]
}

fn settings(segv_heals: bool) -> Settings {
    let mut settings = Settings::default();
    if segv_heals {
        let policy = KindPolicy { class: Some(Class::Transient), ..KindPolicy::default() };
        settings.kinds.insert(Kind::CrashSegv, policy);
    }
    settings
}

const SIGHT: Step = Step::List { bytes: None, touched: false, rejected: false };

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_or_tried_blindly(steps in prop::collection::vec(step(), 1..40), segv_heals in any::<bool>()) {
        let mut world = World::new(settings(segv_heals));
        world.set_limits(2, 4);
        world.step(SIGHT);
        for step in steps {
            world.step(step);
        }
    }
}

#[test]
fn whatever_it_always_ends_in_has_an_end() {
    for (kind, large) in faults().into_iter().flat_map(|kind| [(kind, 2), (kind, 4)]) {
        for by in [1_000, -1_000] {
            let mut world = World::new(settings(false));
            world.set_limits(2, large);
            world.step(SIGHT);
            for _ in 0..10 {
                let before = world.tries;
                world.run(&[(End::Fault(kind), by); 50]);
                let made = world.tries.0 + world.tries.1 - before.0 - before.1;
                assert!(made <= 6, "{kind}: {made} tries in one run");
                world.now += 30_000_000;
            }
            let record = world.record.unwrap();
            let unbounded = kind == Kind::SourceDenied;
            let at_rest = matches!(record.state, State::Quarantined | State::Excluded);
            assert!(at_rest || (unbounded && record.state == State::Retrying), "{kind}: {record:?}");
            let most = if unbounded { 20 } else { 5 };
            assert!(world.tries.0 + world.tries.1 <= most, "{kind}: {:?}", world.tries);
            let is_slow = matches!(kind, Kind::TimeStalled | Kind::TimeWall | Kind::TimeUnkillable);
            let met = matches!(kind, Kind::MemoryLimit | Kind::TimeCpu | Kind::OutputLimit);
            assert_eq!(world.tries.1, usize::from(is_slow || (met && large > 2)), "{kind}");
        }
    }
}

#[test]
fn a_death_every_time_is_a_poison_pill_in_every_lane() {
    for first in [End::Death, End::Fault(Kind::MemoryLimit)] {
        let mut world = World::new(settings(false));
        world.set_limits(2, 4);
        world.step(SIGHT);
        world.run(&[(first, 1), (End::Death, 1)]);
        for _ in 0..5 {
            world.run(&[(End::Death, 1); 5]);
        }
        let record = world.record.unwrap();
        assert_eq!((record.state, record.kind), (State::Quarantined, Some(Kind::SupervisorLost)));
        assert_eq!((world.tries.0 + world.tries.1), 4, "{:?}", world.tries);
    }
}
