//! What goes wrong together: deaths, limits, breakers and other settings upon one another, on the real program. Nothing may be
//! lost, stand still, go round for ever, or be tried blindly.

use rusqlite::Connection;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tests::questions::told;
use tests::scripts::act;
use tests::{Programs, Said, Scratch};

const PROGRAMS: Programs = tests::programs!();

/// A run that goes round for ever ends with an error.
fn new() -> Scratch {
    Scratch::new(PROGRAMS).with("cage.faults=true").with("run.deadline='100s'")
}

fn count(scratch: &Scratch, wanted: &str) -> usize {
    scratch.list().values().filter(|record| told(record).starts_with(wanted)).count()
}

fn settle(scratch: &Scratch) -> Said {
    let source = scratch.source();
    scratch.call(&["run", source.to_str().unwrap(), "--until-settled"])
}

/// A run whose supervisor dies with the first document in hand that is called poison.
fn die(scratch: &mut Scratch) {
    scratch.variables.push(("LAZARET_DIE_AT".to_owned(), "poison".to_owned()));
    assert_eq!(scratch.run().status, 137);
    scratch.variables.clear();
}

fn python(scratch: &Scratch, script: &str) {
    let done = Command::new("python3").arg("-c").arg(script).current_dir(scratch.source()).status().unwrap();
    assert!(done.success());
}

/// An extractor for CSV that is this Python script.
fn extractor(scratch: &Scratch, text: &str) -> String {
    let path: PathBuf = scratch.path.join("reads-csv");
    let head = "#!/usr/bin/env python3\nimport os, signal, sys\ntext = sys.stdin.read()\n";
    std::fs::write(&path, format!("{head}{text}\n")).unwrap();
    for path in [path.as_path(), Path::new(&scratch.path)] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    format!("extractor=[{{format='csv', command=['{}']}}]", path.display())
}

const LOCKED: &str = "\
     504b03041400090008002c15815d07f40182290000001e0000000a0000007365637265742e7478747b6425f76d823cb6b207\
     f31f8822ffcd364f3ba67f1b850ba3fd5f6d3b1a3513c97fd4a1225529827b504b070807f40182290000001e000000504b03\
     040a00000000002c15815d54e0454a1a0000001a000000080000006f70656e2e747874416e206f70656e206c657474657220\
     6265736964652069742e0a504b01021e031400090008002c15815d07f40182290000001e0000000a00000000000000010000\
     00a481000000007365637265742e747874504b01021e030a00000000002c15815d54e0454a1a0000001a0000000800000000\
     00000001000000a481610000006f70656e2e747874504b050600000000020002006e000000a10000000000";

const CRASH: &str = "os.kill(os.getpid(), signal.SIGSEGV)";

fn large_lane(scratch: Scratch) -> Scratch {
    scratch.with("limits.memory='64MiB'").with("limits.large.memory='512MiB'")
}

fn no_large_lane(scratch: &mut Scratch) {
    scratch.settings.retain(|setting| !setting.starts_with("limits."));
    scratch.settings.push("limits={memory='64MiB', large={memory='64MiB', output='64MiB', wall='120s', cpu='30s', stalled='30s'}}".to_owned());
}

#[test]
fn who_died_alone_and_then_meets_a_limit_gets_one_try_in_the_large_lane() {
    let mut scratch = large_lane(new());
    scratch.put("LAZARET-POISON", act("one", "grow"));
    die(&mut scratch);
    die(&mut scratch);
    scratch.run().ended(0);
    assert_eq!(told(&scratch.list()["LAZARET-POISON"]), "quarantined permanent memory.limit 4");
}

#[test]
fn deaths_in_the_large_lane_make_a_poison_pill() {
    let mut scratch = new();
    no_large_lane(&mut scratch);
    scratch.put("LAZARET-POISON", act("one", "grow"));
    scratch.run().ended(0);
    assert_eq!(told(&scratch.list()["LAZARET-POISON"]), "quarantined permanent memory.limit 1");
    let mut scratch = scratch;
    scratch.settings.retain(|setting| !setting.starts_with("limits="));
    let mut scratch = scratch.with("limits.memory='64MiB'").with("limits.large.memory='512MiB'");
    for _ in 0..3 {
        die(&mut scratch);
    }
    scratch.run().ended(0);
    assert_eq!(told(&scratch.list()["LAZARET-POISON"]), "quarantined gave_up supervisor.lost 4");
}

