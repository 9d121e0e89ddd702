//! What a document's isolation costs: `cargo build --release --workspace && target/release/measure [isolation|crash|corpus]`.
//!
//! Every figure is a ratio or a difference between programs that are measured in turns within this one run; the spread over the
//! rounds stands beside it. Nothing here passes or fails.
//!
//! * `isolation`: one small text through the whole cage (descriptors, child, lock-down, answer, reaping) against the floor:
//!   `fork`, nine limits and `wait` of a process with 16 MiB touched. Then the same with one layer left out at a time.
//! * `crash`: a document that ends in a segmentation fault against one that ends well.
//! * `corpus`: the `ok` rows of `../shared/corpus`, twenty times, through the cage and in this process, at the same concurrency,
//!   extraction only.
#![expect(clippy::print_stdout, reason = "its output is what it is for")]

use sandbox_worker::extract::{Document, Frames, Output, measure};
use shared::{Answer, Format, Layer, Layers, Limits, frame};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use supervisor::pool::{Flow, JobLimits, Outcome, Pool, Receiver};
use supervisor::rules::identify::identify;
use supervisor::settings::{Cage, Settings};
use tests::caged::job;

const ROUNDS: usize = 7;
const DOCUMENTS: usize = 300;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let on = |name: &str| wanted.is_empty() || wanted.iter().any(|word| word == name);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime can be made");
    if wanted.iter().any(|word| word == "first") {
        first();
        return;
    }
    if on("isolation") {
        runtime.block_on(isolation());
    }
    if on("crash") {
        runtime.block_on(crash());
    }
    if on("corpus") {
        runtime.block_on(corpus());
    }
}

/// A program that is built with this one.
fn beside(name: &str) -> PathBuf {
    std::env::current_exe().expect("a running program has a path").with_file_name(name)
}

fn cage(omit: Layers) -> Cage {
    let mut cage = Settings::load(None, &[]).expect("the defaults are valid").cage;
    cage.worker = Some(beside("worker-under-test"));
    cage.faults = true;
    cage.omit = omit;
    cage
}

struct Sink {
    bytes: usize,
}

impl Receiver for Sink {
    fn take(&mut self, answer: Answer) -> Flow {
        if let Answer::Text(text) = answer {
            self.bytes += text.len();
        }
        Flow::Continue
    }
}

/// One document through the cage; µs from its bytes in memory to its end reaped.
async fn through(pool: &Pool, bytes: &[u8], format: Format) -> (f64, Outcome) {
    let began = Instant::now();
    let mut lease = pool.lend().await;
    let ending =
        lease.run(job(bytes, format, JobLimits::from(&Limits::default())), &mut Sink { bytes: 0 }).await;
    (micros(began), ending.outcome)
}

#[expect(clippy::cast_precision_loss, reason = "microseconds of a benchmark")]
fn micros(began: Instant) -> f64 {
    began.elapsed().as_nanos() as f64 / 1000.0
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn spread(name: &str, unit: &str, values: &[f64]) {
    let (low, high) = values.iter().fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(*v), high.max(*v)));
    println!("{name:46} {:9.2} {unit}   ({low:.2} to {high:.2})", median(values.to_vec()));
}

fn floor(mib: usize) -> f64 {
    let output = Command::new(beside("floor")).args([mib.to_string(), DOCUMENTS.to_string()]).output();
    let output = output.expect("the floor's program starts");
    median(String::from_utf8_lossy(&output.stdout).lines().filter_map(|line| line.parse().ok()).collect())
}

async fn small(pool: &Pool) -> f64 {
    let mut all = Vec::new();
    for _ in 0..DOCUMENTS {
        let (took, outcome) = through(pool, b"A small text that is soon read.\n", Format::Text).await;
        assert!(matches!(outcome, Outcome::Ended(_)), "{outcome:?}");
        all.push(took);
    }
    median(all)
}

