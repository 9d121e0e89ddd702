//! Opening, closing, locks, schemas and damage.

use super::*;
use crate::ledger::schema::{MIGRATIONS, migrate, version};
use rusqlite::Connection;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::process::Command;

#[test]
fn a_new_ledger_is_private_empty_and_balanced() {
    let folder = Folder::new();
    let ledger = Ledger::open(&folder.state()).unwrap();
    let mode = std::fs::metadata(folder.state()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let books = Reader::open(&folder.state()).unwrap().books().unwrap();
    assert!(books.balanced);
    assert_eq!(books.total, Counts::default());
    ledger.close().unwrap();
}

#[test]
fn a_reader_creates_nothing() {
    let folder = Folder::new();
    assert!(matches!(Reader::open(&folder.state()), Err(LedgerError::Missing(at)) if at == folder.state()));
    assert!(matches!(Ledger::attach(&folder.state()), Err(LedgerError::Missing(_))));
    assert!(!folder.state().exists());
}

#[test]
fn a_reader_reads_live_and_after_the_end_and_cannot_write() {
    let folder = Folder::new();
    let ledger = Ledger::open(&folder.state()).unwrap();
    let early = Reader::open(&folder.state()).unwrap();
    let share = source(&ledger, "share");
    append(&ledger, vec![item(&share, "a.pdf", 1)]);
    assert_eq!(early.books().unwrap().total.pending, 1);
    ledger.close().unwrap();
    let late = Reader::open(&folder.state()).unwrap();
    assert_eq!(late.record(id(&share, "a.pdf")).unwrap().unwrap().state, State::Pending);
    assert_eq!(late.sources().unwrap(), [share]);
}

#[test]
fn one_supervisor_has_the_folder_and_its_death_frees_it() {
    let folder = Folder::new();
    let ledger = Ledger::open(&folder.state()).unwrap();
    match Ledger::open(&folder.state()) {
        Err(LedgerError::Locked { pid, .. }) => assert_eq!(pid, Some(std::process::id())),
        other => panic!("{other:?}"),
    }
    drop(ledger);
    Ledger::open(&folder.state()).unwrap().close().unwrap();
}

#[test]
fn another_process_appends_beside_a_live_supervisor() {
    let folder = Folder::new();
    let ledger = Ledger::open(&folder.state()).unwrap();
    let share = source(&ledger, "share");
    let doc = id(&share, "a.pdf");
    append(&ledger, vec![item(&share, "a.pdf", 1), event(doc, 1, written(b"a", State::Indexed))]);
    let beside = Ledger::attach(&folder.state()).unwrap();
    assert_eq!(changed(&append(&beside, vec![event(doc, 2, Change::Requeued)])[0]).revision, 3);
    beside.close().unwrap();
    // The supervisor holds no copy of the record: what it knew is overtaken.
    let stale = append(&ledger, vec![event(doc, 2, Change::Unwritten)]);
    assert!(matches!(&stale[0], Applied::Overtaken(Some(record)) if record.revision == 3));
    assert!(Reader::open(&folder.state()).unwrap().books().unwrap().balanced);
    ledger.close().unwrap();
}

#[test]
fn handles_cannot_append_after_the_close() {
    let folder = Folder::new();
    let ledger = Ledger::open(&folder.state()).unwrap();
    let share = source(&ledger, "share");
    let handle = ledger.handle();
    ledger.close().unwrap();
    let late = handle.append_blocking(vec![item(&share, "a", 1)], Durability::Synced);
    assert!(matches!(late, Err(LedgerError::Ended)));
}

#[test]
fn the_lock_of_one_that_is_gone_is_waited_for_and_not_for_ever() {
    let folder = Folder::new();
    Ledger::open(&folder.state()).unwrap().close().unwrap();
    let mut gone = Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    let path = folder.state().join("lock");
    std::fs::write(&path, format!("{}\n", gone.id())).unwrap();
    let held = std::fs::File::open(&path).unwrap();
    held.lock().unwrap();
    let locked = Ledger::open(&folder.state()).unwrap_err();
    assert!(matches!(locked, LedgerError::Locked { pid, .. } if pid == Some(gone.id())), "{locked:?}");
    let letting_go = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(50));
        drop(held);
    });
    let ledger = Ledger::open(&folder.state()).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{}\n", std::process::id()));
    ledger.close().unwrap();
    letting_go.join().unwrap();
}

/// The first schema as it was released. It never changes: a ledger on some disk has it.
const RELEASED_V1: &str = include_str!("v1.sql");

fn tables(db: &Connection) -> Vec<(String, Option<String>)> {
    let mut statement = db.prepare("SELECT name, sql FROM sqlite_schema ORDER BY name").unwrap();
    statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect()
}

#[test]
fn every_released_schema_comes_to_be_the_present_one() {
    let mut fresh = Connection::open_in_memory().unwrap();
    migrate(&mut fresh, Path::new("fresh"), MIGRATIONS).unwrap();
    let mut old = Connection::open_in_memory().unwrap();
    old.execute_batch(RELEASED_V1).unwrap();
    assert_eq!(version(&old).unwrap(), 1);
    migrate(&mut old, Path::new("old"), MIGRATIONS).unwrap();
    assert_eq!(tables(&old), tables(&fresh));
    migrate(&mut old, Path::new("old"), MIGRATIONS).unwrap();
    assert_eq!(tables(&old), tables(&fresh));
}

