//! The floor that isolation is measured against: `floor MIB N` touches MIB mebibytes, then N times forks a child that sets nine
//! limits and exits, and waits for it. Prints the microseconds of each.
#![expect(clippy::print_stdout, reason = "its output is what it is for")]

use std::time::Instant;

fn main() {
    let mut words = std::env::args().skip(1).map(|word| word.parse::<usize>());
    let (Some(Ok(mib)), Some(Ok(rounds))) = (words.next(), words.next()) else {
        println!("usage: floor MIB N");
        return;
    };
    let mut touched = vec![0_u8; mib << 20];
    for page in touched.chunks_mut(4096) {
        page[0] = 1;
    }
    for _ in 0..rounds {
        let began = Instant::now();
        tests::sys::fork_limit_wait();
        println!("{}", began.elapsed().as_micros());
    }
    assert!(touched.contains(&1), "the memory is still in use");
}