#[test]
fn a_large_lane_that_appears_is_the_only_one_that_is_tried() {
    let mut scratch = new();
    no_large_lane(&mut scratch);
    scratch.put("grows", act("one", "grow"));
    scratch.run().ended(0);
    let first = scratch.history("grows");
    scratch.settings.retain(|setting| !setting.starts_with("limits="));
    let scratch = large_lane(scratch);
    scratch.run().ended(0);
    let limits: Vec<_> =
        scratch.history("grows").iter().map(|a| a["evidence"]["limit"]["value"].clone()).collect();
    assert_eq!((first.len(), limits), (1, vec![Value::from(64 << 20), Value::from(512 << 20)]));
}

#[test]
fn a_last_try_that_is_put_back_is_made_in_the_next_run() {
    let mut scratch = new().with("kinds.\"time.stalled\".delay='1ms'").with("retry.attempts=2");
    scratch.settings.push("limits.stalled='200ms'".to_owned());
    scratch.settings.push("limits.large.stalled='60s'".to_owned());
    scratch.put("sleepy", act("one", "sleep"));
    scratch.settings.push("run.watchdog='2s'".to_owned());
    // Its last try takes too long for the watchdog, which gives up the run.
    scratch.run().ended(1);
    assert_eq!(told(&scratch.list()["sleepy"]), "pending - time.stalled 1");
    scratch.settings.truncate(scratch.settings.len() - 2);
    scratch.settings.push("limits.large.stalled='300ms'".to_owned());
    scratch.run().ended(0);
    assert_eq!(told(&scratch.list()["sleepy"]), "quarantined gave_up time.stalled 2");
    assert_eq!(scratch.history("sleepy")[1]["evidence"]["limit"]["value"], 300);
}

#[test]
fn who_is_to_be_tried_alone_and_waited_for_an_extractor_is_not_left_behind() {
    let mut scratch = new();
    let broken = extractor(&scratch, CRASH);
    scratch.settings.push(broken);
    for name in ["a-LAZARET-POISON.csv", "b-LAZARET-POISON.csv"] {
        scratch.put(name, format!("{name},1\nquay,2\nmole,3\n"));
        die(&mut scratch);
        scratch.run().ended(3);
        assert_eq!(told(&scratch.list()[name]), "retrying - extractor.broken 1");
    }
    extractor(&scratch, "print(text)");
    scratch.run().ended(0);
    assert_eq!(count(&scratch, "indexed"), 2, "{:?}", scratch.list());
}

#[test]
fn a_class_that_is_set_is_the_record_s_and_each_try_is_one() {
    let scratch = new()
        .with("kinds.\"crash.segv\"={class='transient', attempts=3, delay='1ms'}")
        .with("breaker.extractor.window=0");
    scratch.put("crash", act("one", "signal segv"));
    settle(&scratch).ended(0);
    let record = &scratch.list()["crash"];
    assert_eq!(told(record), "quarantined gave_up crash.segv 3");
    assert_eq!((&record["class"], &record["same_as"]), (&Value::from("transient"), &Value::Null));
}

#[test]
fn copies_share_the_tries_of_their_content() {
    let scratch = new()
        .with("kinds.\"time.stalled\".delay='1ms'")
        .with("retry.attempts=4")
        .with("limits.stalled='100ms'")
        .with("limits.large.stalled='100ms'");
    for n in 0..6 {
        scratch.put(&format!("copy-{n}"), act("all alike", "sleep"));
    }
    settle(&scratch).ended(0);
    for path in scratch.list().keys() {
        let tries = scratch.history(path).len();
        assert!(tries <= 4, "{path}: {tries}");
    }
    assert_eq!(count(&scratch, "quarantined gave_up time.stalled"), 6);
}

