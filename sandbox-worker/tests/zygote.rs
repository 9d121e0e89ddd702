//! The worker's program, played against by the smallest possible supervisor: one zygote, one document at a time.
//! Nothing here is timed: what would last for ever is killed once its first frame has come.
#![expect(unsafe_code, reason = "a supervisor's system calls: descriptors before exec, the listener, waitid")]
#![expect(clippy::unwrap_used, reason = "a test ends at the first thing that is not as it must be")]

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, recvmsg, sendmsg,
    socketpair,
};
use shared::recorder::{EXIT_PANIC, EXIT_TRAPPED, Recording, SIZE};
use shared::{
    Answer, Ask, ChildLimits, Format, Hello, Layer, Layers, Refused, Reply, Request, Work, ask, frame,
};
use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

const NONCE: [u8; 16] = [9; 16];

struct Zygote {
    process: Child,
    control: OwnedFd,
    listener: Option<OwnedFd>,
    layers: Layers,
    absent: Vec<(Layer, String)>,
    touched_kib: u64,
}

impl Drop for Zygote {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

#[derive(Debug, PartialEq, Eq, Clone, Copy)]
enum Death {
    Exited(i32),
    Killed(i32),
}

#[derive(Debug)]
struct Outcome {
    death: Death,
    answers: Result<Vec<Answer>, &'static str>,
    unfinished: bool,
    recording: Recording,
    reported: Option<(i32, u32)>,
}

impl Outcome {
    fn text(&self) -> String {
        let texts = self.answers.as_ref().unwrap().iter().filter_map(|answer| match answer {
            Answer::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    fn crash_signal(&self) -> Option<u64> {
        self.recording.crash.as_ref().map(|crash| crash.signal)
    }
}

fn start(prepare: impl FnOnce(&mut Command)) -> Zygote {
    start_without(Layers::NONE, prepare)
}

fn start_without(omit: Layers, prepare: impl FnOnce(&mut Command)) -> Zygote {
    let (ours, theirs) =
        socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_lazaret-worker"));
    command.env_clear();
    let number = theirs.as_raw_fd();
    prepare(&mut command);
    // SAFETY: between fork and exec only dup2 is called, which may be.
    unsafe {
        command.pre_exec(move || {
            nix::errno::Errno::result(libc::dup2(number, ask::CONTROL_FD)).map(drop).map_err(Into::into)
        });
    }
    let process = command.spawn().unwrap();
    let hello = Hello { protocol: ask::PROTOCOL, slot: 1, uid_base: 2_000_000_000, faults: true, omit };
    send(&ours, &frame::encode(&hello), &[]);
    drop(theirs);
    let (reply, listener) = receive(&ours);
    match reply {
        Reply::Ready { layers, absent, touched_kib, .. } => {
            Zygote { process, control: ours, listener, layers, absent, touched_kib }
        }
        other => panic!("{other:?}"),
    }
}

fn send(socket: &OwnedFd, bytes: &[u8], descriptors: &[RawFd]) {
    let control = [ControlMessage::ScmRights(descriptors)];
    let control = if descriptors.is_empty() { &control[..0] } else { &control[..] };
    sendmsg::<()>(socket.as_raw_fd(), &[IoSlice::new(bytes)], control, MsgFlags::MSG_NOSIGNAL, None).unwrap();
}

fn receive(socket: &OwnedFd) -> (Reply, Option<OwnedFd>) {
    let mut buffer = vec![0; ask::MESSAGE_MAX];
    let mut space = nix::cmsg_space!([RawFd; 2]);
    let mut pieces = [IoSliceMut::new(&mut buffer)];
    let message =
        recvmsg::<()>(socket.as_raw_fd(), &mut pieces, Some(&mut space), MsgFlags::MSG_CMSG_CLOEXEC).unwrap();
    let mut descriptor = None;
    for control in message.cmsgs().unwrap() {
        if let ControlMessageOwned::ScmRights(numbers) = control {
            // SAFETY: the kernel made it for this message.
            descriptor = numbers.first().map(|&number| unsafe { OwnedFd::from_raw_fd(number) });
        }
    }
    let length = message.bytes;
    assert_ne!(length, 0, "the zygote is gone");
    (frame::decode(&buffer[..length]).unwrap(), descriptor)
}

fn memfd(bytes: &[u8]) -> std::fs::File {
    let mut file = std::fs::File::from(memfd_create(c"x", MFdFlags::MFD_CLOEXEC).unwrap());
    file.write_all(bytes).unwrap();
    file
}

fn limits() -> ChildLimits {
    ChildLimits { memory: 64 << 20, cpu_ms: 1000 }
}

impl Zygote {
    fn fault(&self, acts: &str) -> Outcome {
        self.carry_out(Format::Fault, format!("#!lazaret-fault 1\n{acts}\n").as_bytes(), usize::MAX)
    }

    fn carry_out(&self, format: Format, bytes: &[u8], kill_after: usize) -> Outcome {
        self.work(Work::Extract, format, bytes, kill_after)
    }

    fn work(&self, work: Work, format: Format, bytes: &[u8], kill_after: usize) -> Outcome {
        let document = memfd(bytes);
        let recorder = memfd(&[0; SIZE]);
        let (read_end, write_end) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).unwrap();
        let ask = Ask {
            nonce: NONCE,
            work,
            format,
            size: bytes.len() as u64,
            name: b"x".to_vec(),
            limits: limits(),
            passwords: Vec::new(),
        };
        let descriptors = [document.as_raw_fd(), write_end.as_raw_fd(), recorder.as_raw_fd()];
        send(&self.control, &frame::encode(&Request::Spawn(ask)), &descriptors);
        drop(write_end);
        let (reply, pidfd) = receive(&self.control);
        assert_eq!(reply, Reply::Spawned { nonce: NONCE });
        let pidfd = pidfd.unwrap();
        let (output, reported) = self.watch(read_end, &pidfd, kill_after);
        let death = reap(&pidfd);
        let mut page = [0; SIZE];
        recorder.read_exact_at(&mut page, 0).unwrap();
        let (answers, unfinished) = decode(&output);
        Outcome { death, answers, unfinished, recording: Recording::read(&page), reported }
    }

    fn watch(&self, read_end: OwnedFd, pidfd: &OwnedFd, kill_after: usize) -> (Vec<u8>, Option<(i32, u32)>) {
        let mut pipe = std::fs::File::from(read_end);
        let mut output = Vec::new();
        let mut reported = None;
        loop {
            let mut watched = vec![
                PollFd::new(pipe.as_fd(), PollFlags::POLLIN),
                PollFd::new(pidfd.as_fd(), PollFlags::POLLIN),
            ];
            if let Some(listener) = &self.listener {
                watched.push(PollFd::new(listener.as_fd(), PollFlags::POLLIN));
            }
            assert_ne!(poll(&mut watched, PollTimeout::from(60_000_u16)).unwrap(), 0, "nothing happens");
            let ready: Vec<_> = watched.iter().map(|fd| fd.revents().unwrap()).collect();
            if ready.get(2).is_some_and(|flags| flags.contains(PollFlags::POLLIN)) {
                reported = hear(self.listener.as_ref().unwrap());
                kill(pidfd);
            }
            let mut buffer = [0; 65536];
            if ready[0].contains(PollFlags::POLLIN) {
                let length = pipe.read(&mut buffer).unwrap();
                output.extend_from_slice(&buffer[..length]);
                if output.len() >= kill_after {
                    kill(pidfd);
                }
            } else if ready[1].contains(PollFlags::POLLIN) {
                return (output, reported);
            }
        }
    }
}

fn kill(pidfd: &OwnedFd) {
    // SAFETY: takes numbers and a null pointer.
    unsafe { libc::syscall(libc::SYS_pidfd_send_signal, pidfd.as_raw_fd(), libc::SIGKILL, 0, 0) };
}

fn hear(listener: &OwnedFd) -> Option<(i32, u32)> {
    // SAFETY: all fields are integers; the kernel demands zeros and writes one of them.
    let mut heard: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let answer = unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut heard) };
    (answer == 0).then_some((heard.data.nr, heard.data.arch))
}

fn reap(pidfd: &OwnedFd) -> Death {
    // SAFETY: waitid writes one siginfo.
    let (code, status) = unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let id = pidfd.as_raw_fd().unsigned_abs();
        let answer = libc::waitid(libc::P_PIDFD, id, &raw mut info, libc::WEXITED | libc::__WALL);
        assert_eq!(answer, 0, "{}", nix::errno::Errno::last());
        (info.si_code, info.si_status())
    };
    if code == libc::CLD_EXITED { Death::Exited(status) } else { Death::Killed(status) }
}

