//! What lies in a folder, whatever it is called and whoever may read it: names that are no text, links in circles, FIFOs,
//! directories that are closed. Each item keeps its record, and what cannot be read hides nothing else.

use serde_json::Value;
use std::ffi::OsStr;
use std::fs::Permissions;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use tests::nobody::{nobody_can_start, skipped};
use tests::{Programs, Scratch};

const PROGRAMS: Programs = tests::programs!();

const LETTER: &str = "A letter about the harbour.\n";

fn new() -> Scratch {
    Scratch::new(PROGRAMS)
}

#[test]
fn names_that_are_no_text_are_kept_byte_by_byte() {
    let scratch = new();
    let source = scratch.source();
    let names: [&[u8]; 6] = [
        b"bad-\xf1-name.txt",
        b"a\nb.txt",
        "e\u{301}.txt".as_bytes(),
        "\u{e9}.txt".as_bytes(),
        b"bang!.txt",
        b"escape-\x1b[31m.txt",
    ];
    for name in names {
        std::fs::write(source.join(OsStr::from_bytes(name)), LETTER).unwrap();
    }
    std::fs::write(source.join("n".repeat(255)), LETTER).unwrap();
    scratch.put("odd!/in.txt", LETTER);
    scratch.run().ended(0);
    let records = scratch.list();
    assert_eq!(records.len(), 8);
    for (path, record) in &records {
        assert_eq!(record["state"], "indexed", "{path:?}");
        assert_eq!(scratch.text(record["id"].as_str().unwrap()).trim(), LETTER.trim(), "{path:?}");
    }
    for path in
        ["a\nb.txt", "e\u{301}.txt", "\u{e9}.txt", "bang!.txt", "odd!!/in.txt", "escape-\u{1b}[31m.txt"]
    {
        assert_eq!(records[path]["path_bytes"], Value::Null, "{path:?}");
    }
    let bad =
        records.values().find(|record| record["path_bytes"] != Value::Null).expect("one name is no UTF-8");
    assert_eq!(bad["path_bytes"], "YmFkLfEtbmFtZS50eHQ=");
    let table = scratch.call(&["list"]).ended(0).stdout;
    assert!(!table.contains('\u{1b}') && table.lines().count() >= 9, "one line a document: {table}");
    let silent = scratch.events();
    scratch.run().ended(0);
    assert_eq!(scratch.events(), silent);
}

#[test]
fn paths_longer_than_the_kernel_takes_are_read() {
    let scratch = new();
    let mut at = scratch.source();
    // Beyond 4096 bytes only steps from a directory to the next lead on.
    let name = "d".repeat(60);
    let deep = std::process::Command::new("sh")
        .arg("-c")
        .arg(format!("for i in $(seq 80); do mkdir {name} && cd -P {name} || exit 1; done; printf 'A letter about the harbour.' > end.txt"))
        .current_dir(&at)
        .status()
        .unwrap();
    if !deep.success() {
        skipped("this shell cannot make a path beyond 4096 bytes");
        return;
    }
    at.push(&name);
    scratch.run().ended(0);
    let records = scratch.list();
    let (path, record) = records.iter().next().unwrap();
    assert_eq!((records.len(), path.len(), &record["state"]), (1, 80 * 61 + 7, &Value::from("indexed")));
    assert_eq!(scratch.found("harbour"), std::slice::from_ref(path));
}

