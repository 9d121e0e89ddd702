//! `lazaret reconcile`: source against ledger against sink, by name.

use super::args::{DriftFormat, ReconcileArgs};
use super::settings::settings;
use super::{CliError, Common, Exit, Outcome, open};
use crate::ledger::{LedgerError, Reader};
use crate::report::style::{count, safe};
use crate::report::{Printer, json};
use crate::rules::reconcile::DriftKind;
use crate::run::RunError;
use crate::run::reconcile::{Compared, Drift, Plan, reconcile};
use serde_json::{Map, Value, json};
use std::io;
use std::ops::ControlFlow;

pub(super) fn run(common: &Common, args: &ReconcileArgs, printer: &mut Printer) -> Outcome {
    let settings = settings(common)?;
    let (sources, several) = sources(common, &args.sources)?;
    let plan = Plan { settings, state: common.state.clone(), sources, repair: args.repair };
    let mut out = Drifts { format: args.format, several, first: true, printer };
    let mut failed = None;
    let outcome = reconcile(&plan, &mut |drift| match out.drift(drift) {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            failed = Some(error);
            ControlFlow::Break(())
        }
    });
    failed.map_or(Ok(()), Err)?;
    let compared = outcome.map_err(refused)?;
    out.end(&compared, args.repair)?;
    Ok(if compared.left() > 0 { Exit::Short } else { Exit::Completed })
}

/// The names of the sources that are meant, each given by its name or its folder; and whether the ledger knows several.
fn sources(common: &Common, given: &[String]) -> Result<(Vec<String>, bool), CliError> {
    let reader = match Reader::open(&common.state) {
        // Taking the lock brings it up to date.
        Err(LedgerError::Older { .. }) => {
            crate::ledger::Ledger::open(&common.state)?.close()?;
            open::ledger(common)?
        }
        opened => opened?,
    };
    let known = reader.sources()?;
    let mut names = Vec::new();
    for word in given {
        let folder = std::path::Path::new(word).canonicalize().ok();
        let of_folder = folder.map(|folder| super::run::name_of(&folder));
        let name =
            known.iter().find(|source| source.name == *word || Some(&source.name) == of_folder.as_ref());
        match name {
            Some(source) => names.push(source.name.clone()),
            None => open::known_source(&reader, word)?,
        }
    }
    Ok((names, known.len() > 1))
}

fn refused(error: RunError) -> CliError {
    let is_on = matches!(error, RunError::Ledger(LedgerError::Locked { .. }));
    let error = CliError::from(error);
    if is_on {
        error.hint("what a live run is changing cannot be compared: reconcile when it has ended")
    } else {
        error
    }
}

struct Drifts<'a> {
    format: DriftFormat,
    /// There are several sources to be told apart.
    several: bool,
    first: bool,
    printer: &'a mut Printer,
}

impl Drifts<'_> {
    fn drift(&mut self, drift: &Drift) -> io::Result<()> {
        let line = match self.format {
            DriftFormat::Text => for_people(drift, self.several),
            DriftFormat::Jsonl => json::line(&object(drift)),
            DriftFormat::Json if self.first => ["{\"drifts\":[", &json::line(&object(drift))].concat(),
            DriftFormat::Json => [",", &json::line(&object(drift))].concat(),
        };
        self.first = false;
        self.printer.line(&line)
    }

    fn end(&mut self, compared: &Compared, repair: bool) -> io::Result<()> {
        for note in &compared.notes {
            self.printer.note(note);
        }
        match self.format {
            DriftFormat::Jsonl => Ok(()),
            DriftFormat::Json => {
                let begin = if self.first { "{\"drifts\":[" } else { "" };
                let found: Map<String, Value> = DriftKind::ALL
                    .iter()
                    .map(|kind| {
                        (kind.name().to_owned(), compared.found.get(kind).copied().unwrap_or(0).into())
                    })
                    .collect();
                let (found, repaired, left) = (Value::Object(found), compared.repaired, compared.left());
                let rest = format!("{begin}],\"found\":{found},\"repaired\":{repaired},\"left\":{left}}}");
                self.printer.line(&rest)
            }
            DriftFormat::Text => self.printer.line(&summary(compared, repair)),
        }
    }
}