fn decode(mut output: &[u8]) -> (Result<Vec<Answer>, &'static str>, bool) {
    let mut reader = frame::Reader::new(NONCE);
    let mut answers = Vec::new();
    loop {
        match reader.next(&mut output) {
            Ok(Some(frame)) => match Answer::decode(frame.kind, frame.payload) {
                Ok(answer) => answers.push(answer),
                Err(why) => return (Err(why), false),
            },
            Ok(None) => return (Ok(answers), reader.in_the_middle()),
            Err(why) => return (Err(why), false),
        }
    }
}

#[test]
fn a_text_comes_out_of_a_whole_cage() {
    let zygote = start(|_| {});
    assert!(zygote.touched_kib > 0 && zygote.touched_kib < 16 << 10, "{} KiB", zygote.touched_kib);
    let expected = Layer::ALL.iter().copied().filter(|&layer| layer != Layer::Cgroup).collect::<Layers>();
    if nix::unistd::geteuid().is_root() {
        assert_eq!(zygote.layers, expected, "{:?}", zygote.absent);
    }
    let outcome = zygote.carry_out(Format::Text, b"Plain words.", usize::MAX);
    assert_eq!(outcome.death, Death::Exited(0), "{outcome:?}");
    assert_eq!(outcome.text(), "Plain words.");
    let answers = outcome.answers.unwrap();
    assert_eq!(answers.first(), Some(&Answer::Locked(zygote.layers)));
    assert!(
        matches!(answers.last(), Some(Answer::End(end)) if end.text_bytes == 12 && end.refusal.is_none())
    );
    assert!(
        outcome.recording.mapped && outcome.recording.crash.is_none() && outcome.recording.alloc_peak > 0
    );
    assert_eq!(zygote.carry_out(Format::Text, b"", usize::MAX).death, Death::Exited(0));
}

