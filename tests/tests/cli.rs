//! What a person or a program reads at the command line: help, summary, tables, errors, and the keys of the contract.

use serde_json::Value;
use std::process::Stdio;
use std::time::Duration;
use tests::{Programs, Said, Scratch, manifest};

const PROGRAMS: Programs = tests::programs!();

/// Rows of `show` that are another in each run.
const CHANGING: [&str; 10] = [
    "oldest failure",
    "modified",
    "first seen",
    "first failed",
    "last attempt",
    "started",
    "ended",
    "cost",
    "layers",
    "sha256",
];

/// Over the fixtures as a source with a name of its own, so that ids and paths are the same everywhere.
fn over_the_fixtures() -> (Scratch, Said) {
    let scratch = Scratch::new(PROGRAMS);
    let settings = scratch.path.join("lazaret.toml");
    let files = manifest::files();
    let connector =
        format!("[[connector]]\nname = \"fixtures\"\nkind = \"folder\"\npath = \"{}\"\n", files.display());
    std::fs::write(&settings, connector).expect("the settings can be written");
    let said =
        scratch.call(&["run", "--config", settings.to_str().expect("scratch paths are UTF-8")]).ended(0);
    (scratch, said)
}

/// Without what is another in each run.
fn steady(text: &str, scratch: &Scratch) -> String {
    let rate = |line: &str| line.contains(" carried in ") || line.starts_with("Last run: ");
    let changing = |line: &str| {
        CHANGING.iter().any(|row| line.strip_prefix("  ").is_some_and(|rest| rest.starts_with(row)))
    };
    let lines: Vec<&str> = text.lines().filter(|line| !rate(line) && !changing(line)).collect();
    lines.join("\n").replace(scratch.path.to_str().expect("scratch paths are UTF-8"), "[SCRATCH]")
}

/// Each command with its exit status and all that it says.
fn transcript(scratch: &Scratch, commands: &[&[&str]]) -> String {
    let mut out = String::new();
    for words in commands {
        let said = scratch.call(words);
        let told = steady(&format!("{}{}", said.stdout, said.stderr), scratch);
        let shown = steady(&words.join(" "), scratch);
        out.extend(["$ lazaret ", &shown, "\n", &told, "\n[", &said.status.to_string(), "]\n\n"]);
    }
    out
}

fn keys(object: &Value) -> Vec<&str> {
    object.as_object().expect("an object").keys().map(String::as_str).collect()
}

const RECORD: [&str; 29] = [
    "id",
    "source",
    "path",
    "path_bytes",
    "parent",
    "state",
    "why",
    "class",
    "kind",
    "stage",
    "message",
    "hostile",
    "format",
    "media_type",
    "size",
    "sha256",
    "mtime",
    "attempts",
    "first_seen",
    "first_failed",
    "last_attempt",
    "next_attempt",
    "pipeline",
    "damage",
    "same_as",
    "in_sink",
    "text",
    "usage",
    "evidence",
];

#[test]
fn the_help_of_each_command() {
    let scratch = Scratch::new(PROGRAMS);
    let commands = [
        "",
        "run",
        "extract",
        "status",
        "list",
        "show",
        "text",
        "search",
        "retry",
        "reprocess",
        "reconcile",
        "ctl",
        "validate",
        "doctor",
    ];
    let mut out = String::new();
    for command in commands {
        let mut words: Vec<&str> = command.split_whitespace().collect();
        words.push("--help");
        let output =
            std::process::Command::new(PROGRAMS.lazaret).args(&words).output().expect("the program starts");
        let said = Said::of(&output).ended(0);
        out.extend(["$ lazaret ", &words.join(" "), "\n", &said.stdout, "\n"]);
    }
    drop(scratch);
    insta::assert_snapshot!("help", out);
}

#[test]
fn what_a_person_reads_after_a_run() {
    let (scratch, run) = over_the_fixtures();
    insta::assert_snapshot!("summary", steady(&run.stdout, &scratch));
    insta::assert_snapshot!(
        "questions",
        transcript(
            &scratch,
            &[
                &["status"],
                &["list", "--state-is", "quarantined"],
                &["list", "--kind", "policy.depth"],
                &["list", "--state-is", "deleted"],
                &["list", "--path", "archives/**", "--state-is", "quarantined", "--limit", "1"],
                &["reconcile"],
                &["reprocess", "--path", "damaged/*", "--dry-run"],
                &["show", "archives/one-bad-member.zip!/bad.txt"],
                &["show", "damaged/cut.docx"],
                &["show", "hostile/bomb.gz"],
                &["text", "archives/one-bad-member.zip"],
                &["search", "barges", "\"the pilot boat\"", "--limit", "1"],
                &["search", "zebra"],
                &["search", "\" -"],
                &["retry", "--kind", "parse.truncated"],
            ]
        )
    );
}

