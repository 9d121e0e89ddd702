//! The program `lazaret`.

fn main() -> std::process::ExitCode {
    supervisor::main_impl()
}
