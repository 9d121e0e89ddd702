//! The worker again, under a name that the tests can find.

use sandbox_worker::memory::Budgeted;

#[global_allocator]
static ALLOCATOR: Budgeted = Budgeted;

fn main() {
    sandbox_worker::main_impl();
}