#[test]
fn a_ledger_of_the_first_schema_is_opened_with_what_is_in_it() {
    let folder = Folder::new();
    std::fs::create_dir(folder.state()).unwrap();
    let db = Connection::open(folder.database()).unwrap();
    db.execute_batch(RELEASED_V1).unwrap();
    db.execute_batch("INSERT INTO sources (name, root) VALUES ('share', x'2f61')").unwrap();
    drop(db);
    let ledger = Ledger::open(&folder.state()).unwrap();
    let sources = Reader::open(&folder.state()).unwrap().sources().unwrap();
    assert_eq!(sources[0].root, Path::new("/a"));
    ledger.close().unwrap();
}

#[test]
fn an_upgrade_keeps_what_is_there_and_a_failed_one_loses_nothing() {
    let mut db = Connection::open_in_memory().unwrap();
    migrate(&mut db, Path::new("db"), MIGRATIONS).unwrap();
    db.execute_batch("INSERT INTO sources (name, root) VALUES ('share', x'2f')").unwrap();
    let broken =
        [MIGRATIONS, &["ALTER TABLE sources ADD COLUMN kind TEXT; DELETE FROM sources; SELECT nonsense"]]
            .concat();
    let before = tables(&db);
    assert!(matches!(migrate(&mut db, Path::new("db"), &broken), Err(LedgerError::Sql { .. })));
    assert_eq!(tables(&db), before);
    let count =
        |db: &Connection| db.query_row("SELECT count(*) FROM sources", [], |row| row.get::<_, i64>(0));
    assert_eq!(count(&db).unwrap(), 1);
    let known = i64::try_from(MIGRATIONS.len()).unwrap();
    assert_eq!(version(&db).unwrap(), known);
    let sound = [MIGRATIONS, &["ALTER TABLE sources ADD COLUMN kind TEXT"]].concat();
    migrate(&mut db, Path::new("db"), &sound).unwrap();
    assert_eq!(version(&db).unwrap(), known + 1);
    assert_eq!(count(&db).unwrap(), 1);
}

#[test]
fn a_newer_schema_is_refused_and_left_alone() {
    let folder = Folder::new();
    Ledger::open(&folder.state()).unwrap().close().unwrap();
    let db = Connection::open(folder.database()).unwrap();
    db.pragma_update(None, "user_version", 99).unwrap();
    drop(db);
    let present = i64::try_from(MIGRATIONS.len()).unwrap();
    let newer = |error| matches!(error, LedgerError::Newer { found: 99, known, .. } if known == present);
    assert!(newer(Ledger::open(&folder.state()).unwrap_err()));
    assert!(newer(Reader::open(&folder.state()).unwrap_err()));
    let db = Connection::open(folder.database()).unwrap();
    assert_eq!(version(&db).unwrap(), 99);
}

/// Writes junk over the second half of every page but the first.
fn damage(database: &Path) {
    let file = std::fs::File::options().write(true).open(database).unwrap();
    let pages = file.metadata().unwrap().len() / 4096;
    assert!(pages > 2);
    for page in 1..pages {
        file.write_all_at(&[0xa5; 4096], page * 4096).unwrap();
    }
}

#[test]
fn damage_is_found_after_an_unclean_end_and_the_way_back_is_named() {
    let folder = Folder::new();
    let ledger = Ledger::open(&folder.state()).unwrap();
    let share = source(&ledger, "share");
    append(&ledger, (0..50).map(|n| item(&share, &format!("{n}.pdf"), n)).collect());
    drop(ledger);
    damage(&folder.database());
    let error = Ledger::open(&folder.state()).unwrap_err();
    assert!(matches!(&error, LedgerError::Damaged { path, .. } if *path == folder.database()), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("ledger.sqlite is damaged"), "{text}");
    assert!(text.contains("run again"), "{text}");
}

#[test]
fn damage_met_later_stops_the_writer() {
    let folder = Folder::new();
    let ledger = Ledger::open(&folder.state()).unwrap();
    let share = source(&ledger, "share");
    append(&ledger, (0..50).map(|n| item(&share, &format!("{n}.pdf"), n)).collect());
    ledger.close().unwrap();
    damage(&folder.database());
    // The marker of the clean end is gone with its page, or the first use meets the damage.
    let error = Ledger::open(&folder.state()).unwrap_err();
    assert!(matches!(error, LedgerError::Damaged { .. }), "{error:?}");
    let error = Reader::open(&folder.state()).and_then(|reader| reader.books()).unwrap_err();
    assert!(matches!(error, LedgerError::Damaged { .. }), "{error:?}");
}

#[test]
fn what_is_no_database_is_damage() {
    let folder = Folder::new();
    std::fs::create_dir(folder.state()).unwrap();
    std::fs::write(folder.database(), vec![b'x'; 8192]).unwrap();
    let error = Ledger::open(&folder.state()).unwrap_err();
    assert!(matches!(error, LedgerError::Damaged { .. }), "{error:?}");
}