#[test]
fn pictures_of_pages_come_out_of_the_cage_and_no_text_with_them() {
    const SCAN: &str = "%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n\
        3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R/Resources<</Font<</F 6 0 R>>/XObject<</I 5 0 R>>>>>>endobj\n\
        4 0 obj<</Length 60>>stream\nq 9 0 0 9 0 0 cm /I Do Q BT /F 1 Tf 1 1 Td (page 1) Tj ET    \nendstream endobj\n\
        5 0 obj<</Type/XObject/Subtype/Image/Width 2/Height 1/BitsPerComponent 8/ColorSpace/DeviceGray/Length 2>>stream\nab\n\
        endstream endobj\n6 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj\n\
        trailer<</Root 1 0 R/Size 7>>\nstartxref\n0\n%%EOF\n";
    let zygote = start(|_| {});
    let outcome = zygote.work(Work::Pictures, Format::Pdf, SCAN.as_bytes(), usize::MAX);
    let answers = outcome.answers.as_ref().unwrap();
    let is_picture =
        |answer: &Answer| matches!(answer, Answer::Member(head) if head.name == b"page-0001.pnm");
    assert!(answers.iter().any(is_picture), "{answers:?}");
    assert!(answers.contains(&Answer::MemberData(b"P5\n2 1\n255\nab".to_vec())), "{answers:?}");
    assert_eq!(outcome.text(), "");
    let other = zygote.work(Work::Pictures, Format::Text, b"no pages", usize::MAX);
    let Some(Answer::End(end)) = other.answers.unwrap().pop() else { panic!("it ends") };
    assert_eq!(end.refusal.map(|refusal| refusal.why), Some(Refused::Unsupported));
}

