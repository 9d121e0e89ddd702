//! The program `lazaret`, built with the points at which a test can make it die.

fn main() -> std::process::ExitCode {
    supervisor::main_impl()
}
