//! What can be said on the command line. The names are a contract.

use super::exit;
use super::filter::FilterArgs;
use crate::rules::kind::{Class, Damage, Kind, Stage, State, Why};
use clap::builder::{OsStringValueParser, PossibleValue, TypedValueParser};
use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Ingests documents from places nobody vouches for: every parser runs in a sandboxed child process, and every document
/// is at every moment in exactly one recorded state.
#[derive(Debug, Parser)]
#[command(name = "lazaret", version, after_help = exit::HELP, arg_required_else_help = true)]
pub struct Args {
    #[command(flatten)]
    pub common: Common,
    #[command(subcommand)]
    pub command: Command,
}

/// What every command takes.
#[derive(Debug, Clone, ClapArgs)]
pub struct Common {
    /// The folder that holds the ledger, the index and the kept texts
    #[arg(
        long,
        global = true,
        help_heading = "For every command",
        value_name = "DIR",
        default_value = "./lazaret-state"
    )]
    pub state: PathBuf,
    /// The file with the settings
    #[arg(long, global = true, help_heading = "For every command", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// One setting, over those of the file: `limits.memory=1GiB`
    #[arg(long, global = true, help_heading = "For every command", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Ingest; prints progress, then a summary
    Run(RunArgs),
    /// One document through the sandbox, nothing stored
    Extract(ExtractArgs),
    /// The equation per source, and what is not indexed by stage and kind
    Status(StatusArgs),
    /// The documents, by source and path
    List(ListArgs),
    /// One record, with every attempt and its evidence
    Show(ShowArgs),
    /// The text that was extracted
    Text(TextArgs),
    /// Which documents say this, with snippets
    Search(SearchArgs),
    /// Requeue what is retrying, quarantined or suspect
    Retry(RetryArgs),
    /// Requeue documents in any state but excluded and deleted, no earlier result used
    Reprocess(ReprocessArgs),
    /// Source against ledger against sink, by name
    Reconcile(ReconcileArgs),
    /// Ask or steer a live run
    Ctl(CtlArgs),
    /// All errors in the settings at once; touches nothing
    Validate,
    /// Which layers of the sandbox hold here, proven by attacking them
    Doctor(DoctorArgs),
}

/// For people or for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Text,
    Json,
}

#[derive(Debug, ClapArgs)]
pub struct RunArgs {
    /// The folders to ingest; without any: all sources of the settings, else all that the ledger knows
    #[arg(value_name = "SOURCE-DIR")]
    pub sources: Vec<PathBuf>,
    /// Exit with 3 where less than this share (0 to 1) of a source is indexed
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub require_coverage: Option<f64>,
    /// Believe a listing that lost so many documents that a person has to confirm it
    #[arg(long)]
    pub accept_deletions: bool,
    /// Wait for what is due later, and go on until nothing is
    #[arg(long)]
    pub until_settled: bool,
    /// How the summary is printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

#[derive(Debug, ClapArgs)]
pub struct ExtractArgs {
    /// The document
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// For people, or for programs
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

#[derive(Debug, ClapArgs)]
pub struct StatusArgs {
    /// Exit with 3 where less than this share (0 to 1) of a source is indexed
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub require_coverage: Option<f64>,
    /// For people, or for programs
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// How documents are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ListFormat {
    Table,
    Jsonl,
    Csv,
}

#[derive(Debug, ClapArgs)]
pub struct ListArgs {
    /// At most so many documents
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// For people, or for programs
    #[arg(long, value_enum, default_value_t = ListFormat::Table)]
    pub format: ListFormat,
    #[command(flatten)]
    pub filter: FilterArgs,
}

#[derive(Debug, ClapArgs)]
pub struct ShowArgs {
    /// An id, at least 4 digits that only one id begins with, or a path as `list` shows it
    #[arg(value_name = "DOC", value_parser = as_shown())]
    pub doc: String,
    /// For people, or for programs
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

#[derive(Debug, ClapArgs)]
pub struct TextArgs {
    /// An id, at least 4 digits that only one id begins with, or a path as `list` shows it
    #[arg(value_name = "DOC", value_parser = as_shown())]
    pub doc: String,
}

/// How hits are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SearchFormat {
    Text,
    Json,
    Jsonl,
}

#[derive(Debug, ClapArgs)]
pub struct SearchArgs {
    /// Words and "phrases", all of which must occur
    #[arg(value_name = "QUERY", required = true)]
    pub query: Vec<String>,
    /// At most so many documents
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub limit: u32,
    /// For people, or for programs
    #[arg(long, value_enum, default_value_t = SearchFormat::Text)]
    pub format: SearchFormat,
}

/// How documents that are requeued are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum NamesFormat {
    Text,
    Jsonl,
}

#[derive(Debug, ClapArgs)]
pub struct RequeueArgs {
    /// All of them: needed where no filter is given
    #[arg(long)]
    pub all: bool,
    /// Change nothing; count and name what would be requeued
    #[arg(long)]
    pub dry_run: bool,
    /// For people, or for programs
    #[arg(long, value_enum, default_value_t = NamesFormat::Text)]
    pub format: NamesFormat,
    #[command(flatten)]
    pub filter: FilterArgs,
}

#[derive(Debug, ClapArgs)]
pub struct RetryArgs {
    #[command(flatten)]
    pub requeue: RequeueArgs,
}

#[derive(Debug, ClapArgs)]
pub struct ReprocessArgs {
    /// Only what was made under a stage version that is no longer current
    #[arg(long)]
    pub stale: bool,
    #[command(flatten)]
    pub requeue: RequeueArgs,
}

/// How drift is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DriftFormat {
    Text,
    Json,
    Jsonl,
}

