//! Live progress on standard error: one line that renews itself on a terminal, plain lines elsewhere.
//!
//! A thread of its own looks at the newest snapshot now and then. The run never waits for it: a terminal that has stopped
//! taking output costs the run nothing, not even at its end. The rate and the time left are the run's to measure; here
//! they are only shown.

use super::style::{grouped, short};
use super::time::span;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// How often the line on a terminal is renewed; the first time after as long.
const RENEWED: Duration = Duration::from_millis(250);
/// How often a plain line is written.
const PLAIN: Duration = Duration::from_secs(10);
/// How long the end waits for the line to be cleared.
const FAREWELL: Duration = Duration::from_millis(500);
/// A document that runs for longer than this is named.
const LONG_MS: u64 = 2_000;

/// What is said when a run was told to stop.
const STOPPING: &str = "stopping: what is in hand is finished first, a second signal ends the run at once";

/// Where a run stands.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    /// The run has been looked at: what is here is true.
    pub known: bool,
    /// Told to stop; what is in hand is finished first.
    pub stopping: bool,
    /// Items that the listing has seen so far.
    pub listed: u64,
    /// The listing is not finished.
    pub listing: bool,
    pub indexed: u64,
    pub suspect: u64,
    pub retrying: u64,
    pub quarantined: u64,
    pub excluded: u64,
    pub deleted: u64,
    pub pending: u64,
    /// What children are at work on: the path, and for how long, in ms.
    pub in_flight: Vec<(String, u64)>,
    /// Documents a second, lately.
    pub rate: f64,
}

/// Shows the progress until it is dropped.
#[derive(Debug)]
pub struct Progress {
    /// Dropping it is the sign to stop.
    stop: Option<Sender<()>>,
    stopped: Receiver<()>,
}

impl Progress {
    /// Shows what `feed` says, on standard error.
    pub fn start(feed: watch::Receiver<Snapshot>) -> Self {
        let (stop, stopping) = channel();
        let (done, stopped) = channel();
        let show = move || {
            if std::io::stderr().is_terminal() {
                on_terminal(&feed, &stopping);
            } else {
                in_lines(&feed, &stopping);
            }
            // Dropped last: the line is gone by now.
            drop(done);
        };
        let spawned = std::thread::Builder::new().name("progress".to_owned()).spawn(show);
        if let Err(error) = spawned {
            tracing::warn!(%error, "no progress is shown: no thread could be started");
        }
        Progress { stop: Some(stop), stopped }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        drop(self.stop.take());
        // Whether the line was cleared in time or not, the run goes on.
        self.stopped.recv_timeout(FAREWELL).unwrap_or_default();
    }
}

fn goes_on(stopping: &Receiver<()>, wait: Duration) -> bool {
    matches!(stopping.recv_timeout(wait), Err(RecvTimeoutError::Timeout))
}

fn on_terminal(feed: &watch::Receiver<Snapshot>, stopping: &Receiver<()>) {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
        bar.set_style(style);
    }
    while goes_on(stopping, RENEWED) {
        bar.set_message(line(&feed.borrow()));
        bar.tick();
    }
    bar.finish_and_clear();
}

fn in_lines(feed: &watch::Receiver<Snapshot>, stopping: &Receiver<()>) {
    let mut shown = Snapshot { listing: true, ..Snapshot::default() };
    let mut last = Instant::now();
    while goes_on(stopping, RENEWED) {
        let now = feed.borrow().clone();
        let text = match milestone(&shown, &now) {
            Some(text) => text,
            None if last.elapsed() >= PLAIN => line(&now),
            None => continue,
        };
        drop(std::io::stderr().write_all(format!("{text}\n").as_bytes()));
        (shown, last) = (now, Instant::now());
    }
}

/// What has happened since that is worth a line of its own.
fn milestone(before: &Snapshot, now: &Snapshot) -> Option<String> {
    if now.stopping && !before.stopping {
        return Some(STOPPING.to_owned());
    }
    (now.known && before.listing && !now.listing)
        .then(|| format!("listed {} items; {} documents to do", grouped(now.listed), grouped(now.pending)))
}