#[test]
fn what_is_wrong_is_told_with_its_name_and_what_to_do() {
    let (scratch, _) = over_the_fixtures();
    let at = |name: &str| scratch.path.join(name).to_str().expect("scratch paths are UTF-8").to_owned();
    std::fs::write(at("no-folder"), "text").expect("writable");
    std::fs::write(at("empty.txt"), "").expect("writable");
    std::fs::write(at("no.toml"), "this is no TOML\n").expect("writable");
    let five =
        "[limits]\nmemory = \"12 MiX\"\nwall = 5\nnope = 1\n[cage]\nrequire = [\"moat\"]\n[what]\na = 1\n";
    std::fs::write(at("five.toml"), five).expect("writable");
    let (no_folder, five, no, empty) = (at("no-folder"), at("five.toml"), at("no.toml"), at("empty.txt"));
    let (absent, folder) = (at("absent"), at("state"));
    insta::assert_snapshot!(
        "errors",
        transcript(
            &scratch,
            &[
                &["lst"],
                &["show"],
                &["ctl", "stop"],
                &["list", "--state-is", "fine"],
                &["list", "--since", "soon"],
                &["list", "--path", "["],
                &["retry"],
                &["retry", "--state-is", "indexed"],
                &["reconcile", "x"],
                &["list", "--source", "x"],
                &["run", "--require-coverage", "2"],
                &["run", &absent],
                &["run", &no_folder],
                &["validate"],
                &["validate", "--config", &five],
                &["validate", "--config", &no],
                &["validate", "--config", &absent],
                &["validate", "--set", "limits.memory=lots", "--set", "word"],
                &["show", "nothing/of/this/name"],
                &["show", "0000"],
                &["text", "damaged/noise.bin"],
                &["ctl", "status"],
                &["extract", &absent],
                &["extract", &folder],
                &["extract", &empty],
            ]
        )
    );
    let fresh = Scratch::new(PROGRAMS);
    insta::assert_snapshot!(
        "errors_without_a_ledger",
        transcript(
            &fresh,
            &[
                &["status"],
                &["list"],
                &["show", "a"],
                &["text", "a"],
                &["search", "a"],
                &["ctl", "status"],
                &["retry", "--all"],
                &["reconcile"]
            ]
        )
    );
    assert!(!fresh.state().exists(), "commands that only read create nothing");
}

#[test]
fn a_document_is_named_by_id_prefix_path_or_file() {
    let scratch = Scratch::new(PROGRAMS);
    let file = scratch.put("sub/plain.txt", "Words of the plain file.\n");
    scratch.run().ended(0);
    let id = scratch.list()["sub/plain.txt"]["id"].as_str().expect("an id").to_owned();
    let file = file.to_str().expect("scratch paths are UTF-8");
    for doc in [id.as_str(), id.get(..4).expect("ids are long"), "sub/plain.txt", file] {
        assert_eq!(scratch.text(doc), "Words of the plain file.", "{doc}");
    }
    scratch.call(&["text", id.get(..3).expect("ids are long")]).ended(1);
}