#[test]
fn what_is_no_regular_file_is_one_record_and_is_not_opened() {
    let scratch = new();
    let source = scratch.source();
    scratch.put("d/good.txt", LETTER);
    nix::unistd::mkfifo(&source.join("a.docx"), nix::sys::stat::Mode::from_bits_truncate(0o644)).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(source.join("b.pdf")).unwrap();
    symlink(".", source.join("d/man")).unwrap();
    symlink("..", source.join("d/up")).unwrap();
    symlink("d/good.txt", source.join("link.txt")).unwrap();
    symlink("/etc/hostname", source.join("out.txt")).unwrap();
    symlink("nowhere", source.join("dangling.txt")).unwrap();
    std::fs::create_dir(source.join("directory.pdf")).unwrap();
    std::fs::write(source.join("directory.pdf/in.txt"), LETTER).unwrap();
    std::fs::hard_link(source.join("d/good.txt"), source.join("hard.txt")).unwrap();
    scratch.run().ended(0);
    let records = scratch.list();
    let found: Vec<_> = records
        .iter()
        .map(|(path, record)| {
            (path.as_str(), record["state"].as_str().unwrap(), record["kind"].as_str().unwrap_or("-"))
        })
        .collect();
    assert_eq!(
        found,
        [
            ("a.docx", "excluded", "policy.special_file"),
            ("b.pdf", "excluded", "policy.special_file"),
            ("d/good.txt", "indexed", "-"),
            ("d/man", "excluded", "policy.special_file"),
            ("d/up", "excluded", "policy.special_file"),
            ("dangling.txt", "excluded", "policy.special_file"),
            ("directory.pdf/in.txt", "indexed", "-"),
            ("hard.txt", "indexed", "-"),
            ("link.txt", "excluded", "policy.special_file"),
            ("out.txt", "excluded", "policy.special_file"),
        ]
    );
    let silent = scratch.events();
    scratch.run().ended(0);
    assert_eq!(scratch.events(), silent);
}

#[test]
fn what_cannot_be_read_is_a_gap_and_its_siblings_go_on() {
    let scratch = new();
    if !nobody_can_start(PROGRAMS) {
        return;
    }
    let source = scratch.source();
    let closed = scratch.put("closed.txt", LETTER);
    scratch.put("a_directory/inside.txt", LETTER);
    scratch.put("z/good.txt", LETTER);
    let source = source.to_str().unwrap();
    scratch.call_as_nobody(&["run", source]).ended(0);
    assert_eq!(scratch.total("indexed"), 3);

    // Unreadable is not deleted: what was known of it stands.
    let directory = scratch.source().join("a_directory");
    std::fs::set_permissions(&directory, Permissions::from_mode(0o0)).unwrap();
    std::fs::set_permissions(&closed, Permissions::from_mode(0o0)).unwrap();
    scratch.put("z/new.txt", LETTER);
    for _ in 0..2 {
        scratch.call_as_nobody(&["run", source]).ended(0);
        assert_eq!(scratch.outcome("closed.txt"), "retrying source.denied");
        assert_eq!(scratch.outcome("a_directory"), "retrying source.denied");
        assert_eq!(scratch.outcome("a_directory/inside.txt"), "indexed -");
        assert_eq!(scratch.outcome("z/good.txt"), "indexed -");
        assert_eq!(scratch.outcome("z/new.txt"), "indexed -");
        assert_eq!(scratch.total("deleted"), 0);
    }
    assert_eq!(
        scratch.found("harbour"),
        ["a_directory/inside.txt", "closed.txt", "z/good.txt", "z/new.txt"],
        "a failed attempt removes nothing"
    );

    std::fs::set_permissions(&directory, Permissions::from_mode(0o755)).unwrap();
    std::fs::set_permissions(&closed, Permissions::from_mode(0o644)).unwrap();
    scratch.call_as_nobody(&["run", source]).ended(0);
    assert_eq!(scratch.outcome("closed.txt"), "indexed -");
    assert_eq!(scratch.outcome("a_directory"), "deleted source.denied");
    assert_eq!(scratch.outcome("a_directory/inside.txt"), "indexed -");
    assert_eq!(scratch.total("discovered"), 4);
}

#[test]
fn a_root_that_nobody_may_read_is_structural_and_deletes_nothing() {
    let scratch = new();
    if !nobody_can_start(PROGRAMS) {
        return;
    }
    scratch.put("good.txt", LETTER);
    let source = scratch.source();
    let words = ["run", source.to_str().unwrap()];
    scratch.call_as_nobody(&words).ended(0);
    std::fs::set_permissions(&source, Permissions::from_mode(0o0)).unwrap();
    let said = scratch.call_as_nobody(&words).ended(1);
    std::fs::set_permissions(&source, Permissions::from_mode(0o755)).unwrap();
    assert!(said.stderr.contains(source.to_str().unwrap()), "{}", said.stderr);
    assert_eq!((scratch.total("indexed"), scratch.total("deleted")), (1, 0));
}

