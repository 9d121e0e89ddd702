//! The table: each way to die, and what it is called.
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

use super::*;
use crate::rules::kind::Class;
use proptest::prelude::*;
use shared::Format;
use shared::recorder::{AllocFailure, Crash, FailedAllocation, Panic};

const MIB: u64 = 1 << 20;

fn end() -> End {
    End {
        format: Format::Text,
        refusal: None,
        parts: None,
        engine: "text 1".to_owned(),
        text_bytes: 0,
        members: 0,
    }
}

/// A child whose cage was shut and that was in the middle of its document.
pub(super) fn death(wait: Wait) -> Death {
    Death {
        wait,
        intent: None,
        cpu_ms: 10,
        peak_rss_kib: 4096,
        wall_ms: 100,
        document_bytes: 0,
        limits: JobLimits { wall_ms: 4000, stalled_ms: 1000, cpu_ms: 1000, memory: 64 * MIB, output: MIB },
        recording: Recording { mapped: true, ..Recording::default() },
        stream: Stream { locked: true, ended: None, broken: Some("no_end") },
        cgroup: Some(Counted::default()),
        machine_kills: 0,
        zygote_lived: true,
        source_changed: false,
        code: Code { base: 0x1000, size: 0x10_0000 },
    }
}

fn exited(status: i32) -> Death {
    death(Wait::Exited(status))
}

fn killed(signal: i32) -> Death {
    death(Wait::Killed { signal, core: false })
}

fn noted(signal: i32) -> Crash {
    Crash {
        signal: u64::from(signal.unsigned_abs()),
        code: 1,
        address: 0x5555_0000_0000,
        pc: 0x1100,
        sp: 0x7fff_0000_0000,
        syscall: 0,
        arch: 0,
        stack_low: 0x7ffe_ff00_0000,
        document: (0, 0),
        frames: vec![0x1100, 0x1200, 0x1300, 0x1400],
    }
}

trait With: Sized {
    fn with(self, change: impl FnOnce(&mut Self)) -> Self;
}

