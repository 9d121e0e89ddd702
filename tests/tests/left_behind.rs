//! What a document leaves behind in its supervisor: nothing. Alone in its process, because it counts what the process has.

use shared::{Answer, Layers};
use std::path::PathBuf;
use supervisor::pool::{Flow, Pool, Receiver};
use supervisor::settings::Cage;
use tests::caged::{LIMITS, block, fault_job};

struct Nobody;

impl Receiver for Nobody {
    fn take(&mut self, _answer: Answer) -> Flow {
        Flow::Continue
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
    block(async {
        let pool = Pool::start(&cage, 1).await.unwrap();
        let mut lease = pool.lend().await;
        lease.run(fault_job("text a", LIMITS), &mut Nobody).await;
        let before = held();
        let acts = ["text a", "signal segv", "panic", "syscall fork", "garbage", "no-end"];
        for act in acts.iter().cycle().take(300) {
            lease.run(fault_job(act, LIMITS), &mut Nobody).await;
        }
        assert_eq!(held(), before);
    });
}