#[test]
fn files_without_bytes_are_excluded_by_name_and_start_no_parser() {
    let scratch = new();
    for name in ["empty.txt", "empty.pdf", "empty.docx"] {
        scratch.put(name, "");
    }
    scratch.run().ended(0);
    for name in ["empty.txt", "empty.pdf", "empty.docx"] {
        assert_eq!(scratch.outcome(name), "excluded policy.empty_file");
        assert_eq!(scratch.list()[name]["attempts"], 0);
    }
    scratch.put("empty.txt", LETTER);
    scratch.run().ended(0);
    assert_eq!(scratch.outcome("empty.txt"), "indexed -");
    scratch.put("empty.txt", "");
    scratch.run().ended(0);
    assert_eq!(scratch.outcome("empty.txt"), "excluded policy.empty_file");
    assert!(scratch.found("harbour").is_empty());
}

#[test]
fn sources_are_apart_and_run_in_order() {
    let scratch = new();
    let (one, two) = (scratch.path.join("one"), scratch.path.join("two"));
    for (root, word) in [(&one, "harbour"), (&two, "lighthouse")] {
        std::fs::create_dir_all(root).unwrap();
        std::fs::write(root.join("same.txt"), format!("A letter about the {word}.\n")).unwrap();
    }
    let settings = scratch.path.join("settings.toml");
    let connector =
        |name: &str, path: &Path| format!("[[connector]]\nname = '{name}'\npath = '{}'\n", path.display());
    std::fs::write(&settings, connector("second", &two) + &connector("first", &one)).unwrap();
    scratch.call(&["run", "--config", settings.to_str().unwrap()]).ended(0);
    let of = |name: &str| {
        let said = scratch.call(&["list", "--source", name, "--format", "jsonl"]).ended(0);
        let record: Value = serde_json::from_str(said.stdout.trim()).unwrap();
        record
    };
    let (first, second) = (of("first"), of("second"));
    assert_ne!(first["id"], second["id"]);
    assert!(
        second["last_attempt"].as_str().unwrap() < first["first_seen"].as_str().unwrap(),
        "strictly in order"
    );
    assert_eq!(scratch.text(first["id"].as_str().unwrap()).trim(), "A letter about the harbour.");
    let said = scratch.call(&["text", "same.txt"]).ended(1);
    assert!(
        said.stderr.contains(first["id"].as_str().unwrap())
            && said.stderr.contains(second["id"].as_str().unwrap())
    );
    // A run touches only the sources that it names, and without a name all that the ledger knows.
    std::fs::remove_file(one.join("same.txt")).unwrap();
    std::fs::write(one.join("other.txt"), LETTER).unwrap();
    std::fs::remove_file(two.join("same.txt")).unwrap();
    std::fs::write(two.join("other.txt"), LETTER).unwrap();
    scratch.call(&["run"]).ended(0);
    assert_eq!((scratch.total("indexed"), scratch.total("deleted")), (2, 2));
    let status = scratch.status();
    let names: Vec<_> =
        status["sources"].as_array().unwrap().iter().map(|source| source["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["first", "second"]);
}

#[test]
fn the_state_folder_inside_of_the_source_is_left_out() {
    let scratch = new();
    scratch.put("a.txt", LETTER);
    let root = scratch.path.clone();
    let said = scratch.call(&["run", root.to_str().unwrap()]).ended(0);
    assert!(
        said.stdout.contains("the state folder lies inside of the source (state) and is left out"),
        "{}",
        said.stdout
    );
    assert!(scratch.list().keys().all(|path| path.starts_with("source/")), "{:?}", scratch.list().keys());
}
