//! The sandboxed worker of lazaret; started by it, never by hand.

use sandbox_worker::memory::Budgeted;

#[global_allocator]
static ALLOCATOR: Budgeted = Budgeted;

fn main() {
    sandbox_worker::main_impl();
}
