//! The crash handlers: they note what happened in the recorder page and let the signal do its work.
//!
//! Put up once, by the zygote: children inherit them, and the alternative stack too. They stand over the standard
//! library's, which turns a stack overflow into an abort. There is none for SIGXCPU: it comes from outside of the
//! code, its handler would have to raise it anew, and the filter allows no signal but SIGABRT.

use super::page::word;
use super::process;
use nix::errno::Errno;
use shared::recorder::{EXIT_TRAPPED, FRAMES_MAX, offset};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const STACK_SIZE: usize = 64 << 10;
const WALK_MAX: u64 = 1 << 20;

static STACK_LOW: AtomicU64 = AtomicU64::new(0);
static STACK_TOP: AtomicU64 = AtomicU64::new(0);

/// Tells the handlers where the stack of the parser lies.
pub(crate) fn set_stack_bounds(lowest: u64, top: u64) {
    STACK_LOW.store(lowest, Relaxed);
    STACK_TOP.store(top, Relaxed);
}

/// Puts the handlers up, on a stack of their own.
///
/// # Errors
/// The kernel's.
pub(crate) fn install_handlers() -> Result<(), Errno> {
    let stack = Box::leak(vec![0_u8; STACK_SIZE].into_boxed_slice());
    let alternative = libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: STACK_SIZE };
    // SAFETY: the memory is leaked, so it stays a stack for ever.
    Errno::result(unsafe { libc::sigaltstack(&raw const alternative, std::ptr::null_mut()) })?;
    for signal in
        [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT, libc::SIGSYS, libc::SIGTRAP]
    {
        // SAFETY: all fields are integers, for which zero is a value.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = on_crash as *const () as usize;
        // After the first the default is back: the instruction that failed fails again, and the process dies by it.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESETHAND | libc::SA_NODEFER;
        // SAFETY: the handler has the signature that SA_SIGINFO asks for and does only what a handler may.
        Errno::result(unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) })?;
    }
    Ok(())
}

fn note(offset: usize, value: u64) {
    word(offset).store(value.to_le(), Relaxed);
}

extern "C" fn on_crash(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // Where the parser asked the processor to mind alignment, the handler would fault over its own unaligned words.
    // SAFETY: clears one flag of the processor; the context puts the parser's own back.
    unsafe { std::arch::asm!("pushfq", "and qword ptr [rsp], ~0x40000", "popfq") };
    // SAFETY: the kernel gives a handler with SA_SIGINFO a siginfo and a ucontext that live until it returns.
    let (info, context) = unsafe { (&*info, &mut *context.cast::<libc::ucontext_t>()) };
    let [pc, sp, fp] = registers(context);
    note(offset::CRASH_SIGNAL, u64::from(signal.unsigned_abs()));
    note(offset::CRASH_CODE, i64::from(info.si_code).cast_unsigned());
    note(offset::CRASH_PC, pc);
    note(offset::CRASH_SP, sp);
    note(offset::STACK_LOW, STACK_LOW.load(Relaxed));
    if signal == libc::SIGSYS {
        let (number, arch) = trapped_call(info);
        note(offset::SYSCALL_NR, number);
        note(offset::SYSCALL_ARCH, arch);
    } else {
        // SAFETY: every other signal here is one for which the kernel fills the address in.
        note(offset::CRASH_ADDRESS, unsafe { info.si_addr() }.addr() as u64);
    }
    note(offset::CRASHED, 1);
    note(offset::FRAME_COUNT, walk(sp, fp));
    if signal == libc::SIGSYS {
        process::exit(EXIT_TRAPPED);
    }
    if signal == libc::SIGTRAP && info.si_code == SI_KERNEL {
        repeat_breakpoint(context);
    }
}

const SI_KERNEL: libc::c_int = 0x80;

/// Number and architecture of the call that the filter trapped.
fn trapped_call(info: &libc::siginfo_t) -> (u64, u64) {
    #[repr(C)]
    struct Trapped {
        header: [libc::c_int; 4],
        address: usize,
        number: libc::c_int,
        arch: libc::c_uint,
    }
    // SAFETY: for SIGSYS the kernel fills the siginfo in with this layout, and it is shorter than a siginfo.
    let trapped = unsafe { &*(&raw const *info).cast::<Trapped>() };
    (u64::from(trapped.number.cast_unsigned()), u64::from(trapped.arch))
}

fn registers(context: &libc::ucontext_t) -> [u64; 3] {
    [libc::REG_RIP, libc::REG_RSP, libc::REG_RBP].map(|register| {
        usize::try_from(register)
            .ok()
            .and_then(|register| context.uc_mcontext.gregs.get(register))
            .map_or(0, |value| value.cast_unsigned())
    })
}

/// A breakpoint is behind the program counter when the handler runs: it must be met again to end the process.
fn repeat_breakpoint(context: &mut libc::ucontext_t) {
    if let Ok(register) = usize::try_from(libc::REG_RIP)
        && let Some(pc) = context.uc_mcontext.gregs.get_mut(register)
    {
        *pc -= 1;
    }
}

/// Walks the chain of frame pointers, never outside of the part of the main stack that is in use.
fn walk(sp: u64, mut fp: u64) -> u64 {
    let top = STACK_TOP.load(Relaxed);
    let low = STACK_LOW.load(Relaxed);
    // A stack pointer that overflowed lies a little below the stack.
    if sp.saturating_add(WALK_MAX) < low || sp >= top {
        return 0;
    }
    let mut lowest = sp;
    let last = top.min(lowest.saturating_add(WALK_MAX)).saturating_sub(16);
    let mut count = 0;
    while count < FRAMES_MAX && fp >= lowest && fp <= last && fp.is_multiple_of(8) {
        let Ok(address) = usize::try_from(fp) else { break };
        let frame = std::ptr::with_exposed_provenance::<[u64; 2]>(address);
        // SAFETY: aligned, and between the stack pointer and the top of the main stack. Other code of this thread may
        // own it, but none runs while its handler does. Where a forged chain leads to a page that is not there, the
        // process dies by the signal that it is dying by; what happened is noted already.
        let [next, back] = unsafe { frame.read_volatile() };
        note(offset::FRAMES + 8 * count, back);
        count += 1;
        lowest = fp + 1;
        fp = next;
    }
    count as u64
}
