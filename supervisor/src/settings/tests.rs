//! What may be written, what it comes to, and what is said of all that may not.

use super::*;
use std::path::Path;

fn load(toml: &str, sets: &[&str]) -> Result<Settings, Vec<SettingError>> {
    let folder = tempfile();
    let file = folder.join("lazaret.toml");
    std::fs::write(&file, toml).unwrap();
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    let loaded = Settings::load(Some(&file), &sets);
    std::fs::remove_dir_all(&folder).unwrap();
    loaded
}

fn tempfile() -> PathBuf {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("lazaret-settings-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn problems(toml: &str, sets: &[&str]) -> Vec<String> {
    load(toml, sets).unwrap_err().iter().map(|error| format!("{}: {}", error.key, error.problem)).collect()
}

#[test]
fn the_readme_has_every_setting() {
    let readme = include_str!("../../../README.md");
    for (key, default, meaning) in reference() {
        let row = format!("\n| `{key}` | {default} | {meaning} |\n");
        assert!(readme.contains(&row), "{row}");
    }
}

#[test]
fn nothing_written_gives_every_default() {
    let Settings {
        limits,
        large,
        retry,
        watch,
        kinds,
        policy,
        cage,
        passwords,
        extractors,
        recognise,
        connectors,
        children,
        breakers,
        alert,
        deletion_guard,
        check,
        verify_share,
    } = Settings::load(None, &[]).unwrap();
    assert_eq!(limits, Limits::default());
    assert_eq!(large.memory, 2 << 30);
    assert_eq!((large.wall_ms, large.cpu_ms, large.stalled_ms), (480_000, 120_000, 120_000));
    assert_eq!((large.depth, large.entries, large.input), (8, 100_000, 512 << 20));
    assert_eq!(retry, Retry { attempts: 5, floor_ms: 60_000, cap_ms: 21_600_000, max_crashes: 3 });
    assert_eq!(watch, Watch { deadline_ms: None, watchdog_ms: 16 * 60_000 });
    assert!(extractors.is_empty());
    assert_eq!(
        recognise,
        Recognise { enabled: true, languages: vec!["eng".to_owned()], pages: 200, command: None }
    );
    assert!(kinds.is_empty() && passwords.is_empty() && connectors.is_empty());
    assert!(policy.include.is_none() && policy.exclude.is_none());
    assert!(policy.max_age_ms.is_none() && policy.types.is_none());
    assert!(cage.require.has(Layer::SeccompChild) && !cage.faults && cage.worker.is_none());
    assert_eq!((cage.omit, cage.uid_base, children), (Layers::NONE, 1_900_000_000, None));
    assert!((deletion_guard - 0.1).abs() < 1e-9);
    assert_eq!(check, Check::default());
    assert!((verify_share - 0.01).abs() < 1e-9);
    assert!(alert.is_empty());
    for breaker in [breakers.source, breakers.extractor, breakers.sink] {
        assert_eq!((breaker.window, (breaker.share * 10.0).round()), (50, 8.0));
    }
}

/// A value that differs from the default for each key of the reference, as TOML.
fn example(key: &str) -> &'static str {
    match key.rsplit_once('.').map_or(key, |(_, last)| last) {
        "output" if key.starts_with("[[extractor]]") => "\"json\"",
        "input" | "memory" | "output" | "expansion" => "\"3GiB\"",
        "floor" => "\"2m\"",
        "fetch" | "stalled" | "deadline" | "watchdog" | "cap" | "delay" | "max_age" => "\"7h\"",
        "wall" => "\"8h\"",
        "cpu" => "\"2m\"",
        "ratio" | "depth" | "entries" | "attempts" | "max_crashes" | "children" => "9",
        "class" => "\"permanent\"",
        "include" | "exclude" => "[\"**/*.pdf\"]",
        "types" => "[\"pdf\"]",
        "require" => "[\"rlimits\"]",
        "faults" | "jit" => "true",
        "enabled" => "false",
        "format" => "[\"pdf\"]",
        "command" => "[\"cat\", \"{input}\"]",
        "languages" => "[\"deu\", \"fra\"]",
        "uid_base" => "70000",
        "worker" | "path" | "name" => "\"x\"",
        "kind" => "\"folder\"",
        "guard" | "share" | "under_extracted" | "junk" | "glyph_codes" | "repeated_lines"
        | "common_words" => "0.25",
        "near_empty" => "5",
        "window" | "pages" => "7",
        "file" => "\"/dev/null\"",
        other => panic!("no example for {other}"),
    }
}

