//! What a document leaves behind in its supervisor: nothing. Alone in its process, because it counts what the process has.

use shared::{Answer, Format, Layers, Work};
use std::path::PathBuf;
use supervisor::pool::{Flow, Job, JobLimits, Pool, Receiver};
use supervisor::settings::Cage;
use supervisor::source::fetch::sealed;

struct Nobody;

impl Receiver for Nobody {
    fn take(&mut self, _answer: Answer) -> Flow {
        Flow::Continue
    }
}

fn job(act: &str) -> Job {
    let bytes = format!("#!lazaret-fault 1\n{act}\n");
    Job {
        document: sealed(bytes.as_bytes()).unwrap().into(),
        size: bytes.len() as u64,
        format: Format::Fault,
        work: Work::Extract,
        name: b"fault".to_vec(),
        passwords: Vec::new(),
        limits: JobLimits {
            wall_ms: 20_000,
            stalled_ms: 1500,
            cpu_ms: 1000,
            memory: 96 << 20,
            output: 4 << 20,
        },
    }
}

/// Descriptors, threads and children of this process.
fn held() -> [usize; 3] {
    let count = |what: &str| std::fs::read_dir(format!("/proc/self/{what}")).unwrap().count();
    let children = std::fs::read_dir("/proc/self/task").unwrap().flatten().map(|task| {
        let children = std::fs::read_to_string(task.path().join("children"));
        children.unwrap_or_default().split_whitespace().count()
    });
    [count("fd"), count("task"), children.sum()]
}

#[test]
fn nothing_is_left_behind() {
    let cage = Cage {
        require: Layers::NONE,
        faults: true,
        uid_base: 2_000_000_000,
        omit: Layers::NONE,
        worker: Some(PathBuf::from(env!("CARGO_BIN_EXE_worker-under-test"))),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let pool = Pool::start(&cage, 1).await.unwrap();
        let mut lease = pool.lend().await;
        lease.run(job("text a"), &mut Nobody).await;
        let before = held();
        let acts = ["text a", "signal segv", "panic", "syscall fork", "garbage", "no-end"];
        for act in acts.iter().cycle().take(300) {
            lease.run(job(act), &mut Nobody).await;
        }
        assert_eq!(held(), before);
    });
}
