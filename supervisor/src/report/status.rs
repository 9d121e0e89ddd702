//! The equation for people: per source in words and numbers, then what failed, in clusters.

use super::style::{self, grouped, percent, quoted, safe, short};
use super::{json, table, time};
use crate::ledger::{Books, Cluster, Counts, Millis, RunRow, Standing};
use jiff::tz::TimeZone;
use std::collections::BTreeMap;

/// All that `status` tells.
#[derive(Debug, Clone, Default)]
pub struct Overview {
    pub books: Books,
    /// Largest first.
    pub clusters: Vec<Cluster>,
    /// By the source's name.
    pub standings: BTreeMap<String, Standing>,
    pub breakers: Vec<BreakerView>,
    pub last_run: Option<RunRow>,
    pub now: Millis,
}

/// A breaker, as people and programs see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BreakerView {
    /// What it is of: `source`, `extractor` or `sink`.
    pub scope: String,
    /// The source's, the extractor's or the sink's name.
    pub name: String,
    /// `open`, `probing` or `closed`.
    pub state: String,
    /// The kind of fault that opened it.
    pub kind: Option<String>,
    pub message: Option<String>,
    pub since: Option<Millis>,
    pub next_probe: Option<Millis>,
    pub failures: u64,
}

/// `status` as people read it; times in `zone`.
pub fn status(of: &Overview, zone: &TimeZone) -> String {
    let mut out = equation_with(&of.books, |counts| {
        of.standings
            .get(&counts.name)
            .map_or(String::new(), |standing| self::standing(standing, of.now, zone))
    });
    if !of.breakers.is_empty() {
        out.push_str("\n\nBreakers:");
        for breaker in &of.breakers {
            out.push_str("\n  ");
            out.push_str(&self::breaker(breaker, zone));
        }
    }
    if let Some(run) = &of.last_run {
        out.push_str("\n\n");
        out.push_str(&last_run(run, zone));
    }
    if !of.clusters.is_empty() {
        out.push_str("\n\nWhat is not indexed, by stage and kind:\n");
        out.push_str(&self::clusters(&of.clusters));
        out.push_str("\n\nWhich ones:\n");
        out.push_str(&hints(&of.clusters).join("\n"));
    }
    out
}

/// How old its failures are and when they are due; nothing where there are none.
fn standing(standing: &Standing, now: Millis, zone: &TimeZone) -> String {
    let mut out = String::new();
    if let Some(at) = standing.oldest_failure {
        let age = time::age(u64::try_from(now.saturating_sub(at)).unwrap_or(0));
        out.push_str(&["\n  oldest failure ", &age, " ago, at ", &time::local(at, zone)].concat());
    }
    let due = [
        (standing.due.now, "now"),
        (standing.due.within_hour, "within the hour"),
        (standing.due.within_day, "within the day"),
        (standing.due.later, "later"),
    ];
    let due: Vec<String> = due
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, when)| format!("{} {when}", grouped(*number)))
        .collect();
    if !due.is_empty() {
        out.push_str("\n  due again: ");
        out.push_str(&due.join(", "));
    }
    if let Some(at) = standing.next_due {
        out.push_str("; the first at ");
        out.push_str(&time::local(at, zone));
    }
    out
}

fn breaker(breaker: &BreakerView, zone: &TimeZone) -> String {
    let mut out = format!("{} {}: {}", breaker.scope, breaker.name, breaker.state);
    if let Some(since) = breaker.since {
        out.push_str(&[" since ", &time::local(since, zone)].concat());
    }
    if breaker.failures > 0 {
        out.push_str(&[", ", &style::count(breaker.failures, "failure", "failures")].concat());
    }
    if let Some(kind) = &breaker.kind {
        out.push_str(&["; ", kind].concat());
    }
    if let Some(message) = &breaker.message {
        out.push_str(&[": ", message].concat());
    }
    if let Some(at) = breaker.next_probe {
        out.push_str(&["; the next probe at ", &time::local(at, zone)].concat());
    }
    safe(&out)
}

