//! Extractors of the user's own: which programs are found and under which versions, what they say, and how the whole program
//! asks them, one after the other.

use serde_json::Value;
use shared::Format;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use supervisor::pool::command::{CommandJob, Commands, Missing, OutputKind, Program};
use supervisor::pool::{JobLimits, Outcome};
use supervisor::rules::kind::{Kind, Stage};
use supervisor::settings::{Cage, Command, Recognise};
use tests::caged::{block, fault};
use tests::external::{self, Kept, LIMITS, Script, act, carry, carry_within, command, find, kind};
use tests::questions::{state, told};
use tests::scripts::extractor;
use tests::{Programs, Scratch};

const WORKER: &str = env!("CARGO_BIN_EXE_worker-under-test");

const PROGRAMS: Programs = Programs { lazaret: env!("CARGO_BIN_EXE_lazaret-under-test"), worker: WORKER };

fn cage() -> Cage {
    external::cage(WORKER)
}

fn bare() -> Cage {
    external::bare(WORKER)
}

fn new() -> Scratch {
    Scratch::new(PROGRAMS)
}

#[test]
fn a_chain_of_extractors_keeps_each_verdict() {
    let scratch = new();
    scratch.put("one.csv", "harbour,1\nquay,2\nmole,3\n");
    scratch.put("two.csv", "broken,2\nquay,2\nmole,3\n");
    scratch.put("three.csv", "lost,3\nquay,2\nmole,3\n");
    let first = scratch.script(
        "first",
        "sys.exit('not for me') if text.strip() != 'lazaret,1' and 'harbour' not in text else print(text)",
    );
    let second =
        scratch.script("second", "sys.exit('nor for me') if 'lost' in text else print('second', text)");
    let settings = [extractor("csv", &first), extractor("csv", &second)].concat();
    scratch.run_with(&settings).ended(0);
    let records = scratch.list();
    assert_eq!(scratch.text("one.csv"), "harbour,1\nquay,2\nmole,3");
    assert_eq!(scratch.text("two.csv"), "second broken,2\nquay,2\nmole,3");
    assert_eq!(told(&records["three.csv"]), "quarantined permanent extractor.failed 1");
    let verdicts = |path: &str| -> Vec<(String, String)> {
        let verdicts = records[path]["evidence"]["verdicts"].as_array().unwrap();
        let word = |said: &Value, key: &str| said[key].as_str().unwrap_or("-").to_owned();
        verdicts.iter().map(|said| (word(said, "engine"), word(said, "message"))).collect()
    };
    let said = |engine: &str, message: &str| (engine.to_owned(), message.to_owned());
    assert_eq!(verdicts("one.csv"), [said("first", "-")]);
    assert_eq!(verdicts("two.csv"), [said("first", "exit status 1: not for me"), said("second", "-")]);
    assert_eq!(
        verdicts("three.csv"),
        [said("first", "exit status 1: not for me"), said("second", "exit status 1: nor for me")]
    );
    let extract = |path: &str| records[path]["pipeline"]["extract"].as_str().unwrap().matches(" > ").count();
    assert_eq!((extract("one.csv"), extract("two.csv")), (0, 1));
    // What the first took does not depend on the second.
    scratch.script("second", "print('changed', text)");
    let started = scratch.starts();
    scratch.run_with(&settings).ended(0);
    assert_eq!(scratch.starts(), started + 1);
    assert_eq!(scratch.text("three.csv"), "changed lost,3\nquay,2\nmole,3");
}