async fn isolation() {
    println!(
        "== isolation of one small document ({ROUNDS} rounds of {DOCUMENTS}; medians, lowest and highest round)"
    );
    let pool = Pool::start(&cage(Layers::NONE), 1).await.expect("the cage stands");
    let (mut floors, mut caged, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (floor, caged_now) = (floor(16), small(&pool).await);
        floors.push(floor);
        caged.push(caged_now);
        ratios.push(caged_now / floor);
    }
    spread("floor: fork, limits, wait, 16 MiB touched", "µs", &floors);
    spread("a document through the whole cage", "µs", &caged);
    spread("ratio", "×", &ratios);
    println!("-- without one layer: what it costs a document");
    for &layer in Layer::ALL {
        let without = Pool::start(&cage(Layers::NONE.with(layer)), 1).await;
        let Ok(without) = without else { continue };
        let mut costs = Vec::new();
        for _ in 0..3 {
            let (all, less) = (small(&pool).await, small(&without).await);
            costs.push(all - less);
        }
        spread(layer.name(), "µs", &costs);
    }
}

async fn crash() {
    println!("== the price of a crash ({ROUNDS} rounds of {DOCUMENTS})");
    let pool = Pool::start(&cage(Layers::NONE), 1).await.expect("the cage stands");
    let mut more = Vec::new();
    for _ in 0..ROUNDS {
        let (mut clean, mut crashed) = (Vec::new(), Vec::new());
        for _ in 0..DOCUMENTS {
            clean.push(through(&pool, b"#!lazaret-fault 1\ntext well\n", Format::Fault).await.0);
            let (took, outcome) = through(&pool, b"#!lazaret-fault 1\nsignal segv\n", Format::Fault).await;
            assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
            crashed.push(took);
        }
        more.push(median(crashed) - median(clean));
    }
    spread("a crashing document above a clean one", "µs", &more);
}

#[derive(Debug)]
struct Row {
    path: String,
    bytes: Vec<u8>,
    format: Format,
}

fn rows() -> Vec<Row> {
    let corpus = tests::repository().parent().expect("the repository lies somewhere").join("shared/corpus");
    let Ok(table) = std::fs::read_to_string(corpus.join("expected.tsv")) else {
        println!("no corpus at {}: left out", corpus.display());
        return Vec::new();
    };
    table
        .lines()
        .skip(1)
        .map(|line| line.split('\t').collect::<Vec<_>>())
        .filter(|row| row.len() > 4 && row[4] == "ok")
        .filter_map(|row| {
            let bytes = std::fs::read(corpus.join("files").join(row[1])).ok()?;
            let head = &bytes[..bytes.len().min(4096)];
            let format = identify(head, bytes.len() as u64, row[1].as_bytes(), false).format;
            Some(Row { path: row[1].to_owned(), bytes, format })
        })
        .collect()
}

/// Takes the frames and forgets them.
struct Nowhere;

impl Frames for Nowhere {
    fn frame(&mut self, _kind: frame::Kind, _payload: &[u8]) {}
    fn raw(&mut self, _bytes: &[u8]) {}
    fn nonce(&self) -> [u8; 16] {
        [0; 16]
    }
}

fn in_process(row: &Row) -> f64 {
    let began = Instant::now();
    let document = Document { bytes: &row.bytes, name: row.path.as_bytes(), passwords: &[] };
    let mut nowhere = Nowhere;
    let mut out = Output::new(&mut nowhere);
    std::hint::black_box(measure::extract_in_process(row.format, &document, &mut out));
    out.flush();
    micros(began)
}