fn last_run(run: &RunRow, zone: &TimeZone) -> String {
    let began = time::local(run.began, zone);
    match (run.ended, run.end) {
        (Some(ended), Some(end)) => {
            let took = u64::try_from(ended.saturating_sub(run.began)).unwrap_or(0);
            format!("Last run: {}, began {began}, took {}", end.name(), time::span(took))
        }
        _ => format!("Last run: began {began}; it is on (`lazaret ctl status`), or its supervisor died"),
    }
}

/// The equation of each source, the total where there are several, and whether it holds.
pub(super) fn equation(books: &Books) -> String {
    equation_with(books, |_| String::new())
}

/// The same, with more lines about each source.
fn equation_with(books: &Books, more: impl Fn(&Counts) -> String) -> String {
    if books.sources.is_empty() {
        return "No source is known yet. `lazaret run SOURCE-DIR` ingests one.".to_owned();
    }
    let told = |counts: &Counts| of_one(&safe(&counts.name), counts) + &more(counts);
    let mut parts: Vec<String> = books.sources.iter().map(told).collect();
    if books.sources.len() > 1 {
        parts.push(of_one("All sources", &books.total));
    }
    parts.push(balance(books));
    parts.join("\n\n")
}

fn of_one(name: &str, counts: &Counts) -> String {
    let terms = [
        ("indexed", counts.indexed),
        ("suspect", counts.suspect),
        ("retrying", counts.retrying),
        ("quarantined", counts.quarantined),
        ("excluded", counts.excluded),
        ("pending", counts.pending),
    ];
    let sum: Vec<String> =
        terms.iter().map(|(word, number)| format!("{} {word}", grouped(*number))).collect();
    let deleted = match counts.deleted {
        0 => String::new(),
        number => format!("; {} deleted since", grouped(number)),
    };
    format!(
        "{name}\n  {} discovered = {}\n  coverage {}{deleted}",
        grouped(counts.discovered),
        sum.join(" + "),
        percent(json::coverage(counts))
    )
}

fn balance(books: &Books) -> String {
    if books.balanced {
        return "The books balance: every document is in exactly one state.".to_owned();
    }
    let mut out = "THE BOOKS DO NOT BALANCE: what was counted and what is there differ.".to_owned();
    for difference in &books.differences {
        out.push_str("\n  ");
        out.push_str(&safe(difference));
    }
    out
}

/// One row a cluster, largest first, with one example each.
pub(super) fn clusters(clusters: &[Cluster]) -> String {
    let mut table = table::plain();
    table.set_header(["COUNT", "STATE", "STAGE", "KIND", "EXAMPLE"]);
    for cluster in clusters {
        let message =
            cluster.example_message.as_deref().map_or(String::new(), |m| format!(": {}", short(m, 100)));
        table.add_row([
            grouped(cluster.count),
            cluster.state.name().to_owned(),
            cluster.stage.map_or("-", |stage| stage.name()).to_owned(),
            cluster.kind.map_or("-", |kind| kind.name()).to_owned(),
            format!("{}{message}", short(&cluster.example_path, 60)),
        ]);
    }
    table::trimmed(&table)
}