#[test]
fn another_version_makes_due_exactly_what_failed_with_it() {
    let scratch = new();
    for n in 0..6 {
        scratch.put(&format!("good-{n}.csv"), format!("harbour,{n}\nquay,2\nmole,3\n"));
        scratch.put(&format!("bad-{n}.csv"), format!("broken,{n}\nquay,2\nmole,3\n"));
        scratch.put(&format!("other-{n}.txt"), format!("Another text, number {n}.\n"));
    }
    let path =
        scratch.script("reads-csv", "sys.exit('cannot read this') if 'broken' in text else print(text)");
    let settings = extractor("csv", &path);
    scratch.run_with(&settings).ended(0);
    let first = scratch.list();
    assert_eq!(told(&first["bad-3.csv"]), "quarantined permanent extractor.failed 1");
    assert_eq!(first["bad-3.csv"]["message"], "exit status 1: cannot read this");
    assert_eq!(first["bad-3.csv"]["evidence"]["exit_code"], 1);
    assert_eq!(scratch.count(|record| state(record) == "indexed"), 12);
    let started = scratch.starts();

    scratch.script("reads-csv", "print(text) # mended");
    scratch.run_with(&settings).ended(0);
    let second = scratch.list();
    assert_eq!(scratch.starts(), started + 6, "six were due");
    for (path, record) in &second {
        assert_eq!(state(record), "indexed", "{path}");
        if path.starts_with("bad") {
            assert_ne!(record["pipeline"]["extract"], first[path]["pipeline"]["extract"]);
        } else {
            assert_eq!(record, &first[path], "what was good stays as it was");
        }
    }
    // What was made under the old version is found by name.
    let file = scratch.path.join("settings.toml");
    let stale =
        ["reprocess", "--stale", "--dry-run", "--format", "jsonl", "--config", file.to_str().unwrap()];
    let said = scratch.call(&stale).ended(0);
    let good = said.stdout.lines().filter(|line| line.contains("good-")).count();
    assert_eq!(
        (good, said.stdout.contains("bad-"), said.stdout.contains("other-")),
        (6, false, false),
        "{said:?}"
    );
}

#[test]
fn a_command_that_is_not_there_stops_the_run_before_anything_starts() {
    let scratch = new();
    scratch.put("one.csv", "harbour,1\nquay,2\nmole,3\n");
    let said =
        scratch.run_with("[[extractor]]\nformat = \"csv\"\ncommand = [\"no-such-program\"]\n").ended(1);
    assert!(said.stderr.contains("there is no program no-such-program on the PATH"), "{}", said.stderr);
}

#[test]
fn pictures_and_pages_that_are_pictures_are_read() {
    let scratch = new();
    let word = std::fs::read(tests::repository().join("supervisor/src/path/builtin/builtin.png")).unwrap();
    scratch.put("word.png", &word);
    scratch.run_with("[recognise]\nenabled = false\n").ended(0);
    assert_eq!(scratch.standing()["word.png"], "quarantined permanent extractor.unavailable 1");
    scratch.run().ended(0);
    assert_eq!(scratch.standing()["word.png"], "indexed - - 1", "due when there is something that reads it");
    assert_eq!(scratch.text("word.png").trim().to_lowercase(), "lazaret");
    let record = &scratch.list()["word.png"];
    assert!(record["pipeline"]["recognise"].as_str().unwrap().starts_with("tesseract "), "{record}");
}

/// What tesseract makes of a page that stands on its head.
const ON_ITS_HEAD: &str =
    "LOOT6'ST TJOT Wd 403eqnNDUT aysedy ayy Aq paydeace sem jesodoid ey a4 UBYM payeEs AjjeW4OJ Sem pafoid";

#[test]
fn what_reads_like_no_language_is_read_once_more_the_right_way_up() {
    let mut scratch = new();
    let code = format!(
        "upright = 'lazaret ' + 'the harbour of the town is open today and its master writes to all of us ' * 6\n\
         turned = 'lazaret ' + \"{ON_ITS_HEAD} \" * 6\n\
         print('tesseract 9' if '--version' in sys.argv else upright if '--psm' in sys.argv else turned)"
    );
    let tesseract = scratch.script("tesseract", &code);
    let path = format!("{}:{}", tesseract.parent().unwrap().display(), std::env::var("PATH").unwrap());
    scratch.variables.push(("PATH".to_owned(), path));
    scratch.put("scan.png", b"\x89PNG\r\n\x1a\n a page on its head");
    scratch.run().ended(0);
    assert!(scratch.text("scan.png").contains("harbour of the town"), "{}", scratch.text("scan.png"));
    assert_eq!(scratch.list()["scan.png"]["text"]["language"], "eng");
    // A command of the user's has its own way: it is asked once.
    let command = format!("[recognise]\ncommand = [\"{}\", \"{{input}}\"]\n", tesseract.display());
    scratch.put("other.png", b"\x89PNG\r\n\x1a\n another page");
    scratch.run_with(&command).ended(0);
    assert!(!scratch.text("other.png").contains("harbour of the town"));
}

