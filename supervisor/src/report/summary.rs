//! What a run says at its end: one text that can be pasted into a ticket, without colours or control characters, and
//! the same as an object for programs.

use super::style::{self, grouped, safe};
use super::{json, status, time};
use crate::ledger::{Books, Cluster, Millis, RunEnd};
use jiff::tz::TimeZone;
use serde_json::{Value, json};

/// How a run ended and what it left.
#[derive(Debug, Clone)]
pub struct Summary {
    pub outcome: RunEnd,
    /// Why it did not complete.
    pub reason: Option<String>,
    pub took_ms: u64,
    /// Attempts that came to an end in this run.
    pub carried: u64,
    /// Of the sources of the run.
    pub books: Books,
    /// Largest first.
    pub clusters: Vec<Cluster>,
    /// Each is one matter for a person, such as a source that is down.
    pub alerts: Vec<String>,
    /// When something is due again.
    pub next_due: Option<Millis>,
    /// Layers of the cage that do not hold here, and why.
    pub degraded: Vec<(String, String)>,
}

impl Summary {
    /// For people; times in `zone`.
    pub fn text(&self, zone: &TimeZone) -> String {
        let mut parts = vec![self.headline()];
        if !self.alerts.is_empty() {
            parts.push(list("Alerts:", self.alerts.iter().map(|alert| safe(alert))));
        }
        parts.push(status::equation(&self.books));
        if !self.clusters.is_empty() {
            parts.push(format!(
                "What is not indexed, by stage and kind:\n{}",
                status::clusters(&self.clusters)
            ));
        }
        if !self.degraded.is_empty() {
            let layers = self.degraded.iter().map(|(layer, why)| safe(&format!("{layer}: {why}")));
            parts.push(list("Layers of the cage that do not hold here (see `lazaret doctor`):", layers));
        }
        parts.push(self.next(zone));
        parts.join("\n\n")
    }

    /// For programs: stable keys, every key always there.
    pub fn json(&self) -> Value {
        let clusters: Vec<Value> = self.clusters.iter().map(cluster).collect();
        let degraded: Vec<Value> =
            self.degraded.iter().map(|(layer, why)| json!({"layer": layer, "why": why})).collect();
        let mut object = json!({
            "outcome": outcome(self.outcome),
            "reason": self.reason,
            "took_ms": self.took_ms,
            "carried": self.carried,
            "per_second": self.per_second(),
        });
        let rest = json!({
            "clusters": clusters,
            "alerts": self.alerts,
            "next_due": self.next_due.map(time::utc),
            "degraded": degraded,
        });
        for part in [json::books(&self.books), rest] {
            if let (Value::Object(object), Value::Object(mut part)) = (&mut object, part) {
                object.append(&mut part);
            }
        }
        object
    }

    fn headline(&self) -> String {
        let why = self.reason.as_ref().map_or(String::new(), |reason| format!(": {}", safe(reason)));
        format!(
            "Run {}{why}\n{} carried in {} ({:.1} a second)",
            outcome(self.outcome),
            style::count(self.carried, "document", "documents"),
            time::span(self.took_ms),
            self.per_second()
        )
    }

    #[expect(clippy::cast_precision_loss, reason = "a rate for people; counts and times stay far below 2^53")]
    fn per_second(&self) -> f64 {
        let rate = self.carried as f64 * 1000.0 / self.took_ms.max(1) as f64;
        (rate * 10.0).round() / 10.0
    }

    fn next(&self, zone: &TimeZone) -> String {
        let mut steps: Vec<String> = Vec::new();
        if self.outcome != RunEnd::Completed {
            steps.push("lazaret run            goes on where this run ended".to_owned());
        }
        if let Some(first) = self.clusters.first() {
            steps.extend(status::hints(&self.clusters).iter().map(|line| line.trim_start().to_owned()));
            let id: String = first.example.to_string().chars().take(super::table::ID_SHOWN).collect();
            steps.push(format!("lazaret show {id}  tells all about the first example"));
        }
        steps.push("lazaret status         the same equation at any time".to_owned());
        let mut out = list("Next:", steps.into_iter());
        match self.next_due {
            Some(at) => {
                let retrying = grouped(self.books.total.retrying);
                out.push_str(&format_due(&retrying, &time::local(at, zone)));
            }
            None if self.books.total.retrying > 0 => {
                out.push_str("\n  What is retrying is due with the next run.");
            }
            None => {}
        }
        out
    }
}

