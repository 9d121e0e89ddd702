//! The pool and the cages without the rest of the program: a runtime, a document to carry, and what became of it.

use shared::{Format, Work};
use supervisor::pool::{Ending, Job, JobLimits, Outcome};
use supervisor::rules::fault::Fault;
use supervisor::source::fetch::sealed;

/// What a test that is over in seconds allows a document.
pub const LIMITS: JobLimits =
    JobLimits { wall_ms: 20_000, stalled_ms: 1500, cpu_ms: 1000, memory: 96 << 20, output: 4 << 20 };

/// Runs this in a runtime of its own, which ends with it: no test may outlive its pool.
pub fn block<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime can be made")
        .block_on(future)
}

/// The extraction of these bytes.
pub fn job(bytes: &[u8], format: Format, limits: JobLimits) -> Job {
    Job {
        document: sealed(bytes).expect("memory can be sealed").into(),
        size: bytes.len() as u64,
        format,
        work: Work::Extract,
        name: b"document".to_vec(),
        passwords: Vec::new(),
        limits,
    }
}

/// The extraction of a document in the fault language, which does this.
pub fn fault_job(lines: &str, limits: JobLimits) -> Job {
    job(format!("#!lazaret-fault 1\n{lines}\n").as_bytes(), Format::Fault, limits)
}

/// The fault in which this ended.
///
/// # Panics
/// Where it did not.
pub fn fault(ending: Ending) -> Fault {
    match ending.outcome {
        Outcome::Failed(fault) => fault,
        other => panic!("no fault: {other:?}"),
    }
}
