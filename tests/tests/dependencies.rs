//! What is linked into the process that touches hostile bytes is a list that a person has read.

use std::collections::BTreeSet;
use std::process::Command;

/// One more name here is one more party that is trusted with the inside of the cage: add it to the list by hand.
#[test]
fn the_worker_links_what_is_on_the_list_and_nothing_else() {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "-p", "sandbox-worker", "-e", "normal", "--prefix", "none", "--locked", "--offline"])
        .current_dir(tests::repository())
        .output()
        .expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let linked: BTreeSet<&str> = said.lines().filter_map(|line| line.split(' ').next()).collect();
    let list = include_str!("../worker-dependencies.txt");
    let listed: BTreeSet<&str> = list.lines().filter(|line| !line.starts_with('#')).collect();
    let added: Vec<_> = linked.difference(&listed).collect();
    let gone: Vec<_> = listed.difference(&linked).collect();
    assert!(added.is_empty() && gone.is_empty(), "not on the list: {added:?}; no longer linked: {gone:?}");
}