#[test]
fn what_is_moved_again_and_again_keeps_its_extraction() {
    let scratch = new();
    let mut file = scratch.put("0.txt", "A letter that nobody leaves in its place.\n");
    scratch.run().ended(0);
    for n in 1..12 {
        let next = scratch.source().join(format!("{n}.txt"));
        std::fs::rename(&file, &next).unwrap();
        file = next;
        scratch.run().ended(0);
        let record = &scratch.list()[&format!("{n}.txt")];
        assert_eq!(told(record), "indexed - - 0", "move {n}: no child was made for it");
    }
}

#[test]
fn what_lies_deep_in_a_container_that_is_cut_by_now_does_not_stop_the_run() {
    let mut scratch = new();
    scratch.source();
    python(
        &scratch,
        "import zipfile, io
inner = io.BytesIO()
with zipfile.ZipFile(inner, 'w') as z: z.writestr('x.txt', 'The letter in the innermost box.')
with zipfile.ZipFile('outer.zip', 'w') as z:
    for n in range(10): z.writestr(f'{n}.txt', f'Letter {n} of the outer box.')
    z.writestr('inner.zip', inner.getvalue())",
    );
    scratch.run().ended(0);
    assert_eq!(count(&scratch, "indexed"), 13);
    let deep = "outer.zip!/inner.zip!/x.txt";
    scratch.call(&["reprocess", "--path", deep]).ended(0);
    scratch.settings.push("limits.entries=5".to_owned());
    scratch.run().ended(0);
    let records = scratch.list();
    assert_eq!(told(&records[deep]), "retrying - source.unreachable 1");
    assert_eq!(told(&records["outer.zip!/inner.zip"]), "indexed - - 1", "its bytes have not moved");
    // What is cut off itself says so.
    scratch.call(&["reprocess", "--path", "outer.zip!/5.txt"]).ended(0);
    scratch.run().ended(0);
    assert_eq!(scratch.list()["outer.zip!/5.txt"]["kind"], "policy.entries");
    scratch.settings.pop();
    scratch.call(&["retry", "--kind", "source.unreachable"]).ended(0);
    scratch.run().ended(0);
    assert_eq!(count(&scratch, "indexed"), 13, "{:?}", scratch.list());
}

#[test]
fn a_member_that_was_too_large_is_due_when_it_no_longer_is() {
    let mut scratch = new().with("limits.input='2KiB'");
    scratch.source();
    python(
        &scratch,
        "import zipfile
with zipfile.ZipFile('box.zip', 'w', zipfile.ZIP_DEFLATED) as z: z.writestr('long.txt', 'The harbour in winter. ' * 900)",
    );
    scratch.run().ended(0);
    assert_eq!(told(&scratch.list()["box.zip!/long.txt"]), "excluded - policy.too_large 0");
    scratch.settings.pop();
    let started = scratch.starts();
    scratch.run().ended(0);
    assert_eq!(told(&scratch.list()["box.zip!/long.txt"]), "indexed - - 1");
    scratch.run().ended(0);
    assert_eq!(scratch.starts(), started + 2, "the container once, and the member");
}

#[test]
fn one_document_that_crashes_by_itself_does_not_keep_a_breaker_open() {
    let mut scratch = new();
    for n in 0..60 {
        scratch.put(&format!("{n:02}.csv"), format!("harbour,{n}\nquay,2\nmole,3\n"));
    }
    let broken = extractor(&scratch, &format!("if 'harbour' in text: {CRASH}\nprint(text)"));
    scratch.settings.push(broken);
    scratch.run().ended(3);
    assert_eq!(count(&scratch, "retrying - extractor.broken"), 60);
    // Mended but for the one that is asked first.
    let db = Connection::open(scratch.state().join("ledger.sqlite")).unwrap();
    let asked: String = db
        .query_row("SELECT path FROM documents WHERE state = 'retrying' ORDER BY number LIMIT 1", [], |row| {
            row.get(0)
        })
        .unwrap();
    drop(db);
    let number = asked.trim_start_matches('0').trim_end_matches(".csv");
    let number = if number.is_empty() { "0" } else { number };
    extractor(&scratch, &format!("if 'harbour,{number}\\n' in text: {CRASH}\nprint(text)"));
    scratch.run().ended(3);
    scratch.run().ended(0);
    assert_eq!((count(&scratch, "indexed"), count(&scratch, "quarantined permanent crash.segv")), (59, 1));
}