fn object(drift: &Drift) -> Value {
    json!({
        "kind": drift.kind.name(),
        "source": drift.source,
        "path": drift.path,
        "id": drift.id.map(|id| id.to_string()),
        "detail": drift.detail,
        "repaired": drift.repaired,
    })
}

fn for_people(drift: &Drift, several: bool) -> String {
    let mut place = match (&drift.path, drift.id, &drift.source) {
        (Some(path), ..) => safe(path),
        (None, Some(id), _) => id.to_string(),
        (None, None, Some(source)) => safe(source),
        (None, None, None) => String::new(),
    };
    if several && let (Some(source), true) = (&drift.source, drift.path.is_some()) {
        place = [&place, " in ", &safe(source)].concat();
    }
    if !place.is_empty() {
        place.push_str(": ");
    }
    let repaired = if drift.repaired { "  [repaired]" } else { "" };
    format!("{:<18}{place}{}{repaired}", drift.kind.name(), safe(&drift.detail))
}

fn summary(compared: &Compared, repair: bool) -> String {
    let all: u64 = compared.found.values().sum();
    if all == 0 {
        return "No drift: source, ledger and sink agree.".to_owned();
    }
    let by_kind: Vec<String> =
        compared.found.iter().map(|(kind, number)| format!("{number} {}", kind.name())).collect();
    let mut out = format!("{}: {}", count(all, "drift", "drifts"), by_kind.join(", "));
    if repair {
        out.push_str(&["; ", &compared.repaired.to_string(), " repaired"].concat());
        if compared.repaired > 0 {
            out.push_str(", what is due is taken by the next `lazaret run`");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::tests::Kept;
    use super::*;
    use std::collections::BTreeMap;

    fn drift() -> Drift {
        Drift {
            kind: DriftKind::MissingText,
            source: Some("docs".to_owned()),
            path: Some("a\u{1b}.pdf".to_owned()),
            id: None,
            detail: "the index has no text of it; the ledger says indexed".to_owned(),
            repaired: true,
        }
    }

    fn printed(format: DriftFormat, drifts: usize) -> String {
        let (out, err) = (Kept::default(), Kept::default());
        let mut printer = Printer::to(Box::new(out.clone()), Box::new(err));
        let mut drifted = Drifts { format, several: false, first: true, printer: &mut printer };
        let mut compared = Compared::default();
        for _ in 0..drifts {
            drifted.drift(&drift()).unwrap();
            *compared.found.entry(DriftKind::MissingText).or_default() += 1;
            compared.repaired += 1;
        }
        drifted.end(&compared, true).unwrap();
        out.text()
    }

    #[test]
    fn people_get_a_line_a_drift_and_the_sum() {
        assert_eq!(
            printed(DriftFormat::Text, 1),
            "missing_text      a\\u{1b}.pdf: the index has no text of it; the ledger says indexed  [repaired]\n\
             1 drift: 1 missing_text; 1 repaired, what is due is taken by the next `lazaret run`\n"
        );
        assert_eq!(printed(DriftFormat::Text, 0), "No drift: source, ledger and sink agree.\n");
        assert!(for_people(&drift(), true).contains("a\\u{1b}.pdf in docs: "));
    }

    #[test]
    fn programs_get_one_object_or_one_a_line_whatever_there_is() {
        for drifts in [0, 1, 3] {
            let whole: BTreeMap<String, Value> =
                serde_json::from_str(&printed(DriftFormat::Json, drifts)).unwrap();
            assert_eq!(whole["drifts"].as_array().unwrap().len(), drifts);
            assert_eq!(whole["found"]["missing_text"], drifts);
            assert_eq!(whole["found"].as_object().unwrap().len(), DriftKind::ALL.len());
            assert_eq!((&whole["repaired"], &whole["left"]), (&Value::from(drifts), &Value::from(0)));
            let lines = printed(DriftFormat::Jsonl, drifts);
            assert_eq!(lines.lines().count(), drifts);
            let keys = ["kind", "source", "path", "id", "detail", "repaired"];
            for line in lines.lines() {
                let object: Value = serde_json::from_str(line).unwrap();
                assert_eq!(object.as_object().unwrap().keys().collect::<Vec<_>>(), keys);
            }
        }
    }
}