impl With for Death {
    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

fn intended(signal: i32, intent: Intent) -> Death {
    killed(signal).with(|death| death.intent = Some(intent))
}

fn crashed(signal: i32, change: impl FnOnce(&mut Crash)) -> Death {
    let mut crash = noted(signal);
    change(&mut crash);
    killed(signal).with(|death| death.recording.crash = Some(crash))
}

fn fault(death: &Death) -> Fault {
    match classify(death) {
        Verdict::Fault(fault) => *fault,
        Verdict::Ended(end) => panic!("ended well: {end:?} by {death:?}"),
    }
}

fn alloc_failed(why: AllocFailure) -> Death {
    killed(libc::SIGABRT)
        .with(|death| death.recording.alloc_failed = Some(FailedAllocation { bytes: 1 << 30, why }))
}

fn call(number: i32, arch: u32) -> Intent {
    Intent::Call(Call { number, arch, first_argument: 0 })
}

fn panicked(death: Death) -> Death {
    let panic = Panic { file: "src/a.rs".to_owned(), line: 7, message: "out of range".to_owned() };
    death.with(|death| death.recording.panic = Some(panic))
}

#[test]
fn every_way_to_die_has_its_name() {
    let unlocked = |death: Death| death.with(|death| death.stream = Stream::default());
    let oom = |limited| killed(9).with(|death| death.cgroup = Some(Counted { killed: 1, limited }));
    let table: Vec<(&str, Death, Kind, &str)> = vec![
        // Setup: nothing of the document was looked at.
        ("setup", unlocked(exited(EXIT_SETUP)), Kind::WorkerLost, "setup.exit"),
        (
            "setup with its step",
            unlocked(exited(EXIT_SETUP)).with(|death| death.recording.setup = Some((8, 1))),
            Kind::WorkerLost,
            "setup.landlock",
        ),
        ("crash in setup", unlocked(killed(libc::SIGSEGV)), Kind::WorkerLost, "setup.signal"),
        ("panic in setup", unlocked(exited(EXIT_PANIC)), Kind::WorkerLost, "setup.exit"),
        (
            "a layer less than required",
            intended(9, Intent::LayersMissing(Layers::NONE.with(shared::Layer::Rlimits))),
            Kind::WorkerLost,
            "setup.layers",
        ),
        ("says it could not set up, after it had", exited(EXIT_SETUP), Kind::ViolationProtocol, ""),
        // What the supervisor killed it for.
        ("deadline", intended(9, Intent::Wall), Kind::TimeWall, "time.wall_slow"),
        (
            "deadline after a spin",
            intended(9, Intent::Wall).with(|death| (death.cpu_ms, death.wall_ms) = (3200, 4000)),
            Kind::TimeCpu,
            "time.wall_spin",
        ),
        (
            "deadline just below a spin",
            intended(9, Intent::Wall).with(|death| (death.cpu_ms, death.wall_ms) = (3199, 4000)),
            Kind::TimeWall,
            "time.wall_slow",
        ),
        ("stall", intended(9, Intent::Stalled { busy_ms: 3 }), Kind::TimeStalled, "time.wall_blocked"),
        ("too much text", intended(9, Intent::OutputBytes(MIB + 1)), Kind::OutputLimit, "out.bytes"),
        ("too many frames", intended(9, Intent::OutputFrames(9)), Kind::OutputLimit, "out.frames"),
        ("garbage", intended(9, Intent::Protocol("magic")), Kind::ViolationProtocol, ""),
        (
            "garbage, and an exit as if nothing were",
            exited(0).with(|death| death.intent = Some(Intent::Protocol("magic"))),
            Kind::ViolationProtocol,
            "",
        ),
        ("socket", intended(9, call(41, syscalls::NATIVE)), Kind::ViolationSyscall, ""),
        ("int 0x80", intended(9, call(11, 0x4000_0003)), Kind::ViolationArch, ""),
        ("x32", intended(9, call(0x4000_0001, syscalls::NATIVE)), Kind::ViolationArch, ""),
        ("zygote gone", intended(9, Intent::ZygoteLost), Kind::WorkerLost, "infra.zygote_lost"),
        (
            "a crash that was quicker than the deadline",
            intended(libc::SIGSEGV, Intent::Wall),
            Kind::CrashSegv,
            "",
        ),
        ("unkillable", death(Wait::Unkillable), Kind::TimeUnkillable, ""),
        (
            "unkillable at its deadline",
            death(Wait::Unkillable).with(|death| death.intent = Some(Intent::Wall)),
            Kind::TimeUnkillable,
            "time.unkillable",
        ),
        // Exits.
        ("no end", exited(0), Kind::ViolationProtocol, ""),
        (
            "half a frame",
            exited(0).with(|death| death.stream.broken = Some("frame_truncated")),
            Kind::ViolationProtocol,
            "",
        ),
        ("another status", exited(7), Kind::ViolationProtocol, ""),
        (
            "another status after the end",
            exited(7).with(|death| {
                death.stream = Stream { locked: true, ended: Some(end()), broken: None };
            }),
            Kind::ViolationProtocol,
            "",
        ),
        ("panic", panicked(exited(EXIT_PANIC)), Kind::ParsePanic, ""),
        ("panic without a message", exited(EXIT_PANIC), Kind::ParsePanic, ""),
        (
            "trapped",
            exited(EXIT_TRAPPED).with(|death| {
                let crash = Crash { syscall: 13, arch: u64::from(syscalls::NATIVE), ..noted(31) };
                death.recording.crash = Some(crash);
            }),
            Kind::ViolationSyscall,
            "",
        ),
        ("trapped without a note", exited(EXIT_TRAPPED), Kind::ViolationSyscall, ""),
        // Signals.
        ("null pointer", crashed(libc::SIGSEGV, |crash| crash.address = 8), Kind::CrashSegv, ""),
        ("segv without a note", killed(libc::SIGSEGV), Kind::CrashSegv, ""),
        (
            "stack overflow by the stack pointer",
            crashed(libc::SIGSEGV, |crash| crash.address = crash.sp - 8),
            Kind::CrashStackOverflow,
            "",
        ),
        (
            "stack overflow by the guard",
            crashed(libc::SIGSEGV, |crash| crash.address = crash.stack_low - 100_000),
            Kind::CrashStackOverflow,
            "",
        ),
        ("bus", killed(libc::SIGBUS), Kind::CrashBus, ""),
        (
            "bus because the file shrank",
            killed(libc::SIGBUS).with(|death| death.source_changed = true),
            Kind::SourceChanged,
            "",
        ),
        ("ill", killed(libc::SIGILL), Kind::CrashIll, ""),
        ("fpe", killed(libc::SIGFPE), Kind::CrashFpe, ""),
        ("abort", killed(libc::SIGABRT), Kind::CrashAbort, ""),
        ("trap", killed(libc::SIGTRAP), Kind::CrashSignal, ""),
        ("real time signal", killed(40), Kind::CrashSignal, ""),
        ("panic while panicking", panicked(killed(libc::SIGABRT)), Kind::ParsePanic, ""),
        (
            "a crash after the end",
            killed(libc::SIGSEGV).with(|death| {
                death.stream = Stream { locked: true, ended: Some(end()), broken: None };
            }),
            Kind::CrashSegv,
            "",
        ),
        ("sigsys", killed(libc::SIGSYS), Kind::ViolationSyscall, ""),
        ("file size", killed(libc::SIGXFSZ), Kind::OutputLimit, ""),
        // Memory.
        ("budget", alloc_failed(AllocFailure::Budget), Kind::MemoryLimit, "mem.budget"),
        ("kernel's limit", alloc_failed(AllocFailure::Kernel), Kind::MemoryLimit, "mem.rlimit"),
        (
            "native code that does not look, null",
            crashed(libc::SIGSEGV, |crash| crash.address = 16)
                .with(|death| death.recording.alloc_peak = 60 * MIB),
            Kind::MemoryLimit,
            "mem.native",
        ),
        (
            "native code that aborts",
            killed(libc::SIGABRT).with(|death| death.recording.alloc_peak = 60 * MIB),
            Kind::MemoryLimit,
            "mem.native",
        ),
        ("cgroup", oom(3), Kind::MemoryLimit, "mem.cgroup_oom"),
        ("machine, seen by the cgroup", oom(0), Kind::MemoryPressure, "mem.global_oom"),
        (
            "machine, without a cgroup",
            killed(9).with(|death| (death.cgroup, death.machine_kills) = (None, 1)),
            Kind::MemoryPressure,
            "mem.global_oom",
        ),
        (
            "the zygote was killed for the child's memory",
            intended(9, Intent::ZygoteLost)
                .with(|death| death.cgroup = Some(Counted { killed: 1, limited: 1 })),
            Kind::MemoryLimit,
            "mem.cgroup_oom",
        ),
        // Time.
        ("soft limit", killed(libc::SIGXCPU), Kind::TimeCpu, "time.cpu_soft"),
        ("hard limit", killed(9).with(|death| death.cpu_ms = 1960), Kind::TimeCpu, "time.cpu_hard"),
        // Outside.
        ("kill -9", killed(9), Kind::WorkerLost, "infra.external_kill"),
        (
            "kill -9, and others were killed elsewhere",
            killed(9).with(|death| death.machine_kills = 4),
            Kind::WorkerLost,
            "infra.external_kill",
        ),
        ("kill -15", killed(15), Kind::WorkerLost, "infra.external_kill"),
        (
            "died with its zygote",
            killed(9).with(|death| death.zygote_lived = false),
            Kind::WorkerLost,
            "infra.zygote_lost",
        ),
    ];
    for (name, death, kind, detail) in table {
        let fault = fault(&death);
        let found = fault.evidence.detail.unwrap_or_default();
        assert_eq!((fault.kind, found.as_str()), (kind, detail), "{name}");
    }
}

#[test]
fn a_good_end_is_one_with_an_end_and_status_zero() {
    let good = exited(0).with(|death| {
        death.stream = Stream { locked: true, ended: Some(end()), broken: None };
    });
    assert_eq!(classify(&good), Verdict::Ended(end()));
    // Whoever is quicker than his deadline was in time.
    for intent in [Intent::Wall, Intent::Stalled { busy_ms: 0 }, Intent::ZygoteLost] {
        let late = good.clone().with(|death| death.intent = Some(intent));
        assert_eq!(classify(&late), Verdict::Ended(end()));
    }
}

#[test]
fn limits_are_given_with_what_was_measured() {
    let limit = |death: &Death| fault(death).evidence.limit.unwrap();
    let measured = |name: &str, value, measured| Limit { name: name.to_owned(), value, measured };
    let text = intended(9, Intent::OutputBytes(MIB + 5));
    assert_eq!(limit(&text), measured("output", MIB, Some(MIB + 5)));
    let spin = killed(libc::SIGXCPU).with(|death| death.cpu_ms = 1001);
    assert_eq!(limit(&spin), measured("cpu_ms", 1000, Some(1001)));
    let budget = alloc_failed(AllocFailure::Budget);
    assert_eq!(limit(&budget), measured("memory", 64 * MIB, Some(1 << 30)));
    assert_eq!(fault(&budget).evidence.allocation, Some(1 << 30));
    assert_eq!(limit(&intended(9, Intent::Wall)), measured("wall_ms", 4000, Some(100)));
}

#[test]
fn only_acts_that_no_honest_parser_commits_are_hostile() {
    let native = syscalls::NATIVE;
    for (death, hostile) in [
        (intended(9, call(41, native)), true),
        (intended(9, call(59, native)), true),
        (intended(9, call(101, native)), true),
        (intended(9, call(35, native)), false),
        (intended(9, call(11, 0x4000_0003)), true),
        (intended(9, Intent::Protocol("nonce")), true),
        (intended(9, Intent::Protocol("text_count")), false),
        (intended(9, Intent::Wall), false),
        (intended(9, Intent::OutputBytes(1)), false),
        (alloc_failed(AllocFailure::Budget), false),
        (exited(EXIT_PANIC), false),
        (killed(libc::SIGSEGV), false),
    ] {
        assert_eq!(fault(&death).hostile, hostile, "{death:?}");
    }
}

#[test]
fn fingerprints_are_equal_for_equal_crashes_only() {
    let print = |death: &Death| fault(death).evidence.fingerprint.unwrap();
    let one = crashed(libc::SIGSEGV, |crash| crash.address = 8);
    let moved = crashed(libc::SIGSEGV, |crash| {
        crash.address = 16;
        crash.pc += 0x1000;
        crash.frames = crash.frames.iter().map(|frame| frame + 0x1000).collect();
        *crash.frames.last_mut().unwrap() += 0x40;
    })
    .with(|death| death.code.base += 0x1000);
    assert_eq!(print(&one), print(&moved), "another base, and another way there");
    assert_eq!(print(&one).len(), 16);
    assert_eq!(fault(&one).evidence.frames, ["0x100", "0x200", "0x300", "0x400"]);
    let elsewhere = crashed(libc::SIGSEGV, |crash| crash.frames[1] += 0x10);
    assert_ne!(print(&one), print(&elsewhere));
    assert_ne!(print(&one), print(&killed(libc::SIGSEGV)));
    let panic = panicked(exited(EXIT_PANIC));
    assert_eq!(print(&panic), print(&panicked(killed(libc::SIGABRT))));
    assert_eq!(fault(&panic).evidence.place.as_deref(), Some("src/a.rs:7"));
    assert_ne!(
        print(&intended(9, call(41, syscalls::NATIVE))),
        print(&intended(9, call(57, syscalls::NATIVE)))
    );
}

#[test]
fn evidence_is_complete() {
    let segv = fault(&killed(libc::SIGSEGV)).evidence;
    assert_eq!(segv.signal.as_deref(), Some("SIGSEGV"));
    assert_eq!(fault(&exited(7)).evidence.exit_code, Some(7));
    let wall = fault(&intended(9, Intent::Wall)).evidence;
    assert_eq!(wall.killed_for.as_deref(), Some("the deadline"));
    let socket = fault(&intended(9, call(41, syscalls::NATIVE))).evidence;
    assert_eq!(socket.syscall.as_deref(), Some("socket"));
    assert!(
        fault(
            &crashed(libc::SIGSEGV, |crash| crash.address = 16)
                .with(|death| death.recording.alloc_peak = 60 * MIB)
        )
        .evidence
        .inferred
    );
}

#[test]
fn memory_of_no_allocator_is_told_by_the_kernel_s_count() {
    let null = |kib, document| {
        fault(&crashed(libc::SIGSEGV, |crash| crash.address = 0).with(|death| {
            death.peak_rss_kib = kib;
            death.document_bytes = document;
        }))
    };
    // The budget is 64 MiB, and 16 MiB are not the document's doing.
    assert_eq!(null(79 << 10, 0).kind, Kind::CrashSegv);
    assert_eq!(null(80 << 10, 0).kind, Kind::MemoryLimit);
    assert!(null(80 << 10, 0).evidence.inferred);
    assert_eq!(null(80 << 10, MIB).kind, Kind::CrashSegv, "a large document is mapped, not allocated");
}

fn any_recording() -> impl Strategy<Value = Recording> {
    proptest::collection::vec(any::<u8>(), shared::recorder::SIZE).prop_map(|bytes| {
        let mut page: [u8; shared::recorder::SIZE] = bytes.try_into().expect("as long as asked for");
        page[..8].copy_from_slice(&shared::recorder::MAGIC.to_le_bytes());
        for at in [shared::recorder::offset::PANICKED, shared::recorder::offset::CRASHED] {
            // Half of them claim a panic or a crash.
            let claim = u64::from(page[at] & 1);
            page[at..at + 8].copy_from_slice(&claim.to_le_bytes());
        }
        let why = u64::from(page[shared::recorder::offset::ALLOC_WHY] % 3);
        page[shared::recorder::offset::ALLOC_WHY..][..8].copy_from_slice(&why.to_le_bytes());
        Recording::read(&page)
    })
}

fn any_wait() -> impl Strategy<Value = Wait> {
    prop_oneof![
        (0..256_i32).prop_map(Wait::Exited),
        Just(Wait::Exited(EXIT_PANIC)),
        Just(Wait::Exited(EXIT_TRAPPED)),
        Just(Wait::Exited(EXIT_SETUP)),
        (1..65_i32).prop_map(|signal| Wait::Killed { signal, core: false }),
        Just(Wait::Killed { signal: libc::SIGSEGV, core: true }),
        Just(Wait::Killed { signal: libc::SIGABRT, core: false }),
        Just(Wait::Unkillable),
    ]
}

fn any_intent() -> impl Strategy<Value = Option<Intent>> {
    prop_oneof![
        4 => Just(None),
        1 => Just(Some(Intent::Wall)),
        1 => Just(Some(Intent::Stalled { busy_ms: 1 })),
        1 => Just(Some(Intent::Protocol("magic"))),
        1 => Just(Some(Intent::OutputBytes(1))),
        1 => Just(Some(Intent::ZygoteLost)),
        1 => any::<i32>().prop_map(|number| Some(call(number, syscalls::NATIVE))),
    ]
}

fn any_stream() -> impl Strategy<Value = Stream> {
    (any::<bool>(), any::<bool>(), proptest::option::of(Just("frame_truncated"))).prop_map(
        |(locked, ended, broken)| Stream {
            locked,
            ended: ended.then(end),
            broken: broken
                .or_else(|| (!locked).then_some("no_locked"))
                .or_else(|| (!ended).then_some("no_end")),
        },
    )
}

fn class(death: &Death) -> Option<Class> {
    match classify(death) {
        Verdict::Ended(_) => None,
        Verdict::Fault(fault) => fault.class,
    }
}

proptest! {
    #[test]
    fn the_recorder_never_changes_the_class(
        wait in any_wait(), intent in any_intent(), stream in any_stream(), recording in any_recording(),
        cpu_ms in 0..5000_u64, killed in 0..2_u64, limited in 0..2_u64, machine_kills in 0..2_u64,
        has_cgroup in any::<bool>(), zygote_lived in any::<bool>(), source_changed in any::<bool>(),
    ) {
        let honest = death(wait).with(|death| {
            death.intent = intent;
            death.stream = stream;
            death.cpu_ms = cpu_ms;
            death.cgroup = has_cgroup.then_some(Counted { killed, limited });
            death.machine_kills = machine_kills;
            (death.zygote_lived, death.source_changed) = (zygote_lived, source_changed);
        });
        let lying = honest.clone().with(|death| death.recording = recording);
        prop_assert_eq!(class(&honest), class(&lying));
        if class(&lying) != Some(Class::Permanent) {
            let kind = |death: &Death| match classify(death) {
                Verdict::Ended(_) => None,
                Verdict::Fault(fault) => Some(fault.kind),
            };
            prop_assert_eq!(kind(&honest), kind(&lying));
        }
    }

    /// With the cage shut, what a child can do by itself: exit as it likes, die by a signal that it can cause, write
    /// what it likes. None of it is transient, excluded, or clean without an honest end.
    #[test]
    fn no_child_chooses_its_class(
        status in 0..256_i32, own_signal in prop_oneof![Just(4), Just(5), Just(6), Just(7), Just(8), Just(11), Just(31)],
        exits in any::<bool>(), stream in any_stream(), recording in any_recording(), cpu_ms in 0..3000_u64,
    ) {
        let wait = if exits { Wait::Exited(status) } else { Wait::Killed { signal: own_signal, core: false } };
        let made = death(wait).with(|death| {
            death.stream = Stream { locked: true, ..stream };
            death.recording = recording;
            death.cpu_ms = cpu_ms;
        });
        match classify(&made) {
            Verdict::Ended(_) => {
                prop_assert_eq!(wait, Wait::Exited(0));
                prop_assert!(made.stream.broken.is_none() && made.stream.ended.is_some());
            }
            Verdict::Fault(fault) => prop_assert_eq!(fault.class, Some(Class::Permanent)),
        }
    }
}