#[test]
fn copies_of_what_an_extractor_crashed_on_are_let_off_as_well() {
    let scratch = new();
    for n in 0..60 {
        for copy in ["a", "b"] {
            scratch.put(&format!("{n:02}-{copy}"), act(&format!("document {n}"), "signal segv"));
        }
    }
    scratch.run().ended(3);
    assert_eq!(count(&scratch, "retrying - extractor.broken"), 120, "no document pays for it");
}

#[test]
fn what_waits_for_an_extractor_whose_breaker_nobody_noted_is_not_forgotten() {
    let mut scratch = new();
    for n in 0..60 {
        scratch.put(&format!("{n:02}.csv"), format!("harbour,{n}\nquay,2\nmole,3\n"));
    }
    let broken = extractor(&scratch, CRASH);
    scratch.settings.push(broken);
    scratch.run().ended(3);
    assert_eq!(count(&scratch, "retrying - extractor.broken"), 60);
    // The supervisor died when the documents had been told, and the breaker not yet noted.
    Connection::open(scratch.state().join("ledger.sqlite"))
        .unwrap()
        .execute("DELETE FROM breakers", [])
        .unwrap();
    extractor(&scratch, "print(text)");
    scratch.run().ended(0);
    assert_eq!(count(&scratch, "indexed"), 60);
}

#[test]
fn a_locked_member_stays_locked_with_the_wrong_password() {
    let mut scratch = new();
    // `zip -P secret` of `secret.txt`, and `open.txt` beside it.
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    let locked: Vec<u8> = LOCKED.as_bytes().chunks(2).map(byte).collect();
    scratch.put("box.zip", locked);
    scratch.run().ended(0);
    let before = scratch.list();
    let passwords = scratch.path.join("passwords");
    std::fs::write(&passwords, "not this one\n").unwrap();
    scratch.settings.push(format!("passwords.file='{}'", passwords.display()));
    scratch.run().ended(0);
    let after = scratch.list();
    let started = scratch.starts();
    let mut marked = 0;
    for (path, record) in &before {
        assert_eq!(
            (&after[path]["state"], &after[path]["kind"]),
            (&record["state"], &record["kind"]),
            "{path}"
        );
        marked += usize::from(after[path]["evidence"]["passwords"].is_string());
    }
    assert!(marked > 0, "{after:?}");
    scratch.run().ended(0);
    assert_eq!(scratch.starts(), started);
}

#[test]
fn retries_that_are_due_together_are_not_all_taken_in_hand_at_once() {
    let delay = |hours: u32| format!("kinds.\"time.stalled\".delay='{hours}h'");
    let mut scratch = new().with("children=1").with("retry.cap='1m'").with(&delay(2));
    scratch.settings.extend(["stalled", "large.stalled"].map(|limit| format!("limits.{limit}='50ms'")));
    for n in 0..40 {
        scratch.put(&format!("{n:02}"), act(&format!("document {n}"), "sleep"));
    }
    scratch.run().ended(0);
    assert_eq!(count(&scratch, "retrying - time.stalled 1"), 40);
    // What waits longer than anything does by now is due.
    scratch.settings.push(delay(1));
    scratch.settings.retain(|setting| *setting != delay(2));
    scratch.run().ended(0);
    assert_eq!(count(&scratch, "retrying - time.stalled 2"), 40);
    // How many were begun and not yet ended, one event after the other.
    let db = Connection::open(scratch.state().join("ledger.sqlite")).unwrap();
    let mut statement = db.prepare("SELECT change FROM events ORDER BY seq").unwrap();
    let changes = statement.query_map([], |row| row.get::<_, String>(0)).unwrap().map(Result::unwrap);
    let (mut in_hand, mut most) = (0, 0);
    for change in changes {
        in_hand += i32::from(change.starts_with("{\"Started\""));
        in_hand -= i32::from(change.starts_with("{\"Failed\""));
        most = most.max(in_hand);
    }
    assert!((1..=4).contains(&most), "{most} documents at a time for one child");
}