#[test]
fn a_document_in_a_file_is_read_like_one_in_memory_and_always_from_its_start() {
    use std::os::fd::OwnedFd;
    let script = Script::copied();
    let path = script.folder.join("spooled");
    fs::write(&path, "a spooled document").unwrap();
    let document = OwnedFd::from(fs::File::open(&path).unwrap());
    fs::remove_file(&path).unwrap();
    block(async {
        for cage in [cage(), bare()] {
            let commands = Commands::new(&cage);
            for words in [&["echo"][..], &["echo", "{input}"], &["echo"]] {
                let job = CommandJob {
                    program: find(&commands, &script.command(words)).await,
                    document: document.try_clone().unwrap().into(),
                    size: 18,
                    name: Vec::new(),
                    format: Format::Text,
                    stage: Stage::Extract,
                    limits: LIMITS,
                };
                let mut kept = Kept::default();
                let ending = commands.run(job, &mut kept).await;
                assert_eq!(
                    (kind(&ending), kept.text.as_str()),
                    ("ended", "a spooled document"),
                    "{ending:?}"
                );
            }
        }
    });
}

#[test]
fn json_gives_metadata_and_text() {
    let script = Script::copied();
    block(async {
        let commands = Commands::new(&cage());
        let as_json = |act| Command { output: OutputKind::Json, ..script.command(&[act]) };
        let program = find(&commands, &as_json("json")).await;
        let mut kept = Kept::default();
        let ending = carry(&commands, &program, b"", &mut kept).await;
        let Outcome::Ended(end) = &ending.outcome else { panic!("{ending:?}") };
        assert_eq!((end.format, end.text_bytes, end.refusal.clone()), (Format::Pdf, 8, None));
        assert_eq!(kept.text, "the text");
        assert_eq!(kept.metadata.unwrap().title.as_deref(), Some("The Title"));
        let program = find(&commands, &as_json("echo")).await;
        let ending = carry(&commands, &program, b"no JSON", &mut Kept::default()).await;
        let fault = fault(ending);
        assert_eq!(fault.kind, Kind::ExtractorFailed);
        assert!(fault.message.starts_with("its output is no JSON"), "{}", fault.message);
    });
}

#[test]
fn text_that_is_no_utf8_is_replaced() {
    let script = Script::copied();
    block(async {
        let (_, kept) = act(&Commands::new(&cage()), &script, &["broken-text"]).await;
        assert_eq!(kept.text, "caf\u{fffd} \u{fffd}");
    });
}

#[test]
fn pdftotext_and_tesseract_read_what_is_theirs() {
    block(async {
        let commands = Commands::new(&cage());
        let program = find(&commands, &command(&["pdftotext", "{input}", "-"])).await;
        assert_eq!(program.name(), "pdftotext");
        assert!(program.version().contains("pdftotext version"), "{}", program.version());
        let report = fs::read(tests::repository().join("fixtures/files/office/report.pdf")).unwrap();
        let mut kept = Kept::default();
        let ending = carry(&commands, &program, &report, &mut kept).await;
        assert_eq!(kind(&ending), "ended", "{ending:?}");
        assert!(kept.text.starts_with("Harbour report for the first quarter.\n"), "{}", kept.text);
        let ending = carry(&commands, &program, b"%PDF-1.4 nonsense", &mut Kept::default()).await;
        assert_eq!(kind(&ending), "extractor.failed");
        let program = find(&commands, &Recognise::default().command()).await;
        assert!(
            program.version().contains("tesseract 5") || program.version().contains("tesseract 4"),
            "{}",
            program.version()
        );
        let mut kept = Kept::default();
        let ending = carry_within(
            &commands,
            &program,
            &page(),
            &mut kept,
            JobLimits { cpu_ms: 20_000, stalled_ms: 20_000, memory: 512 << 20, ..LIMITS },
        )
        .await;
        assert_eq!(kind(&ending), "ended", "{ending:?}");
        assert!(kept.text.contains("HELLO"), "{:?}", kept.text);
    });
}