#[test]
fn an_ordinary_user_gets_all_but_the_user_change() {
    let zygote = start(|command| {
        command.uid(65534).gid(65534);
    });
    assert_eq!(
        zygote.absent.iter().map(|(layer, _)| *layer).collect::<Vec<_>>(),
        [Layer::Uid],
        "{:?}",
        zygote.absent
    );
    assert_eq!(zygote.fault("text words").text(), "words\n");
}

#[test]
fn without_namespaces_the_rest_stands_and_the_reasons_are_told() {
    let zygote = start(|command| {
        // SAFETY: one thread between fork and exec; the calls take no locks that another thread could hold.
        unsafe {
            command.pre_exec(|| {
                nix::errno::Errno::result(libc::unshare(libc::CLONE_NEWUSER))?;
                std::fs::write("/proc/sys/user/max_user_namespaces", "0")
            });
        }
    });
    let absent: Vec<_> = zygote.absent.iter().map(|(layer, _)| *layer).collect();
    assert_eq!(
        absent,
        [
            Layer::Uid,
            Layer::UserNamespace,
            Layer::NetworkNamespace,
            Layer::IpcNamespace,
            Layer::UtsNamespace,
            Layer::CgroupNamespace,
            Layer::PidNamespace,
            Layer::MountNamespace,
        ],
        "{:?}",
        zygote.absent
    );
    assert!(zygote.absent.iter().all(|(_, why)| !why.is_empty()));
    assert_eq!(zygote.fault("text words").text(), "words\n");
    assert_eq!(zygote.fault("probe capabilities").text(), "capabilities: false\n");
    let outcome = zygote.fault("syscall socket-unix");
    assert_eq!(outcome.reported.map(|(number, _)| number), Some(41));
}

#[test]
fn every_signal_comes_from_its_cause_and_is_recorded() {
    let zygote = start(|_| {});
    for (act, signal) in [
        ("signal segv", libc::SIGSEGV),
        ("signal wild-jump", libc::SIGSEGV),
        ("signal bus", libc::SIGBUS),
        ("signal ill", libc::SIGILL),
        ("signal fpe", libc::SIGFPE),
        ("signal abort", libc::SIGABRT),
        ("signal trap", libc::SIGTRAP),
        ("stack-overflow", libc::SIGSEGV),
        ("deep-frames", libc::SIGSEGV),
        ("half", libc::SIGSEGV),
        ("end-then-crash", libc::SIGSEGV),
        ("panic-twice", libc::SIGABRT),
        ("native-grow", libc::SIGSEGV),
    ] {
        let outcome = zygote.fault(act);
        assert_eq!(outcome.death, Death::Killed(signal), "{act}: {outcome:?}");
        assert_eq!(outcome.crash_signal(), Some(u64::from(signal.unsigned_abs())), "{act}");
    }
    let crash = zygote.fault("stack-overflow").recording.crash.unwrap();
    assert!(crash.address.abs_diff(crash.sp) < 64 << 10, "{crash:?}");
    assert_eq!(crash.frames.len(), 32);
}

#[test]
fn limits_are_met_and_named() {
    let zygote = start(|_| {});
    for act in ["alloc 1099511627776", "grow"] {
        let outcome = zygote.fault(act);
        assert_eq!(outcome.death, Death::Killed(libc::SIGABRT), "{act}: {outcome:?}");
        let failed = outcome.recording.alloc_failed.unwrap();
        assert_eq!(failed.why, shared::recorder::AllocFailure::Budget, "{act}");
    }
    assert_eq!(zygote.fault("mmap 1073741824").text(), "mmap 1073741824: ENOMEM\n");
    assert_eq!(zygote.fault("spin").death, Death::Killed(libc::SIGXCPU));
}