#[test]
fn every_key_of_the_reference_is_read_and_a_slip_in_it_is_noticed() {
    for (key, _, _) in reference() {
        let (section, name) = key.rsplit_once('.').unwrap_or(("", key));
        let header = match section {
            "" => String::new(),
            "[[connector]]" | "[[extractor]]" => format!("{section}\n"),
            section => format!("[{}]\n", section.replace("KIND", "\"time.wall\"")),
        };
        let needed: &[(&str, &str)] = match section {
            "[[connector]]" => &[("name", "\"o\""), ("path", "\"o\"")],
            "[[extractor]]" => &[("format", "\"rtf\""), ("command", "\"cat\"")],
            _ => &[],
        };
        let others: String = needed
            .iter()
            .filter(|(other, _)| *other != name)
            .map(|(other, value)| format!("{other} = {value}\n"))
            .collect();
        let right = format!("{header}{others}{name} = {}\n", example(key));
        assert!(load(&right, &[]).is_ok(), "{right}: {:?}", load(&right, &[]));
        let wrong = format!("{header}{others}{name}x = {}\n", example(key));
        let found = problems(&wrong, &[]);
        assert!(found.iter().any(|problem| problem.contains("did you mean")), "{wrong}: {found:?}");
    }
}

#[test]
fn all_errors_are_told_at_once_with_key_and_what_is_allowed() {
    let found = problems(
        "limit = 1\n[limits]\nmemroy = 1\nwall = 30\ncpu = \"soon\"\ndepth = 0\n[cage]\nrequire = [\"rlimit\"]\n\
         [policy]\ntypes = [\"pfd\"]\ninclude = [\"[\"]\n[kinds.\"time.wal\"]\nattempts = 1\n[passwords]\nfile = \"no\"\n\
         [[connector]]\nname = \"a\"\n[[connector]]\nname = \"b\"\nkind = \"s3\"\npath = \"x\"\n",
        &[],
    );
    for expected in [
        "limit: there is no such setting; did you mean `limits`?",
        "limits.memroy: there is no such setting; did you mean `limits.memory`?",
        "limits.wall: `30` is not allowed",
        "limits.cpu: `\"soon\"` is not allowed",
        "limits.depth: `0` is not allowed: a whole number from 1 to 64",
        "cage.require: there is no layer `rlimit`; did you mean `rlimits`?",
        "policy.types: there is no format `pfd`; did you mean `pdf`?",
        "policy.include: `[` is no glob",
        "kinds.time.wal: there is no such kind; did you mean `time.wall`?",
        "passwords.file: ",
        "connector[0].path: is missing",
        "connector[1].kind: `\"s3\"` is not allowed: one of `folder`",
    ] {
        assert!(found.iter().any(|problem| problem.starts_with(expected)), "{expected}\nin {found:#?}");
    }
    assert!(found.iter().any(|problem| problem.contains("did you mean `\"30s\"`?")));
    assert_eq!(found.len(), 12, "{found:#?}");
}

#[test]
fn the_checks_thresholds_are_read() {
    let toml = "[check]\nnear_empty = 1\nunder_extracted = 0.2\njunk = 0.3\nglyph_codes = 0.4\nrepeated_lines = 0.5\n\
                common_words = 0";
    let check = Check {
        near_empty: 1,
        under_extracted: 0.2,
        junk: 0.3,
        glyph_codes: 0.4,
        repeated_lines: 0.5,
        common_words: 0.0,
    };
    assert_eq!(load(toml, &[]).unwrap().check, check);
    assert_eq!(
        problems("[check]\njunk = 1.5\nnear_empty = -1", &[]),
        [
            "check.near_empty: `-1` is not allowed: a whole number from 0 to 1000000",
            "check.junk: `1.5` is not allowed: a number from 0 to 1"
        ]
    );
}

#[test]
fn wall_and_processor_time_go_together() {
    let times =
        |toml: &str| load(toml, &[]).map(|settings| (settings.limits.wall_ms, settings.limits.cpu_ms));
    assert_eq!(times("[limits]\ncpu = \"60s\"").unwrap(), (240_000, 60_000));
    assert_eq!(times("[limits]\ncpu = \"1s\"").unwrap(), (120_000, 1_000));
    assert_eq!(times("[limits]\nwall = \"10s\"").unwrap(), (10_000, 2_500));
    assert_eq!(times("[limits]\nwall = \"4s\"\ncpu = \"1s\"").unwrap(), (4_000, 1_000));
    let found = problems("[limits]\nwall = \"3999ms\"\ncpu = \"1s\"", &[]);
    assert_eq!(found, ["limits.wall: must be at least 4 × `limits.cpu`, 4000ms"]);
}