#[derive(Debug, ClapArgs)]
pub struct ReconcileArgs {
    /// Only these sources, by name or folder; without any: all that the ledger knows
    #[arg(value_name = "SOURCE", value_parser = as_shown())]
    pub sources: Vec<String>,
    /// Remove texts without a record, make due what is indexed without a text, record items without a record; nothing else
    #[arg(long)]
    pub repair: bool,
    /// For people, or for programs
    #[arg(long, value_enum, default_value_t = DriftFormat::Text)]
    pub format: DriftFormat,
}

#[derive(Debug, ClapArgs)]
pub struct CtlArgs {
    #[command(subcommand)]
    pub command: CtlCommand,
}

#[derive(Debug, Clone, Copy, Subcommand)]
pub enum CtlCommand {
    /// Where the run stands
    Status(CtlFormatArgs),
    /// Take up nothing new; what is in flight is finished
    Pause(CtlFormatArgs),
    /// Go on after a pause
    Resume(CtlFormatArgs),
    /// Finish what is in flight, then end, as after Ctrl-C
    Drain(CtlFormatArgs),
}

#[derive(Debug, Clone, Copy, ClapArgs)]
pub struct CtlFormatArgs {
    /// For people, or for programs
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

#[derive(Debug, ClapArgs)]
pub struct DoctorArgs {
    /// For people, or for programs
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// A word that need not be UTF-8: a path as it is shown.
fn as_shown() -> impl TypedValueParser<Value = String> {
    OsStringValueParser::new().map(|word| word.to_string_lossy().into_owned())
}

fn share(text: &str) -> Result<f64, String> {
    let share: f64 = text.parse().map_err(|_| "a number between 0 and 1".to_owned())?;
    if (0.0..=1.0).contains(&share) { Ok(share) } else { Err("a number between 0 and 1".to_owned()) }
}

/// The product's words as the values of an option.
macro_rules! values {
    ($($word:ident),*) => {$(
        impl ValueEnum for $word {
            fn value_variants<'a>() -> &'a [Self] {
                $word::ALL
            }

            fn to_possible_value(&self) -> Option<PossibleValue> {
                Some(PossibleValue::new(self.name()))
            }
        }
    )*};
}

values!(State, Why, Class, Kind, Stage, Damage);

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parse(words: &str) -> Result<Args, clap::Error> {
        Args::try_parse_from(std::iter::once("lazaret").chain(words.split(' ')))
    }

    #[test]
    fn the_definition_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn the_words_of_the_contract_are_understood() {
        let args = parse("run a b --require-coverage 0.98 --accept-deletions --state s --set limits.cpu=1s")
            .unwrap();
        assert_eq!(args.common.state, PathBuf::from("s"));
        assert_eq!(args.common.set, ["limits.cpu=1s"]);
        let Command::Run(run) = args.command else { panic!("{args:?}") };
        assert_eq!((run.sources.len(), run.require_coverage, run.accept_deletions), (2, Some(0.98), true));

        let args = parse(
            "list --state-is quarantined --class corrupt --kind time.wall --stage extract --format csv",
        );
        let Command::List(list) = args.unwrap().command else { panic!() };
        let filter = (list.filter.state_is, list.filter.kind);
        assert_eq!(filter, (Some(State::Quarantined), Some(Kind::TimeWall)));
        assert_eq!(list.format, ListFormat::Csv);

        assert_eq!(parse("status").unwrap().common.state, PathBuf::from("./lazaret-state"));
        for good in [
            "status --format json",
            "show abcd --format json",
            "text a/b.pdf",
            "validate --config x",
            "ctl status --format json",
            "doctor",
            "extract f --format json",
            "search foo bar --limit 3",
            "retry --all --dry-run --format jsonl",
            "retry --why gave_up --since 2d --errno eacces --id abcd",
            "reprocess --stale --format-is pdf --version extract=1 --min-size 1MiB --max-size 2MiB",
            "reconcile a b --repair --format json",
            "ctl pause",
            "ctl resume --format json",
            "ctl drain",
            "status --require-coverage 0.5",
            "list --path a/** --hostile --damage source --fingerprint 0aF --limit 1",
            "list --first-failed-before 2026-01-31",
        ] {
            assert!(parse(good).is_ok(), "{good}");
        }
    }

    #[test]
    fn what_is_not_there_is_not_offered() {
        for bad in [
            "retry --stale",
            "ctl stop",
            "list --path [",
            "list --id xyz1",
            "list --since tomorrow",
            "list --format-is text/plain",
            "list --version fetch",
            "list --fingerprint zebra",
            "list --min-size big",
            "reconcile --format csv",
            "run --require-coverage 1.5",
            "search x --limit 0",
            "list --state-is fine",
            "status --format csv",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_help_tells_the_exit_codes() {
        let help = Args::command().render_help().to_string();
        assert!(help.contains("130  interrupted and drained"), "{help}");
    }
}
