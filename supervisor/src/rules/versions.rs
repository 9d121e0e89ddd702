//! Whether what was made of a document would be made the same way today.
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

use super::kind::Stage;
use crate::ledger::Pipeline;

/// Between the engines of a chain, in the order in which they are tried.
const THEN: &str = " > ";

/// Whether a result made under `record_pipeline` was made under a stage version that is no longer `current`, the pipeline
/// of today for a document of this format. Where nothing was made, nothing is stale.
///
/// A stage is stale that both have under other versions, and one that the result lacks. `recognise` is not tried on every
/// document: a result without it is current, one with it is stale where there is none any more. Of a chain of engines
/// only those up to the one that took the document count.
pub fn is_stale(record_pipeline: &Pipeline, current: &Pipeline) -> bool {
    if record_pipeline.is_empty() {
        return false;
    }
    Stage::ALL.iter().any(|stage| match (record_pipeline.get(stage), current.get(stage)) {
        (Some(made), Some(now)) => !is_beginning(made, now),
        (None, Some(_)) => *stage != Stage::Recognise,
        (Some(_), None) => *stage == Stage::Recognise,
        (None, None) => false,
    })
}

/// Whether `made` is `now`, or the first engines of it.
fn is_beginning(made: &str, now: &str) -> bool {
    now.strip_prefix(made).is_some_and(|rest| rest.is_empty() || rest.starts_with(THEN))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pipeline(stages: &[(Stage, &str)]) -> Pipeline {
        stages.iter().map(|(stage, version)| (*stage, (*version).to_owned())).collect()
    }

    #[test]
    fn each_pair_of_pipelines_has_its_verdict() {
        use Stage::{Check, Extract, Identify, Recognise};
        for (made, now, stale) in [
            (&[(Identify, "1"), (Extract, "1 a")][..], &[(Identify, "1"), (Extract, "1 a")][..], false),
            (&[(Extract, "1 a")], &[(Extract, "2 a")], true),
            (&[(Extract, "1")], &[(Extract, "10")], true),
            (&[], &[(Extract, "1")], false),
            (&[(Identify, "1")], &[(Identify, "1"), (Extract, "1")], true),
            (&[(Identify, "1"), (Extract, "1")], &[(Identify, "1")], false),
            (&[(Extract, "1")], &[(Extract, "1"), (Recognise, "5")], false),
            (&[(Extract, "1"), (Recognise, "5")], &[(Extract, "1")], true),
            (&[(Extract, "1"), (Recognise, "5")], &[(Extract, "1"), (Recognise, "6")], true),
            (&[(Extract, "a 1")], &[(Extract, "a 1 > b 2")], false),
            (&[(Extract, "a 1 > b 2")], &[(Extract, "a 1 > b 2 > c 3")], false),
            (&[(Extract, "b 2")], &[(Extract, "a 1 > b 2")], true),
            (&[(Extract, "a 1 > b 2")], &[(Extract, "a 1")], true),
            (&[(Extract, "a 1"), (Check, "1")], &[(Extract, "a 12"), (Check, "1")], true),
        ] {
            assert_eq!(is_stale(&pipeline(made), &pipeline(now)), stale, "{made:?} {now:?}");
        }
    }
}
