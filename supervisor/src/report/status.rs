//! The equation for people: per source in words and numbers, then what failed, in clusters.

use super::style::{self, grouped, percent, quoted, safe, short};
use super::{json, table};
use crate::ledger::{Books, Cluster, Counts};

/// `status` as people read it.
pub fn status(books: &Books, clusters: &[Cluster]) -> String {
    let mut out = equation(books);
    if !clusters.is_empty() {
        out.push_str("\n\nWhat is not indexed, by stage and kind:\n");
        out.push_str(&self::clusters(clusters));
        out.push_str("\n\nWhich ones:\n");
        out.push_str(&hints(clusters).join("\n"));
    }
    out
}

/// The equation of each source, the total where there are several, and whether it holds.
pub(super) fn equation(books: &Books) -> String {
    if books.sources.is_empty() {
        return "No source is known yet. `lazaret run SOURCE-DIR` ingests one.".to_owned();
    }
    let mut parts: Vec<String> =
        books.sources.iter().map(|counts| of_one(&safe(&counts.name), counts)).collect();
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

    #[test]
    fn the_equation_and_the_clusters_are_told_in_plain_words() {
        assert_eq!(
            status(&books(), &[cluster()]),
            "\
docs
  1,234 discovered = 1,200 indexed + 4 suspect + 0 retrying + 20 quarantined + 10 excluded + 0 pending
  coverage 98.0 %; 3 deleted since

The books balance: every document is in exactly one state.

What is not indexed, by stage and kind:
 COUNT  STATE        STAGE    KIND             EXAMPLE
 20     quarantined  extract  parse.encrypted  a\\u{7}.pdf: needs a password

Which ones:
  lazaret list --kind parse.encrypted"
        );
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
