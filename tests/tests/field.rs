//! What has broken the ingestion of others in the field, one test a kind: neighbours that share a fate, parsers that recurse, names
//! in no charset, long texts cut short, processes that are killed and descriptors that run out.

use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use tests::{Programs, Said, Scratch};

const PROGRAMS: Programs = tests::programs!();

fn new() -> Scratch {
    Scratch::new(PROGRAMS)
}

fn act(number: usize, line: &str) -> String {
    format!("#!lazaret-fault 1\n# {number}\n{line}\n")
}

fn told(scratch: &Scratch, path: &str) -> String {
    let record = &scratch.list()[path];
    let word = |key: &str| record[key].as_str().unwrap_or("-").to_owned();
    format!("{} {} {}", word("state"), word("kind"), record["attempts"])
}

fn count(scratch: &Scratch, state: &str) -> usize {
    scratch.list().values().filter(|record| record["state"] == state).count()
}

/// 1, 3, 41: the batch is not the unit of failure, and what stays closed is not tried again.
#[test]
fn one_locked_document_is_one_attempt_and_nobody_else_s() {
    let scratch = new().with("cage.faults=true");
    for number in 0..10 {
        let line = if number == 3 { "encrypted a password, please" } else { "text read and fine" };
        scratch.put(&format!("{number}.fault"), act(number, line));
    }
    for _ in 0..3 {
        scratch.run().ended(0);
        assert_eq!(told(&scratch, "3.fault"), "quarantined parse.encrypted 1");
        assert_eq!(count(&scratch, "indexed"), 9);
    }
}

/// 41, 46: a time that was not enough is not tried again, until there is more of it.
#[test]
fn a_raised_time_limit_makes_due_what_met_it() {
    let within = |cpu: &str| {
        vec![
            "cage.faults=true".to_owned(),
            format!("limits.cpu='{cpu}'"),
            format!("limits.large.cpu='{cpu}'"),
            "limits.wall='8s'".to_owned(),
            "limits.large.wall='8s'".to_owned(),
        ]
    };
    let mut scratch = new();
    scratch.put("spin.fault", act(0, "spin"));
    let limit = |scratch: &Scratch| scratch.list()["spin.fault"]["evidence"]["limit"]["value"].clone();
    for (cpu, met) in [("1s", 1_000), ("1s", 1_000), ("2s", 2_000), ("1s", 2_000)] {
        scratch.settings = within(cpu);
        scratch.run().ended(0);
        assert_eq!(told(&scratch, "spin.fault"), "quarantined time.cpu 1");
        assert_eq!(limit(&scratch), met);
    }
    let shown = scratch.call(&["show", "spin.fault"]).ended(0).stdout;
    assert!(shown.contains("Raise `limits.cpu`") && shown.contains("more than 2s"), "{shown}");
}

