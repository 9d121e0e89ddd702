//! How long questions take over a ledger of a million records: `million [RECORDS] [FOLDER]` makes one in FOLDER (kept; a
//! scratch folder without it) unless it is there, then asks the program, in processes of their own, and prints milliseconds.
//!
//! The program is the one that is built beside this one: `cargo build --release --workspace && target/release/million`.
//! Nothing here passes or fails.
#![expect(clippy::print_stdout, reason = "its output is what it is for")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

const ROUNDS: usize = 7;

/// What is asked.
const QUESTIONS: &[&[&str]] = &[
    &["status"],
    &["status", "--format", "json"],
    &["list", "--state-is", "quarantined", "--kind", "crash.segv", "--stage", "extract"],
    &["list", "--state-is", "retrying", "--kind", "time.wall", "--stage", "extract", "--limit", "100"],
    &["list", "--kind", "parse.encrypted", "--limit", "100"],
    &["list", "--limit", "100"],
    &["list", "--path", "department-0007/**", "--format", "jsonl"],
    &["retry", "--kind", "memory.limit", "--dry-run"],
];

fn main() {
    let mut words = std::env::args().skip(1);
    let records = words.next().and_then(|word| word.parse().ok()).unwrap_or(1_000_000);
    let kept = words.next().map(PathBuf::from);
    let scratch = std::env::temp_dir().join(format!("lazaret-million-{}", std::process::id()));
    let state = kept.clone().unwrap_or_else(|| scratch.clone());
    if !state.join("ledger.sqlite").exists() {
        let began = Instant::now();
        tests::million::fill(&state, records).expect("the ledger can be made");
        println!("{records} records made in {} s", began.elapsed().as_secs());
    }
    for question in QUESTIONS {
        let mut times: Vec<f64> = (0..ROUNDS).map(|_| ask(&state, question)).collect();
        times.sort_by(f64::total_cmp);
        let (least, middle, most) = (times[0], times[ROUNDS / 2], times[ROUNDS - 1]);
        println!("{middle:8.1} ms   ({least:.1} to {most:.1})   lazaret {}", question.join(" "));
    }
    if kept.is_none() {
        std::fs::remove_dir_all(scratch).expect("it is ours");
    }
}

/// Milliseconds from the start of the program to its end.
fn ask(state: &Path, question: &[&str]) -> f64 {
    let program =
        std::env::current_exe().expect("a running program has a path").with_file_name("lazaret-under-test");
    let began = Instant::now();
    let status =
        Command::new(program).args(question).arg("--state").arg(state).stdout(Stdio::null()).status();
    assert!(status.expect("the program starts").success(), "{question:?}");
    began.elapsed().as_secs_f64() * 1000.0
}
