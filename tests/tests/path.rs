//! Every fixture reaches the ending that the manifest names, with the fault language off and on.

use tests::{Programs, Scratch, folded, manifest};

const PROGRAMS: Programs = tests::programs!();

fn over_the_fixtures(scratch: &Scratch) {
    let files = manifest::files();
    scratch.call(&["run", files.to_str().expect("the path is UTF-8")]).ended(0);
}

#[test]
fn every_fixture_comes_to_the_end_that_the_manifest_names() {
    let scratch = Scratch::new(PROGRAMS);
    over_the_fixtures(&scratch);
    let records = scratch.list();
    let mut wrong = Vec::new();
    for expected in &manifest::read().document {
        let Some(record) = records.get(&expected.path) else {
            wrong.push(format!("{}: no record", expected.path));
            continue;
        };
        if record["state"] != expected.state.as_str()
            || expected.kind.is_some() && record["kind"].as_str() != expected.kind.as_deref()
        {
            wrong.push(format!(
                "{}: {} {} {}",
                expected.path, record["state"], record["kind"], record["message"]
            ));
        }
        if let Some(snippet) = &expected.snippet {
            let text = folded(&scratch.text(record["id"].as_str().expect("an id is a string")));
            if !text.contains(snippet.as_str()) {
                wrong.push(format!("{}: its text lacks {snippet:?}", expected.path));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(scratch.status()["balanced"], true);
}

#[test]
fn with_the_fault_language_on_each_fault_document_gets_its_kind() {
    let scratch =
        Scratch::new(PROGRAMS).with("cage.faults=true").with("limits.cpu='1s'").with("limits.memory='64MiB'");
    over_the_fixtures(&scratch);
    let records = scratch.list();
    for expected in manifest::read().document {
        let Some(ending) = expected.with_faults else { continue };
        let record = &records[&expected.path];
        assert_eq!(
            (record["state"].as_str(), record["kind"].as_str()),
            (Some(ending.state.as_str()), ending.kind.as_deref()),
            "{}: {record}",
            expected.path
        );
    }
}

#[test]
fn a_second_run_over_the_same_files_changes_nothing() {
    let scratch = Scratch::new(PROGRAMS);
    over_the_fixtures(&scratch);
    let first = scratch.list();
    over_the_fixtures(&scratch);
    assert_eq!(scratch.list(), first);
}
