//! The `unsafe` of this crate: a bare `fork`, which is what the cage is measured against.
#![expect(unsafe_code, reason = "fork has no safe form")]

use nix::sys::resource::{Resource, setrlimit};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, fork};

/// One `fork`, nine limits set in the child, its exit, and the wait for it.
///
/// # Panics
/// Where the machine cannot fork.
pub fn fork_limit_wait() {
    // SAFETY: the programs that call this have one thread (`floor` starts none), so the child may call anything.
    match unsafe { fork() }.expect("the machine can fork") {
        ForkResult::Child => {
            for resource in [
                Resource::RLIMIT_AS,
                Resource::RLIMIT_DATA,
                Resource::RLIMIT_STACK,
                Resource::RLIMIT_CPU,
                Resource::RLIMIT_FSIZE,
                Resource::RLIMIT_CORE,
                Resource::RLIMIT_NPROC,
                Resource::RLIMIT_NOFILE,
                Resource::RLIMIT_MEMLOCK,
            ] {
                let limit = if resource == Resource::RLIMIT_CORE { 0 } else { 1 << 30 };
                // A limit above the machine's own is refused; the price of the call is the same.
                setrlimit(resource, limit, limit).ok();
            }
            // SAFETY: ends this child at once; nothing of the parent is flushed or dropped.
            unsafe { libc::_exit(0) }
        }
        ForkResult::Parent { child } => {
            waitpid(child, None).expect("the child is ours");
        }
    }
}