/// The snapshot on one line.
pub fn line(now: &Snapshot) -> String {
    if !now.known {
        return "starting".to_owned();
    }
    let mut parts = Vec::new();
    if now.stopping {
        parts.push(STOPPING.to_owned());
    }
    if now.listing {
        parts.push(format!("listing, {} so far", grouped(now.listed)));
    }
    let states = [
        ("indexed", now.indexed),
        ("suspect", now.suspect),
        ("retrying", now.retrying),
        ("quarantined", now.quarantined),
        ("excluded", now.excluded),
        ("deleted", now.deleted),
    ];
    for (word, number) in states {
        if number > 0 || word == "indexed" {
            parts.push(format!("{} {word}", grouped(number)));
        }
    }
    parts.push(format!("{} to do", grouped(now.pending)));
    if now.rate > 0.0 {
        parts.push(format!("{:.1}/s", now.rate));
    }
    if let Some(ms) = left_ms(now) {
        parts.push(format!("about {} left", span(ms)));
    }
    let longest = now.in_flight.iter().max_by_key(|(_, ms)| *ms).filter(|(_, ms)| *ms >= LONG_MS);
    if let Some((path, ms)) = longest {
        parts.push(format!("{} for {}", short(path, 40), span(*ms)));
    }
    parts.join(", ")
}

/// How long what is to do will take at this rate, once all is listed.
fn left_ms(now: &Snapshot) -> Option<u64> {
    if now.listing || now.pending == 0 || now.rate < 0.01 {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "an estimate for people")]
    let seconds = now.pending as f64 / now.rate;
    let whole = Duration::try_from_secs_f64(seconds).ok()?.as_secs();
    (whole > 0).then(|| whole.saturating_mul(1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot() -> Snapshot {
        Snapshot {
            known: true,
            listed: 1500,
            indexed: 1000,
            quarantined: 3,
            pending: 497,
            rate: 10.0,
            in_flight: vec![("a.pdf".to_owned(), 100), ("slow\u{1b}.pdf".to_owned(), 12_400)],
            ..Snapshot::default()
        }
    }

    #[test]
    fn a_line_says_counts_rate_time_left_and_what_takes_long() {
        assert_eq!(
            line(&snapshot()),
            "1,000 indexed, 3 quarantined, 497 to do, 10.0/s, about 49.0 s left, slow\\u{1b}.pdf for 12.4 s"
        );
        let listing = Snapshot { listing: true, in_flight: vec![], ..snapshot() };
        assert_eq!(line(&listing), "listing, 1,500 so far, 1,000 indexed, 3 quarantined, 497 to do, 10.0/s");
        assert_eq!(line(&Snapshot { known: true, ..Snapshot::default() }), "0 indexed, 0 to do");
        assert_eq!(line(&Snapshot::default()), "starting");
        let nearly_done = Snapshot { pending: 5, in_flight: vec![], ..snapshot() };
        assert_eq!(line(&nearly_done), "1,000 indexed, 3 quarantined, 5 to do, 10.0/s");
    }

    #[test]
    fn the_end_of_the_listing_is_a_milestone_once() {
        let listing = Snapshot { listing: true, ..snapshot() };
        assert_eq!(milestone(&listing, &snapshot()).unwrap(), "listed 1,500 items; 497 documents to do");
        assert_eq!(milestone(&snapshot(), &snapshot()), None);
        assert_eq!(milestone(&listing, &Snapshot::default()), None);
        let stopping = Snapshot { stopping: true, in_flight: vec![], rate: 0.0, ..snapshot() };
        assert_eq!(milestone(&snapshot(), &stopping).unwrap(), STOPPING);
        assert_eq!(milestone(&stopping, &stopping), None);
        assert_eq!(line(&stopping), format!("{STOPPING}, 1,000 indexed, 3 quarantined, 497 to do"));
    }

    #[test]
    fn it_ends_when_it_is_dropped() {
        let (_feed, receiver) = watch::channel(Snapshot::default());
        drop(Progress::start(receiver));
    }
}
