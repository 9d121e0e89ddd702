//! Whether what a record was made with is still what a document would be carried with today.
//!
//! A stage version may be a chain of engines, joined by [`THEN`]: what the first of them took was made by a part of the
//! chain, and what comes behind it plays no part.
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

use super::kind::Stage;
use crate::ledger::Pipeline;

/// Stands between the engines of a chain.
pub const THEN: &str = " > ";

/// The version of a stage for which there is no engine at the moment. Nothing is better made without one.
pub const NONE: &str = "none";

/// Whether a result made with `made` would be made otherwise with `current`, which is that of the document's format.
///
/// A stage that the record does not name played no part in it.
pub fn is_stale(made: &Pipeline, current: &Pipeline) -> bool {
    made.iter().any(|(stage, version)| is_outdated(version, current.get(stage).map(String::as_str)))
}

/// The same for a failure of `stage`, in which all engines of a chain had their try: nothing up to that stage may have
/// changed.
pub fn has_moved_on(made: &Pipeline, current: &Pipeline, stage: Stage) -> bool {
    current.iter().any(|(at, version)| {
        *at <= stage && version != NONE && made.get(at).map_or(*at == stage, |made| made != version)
    })
}

fn is_outdated(made: &str, current: Option<&str>) -> bool {
    let Some(current) = current else { return true };
    current != made
        && current != NONE
        && !current.strip_prefix(made).is_some_and(|rest| rest.starts_with(THEN))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pipeline(stages: &[(Stage, &str)]) -> Pipeline {
        stages.iter().map(|(stage, version)| (*stage, (*version).to_owned())).collect()
    }

    #[test]
    fn what_the_first_engine_of_a_chain_took_does_not_depend_on_the_second() {
        let made = pipeline(&[(Stage::Identify, "1"), (Stage::Extract, "a 1")]);
        let of =
            |extract| pipeline(&[(Stage::Identify, "1"), (Stage::Extract, extract), (Stage::Recognise, "t")]);
        assert!(!is_stale(&made, &of("a 1")));
        assert!(!is_stale(&made, &of("a 1 > b 2")));
        assert!(is_stale(&made, &of("a 1.1")));
        assert!(is_stale(&made, &of("b 2 > a 1")));
        assert!(is_stale(&made, &pipeline(&[(Stage::Identify, "1")])));
        assert!(is_stale(&pipeline(&[(Stage::Identify, "0")]), &of("a 1")));
    }

    #[test]
    fn a_failure_is_moved_on_by_its_own_stage_and_those_before_it() {
        let made = pipeline(&[(Stage::Identify, "1"), (Stage::Extract, "a 1"), (Stage::Check, "1")]);
        let of = |extract, check| {
            pipeline(&[
                (Stage::Identify, "1"),
                (Stage::Extract, extract),
                (Stage::Recognise, "t"),
                (Stage::Check, check),
            ])
        };
        assert!(!has_moved_on(&made, &of("a 1", "1"), Stage::Check));
        assert!(!has_moved_on(&made, &of("a 1", "2"), Stage::Extract));
        assert!(has_moved_on(&made, &of("a 1", "2"), Stage::Check));
        assert!(has_moved_on(&made, &of("a 2", "1"), Stage::Extract));
        // A failure that a further engine could not have had a hand in.
        assert!(has_moved_on(&made, &of("a 1 > b 1", "1"), Stage::Extract));
        // It failed for want of recognition, and there is one now.
        assert!(has_moved_on(&made, &of("a 1", "1"), Stage::Recognise));
        // There is less than there was.
        let none = pipeline(&[(Stage::Identify, "1"), (Stage::Extract, NONE)]);
        assert!(!has_moved_on(&made, &none, Stage::Extract));
        assert!(!is_stale(
            &made,
            &pipeline(&[(Stage::Identify, "1"), (Stage::Extract, NONE), (Stage::Check, "1")])
        ));
    }
}
