//! The command line: reads it, calls what it names, and turns the outcome into an exit code. No decision about documents
//! is made here.

mod args;
mod coverage;
mod ctl;
mod doctor;
mod error;
mod exit;
mod extract;
mod filter;
mod list;
mod moment;
mod open;
mod reconcile;
mod requeue;
mod run;
mod search;
mod settings;
mod show;
mod status;
mod text;
mod threads;
mod validate;

#[cfg(test)]
mod tests;

pub use args::{Args, Command, Common};
pub use error::{Cause, CliError};
pub use exit::Exit;

use crate::report::Printer;
use clap::Parser;
use std::process::ExitCode;

/// What a command ends with.
pub type Outcome = Result<Exit, CliError>;

/// The program.
pub fn main_impl() -> ExitCode {
    crate::sys::few_heaps();
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            // Where no one can be told, the code still tells.
            drop(error.print());
            return if error.use_stderr() { Exit::Usage.into() } else { Exit::Completed.into() };
        }
    };
    log_to_stderr();
    let mut printer = Printer::standard();
    let outcome = dispatch(args, &mut printer).and_then(|exit| {
        printer.flush()?;
        Ok(exit)
    });
    match outcome {
        Ok(exit) => exit.into(),
        Err(error) => {
            // What came out before the error belongs before it.
            drop(printer.flush());
            error.print(&mut printer);
            error.exit().into()
        }
    }
}

fn dispatch(args: Args, printer: &mut Printer) -> Outcome {
    let common = args.common;
    match args.command {
        Command::Run(args) => run::run(&common, &args, printer),
        Command::Extract(args) => extract::run(&common, &args, printer),
        Command::Status(args) => status::run(&common, &args, printer),
        Command::List(args) => list::run(&common, &args, printer),
        Command::Show(args) => show::run(&common, &args, printer),
        Command::Text(args) => text::run(&common, &args, printer),
        Command::Search(args) => search::run(&common, &args, printer),
        Command::Retry(args) => requeue::retry(&common, &args, printer),
        Command::Reprocess(args) => requeue::reprocess(&common, &args, printer),
        Command::Reconcile(args) => reconcile::run(&common, &args, printer),
        Command::Ctl(args) => ctl::run(&common, &args, printer),
        Command::Validate => validate::run(&common, printer),
        Command::Doctor(args) => doctor::run(&common, &args, printer),
    }
}

/// Ends the program without a drop more of work: for whoever says so twice.
#[expect(clippy::exit, reason = "the second signal means now; the next run finds what was in hand")]
fn leave_at_once(code: u8) {
    std::process::exit(code.into());
}

/// Warnings of the libraries and our own, for whoever looks after the program. `LAZARET_LOG` sets how much.
fn log_to_stderr() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("LAZARET_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("error,supervisor=warn"));
    let subscriber =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false);
    // Only a second call fails, and then there is a log already.
    drop(subscriber.try_init());
}
