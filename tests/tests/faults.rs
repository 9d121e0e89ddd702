//! The page that describes the fault language is true: each act ends as it says there.

use tests::{Programs, Scratch, faults};

const PROGRAMS: Programs = tests::programs!();

#[test]
fn each_act_ends_as_its_page_says() {
    let mut scratch = Scratch::new(PROGRAMS);
    scratch.settings.extend(faults::SETTINGS.map(str::to_owned));
    let acts = faults::acts();
    assert!(acts.len() > 120, "the tables are not read whole: {}", acts.len());
    for (number, act) in acts.iter().enumerate() {
        scratch.put(&format!("{number:04}"), act.document("alone"));
    }
    scratch.run().ended(0);
    let ends: std::collections::BTreeMap<_, _> = faults::ends(&scratch).into_iter().collect();
    let wrong: Vec<_> = acts
        .iter()
        .enumerate()
        .map(|(number, act)| (act, &ends[&format!("{number:04}")]))
        .filter(|(act, end)| act.ends_as != **end)
        .map(|(act, end)| format!("`{}` is to end as {}, and ended as {end}", act.line, act.ends_as))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
