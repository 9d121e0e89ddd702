//! `lazaret doctor`: what the examination found, for people or for programs.

use super::args::{DoctorArgs, Format};
use super::settings::settings;
use super::{Cause, CliError, Common, Exit, Outcome, threads};
use crate::doctor::{CommandCage, LayerReport, LayerState, Report, Wanted, examine_all};
use crate::report::style::safe;
use crate::report::{Printer, json};

pub(super) fn run(common: &Common, args: &DoctorArgs, printer: &mut Printer) -> Outcome {
    let settings = settings(common)?;
    let runtime = threads::runtime()?;
    let report = runtime.block_on(examine_all(&settings));
    match args.format {
        Format::Json => {
            let value =
                serde_json::to_value(&report).map_err(|error| CliError::of(Cause::Structural, &error))?;
            printer.line(&json::line(&value))?;
        }
        Format::Text => printer.line(&for_people(&report))?,
    }
    Ok(match report.exit_code() {
        0 => Exit::Completed,
        1 => Exit::Aborted,
        _ => Exit::Short,
    })
}

fn for_people(report: &Report) -> String {
    let mut parts = vec![headline(report)];
    if let Some(broken) = &report.broken {
        parts.push(format!("No child can be made here: {}", safe(broken)));
    }
    parts.push(report.layers.iter().map(layer).collect::<Vec<_>>().join("\n"));
    if let Some(cage) = &report.commands {
        let lines = std::iter::once(command_cage(cage)).chain(report.programs.iter().map(program));
        parts.push(lines.collect::<Vec<_>>().join("\n"));
    }
    let got_through: Vec<_> = report.attacks.iter().filter(|attack| !attack.held).collect();
    let all = report.attacks.len();
    let mut attacks = vec![format!("{} of {all} attacks were stopped and named", all - got_through.len())];
    for attack in got_through {
        attacks.push(format!(
            "  {}: expected {}, got {}",
            safe(&attack.name),
            safe(&attack.expected),
            safe(&attack.got)
        ));
    }
    parts.push(attacks.join("\n"));
    if let Some(cost) = report.cost {
        parts.push(format!(
            "A small document takes {} µs from end to end; a zygote has touched {} KiB",
            cost.document_us, cost.zygote_touched_kib
        ));
    }
    parts.push(
        report
            .facts
            .iter()
            .map(|(name, value)| format!("  {name:<26} {}", safe(value)))
            .collect::<Vec<_>>()
            .join("\n"),
    );
    parts.join("\n\n")
}

fn headline(report: &Report) -> String {
    match report.exit_code() {
        0 => "Every layer is enforced.".to_owned(),
        1 => "A layer or a program that the settings require is not there: `lazaret run` refuses to start here."
            .to_owned(),
        _ => "Documents are contained here, and not by every layer; each record says which ones held."
            .to_owned(),
    }
}

fn word(state: LayerState) -> &'static str {
    match state {
        LayerState::Enforced => "enforced",
        LayerState::Degraded => "degraded",
        LayerState::Absent => "absent",
    }
}

fn command_cage(cage: &CommandCage) -> String {
    format!("{:<9} {:<20} {}", word(cage.state), "external commands", safe(&cage.reason))
}

fn program(wanted: &Wanted) -> String {
    let (word, said) = match (&wanted.version, &wanted.missing) {
        (Some(version), None) => ("found", version.clone()),
        (Some(version), Some(missing)) => ("partly", format!("{version}, without {missing}")),
        (None, missing) => ("missing", missing.clone().unwrap_or_default()),
    };
    let name = wanted.program.rsplit('/').next().unwrap_or_default();
    let line = format!("{word:<9} {:<20} {}; it {}", safe(name), safe(&said), wanted.purpose);
    match &wanted.fix {
        Some(fix) => format!("{line}\n{:30} fix: {}", "", safe(fix)),
        None => line,
    }
}

fn layer(report: &LayerReport) -> String {
    let word = word(report.state);
    let required = if report.required { " (required)" } else { "" };
    let line = format!("{word:<9} {:<20} {}{required}", report.layer, safe(&report.reason));
    match report.fix {
        Some(fix) => format!("{line}\n{:30} fix: {fix}", ""),
        None => line,
    }
}