/// A script of the user's that is broken is not every script of its interpreter.
#[test]
fn two_scripts_of_one_interpreter_fail_alone() {
    let scratch = new();
    scratch.put("a.json", "{\"a\": \"one\"}");
    scratch.put("b.xml", "<a>the words of a harbour</a>");
    std::fs::set_permissions(&scratch.path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let script = |name: &str, text: &str| {
        let path = scratch.path.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        path.display().to_string()
    };
    let broken = script("broken.py", "import os\nos.abort()\n");
    let whole = script("whole.py", "import sys\nprint(open(sys.argv[1]).read())\n");
    let settings = scratch.path.join("settings.toml");
    let extractor = |format: &str, script: &str| {
        format!(
            "[[extractor]]\nformat = \"{format}\"\ncommand = [\"python3\", \"{script}\", \"{{input}}\"]\n"
        )
    };
    std::fs::write(&settings, extractor("xml", &whole) + &extractor("json", &broken)).unwrap();
    let source = scratch.source();
    let said = scratch.call(&[
        "run",
        source.to_str().unwrap(),
        "--config",
        settings.to_str().expect("scratch paths are UTF-8"),
    ]);
    let said = said.ended(3);
    assert!(said.stdout.contains("python3 broken.py"), "{}", said.stdout);
    assert_eq!(told(&scratch, "a.json"), "retrying extractor.broken 0");
    assert_eq!(told(&scratch, "b.xml"), "indexed - 1");
}

/// What waits for an extractor that is broken is due as soon as there is another behind it.
#[test]
fn another_extractor_behind_a_broken_one_takes_what_waits() {
    let scratch = new();
    scratch.put("a.xml", "<a>the words of a harbour</a>");
    std::fs::set_permissions(&scratch.path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let script = |name: &str, text: &str| {
        let path = scratch.path.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        format!("[[extractor]]\nformat = \"xml\"\ncommand = [\"{}\"]\n", path.display())
    };
    let broken = script("broken", "#!/bin/sh\nexit 7\n");
    let whole = script("whole", "#!/bin/sh\nexec cat\n");
    let settings = scratch.path.join("settings.toml");
    let source = scratch.source();
    let words = ["run", source.to_str().unwrap(), "--config", settings.to_str().unwrap()];
    for (chain, expected) in
        [(broken.clone(), "retrying extractor.broken 0"), (broken + &whole, "indexed - 1")]
    {
        std::fs::write(&settings, chain).unwrap();
        scratch.call(&words).ended(3);
        assert_eq!(told(&scratch, "a.xml"), expected);
    }
}

/// 19, 20, 21, 22: what recurses ends within limits, and what is around it is kept.
#[test]
fn what_contains_itself_ends_within_limits() {
    let scratch = new();
    let mut mail = "Subject: the last\r\n\r\nthe innermost words\r\n".to_owned();
    for level in 0..2_000 {
        mail.insert_str(0, &format!("Subject: level {level}\r\nContent-Type: message/rfc822\r\n\r\n"));
    }
    scratch.put("nested.eml", mail);
    scratch.put(
        "kids.pdf",
        "%PDF-1.4\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n2 0 obj\n<< /Type /Pages /Kids [2 0 R] \
         /Count 1 >>\nendobj\ntrailer\n<< /Root 1 0 R /Size 3 >>\n%%EOF\n",
    );
    scratch.run().ended(0);
    assert_eq!(told(&scratch, "nested.eml"), "indexed - 1");
    assert_eq!(told(&scratch, "kids.pdf"), "quarantined parse.malformed 1");
    let kinds: Vec<Value> = scratch.list().values().map(|record| record["kind"].clone()).collect();
    assert_eq!(kinds.iter().filter(|kind| *kind == "policy.depth").count(), 1, "{kinds:?}");
}

/// A tar with one member of this name.
fn tar(name: &[u8], content: &[u8]) -> Vec<u8> {
    let mut header = [0_u8; 512];
    let mut field = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
    field(0, name);
    field(100, b"0000644\0");
    field(124, format!("{:011o}\0", content.len()).as_bytes());
    field(136, b"00000000000\0");
    field(148, b"        ");
    field(156, b"0");
    field(257, b"ustar  \0");
    let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut all = header.to_vec();
    all.extend(content);
    all.resize(all.len().next_multiple_of(512) + 1_024, 0);
    all
}

/// 31: a member's name in KOI8 is kept byte by byte, and what programs read is UTF-8.
#[test]
fn a_member_s_name_in_no_charset_is_kept() {
    let scratch = new();
    scratch.put("old.tar", tar(b"\xf0\xcf.txt", b"a letter from the harbour\n"));
    scratch.run().ended(0);
    let record = &scratch.list()["old.tar!/\u{fffd}\u{fffd}.txt"];
    assert_eq!(
        (&record["state"], &record["path_bytes"]),
        (&"indexed".into(), &"b2xkLnRhciEv8M8udHh0".into())
    );
}

/// 42, 45: no store of ours cuts a long text short.
#[test]
fn a_long_text_is_found_to_its_last_word() {
    let scratch = new();
    let text = "the harbour of the town is open today\n".repeat(10_000);
    scratch.put("long.txt", format!("{text}zyxwlast\n"));
    scratch.run().ended(0);
    assert_eq!(told(&scratch, "long.txt"), "indexed - 1");
    assert_eq!(scratch.found("zyxwlast").len(), 1);
    assert!(scratch.text("long.txt").trim_end().ends_with("zyxwlast"));
}

/// 70: what is valid UTF-8 is UTF-8, whatever statistics say.
#[test]
fn valid_utf8_wins_over_statistics() {
    let scratch = new();
    scratch.put("quote.txt", "It\u{2019}s the captain\u{2019}s house\n");
    scratch.run().ended(0);
    assert_eq!(scratch.text("quote.txt").trim_end(), "It\u{2019}s the captain\u{2019}s house");
}

/// 4, 69: the shortest text is one.
#[test]
fn one_letter_is_a_text() {
    let scratch = new();
    for (name, text) in [("x.txt", "x"), ("seven", "7"), ("line.txt", "\n"), ("nul.txt", "\0")] {
        scratch.put(name, text);
    }
    scratch.run().ended(0);
    assert_eq!((told(&scratch, "x.txt"), scratch.text("x.txt")), ("indexed - 1".to_owned(), "x".to_owned()));
    assert_eq!(told(&scratch, "seven"), "indexed - 1");
    assert_eq!(told(&scratch, "line.txt"), "suspect content.empty 1");
    assert_eq!(told(&scratch, "nul.txt"), "quarantined format.unsupported 1");
}

/// 20, 21: a mail of any depth is read to the depth that is allowed, and its own headers are kept.
#[test]
fn a_mail_of_a_hundred_thousand_mails_does_not_use_up_the_stack() {
    let scratch = new();
    let inner = "Content-Type: message/rfc822\r\n\r\n".repeat(100_000);
    scratch.put(
        "deep.eml",
        format!("From: a@b.c\r\nSubject: the outermost harbour\r\n{inner}Subject: last\r\n\r\nend\r\n"),
    );
    scratch.run().ended(0);
    assert_eq!(told(&scratch, "deep.eml"), "indexed - 1");
    assert_eq!(scratch.found("outermost").len(), 1);
}

/// 38, 41: other times are not other bytes, and start nothing anew.
#[test]
fn a_touched_file_that_is_retrying_keeps_its_attempts() {
    let scratch = new()
        .with("cage.faults=true")
        .with("limits.stalled='1s'")
        .with("retry.attempts=3")
        .with("kinds.\"time.stalled\".delay='1ms'");
    let path = scratch.put("sleeper.fault", act(0, "sleep"));
    let settled = || ["retrying time.stalled 1", "retrying time.stalled 2", "quarantined time.stalled 3"];
    let mut told_of = Vec::new();
    for day in 1..=4_u64 {
        let then = std::time::UNIX_EPOCH + std::time::Duration::from_secs(86_400 * day);
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(then).unwrap();
        scratch.run().ended(0);
        told_of.push(told(&scratch, "sleeper.fault"));
    }
    // A run may take what has become due more than once.
    assert!(told_of.iter().all(|one| settled().contains(&one.as_str())), "{told_of:?}");
    assert!(told_of.is_sorted_by_key(|one| one.bytes().last()), "{told_of:?}");
    assert_eq!(told_of[3], "quarantined time.stalled 3", "{told_of:?}");
    scratch.put("sleeper.fault", act(1, "text other bytes"));
    scratch.run().ended(0);
    assert_eq!(told(&scratch, "sleeper.fault"), "indexed - 1");
}

/// 35, 41: what cannot be read stays so where it is moved, and when it comes back.
#[test]
fn what_crashes_is_not_tried_again_for_being_moved() {
    let scratch = new().with("cage.faults=true");
    let path = scratch.put("a.fault", act(0, "signal segv"));
    scratch.put("b.txt", "the words of the harbour");
    scratch.run().ended(0);
    let first = scratch.list()["a.fault"].clone();
    assert_eq!((&first["kind"], &first["attempts"]), (&"crash.segv".into(), &1.into()));
    let away = scratch.path.join("away");
    std::fs::rename(&path, &away).unwrap();
    scratch.run().ended(0);
    assert_eq!(scratch.list()["a.fault"]["state"], "deleted");
    std::fs::rename(&away, &path).unwrap();
    scratch.run().ended(0);
    let back = scratch.list()["a.fault"].clone();
    for key in ["state", "why", "kind", "attempts", "first_failed", "last_attempt", "evidence"] {
        assert_eq!(back[key], first[key], "{key}");
    }
    std::fs::rename(&path, path.with_file_name("c.fault")).unwrap();
    scratch.run().ended(0);
    assert_eq!(told(&scratch, "c.fault"), "quarantined crash.segv 0");
    assert_eq!(scratch.list()["c.fault"]["same_as"], first["id"]);
    assert_eq!(scratch.status()["balanced"], true);
    // A person's word is stronger.
    scratch.call(&["retry", "--path", "c.fault"]).ended(0);
    scratch.run().ended(0);
    assert_eq!(told(&scratch, "c.fault"), "quarantined crash.segv 1");
}

/// What the settings name has to be there, and is told before a run has begun; what is found by itself need not.
#[test]
fn a_reader_of_pictures_that_is_named_and_missing_stops_the_run() {
    let scratch = new().with("recognise.command=['no-such-reader', '{input}']");
    scratch.put("a.txt", "the words of the harbour");
    let said = scratch.run().ended(1);
    assert!(said.stderr.contains("no-such-reader"), "{said:?}");
    scratch.with("recognise.enabled=false").run().ended(0);
}

/// What the supervisor has started: its zygotes.
fn started_by(pid: u32) -> Vec<i32> {
    let of = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    of.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// Whether the run that is on has a document in flight.
fn at_work(scratch: &Scratch) -> bool {
    let said = scratch.call(&["ctl", "status", "--format", "json"]);
    let status: Value = serde_json::from_str(&said.stdout).unwrap_or_default();
    status["in_flight"].as_array().is_some_and(|all| !all.is_empty())
}

/// 11, 24: each death is noticed, and what was in hand is tried again.
#[test]
fn all_workers_killed_at_once_lose_nothing() {
    let scratch = new().with("cage.faults=true").with("children=2");
    for number in 0..6 {
        scratch.put(
            &format!("{number}.fault"),
            act(number, &format!("slow 5 100\ntext the words of number {number}")),
        );
    }
    let mut run = scratch.start();
    while !at_work(&scratch) {
        assert_eq!(run.try_wait().unwrap(), None, "the run ended before anything was in flight");
        std::thread::yield_now();
    }
    for pid in started_by(run.id()) {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL).ok();
    }
    assert_eq!(run.wait().unwrap().code(), Some(0));
    assert_eq!(count(&scratch, "indexed"), 6);
}

/// A scratch with thirty texts that all changed since they were indexed.
fn thirty_changed() -> Scratch {
    let scratch = new();
    let texts = |rest: &str| {
        for number in 0..30 {
            scratch.put(&format!("{number}.txt"), format!("harbour number {number}\n{rest}"));
        }
    };
    texts("");
    scratch.run().ended(0);
    assert_eq!(scratch.found("harbour").len(), 30);
    texts("and changed\n");
    scratch
}

/// Nothing was taken for deleted, nothing has left the index, and once there are descriptors again all goes on.
fn nothing_lost(scratch: &Scratch) {
    assert_eq!(scratch.status()["total"]["deleted"], 0);
    assert_eq!(scratch.found("harbour").len(), 30);
    scratch.call(&["retry", "--all"]).ended(0);
    scratch.run().ended(0);
    assert_eq!(count(scratch, "indexed"), 30);
    assert_eq!(scratch.found("changed").len(), 30);
}

/// 43: where not enough files can be opened, no run begins.
#[test]
fn a_machine_short_of_descriptors_deletes_nothing() {
    let scratch = thirty_changed();
    let source = scratch.source();
    let wanted = scratch.command(&["run", source.to_str().unwrap()]);
    for descriptors in [8, 12, 14, 16, 17, 18, 20, 32, 48, 64] {
        let mut short = Command::new("sh");
        short.arg("-c").arg(format!("ulimit -n {descriptors}; exec \"$0\" \"$@\""));
        short.arg(wanted.get_program()).args(wanted.get_args()).stdin(Stdio::null());
        let said = Said::of(&short.output().unwrap());
        assert_eq!(said.status, 1, "{said:?}");
        assert_eq!(scratch.found("harbour").len(), 30, "{descriptors}");
    }
    nothing_lost(&scratch);
}

/// 43: what cannot be opened for want of descriptors is not taken for deleted.
#[test]
fn a_run_that_loses_its_descriptors_deletes_nothing() {
    let scratch = thirty_changed().with("cage.faults=true").with("children=2");
    for number in 0..4 {
        scratch.put(&format!("{number}.fault"), act(number, "slow 5 100\ntext the slow one"));
    }
    let mut run = scratch.start();
    while !at_work(&scratch) {
        assert_eq!(run.try_wait().unwrap(), None, "the run ended before anything was in flight");
        std::thread::yield_now();
    }
    let pid = run.id().to_string();
    let limited = Command::new("prlimit").args(["--pid", &pid, "--nofile=24:24"]).status();
    assert!(limited.unwrap().success());
    let status = run.wait().unwrap().code();
    assert!(matches!(status, Some(0 | 1 | 3)), "{status:?}");
    nothing_lost(&scratch.with("cage.faults=false").with("policy.exclude=['*.fault']"));
}
