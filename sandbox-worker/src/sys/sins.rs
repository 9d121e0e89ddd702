//! What the fault language does that no safe code can: the real causes of signals, and forbidden system calls.
//!
//! Every function here harms this process on purpose. Only the faults module calls them, in a child, and only where
//! the supervisor's settings allow the fault language at all.

use nix::errno::Errno;
use std::arch::asm;

/// Reads from address 0.
pub(crate) fn null_read() {
    // SAFETY: faults on purpose; the process does not go on.
    unsafe { asm!("mov {0}, qword ptr [{1}]", out(reg) _, in(reg) 0_u64) };
}

/// Jumps to an address where there is no code.
pub(crate) fn wild_jump() -> ! {
    // SAFETY: faults on purpose; the process does not go on.
    unsafe { asm!("jmp {0}", in(reg) 0x4141_4141_u64, options(noreturn)) }
}

/// Reads a word across its alignment after asking the processor to mind that.
pub(crate) fn unaligned_read() {
    // SAFETY: faults on purpose; the process does not go on.
    unsafe {
        asm!(
            "pushfq",
            "or qword ptr [rsp], 0x40000",
            "popfq",
            "mov {0}, qword ptr [rsp + 1]",
            out(reg) _,
        );
    };
}

/// Runs an instruction that is none.
pub(crate) fn illegal_instruction() {
    // SAFETY: faults on purpose; the process does not go on.
    unsafe { asm!("ud2") };
}

/// Divides by zero as the processor does it.
pub(crate) fn divide_by_zero() {
    // SAFETY: faults on purpose; the process does not go on.
    unsafe {
        asm!("xor edx, edx", "mov eax, 1", "xor ecx, ecx", "idiv ecx", out("eax") _, out("ecx") _, out("edx") _);
    }
}

/// Meets a breakpoint that nobody set.
pub(crate) fn breakpoint() {
    // SAFETY: faults on purpose; the process does not go on.
    unsafe { asm!("int3") };
}

/// Calls `getpid` through the door for 32-bit programs.
pub(crate) fn through_int80() -> i64 {
    let answer: i64;
    // SAFETY: getpid takes no memory; the registers that the kernel may change are named.
    unsafe {
        asm!("int 0x80", inlateout("rax") 20_i64 => answer, out("r8") _, out("r9") _, out("r10") _, out("r11") _);
    };
    answer
}

/// The default death by SIGABRT.
pub(crate) fn abort() -> ! {
    std::process::abort()
}

/// What `malloc` of the C library gives, written to: false where it gives nothing.
pub(crate) fn native_block(bytes: usize) -> bool {
    // SAFETY: the block is written within its length and never freed.
    unsafe {
        let block = libc::malloc(bytes);
        if block.is_null() {
            return false;
        }
        std::ptr::write_bytes(block, 1, bytes);
        true
    }
}

/// Takes native blocks until there are none, and uses the last answer unseen, as careless native code does.
pub(crate) fn native_growth() {
    while native_block(1 << 20) {}
    null_read();
}

/// Maps anonymous memory and writes to it.
///
/// # Errors
/// The kernel's.
pub(crate) fn map_anonymous(bytes: usize, shared: bool) -> Result<(), Errno> {
    let kind = if shared { libc::MAP_SHARED } else { libc::MAP_PRIVATE };
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the kernel chooses an unused range; it is written within its length and never unmapped.
    unsafe {
        let base = libc::mmap(std::ptr::null_mut(), bytes, protection, kind | libc::MAP_ANONYMOUS, -1, 0);
        if base == libc::MAP_FAILED {
            return Err(Errno::last());
        }
        std::ptr::write_bytes(base.cast::<u8>(), 1, bytes);
    }
    Ok(())
}

/// An argument of a forbidden call.
#[derive(Debug, Clone, Copy)]
enum Argument {
    Number(i64),
    /// A path that is there on every machine.
    Path,
    /// 256 zero bytes.
    Zeros,
}

use Argument::{Number as N, Path as P, Zeros as Z};

/// A forbidden call: its name in the fault language, its number, its arguments.
type Forbidden = (&'static str, i64, &'static [Argument]);

const ABORTS_NOTHING: i64 = 0;