#[test]
fn panics_end_in_a_status_of_their_own() {
    let zygote = start(|_| {});
    let outcome = zygote.fault("text before\npanic three little words");
    assert_eq!(outcome.death, Death::Exited(EXIT_PANIC));
    let panic = outcome.recording.panic.unwrap();
    assert_eq!(panic.message, "three little words");
    assert!(panic.file.ends_with("crashes.rs"), "{}", panic.file);
}

#[test]
fn dangerous_calls_are_named_by_the_kernel() {
    let zygote = start(|_| {});
    for (act, number) in [
        ("syscall socket-vsock", libc::SYS_socket),
        ("syscall fork", libc::SYS_fork),
        ("syscall execve", libc::SYS_execve),
        ("syscall kill-parent", libc::SYS_kill),
        ("syscall ptrace", libc::SYS_ptrace),
        ("syscall mmap-rwx", libc::SYS_mmap),
        ("syscall mprotect-exec", libc::SYS_mprotect),
        ("syscall io_uring_setup", libc::SYS_io_uring_setup),
        ("syscall ioctl-tiocsti", libc::SYS_ioctl),
        ("syscall prctl-dumpable", libc::SYS_prctl),
        ("syscall prctl-pdeathsig", libc::SYS_prctl),
        ("syscall rt_sigaction", libc::SYS_rt_sigaction),
        ("syscall nanosleep", libc::SYS_nanosleep),
        ("raise SYS", libc::SYS_tgkill),
        ("raise STOP", libc::SYS_tgkill),
        ("mmap-shared", libc::SYS_mmap),
        ("read-fd 3", libc::SYS_read),
        ("write-fd 9", libc::SYS_write),
        ("x32", 0x4000_0027),
    ] {
        let outcome = zygote.fault(act);
        assert_eq!(outcome.death, Death::Killed(libc::SIGKILL), "{act}: {outcome:?}");
        assert_eq!(outcome.reported, Some((i32::try_from(number).unwrap(), 0xc000_003e)), "{act}");
    }
    assert_eq!(zygote.fault("int80").reported, Some((20, 0x4000_0003)));
}

#[test]
fn the_zygotes_own_calls_are_trapped_and_recorded() {
    let zygote = start(|_| {});
    for (act, number) in [
        ("syscall prlimit", libc::SYS_prlimit64),
        ("syscall seccomp", libc::SYS_seccomp),
        ("syscall sendmsg-fd", libc::SYS_sendmsg),
        ("syscall landlock_restrict_self", libc::SYS_landlock_restrict_self),
        ("syscall unknown-number", 999),
    ] {
        let outcome = zygote.fault(act);
        assert_eq!(outcome.death, Death::Exited(EXIT_TRAPPED), "{act}: {outcome:?}");
        assert_eq!(outcome.recording.crash.unwrap().syscall, number.unsigned_abs(), "{act}");
    }
}

#[test]
fn probing_is_answered_and_finds_nothing() {
    let zygote = start(|_| {});
    let probes =
        ["openat", "statx", "clone3", "environ", "fds", "dumpable", "no-new-privileges", "capabilities"];
    let outcome = zygote.fault(&probes.map(|probe| format!("probe {probe}")).join("\n"));
    assert_eq!(
        outcome.text(),
        "openat: EACCES\nstatx: ENOSYS\nclone3: ENOSYS\nenviron: 0\nfds: [0, 1, 2, 3]\ndumpable: 0\n\
         no-new-privileges: 1\ncapabilities: false\n"
    );
}

