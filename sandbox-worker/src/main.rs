//! The sandboxed worker of lazaret; started by it, never by hand.

fn main() {
    sandbox_worker::main_impl();
}