const FORBIDDEN: &[Forbidden] = &[
    ("openat", libc::SYS_openat, &[N(-100), P, N(0)]),
    ("statx", libc::SYS_statx, &[N(-100), P, N(0), N(0x7ff), Z]),
    ("clone3", libc::SYS_clone3, &[Z, N(88)]),
    ("socket-inet", libc::SYS_socket, &[N(2), N(1), N(0)]),
    ("socket-unix", libc::SYS_socket, &[N(1), N(1), N(0)]),
    ("socket-netlink", libc::SYS_socket, &[N(16), N(3), N(0)]),
    ("socket-vsock", libc::SYS_socket, &[N(40), N(1), N(0)]),
    ("socket-alg", libc::SYS_socket, &[N(38), N(5), N(0)]),
    ("socket-packet", libc::SYS_socket, &[N(17), N(3), N(0)]),
    ("connect", libc::SYS_connect, &[N(3), Z, N(16)]),
    ("fork", libc::SYS_fork, &[]),
    ("vfork", libc::SYS_vfork, &[]),
    ("clone", libc::SYS_clone, &[N(17), N(0), N(0), N(0), N(0)]),
    ("kill-parent", libc::SYS_kill, &[N(1), N(ABORTS_NOTHING)]),
    ("kill-all", libc::SYS_kill, &[N(-1), N(ABORTS_NOTHING)]),
    ("kill-self", libc::SYS_kill, &[N(0), N(9)]),
    ("ptrace", libc::SYS_ptrace, &[N(16), N(1), N(0), N(0)]),
    ("process_vm_readv", libc::SYS_process_vm_readv, &[N(1), Z, N(1), Z, N(1), N(0)]),
    ("execve", libc::SYS_execve, &[P, N(0), N(0)]),
    ("execveat", libc::SYS_execveat, &[N(3), P, N(0), N(0), N(0)]),
    ("mmap-rwx", libc::SYS_mmap, &[N(0), N(4096), N(7), N(0x22), N(-1), N(0)]),
    ("mprotect-exec", libc::SYS_mprotect, &[N(0), N(4096), N(5)]),
    ("shmget", libc::SYS_shmget, &[N(0), N(4096), N(0o1600)]),
    ("mq_open", libc::SYS_mq_open, &[P, N(0o100), N(0o600), N(0)]),
    ("io_uring_setup", libc::SYS_io_uring_setup, &[N(1), Z]),
    ("userfaultfd", libc::SYS_userfaultfd, &[N(1)]),
    ("bpf", libc::SYS_bpf, &[N(0), Z, N(64)]),
    ("perf_event_open", libc::SYS_perf_event_open, &[Z, N(0), N(-1), N(-1), N(0)]),
    ("keyctl", libc::SYS_keyctl, &[N(0), N(-3), N(0)]),
    ("add_key", libc::SYS_add_key, &[P, P, Z, N(8), N(-2)]),
    ("inotify_init", libc::SYS_inotify_init1, &[N(0)]),
    ("fanotify_init", libc::SYS_fanotify_init, &[N(0), N(0)]),
    ("timerfd_create", libc::SYS_timerfd_create, &[N(1), N(0)]),
    ("eventfd", libc::SYS_eventfd2, &[N(0), N(0)]),
    ("epoll_create", libc::SYS_epoll_create1, &[N(0)]),
    ("memfd_create", libc::SYS_memfd_create, &[P, N(0)]),
    ("ioctl-tiocsti", libc::SYS_ioctl, &[N(0), N(0x5412), Z]),
    ("prctl-dumpable", libc::SYS_prctl, &[N(4), N(1), N(0), N(0), N(0)]),
    ("prctl-pdeathsig", libc::SYS_prctl, &[N(1), N(0), N(0), N(0), N(0)]),
    ("prctl-seccomp", libc::SYS_prctl, &[N(22), N(1), N(0), N(0), N(0)]),
    ("prlimit", libc::SYS_prlimit64, &[N(0), N(9), Z, N(0)]),
    ("setrlimit", libc::SYS_setrlimit, &[N(9), Z]),
    ("sched_setaffinity", libc::SYS_sched_setaffinity, &[N(0), N(8), Z]),
    ("setpriority", libc::SYS_setpriority, &[N(0), N(0), N(5)]),
    ("seccomp", libc::SYS_seccomp, &[N(1), N(0), Z]),
    ("landlock_restrict_self", libc::SYS_landlock_restrict_self, &[N(4), N(0)]),
    ("unshare", libc::SYS_unshare, &[N(0x1000_0000)]),
    ("mount", libc::SYS_mount, &[P, P, P, N(0), N(0)]),
    ("chroot", libc::SYS_chroot, &[P]),
    ("pivot_root", libc::SYS_pivot_root, &[P, P]),
    ("setns", libc::SYS_setns, &[N(3), N(0)]),
    ("pidfd_open", libc::SYS_pidfd_open, &[N(1), N(0)]),
    ("kcmp", libc::SYS_kcmp, &[N(1), N(1), N(0), N(0), N(0)]),
    ("personality", libc::SYS_personality, &[N(0x0008_0000)]),
    ("rt_sigaction", libc::SYS_rt_sigaction, &[N(11), Z, N(0), N(8)]),
    ("sendmsg-fd", libc::SYS_sendmsg, &[N(3), Z, N(0)]),
    ("nanosleep", libc::SYS_nanosleep, &[Z, N(0)]),
    ("unknown-number", 999, &[]),
    ("x32", 0x4000_0027, &[]),
];