async fn corpus() {
    let rows: Arc<Vec<Row>> = Arc::new(rows());
    if rows.is_empty() {
        return;
    }
    let wide = std::thread::available_parallelism().map_or(2, usize::from);
    const TIMES: usize = 20;
    println!("== {} `ok` rows of the corpus, {TIMES} times, {wide} at a time", rows.len());
    let pool = Arc::new(Pool::start(&cage(Layers::NONE), wide).await.expect("the cage stands"));
    let (mut above, mut speeds) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let bare = threads(&rows, wide, TIMES);
        let caged = tasks(&pool, &rows, wide, TIMES).await;
        #[expect(clippy::cast_precision_loss, reason = "a few thousand documents")]
        let documents = (rows.len() * TIMES) as f64;
        #[expect(clippy::cast_precision_loss, reason = "a few processors")]
        let wide = wide as f64;
        above.push((caged - bare) * wide / documents);
        speeds.push(bare / caged);
    }
    spread("a document above in-process", "µs", &above);
    spread("speed of the whole against in-process", "×", &speeds);
    by_format(&pool, &rows).await;
    let mut slow = Vec::new();
    for row in rows.iter() {
        let bare = median((0..3).map(|_| in_process(row)).collect());
        if bare >= 10_000.0 {
            let mut caged = Vec::new();
            for _ in 0..3 {
                caged.push(through(&pool, &row.bytes, row.format).await.0);
            }
            slow.push(bare / median(caged));
        }
    }
    if slow.is_empty() {
        println!("no row takes 10 ms in this process");
    } else {
        spread("speed on rows of 10 ms and more", "×", &slow);
    }
}

/// What the first document of each format costs a fresh process, above the second: tables made at first use, pages touched
/// for the first time. A child that is forked from a zygote without these pays it each time.
fn first() {
    let mut seen = Vec::new();
    for row in rows() {
        if !seen.contains(&row.format) {
            let (one, two, three) = (in_process(&row), in_process(&row), in_process(&row));
            println!(
                "{:10} first {one:9.0} µs, then {two:9.0} µs, {three:9.0} µs  {}",
                row.format.name(),
                row.path
            );
            seen.push(row.format);
        }
    }
}

/// Where the difference lies: the least of five, by format.
async fn by_format(pool: &Pool, rows: &[Row]) {
    println!("-- by format, each document alone: µs above in-process (least of 5)");
    let mut formats: Vec<(Format, f64, f64, u32)> = Vec::new();
    for row in rows {
        let least = |values: Vec<f64>| values.into_iter().fold(f64::MAX, f64::min);
        let bare = least((0..5).map(|_| in_process(row)).collect());
        let mut caged = Vec::new();
        for _ in 0..5 {
            caged.push(through(pool, &row.bytes, row.format).await.0);
        }
        let caged = least(caged);
        match formats.iter_mut().find(|format| format.0 == row.format) {
            Some(format) => *format = (format.0, format.1 + bare, format.2 + caged, format.3 + 1),
            None => formats.push((row.format, bare, caged, 1)),
        }
    }
    for (format, bare, caged, count) in formats {
        let count = f64::from(count);
        println!(
            "{:10} {count:4} documents {:10.0} µs in-process {:10.0} µs above",
            format.name(),
            bare / count,
            (caged - bare) / count
        );
    }
}

fn threads(rows: &Arc<Vec<Row>>, wide: usize, times: usize) -> f64 {
    let next = Arc::new(AtomicUsize::new(0));
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..wide {
            let (rows, next) = (rows.clone(), next.clone());
            scope.spawn(move || {
                while let Some(row) = row_of(&rows, &next, times) {
                    in_process(row);
                }
            });
        }
    });
    micros(began)
}

fn row_of<'a>(rows: &'a [Row], next: &AtomicUsize, times: usize) -> Option<&'a Row> {
    let n = next.fetch_add(1, Ordering::Relaxed);
    (n < rows.len() * times).then(|| &rows[n % rows.len()])
}

async fn tasks(pool: &Arc<Pool>, rows: &Arc<Vec<Row>>, wide: usize, times: usize) -> f64 {
    let next = Arc::new(AtomicUsize::new(0));
    let began = Instant::now();
    let mut set = tokio::task::JoinSet::new();
    for _ in 0..wide {
        let (pool, rows, next) = (pool.clone(), rows.clone(), next.clone());
        set.spawn(async move {
            while let Some(row) = row_of(&rows, &next, times) {
                through(&pool, &row.bytes, row.format).await;
            }
        });
    }
    while set.join_next().await.is_some() {}
    micros(began)
}