#[test]
fn a_row_altered_by_hand_is_told_in_words() {
    let folder = Folder::new();
    let ledger = Ledger::open(&folder.state()).unwrap();
    let share = source(&ledger, "share");
    append(&ledger, vec![item(&share, "a.pdf", 1), item(&share, "b.pdf", 2)]);
    ledger.close().unwrap();
    let db = Connection::open(folder.database()).unwrap();
    db.execute("UPDATE documents SET state = 'indexed' WHERE path = 'a.pdf'", []).unwrap();
    drop(db);
    let books = Reader::open(&folder.state()).unwrap().books().unwrap();
    assert!(!books.balanced);
    assert_eq!(
        books.differences,
        [
            "share: 1 documents are indexed, the events say 0",
            "share: 1 documents are pending, the events say 2",
        ]
    );
    let db = Connection::open(folder.database()).unwrap();
    db.execute("DELETE FROM documents WHERE path = 'a.pdf'", []).unwrap();
    drop(db);
    let books = Reader::open(&folder.state()).unwrap().books().unwrap();
    assert_eq!(books.differences.len(), 2);
    assert_eq!(
        books.differences[1],
        "share: 1 documents are in a state, first sights and returns less deletions say 2"
    );
}

#[test]
fn a_full_disk_is_told_with_its_path() {
    let folder = Folder::new();
    let ledger = Ledger::open(&folder.state()).unwrap();
    ledger.close().unwrap();
    let path = folder.database();
    let error = crate::ledger::error::sql(
        &path,
        rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL), None),
    );
    assert!(
        error.to_string().contains(&format!("no space left on the disk for the ledger {}", path.display()))
    );
    assert!(matches!(error, LedgerError::Full { .. }));
    let error = crate::ledger::error::io(&path, std::io::Error::from_raw_os_error(nix::libc::ENOSPC));
    assert!(matches!(error, LedgerError::Full { .. }));
}

#[test]
fn a_failing_request_fails_its_group_and_nothing_of_it_is_kept() {
    let folder = Folder::new();
    let ledger = Ledger::open(&folder.state()).unwrap();
    let share = source(&ledger, "share");
    let other = Connection::open(folder.database()).unwrap();
    // A page limit stands in for a full disk: SQLite says the same.
    other.execute_batch("DROP TABLE in_hand").unwrap();
    let doc = id(&share, "a.pdf");
    let events = vec![item(&share, "a.pdf", 1), event(doc, 1, started())];
    let error = ledger.handle().append_blocking(events, Durability::Journal).unwrap_err();
    assert!(matches!(error, LedgerError::Sql { .. }));
    // Whoever comes later is told the reason as well, and who closes it.
    let again = ledger.handle().append_blocking(vec![item(&share, "b.pdf", 1)], Durability::Journal);
    let named =
        |error: LedgerError| matches!(error, LedgerError::Io { path, .. } if path == folder.database());
    assert!(named(again.unwrap_err()));
    assert!(named(ledger.close().unwrap_err()));
    let books = Reader::open(&folder.state()).unwrap().books().unwrap();
    assert!(books.balanced);
    assert_eq!(books.total.discovered, 0);
}

/// The variable that tells a copy of this test that it is the one to die, and where.
const DIES_IN: &str = "LAZARET_TEST_DIES_IN";

#[test]
fn a_death_at_any_moment_leaves_the_books_balanced() {
    if let Ok(state) = std::env::var(DIES_IN) {
        write_until_killed(Path::new(&state));
    }
    let folder = Folder::new();
    let this = std::env::current_exe().unwrap();
    let mut child = Command::new(this)
        .args([
            "--exact",
            "ledger::tests::opening::a_death_at_any_moment_leaves_the_books_balanced",
            "--nocapture",
        ])
        .env(DIES_IN, folder.state())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    // Not before it has written something: then at once, wherever it is.
    let written = || {
        Reader::open(&folder.state()).and_then(|reader| reader.books()).map(|books| books.total.discovered)
    };
    while written().unwrap_or(0) < 200 {
        assert!(child.try_wait().unwrap().is_none(), "the writer ended by itself");
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let ledger = Ledger::open(&folder.state()).unwrap();
    let reader = Reader::open(&folder.state()).unwrap();
    let books = reader.books().unwrap();
    assert!(books.balanced, "{:?}", books.differences);
    // Each call was one transaction: a document and its start, or neither.
    let started = reader.in_hand().unwrap().len() as u64;
    assert_eq!(started, books.total.discovered);
    ledger.close().unwrap();
}

fn write_until_killed(state: &Path) -> ! {
    let ledger = Ledger::open(state).unwrap();
    let share = source(&ledger, "share");
    for n in 0.. {
        let path = format!("{n}.pdf");
        let doc = id(&share, &path);
        append(&ledger, vec![item(&share, &path, n), event(doc, 1, started())]);
    }
    unreachable!("the numbers do not end")
}