/// Makes the forbidden call of that name: what it answered, or nothing where there is no such name.
pub(crate) fn forbidden_call(name: &str) -> Option<Result<i64, Errno>> {
    let &(_, number, arguments) = FORBIDDEN.iter().find(|(other, ..)| *other == name)?;
    Some(call(number, arguments))
}

/// The names of all forbidden calls.
#[cfg(test)]
pub(crate) fn forbidden_names() -> impl Iterator<Item = &'static str> {
    FORBIDDEN.iter().map(|(name, ..)| *name)
}

fn call(number: i64, arguments: &[Argument]) -> Result<i64, Errno> {
    let mut zeros = [0_u8; 256];
    let mut words = [0_i64; 6];
    for (word, argument) in words.iter_mut().zip(arguments) {
        *word = match argument {
            Argument::Number(value) => *value,
            Argument::Path => c"/etc/passwd".as_ptr().addr().cast_signed() as i64,
            Argument::Zeros => zeros.as_mut_ptr().addr().cast_signed() as i64,
        };
    }
    let [a, b, c, d, e, f] = words;
    // SAFETY: the filter stops it; where a layer was left out for a test, it changes this process alone, which
    // exists for that. Buffers are zeros that live until the call returns.
    let answer = Errno::result(unsafe { libc::syscall(number, a, b, c, d, e, f) });
    if answer == Ok(0) && [libc::SYS_fork, libc::SYS_vfork, libc::SYS_clone].contains(&number) {
        super::exit(0);
    }
    answer
}

/// Sends this process a signal the way `raise` does.
pub(crate) fn raise(signal: i32) -> Result<(), Errno> {
    // SAFETY: takes numbers, no memory.
    Errno::result(unsafe { libc::raise(signal) }).map(drop)
}

/// Reads a byte from a descriptor.
pub(crate) fn read_from(descriptor: i32) -> Result<i64, Errno> {
    let mut byte = 0_u8;
    // SAFETY: one byte that lives until the call returns.
    Errno::result(unsafe { libc::syscall(libc::SYS_read, descriptor, &raw mut byte, 1_usize) })
}

/// Writes a byte to a descriptor.
pub(crate) fn write_to(descriptor: i32) -> Result<i64, Errno> {
    // SAFETY: one byte that lives until the call returns.
    Errno::result(unsafe { libc::syscall(libc::SYS_write, descriptor, c"x".as_ptr(), 1_usize) })
}

/// Whether a descriptor is open.
pub(crate) fn is_open(descriptor: i32) -> bool {
    // SAFETY: takes numbers, no memory.
    unsafe { libc::fcntl(descriptor, libc::F_GETFD) >= 0 }
}

/// Asks about this process by `prctl`.
pub(crate) fn question(option: i32) -> Result<i64, Errno> {
    // SAFETY: these questions answer by their result and take no memory.
    Errno::result(unsafe { libc::syscall(libc::SYS_prctl, option, 0, 0, 0, 0) })
}

/// Waits on a word that nobody changes; at most `milliseconds` where given.
pub(crate) fn wait(milliseconds: Option<u64>) {
    let word = 0_u32;
    let time = milliseconds.map(|milliseconds| libc::timespec {
        tv_sec: i64::try_from(milliseconds / 1000).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(milliseconds % 1000 * 1_000_000).unwrap_or(0),
    });
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: word and time live until the call returns.
    unsafe {
        libc::syscall(libc::SYS_futex, &raw const word, libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG, 0, time)
    };
}