#[test]
fn the_large_lane_follows_the_limits_and_is_never_smaller() {
    let settings = load("[limits]\nmemory = \"1GiB\"\n[limits.large]\nwall = \"1h\"", &[]).unwrap();
    assert_eq!((settings.large.memory, settings.large.wall_ms), (4 << 30, 3_600_000));
    let counted = "input = \"1KiB\"\nexpansion = \"1KiB\"\nratio = 1\ndepth = 1\nentries = 1";
    let settings = load(&format!("[limits.large]\n{counted}"), &[]).unwrap();
    assert_eq!(
        settings.large,
        Settings::default().large,
        "what the supervisor counts is the same in every lane"
    );
    let found = problems("[limits.large]\nmemory = \"1MiB\"", &[]);
    assert_eq!(found, ["limits.large.memory: must be at least `limits.memory`"]);
}

#[test]
fn set_goes_over_the_file_and_is_named_as_the_origin() {
    let sets =
        ["limits.memory=1GiB", "kinds.time.wall.attempts=2", "policy.exclude=[\"a\"]", "cage.faults = true"];
    let settings =
        load("[limits]\nmemory = 1\ninput = 7\n[kinds.\"time.wall\"]\ndelay = \"1s\"", &sets).unwrap();
    assert_eq!((settings.limits.memory, settings.limits.input), (1 << 30, 7));
    let kind = settings.kinds[&Kind::TimeWall];
    assert_eq!(kind, KindPolicy { class: None, attempts: Some(2), delay_ms: Some(1_000) });
    assert!(settings.cage.faults && settings.policy.exclude.unwrap().is_match("a"));
    let errors = load("", &["limits.wall=5", "nonsense", "a b=1"]).unwrap_err();
    assert!(errors.iter().all(|error| error.origin == "--set"), "{errors:?}");
    assert_eq!(errors.len(), 3);
}

#[test]
fn a_star_stays_in_its_directory_and_names_are_bytes() {
    use std::os::unix::ffi::OsStrExt;
    let globs = load("[policy]\nexclude = [\"*.tmp\", \"**/cache\"]", &[]).unwrap().policy.exclude.unwrap();
    for (path, matches) in [
        (&b"a.tmp"[..], true),
        (b"x/a.tmp", false),
        (b"x/y/cache", true),
        (b"cache", true),
        (b"\xff.tmp", true),
    ] {
        assert_eq!(globs.is_match(Path::new(std::ffi::OsStr::from_bytes(path))), matches, "{path:?}");
    }
}

#[test]
fn paths_are_relative_to_the_file_and_passwords_are_lines() {
    let folder = tempfile();
    std::fs::write(folder.join("words"), "one\n two \r\n\nthree").unwrap();
    let file = folder.join("s.toml");
    std::fs::write(&file, "[passwords]\nfile = \"words\"\n[[connector]]\nname = \"n\"\npath = \"docs\"")
        .unwrap();
    let settings = Settings::load(Some(&file), &["cage.worker=w".to_owned()]).unwrap();
    assert_eq!(settings.passwords, ["one", " two ", "three"]);
    assert_eq!(
        settings.connectors,
        [Connector { name: "n".to_owned(), path: folder.join("docs"), deadline_ms: None }]
    );
    assert_eq!(settings.cage.worker, Some(PathBuf::from("w")));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn what_is_fixed_cannot_be_configured() {
    for kind in ["policy.type", "content.empty", "supervisor.lost"] {
        let found = problems(&format!("[kinds.\"{kind}\"]\nattempts = 1"), &[]);
        assert_eq!(found, [format!("kinds.{kind}: what follows this kind is fixed")]);
    }
    assert_eq!(problems("[kinds.\"time.wall\"]\nclass = \"rejected\"", &[]).len(), 1);
}

#[cfg(not(feature = "fault-points"))]
#[test]
fn no_release_leaves_a_layer_out() {
    assert_eq!(problems("[cage]\nomit = [\"rlimits\"]", &[]).len(), 1);
}