#[test]
fn a_kept_text_that_is_damaged_is_made_anew_and_stops_nobody() {
    let scratch = new();
    for n in 0..20 {
        scratch.put(&format!("{n:02}.txt"), format!("Letter number {n} from the harbour.\n"));
    }
    scratch.run().ended(0);
    let damage = || {
        let texts = Connection::open(scratch.state().join("texts.sqlite")).unwrap();
        texts
            .execute(
                "UPDATE texts SET zstd = zeroblob(9) WHERE rowid IN (SELECT rowid FROM texts LIMIT 1)",
                [],
            )
            .unwrap()
    };
    let readable = || scratch.list().keys().filter(|path| scratch.call(&["text", path]).status == 0).count();
    let found = || {
        let said = scratch.call(&["search", "harbour", "--format", "jsonl", "--limit", "100"]).ended(0);
        said.stdout.lines().count()
    };
    // All texts are written to a new index from what is kept.
    damage();
    std::fs::remove_dir_all(scratch.state().join("index")).unwrap();
    assert_eq!(readable(), 19);
    scratch.run().ended(0);
    assert_eq!((count(&scratch, "indexed"), found(), readable()), (20, 20, 20));
    // Or a person has the document extracted again, after a search that could not show it.
    damage();
    assert_eq!((found(), readable()), (20, 19));
    scratch.call(&["reprocess", "--all"]).ended(0);
    scratch.run().ended(0);
    assert_eq!((found(), readable()), (20, 20));
    scratch.call(&["reconcile"]).ended(0);
}

/// The same command where the state is a copy on a disk that is full to the last byte.
fn without_room(scratch: &Scratch, words: &[&str]) -> Said {
    const FILLED: &str = "mount -t tmpfs -o size=24m none \"$1\" && cp -a \"$2\" \"$1/state\" &&
        { cat /dev/zero > \"$1/rest\" 2>/dev/null || true; } && mount --bind \"$1/state\" \"$2\" &&
        shift 2 && exec \"$@\"";
    let disk = scratch.path.join("disk");
    std::fs::create_dir_all(&disk).unwrap();
    let command = scratch.command(words);
    let mut shell = Command::new("unshare");
    shell.args(["--map-root-user", "--mount", "sh", "-c", FILLED, "sh"]).arg(disk).arg(scratch.state());
    Said::of(&shell.arg(command.get_program()).args(command.get_args()).output().unwrap())
}

#[test]
fn on_a_full_disk_what_only_reads_does_and_what_writes_says_where() {
    let scratch = new();
    for n in 0..200 {
        scratch.put(&format!("{n:03}.txt"), format!("Letter number {n} from the harbour.\n"));
    }
    scratch.run().ended(0);
    for words in
        [&["status"][..], &["list"], &["show", "000.txt"], &["text", "000.txt"], &["search", "harbour"]]
    {
        let said = without_room(&scratch, words).ended(0);
        assert!(!said.stdout.is_empty(), "{words:?}");
    }
    let source = scratch.source();
    for words in [&["run", source.to_str().unwrap()][..], &["reprocess", "--all"], &["reconcile", "--repair"]]
    {
        std::fs::remove_dir_all(scratch.state().join("index")).ok();
        let said = without_room(&scratch, words).ended(1);
        assert!(said.stderr.contains("no space left on the disk"), "{words:?}: {}", said.stderr);
        assert!(said.stderr.contains(scratch.state().to_str().unwrap()), "{words:?}: {}", said.stderr);
    }
}