#[test]
fn sins_against_the_protocol_arrive_as_they_are() {
    let zygote = start(|_| {});
    for (act, why) in [
        ("garbage", "magic"),
        ("wrong-magic", "magic"),
        ("wrong-nonce", "nonce"),
        ("oversized", "length"),
        ("bad-payload utf8", "text_not_utf8"),
        ("bad-payload length", "decode"),
        ("bad-payload bool", "decode"),
        ("bad-payload empty", "decode"),
        ("bad-payload string", "string_too_long"),
        ("bad-payload trailing", "trailing"),
    ] {
        assert_eq!(zygote.fault(act).answers, Err(why), "{act}");
    }
    assert!(zygote.fault("half-frame").unfinished);
    let ends = |act| {
        let answers = zygote.fault(act).answers.unwrap();
        answers.iter().filter(|answer| matches!(answer, Answer::End(_))).count()
    };
    assert_eq!((ends("two-ends"), ends("no-end"), ends("after-end")), (2, 0, 1));
    assert!(!matches!(zygote.fault("no-locked").answers.unwrap().first(), Some(Answer::Locked(_))));
    for act in ["flood", "zero-flood", "member-flood", "stall", "drip 1"] {
        let document = format!("#!lazaret-fault 1\n{act}\n");
        let outcome =
            zygote.carry_out(Format::Fault, document.as_bytes(), if act == "flood" { 1 << 20 } else { 50 });
        assert_eq!(outcome.death, Death::Killed(libc::SIGKILL), "{act}");
    }
}

#[test]
fn refusals_are_honest_ends() {
    let zygote = start(|_| {});
    for (act, why) in [
        ("encrypted", Refused::Encrypted),
        ("malformed", Refused::Malformed),
        ("truncated", Refused::Truncated),
        ("unsupported", Refused::Unsupported),
        ("no such act", Refused::Malformed),
    ] {
        let outcome = zygote.fault(act);
        assert_eq!(outcome.death, Death::Exited(0));
        let refusal = match outcome.answers.unwrap().pop() {
            Some(Answer::End(end)) => end.refusal.map(|refusal| refusal.why),
            _ => None,
        };
        assert_eq!(refusal, Some(why), "{act}");
    }
}

#[test]
fn children_die_with_their_zygote() {
    let mut zygote = start(|_| {});
    let document = memfd(b"#!lazaret-fault 1\nsleep\n");
    let recorder = memfd(&[0; SIZE]);
    let (_read_end, write_end) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).unwrap();
    let ask = Ask {
        nonce: NONCE,
        work: Work::Extract,
        format: Format::Fault,
        size: 24,
        name: Vec::new(),
        limits: limits(),
        passwords: Vec::new(),
    };
    let descriptors = [document.as_raw_fd(), write_end.as_raw_fd(), recorder.as_raw_fd()];
    send(&zygote.control, &frame::encode(&Request::Spawn(ask)), &descriptors);
    let pidfd = receive(&zygote.control).1.unwrap();
    zygote.process.kill().unwrap();
    assert_eq!(reap(&pidfd), Death::Killed(libc::SIGKILL));
}

#[cfg(feature = "omit-layers")]
#[test]
fn a_layer_that_is_left_out_is_claimed_and_shows() {
    for (layer, act, shows) in [
        (Layer::Environment, "probe environ", "environ: 1\n"),
        (Layer::NotDumpable, "probe dumpable", "dumpable: 1\n"),
        (Layer::Capabilities, "probe capabilities", "capabilities: true\n"),
        (Layer::SeccompChild, "syscall landlock_restrict_self", "syscall landlock_restrict_self: EBADF\n"),
    ] {
        let zygote = start_without(Layers::NONE.with(layer), |command| {
            command.env("SECRET", "canary");
        });
        assert!(zygote.layers.has(layer), "{layer:?}");
        assert_eq!(zygote.fault(act).text(), shows, "{layer:?}");
    }
    let deaf = start_without(Layers::NONE.with(Layer::SeccompListener), |_| {});
    assert_eq!(deaf.fault("syscall socket-inet").death, Death::Killed(libc::SIGSYS));
    let open = start_without(Layers::NONE.with(Layer::SeccompZygote), |_| {});
    assert_eq!(open.fault("syscall eventfd").death, Death::Exited(0));
    let unbudgeted = start_without(Layers::NONE.with(Layer::MemoryBudget), |_| {});
    let failed = unbudgeted.fault("grow").recording.alloc_failed.unwrap();
    assert_eq!(failed.why, shared::recorder::AllocFailure::Kernel);
}