/// The commands that name the documents of the largest clusters.
pub(super) fn hints(clusters: &[Cluster]) -> Vec<String> {
    const SHOWN: usize = 5;
    let mut commands: Vec<String> = Vec::new();
    for cluster in clusters {
        let command = match cluster.kind {
            Some(kind) => format!("  lazaret list --kind {}", quoted(kind.name())),
            None => format!("  lazaret list --state-is {}", cluster.state),
        };
        if !commands.contains(&command) {
            commands.push(command);
        }
    }
    let more = commands.len().saturating_sub(SHOWN);
    commands.truncate(SHOWN);
    if more > 0 {
        commands.push(format!("  ({} more)", style::count(more as u64, "kind", "kinds")));
    }
    commands
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::ledger::{Dues, RunEnd};
    use crate::rules::kind::{Class, Kind, Stage, State};
    use shared::{DocumentId, Identity};

    pub(crate) fn books() -> Books {
        let counts = |name: &str| Counts {
            name: name.to_owned(),
            discovered: 1234,
            indexed: 1200,
            suspect: 4,
            quarantined: 20,
            excluded: 10,
            deleted: 3,
            ..Counts::default()
        };
        Books { sources: vec![counts("docs")], total: counts(""), balanced: true, differences: vec![] }
    }

    pub(crate) fn cluster() -> Cluster {
        Cluster {
            state: State::Quarantined,
            stage: Some(Stage::Extract),
            kind: Some(Kind::ParseEncrypted),
            class: Some(Class::Permanent),
            count: 20,
            example: DocumentId::derive("docs", &Identity::item(b"a.pdf")),
            example_path: "a\u{7}.pdf".to_owned(),
            example_message: Some("needs a\npassword".to_owned()),
        }
    }

    pub(crate) fn breaker() -> BreakerView {
        BreakerView {
            scope: "source".to_owned(),
            name: "docs".to_owned(),
            state: "open".to_owned(),
            kind: Some("source.denied".to_owned()),
            message: Some("open: \u{7}".to_owned()),
            since: Some(1_700_000_000_000),
            next_probe: Some(1_700_000_001_000),
            failures: 1,
        }
    }

    #[test]
    fn the_equation_and_the_clusters_are_told_in_plain_words() {
        let standing = Standing {
            oldest_failure: Some(1_700_000_000_000),
            due: Dues { now: 1_000, within_hour: 0, within_day: 2, later: 3 },
            next_due: Some(1_700_000_360_000),
        };
        let overview = Overview {
            books: books(),
            clusters: vec![cluster()],
            standings: BTreeMap::from([("docs".to_owned(), standing)]),
            breakers: vec![breaker()],
            last_run: Some(RunRow {
                id: 1,
                began: 1_700_000_000_000,
                boot_id: None,
                ended: Some(1_700_000_061_000),
                end: Some(RunEnd::Completed),
            }),
            now: 1_700_266_400_000,
        };
        assert_eq!(
            status(&overview, &TimeZone::UTC),
            "\
docs
  1,234 discovered = 1,200 indexed + 4 suspect + 0 retrying + 20 quarantined + 10 excluded + 0 pending
  coverage 98.0 %; 3 deleted since
  oldest failure 3 d 2 h ago, at 2023-11-14 22:13:20
  due again: 1,000 now, 2 within the day, 3 later; the first at 2023-11-14 22:19:20

The books balance: every document is in exactly one state.

Breakers:
  source docs: open since 2023-11-14 22:13:20, 1 failure; source.denied: open: \\u{7}; the next probe at 2023-11-14 22:13:21

Last run: completed, began 2023-11-14 22:13:20, took 1 min 1 s

What is not indexed, by stage and kind:
 COUNT  STATE        STAGE    KIND             EXAMPLE
 20     quarantined  extract  parse.encrypted  a\\u{7}.pdf: needs a password

Which ones:
  lazaret list --kind parse.encrypted"
        );
    }

    #[test]
    fn a_run_without_an_end_is_on_or_died() {
        let run = RunRow { id: 1, began: 0, boot_id: None, ended: None, end: None };
        let overview = Overview { last_run: Some(run), ..Overview::default() };
        let text = status(&overview, &TimeZone::UTC);
        assert!(text.contains("Last run: began 1970-01-01 00:00:00; it is on"), "{text}");
    }

    #[test]
    fn books_that_do_not_balance_say_where() {
        let mut books = books();
        books.balanced = false;
        books.differences = vec!["docs: 3 indexed, but 4 rows".to_owned()];
        assert!(equation(&books).ends_with("differ.\n  docs: 3 indexed, but 4 rows"));
        assert!(equation(&Books::default()).starts_with("No source is known yet."));
    }
}
