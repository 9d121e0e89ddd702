//! `lazaret doctor`: what the examination found, for people or for programs.

use super::args::{DoctorArgs, Format};
use super::settings::settings;
use super::{Cause, CliError, Common, Exit, Outcome};
use crate::doctor::{LayerReport, LayerState, Report, examine};
use crate::report::style::safe;
use crate::report::{Printer, json};

pub(super) fn run(common: &Common, args: &DoctorArgs, printer: &mut Printer) -> Outcome {
    let settings = settings(common)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CliError::of(Cause::Structural, &error))?;
    let report = runtime.block_on(examine(&settings.cage));
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
        1 => {
            "A layer that the settings require does not hold: `lazaret run` refuses to start here.".to_owned()
        }
        _ => "Documents are contained here, and not by every layer; each record says which ones held."
            .to_owned(),
    }
}

fn layer(report: &LayerReport) -> String {
    let word = match report.state {
        LayerState::Enforced => "enforced",
        LayerState::Degraded => "degraded",
        LayerState::Absent => "absent",
    };
    let required = if report.required { " (required)" } else { "" };
    let line = format!("{word:<9} {:<20} {}{required}", report.layer, safe(&report.reason));
    match report.fix {
        Some(fix) => format!("{line}\n{:30} fix: {fix}", ""),
        None => line,
    }
}