/// The word HELLO as a picture, a stroke five dots wide: PGM.
fn page() -> Vec<u8> {
    const LETTERS: [[&str; 7]; 4] = [
        ["X   X", "X   X", "X   X", "XXXXX", "X   X", "X   X", "X   X"],
        ["XXXXX", "X    ", "X    ", "XXXX ", "X    ", "X    ", "XXXXX"],
        ["X    ", "X    ", "X    ", "X    ", "X    ", "X    ", "XXXXX"],
        [" XXX ", "X   X", "X   X", "X   X", "X   X", "X   X", " XXX "],
    ];
    const DOT: usize = 8;
    let (wide, high) = (400, 200);
    let mut dots = vec![255_u8; wide * high];
    for (place, letter) in [0, 1, 2, 2, 3].into_iter().enumerate() {
        for (row, line) in LETTERS[letter].iter().enumerate() {
            for (column, _) in line.bytes().enumerate().filter(|(_, dot)| *dot == b'X') {
                let (left, top) = (60 + place * 7 * DOT + column * DOT, 60 + row * DOT);
                for y in top..top + DOT {
                    dots[y * wide + left..][..DOT].fill(0);
                }
            }
        }
    }
    [format!("P5 {wide} {high} 255\n").as_bytes(), &dots].concat()
}

#[test]
fn several_run_at_a_time() {
    let script = Script::copied();
    block(async {
        let commands = Commands::new(&cage());
        let program = find(&commands, &script.command(&["echo"])).await;
        let mut all = tokio::task::JoinSet::new();
        for number in 0..6 {
            let (commands, program) = (commands.clone(), Arc::clone(&program));
            all.spawn(async move {
                let mut kept = Kept::default();
                let bytes = format!("document {number}");
                let ending = carry(&commands, &program, bytes.as_bytes(), &mut kept).await;
                (kind(&ending), kept.text == bytes)
            });
        }
        assert!(all.join_all().await.into_iter().all(|one| one == ("ended", true)));
    });
}

#[test]
fn a_program_that_is_not_to_be_had_is_missing_with_its_reason() {
    let script = Script::copied();
    block(async {
        let commands = Commands::new(&cage());
        let missing = Program::find(&commands, &command(&["no-such-program"])).await.unwrap_err();
        assert_eq!(missing, Missing::NotFound { program: "no-such-program".to_owned() });
        let wrong = script.folder.join("wrong");
        fs::write(&wrong, "#!/no/such/interpreter\n").unwrap();
        std::process::Command::new("chmod").arg("755").arg(&wrong).status().unwrap();
        let missing = Program::find(&commands, &command(&[wrong.to_str().unwrap()])).await.unwrap_err();
        assert!(matches!(missing, Missing::NotRunnable { .. }), "{missing:?}");
        let mut nowhere = cage();
        nowhere.worker = Some(PathBuf::from("/nowhere/lazaret-worker"));
        let missing = Program::find(&Commands::new(&nowhere), &command(&["sh"])).await.unwrap_err();
        assert!(matches!(missing, Missing::NoCage { .. }), "{missing:?}");
    });
}

#[test]
fn the_version_changes_with_the_script() {
    let script = Script::copied();
    block(async {
        let commands = Commands::new(&cage());
        let before = find(&commands, &script.command(&["echo"])).await;
        fs::write(script.folder.join("misbehaving.py"), "print('other')").unwrap();
        let after = find(&commands, &script.command(&["echo"])).await;
        assert_ne!(before.version(), after.version());
    });
}
