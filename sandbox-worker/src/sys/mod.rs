//! Every `unsafe` block of this crate, behind safe functions: calls that neither std nor nix has, the page that is
//! shared with the supervisor, the allocator, the crash handlers and the sins of the fault language.
//!
//! Nothing here decides anything: the order of calls is the zygote's, the child's and the jail's. One invariant
//! holds most of the notes up: this process has a single thread (checked by the zygote before it serves), so that a
//! fork may be followed by any code and plain loads and stores of atomics do not race.
#![expect(unsafe_code, reason = "this is the one place for it")]

mod allocator;
mod command;
mod filter;
mod mapping;
mod page;
mod process;
mod signals;
mod sins;
mod socket;

pub use allocator::Budgeted;

pub(crate) use command::{
    close_on_exec_from, deny_write_execute, execute, execute_file, ignore_aborts, make_read_only, place,
    plain_signals, write_execute_can_be_denied,
};
pub(crate) use filter::{BpfInstruction, BpfProgram, install_filter, landlock_abi, landlock_restrict};
pub(crate) use mapping::{map_document, map_page};
pub(crate) use page::word;
pub(crate) use process::{
    Fork, Kin, clear_environment, close_from, code_base, drop_capabilities, duplicate_to, environment_size,
    exit, file_size, fork, fork_beside, fork_into, has_capabilities, ignore_child_ends, limit, listener_gone,
    look_into, own_id, send_all, set_securebits, set_stack_bounds_of, sleep_for_ever, tune_malloc,
};
pub(crate) use signals::install_handlers;
#[cfg(test)]
pub(crate) use sins::forbidden_names;
pub(crate) use sins::{
    abort, breakpoint, divide_by_zero, forbidden_call, illegal_instruction, is_open, map_anonymous,
    native_block, native_growth, null_read, question, raise, read_from, through_int80, unaligned_read, wait,
    wild_jump, write_to,
};
pub(crate) use socket::{MessageError, adopt_control, receive, send};