#[test]
fn programs_find_the_keys_of_the_contract() {
    let (scratch, _) = over_the_fixtures();
    let json = |words: &[&str]| -> Value {
        serde_json::from_str(&scratch.call(words).ended(0).stdout).expect("JSON")
    };
    for record in scratch.list().values() {
        assert_eq!(keys(record), RECORD);
    }
    let csv = scratch.call(&["list", "--format", "csv"]).ended(0).stdout;
    assert_eq!(csv.split("\r\n").next(), Some(RECORD.join(",").as_str()));
    let shown = json(&["show", "damaged/cut.docx", "--format", "json"]);
    assert_eq!(keys(&shown), [&RECORD[..], &["history"]].concat());
    assert_eq!(
        keys(&shown["history"][0]),
        [
            "attempt", "stage", "kind", "class", "message", "started", "ended", "pipeline", "damage",
            "usage", "evidence"
        ]
    );
    assert_eq!(keys(&shown["text"]), ["chars", "words", "language", "quality"]);
    assert_eq!(keys(&shown["usage"]), ["wall_ms", "cpu_ms", "peak_rss_kib"]);
    assert_eq!(keys(&shown["in_sink"]), ["sink", "sha256", "pipeline"]);
    let status = json(&["status", "--format", "json"]);
    assert_eq!(keys(&status), ["sources", "total", "balanced", "breakers", "last_run"]);
    assert_eq!(keys(&status["last_run"]), ["began", "ended", "outcome"]);
    let counts = [
        "discovered",
        "indexed",
        "suspect",
        "retrying",
        "quarantined",
        "excluded",
        "pending",
        "deleted",
        "coverage",
    ];
    let standing = ["oldest_failure", "due_now", "next_due", "due"];
    assert_eq!(keys(&status["sources"][0]), [&["name"][..], &counts, &standing].concat());
    assert_eq!(keys(&status["sources"][0]["due"]), ["now", "within_hour", "within_day", "later"]);
    assert_eq!(keys(&status["total"]), counts);
    let hits = json(&["search", "barges", "--format", "json"]);
    assert_eq!(keys(&hits[0]), ["id", "source", "path", "state", "stale", "score", "snippet"]);
    let file = manifest::files().join("damaged/cut.docx");
    let extracted = json(&["extract", file.to_str().expect("UTF-8"), "--format", "json"]);
    assert_eq!(keys(&extracted), [&RECORD[..], &["content", "members"]].concat());
}

#[test]
fn hostile_names_do_not_reach_the_terminal() {
    let scratch = Scratch::new(PROGRAMS);
    scratch.put("a\u{1b}[31m\nb.txt", "one word");
    scratch.put("\u{202e}gpj.exe", "");
    let run = scratch.run().ended(0);
    let table = scratch.call(&["list"]).ended(0).stdout;
    assert!(table.contains("a\\u{1b}[31m\\u{a}b.txt\n"), "{table}");
    assert!(table.contains("\\u{202e}gpj.exe: it has no bytes\n"), "{table}");
    for text in [run.stdout, run.stderr, table, scratch.call(&["search", "word"]).stdout] {
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text:?}");
    }
}

#[test]
fn a_reader_that_leaves_is_no_error_and_a_full_disk_is() {
    let (scratch, _) = over_the_fixtures();
    for words in [&["list"][..], &["list", "--format", "jsonl"], &["status"], &["text", "plain/letter.txt"]] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = scratch.command(words).stdout(writer).output().expect("the program starts");
        assert_eq!((Said::of(&output).status, Said::of(&output).stderr.as_str()), (0, ""), "{words:?}");
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
        let output = scratch.command(words).stdout(full).output().expect("the program starts");
        let said = Said::of(&output).ended(1);
        assert!(said.stderr.starts_with("error: cannot write the output\n"), "{said:?}");
    }
}

#[test]
fn a_live_run_is_asked_through_a_path_longer_than_a_socket_s() {
    let scratch = Scratch::new(PROGRAMS);
    scratch.put("sleeper.txt", "#!lazaret-fault 1\nsleep\n");
    let state = scratch.path.join("long".repeat(40));
    let state = state.to_str().expect("scratch paths are UTF-8");
    let source = scratch.source();
    let words = ["run", source.to_str().expect("UTF-8"), "--state", state];
    let mut command = std::process::Command::new(PROGRAMS.lazaret);
    command.args(words).args([
        "--set",
        "cage.faults=true",
        "--set",
        &format!("cage.worker='{}'", PROGRAMS.worker),
    ]);
    let mut run = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program starts");
    let status = loop {
        let words = ["ctl", "status", "--format", "json", "--state", state];
        let output =
            std::process::Command::new(PROGRAMS.lazaret).args(words).output().expect("the program starts");
        let said = Said::of(&output);
        let status: Value = serde_json::from_str(&said.stdout).unwrap_or_default();
        if status["in_flight"].as_array().is_some_and(|documents| !documents.is_empty()) {
            break status;
        }
        assert_eq!(run.try_wait().expect("our own child"), None, "the run ended: {said:?}");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(status["in_flight"][0]["path"], "sleeper.txt");
    run.kill().expect("our own child");
    run.wait().expect("our own child");
}