fn format_due(retrying: &str, at: &str) -> String {
    format!("\n  {retrying} retrying; the first of them is due at {at}: a run from then on takes it up.")
}

fn outcome(end: RunEnd) -> &'static str {
    match end {
        RunEnd::Completed => "completed",
        RunEnd::Aborted => "aborted",
        RunEnd::Interrupted => "interrupted",
    }
}

fn list(title: &str, lines: impl Iterator<Item = String>) -> String {
    let mut out = title.to_owned();
    for line in lines {
        out.push_str("\n  ");
        out.push_str(&line);
    }
    out
}

fn cluster(cluster: &Cluster) -> Value {
    json!({
        "state": cluster.state,
        "stage": cluster.stage,
        "kind": cluster.kind,
        "class": cluster.class,
        "count": cluster.count,
        "example": {
            "id": cluster.example.to_string(),
            "path": cluster.example_path,
            "message": cluster.example_message,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::status::tests::{books, cluster};

    fn summary() -> Summary {
        Summary {
            outcome: RunEnd::Completed,
            reason: None,
            took_ms: 61_700,
            carried: 1234,
            books: books(),
            clusters: vec![cluster()],
            alerts: vec!["source docs: 5 of 6 cannot be read\u{1b}[1m".to_owned()],
            next_due: Some(1_700_000_000_000),
            degraded: vec![("landlock".to_owned(), "not in this kernel".to_owned())],
        }
    }

    #[test]
    fn the_summary_can_be_pasted_into_a_ticket() {
        let text = summary().text(&TimeZone::UTC);
        let id: String = cluster().example.to_string().chars().take(8).collect();
        assert_eq!(
            text,
            format!(
                "\
Run completed
1,234 documents carried in 1 min 1 s (20.0 a second)

Alerts:
  source docs: 5 of 6 cannot be read\\u{{1b}}[1m

docs
  1,234 discovered = 1,200 indexed + 4 suspect + 0 retrying + 20 quarantined + 10 excluded + 0 pending
  coverage 98.0 %; 3 deleted since

The books balance: every document is in exactly one state.

What is not indexed, by stage and kind:
 COUNT  STATE        STAGE    KIND             EXAMPLE
 20     quarantined  extract  parse.encrypted  a\\u{{7}}.pdf: needs a password

Layers of the cage that do not hold here (see `lazaret doctor`):
  landlock: not in this kernel

Next:
  lazaret list --kind parse.encrypted
  lazaret show {id}  tells all about the first example
  lazaret status         the same equation at any time
  0 retrying; the first of them is due at 2023-11-14 22:13:20: a run from then on takes it up."
            )
        );
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'));
    }

    #[test]
    fn programs_get_the_same_with_stable_keys() {
        let object = summary().json();
        let keys: Vec<&String> = object.as_object().unwrap().keys().collect();
        assert_eq!(
            keys,
            [
                "outcome",
                "reason",
                "took_ms",
                "carried",
                "per_second",
                "sources",
                "total",
                "balanced",
                "clusters",
                "alerts",
                "next_due",
                "degraded"
            ]
        );
        assert_eq!(object["next_due"], "2023-11-14T22:13:20.000Z");
        assert_eq!(object["clusters"][0]["kind"], "parse.encrypted");
    }

    #[test]
    fn a_run_that_did_not_complete_says_why_and_how_to_go_on() {
        let summary =
            Summary { outcome: RunEnd::Aborted, reason: Some("the disk is full".to_owned()), ..summary() };
        let text = summary.text(&TimeZone::UTC);
        assert!(text.starts_with("Run aborted: the disk is full\n"), "{text}");
        assert!(text.contains("goes on where this run ended"), "{text}");
    }
}
