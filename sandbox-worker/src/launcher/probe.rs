//! The probe: a command that attacks the cage it finds itself in, one act an argument, and says what the kernel answered.
//! It needs no shell and no other program on the machine.
#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "it attacks the cage: files and the network must be out of reach"
)]

use crate::sys::{self, Fork};
use nix::errno::Errno;
use nix::unistd::setsid;
use shared::launch::SCRATCH;
use std::fs::{self, File};
use std::io::{self, Write};
use std::net::{TcpStream, UdpSocket};
use std::path::Path;

const MIB: usize = 1 << 20;
/// Processes after which a bomb has gone off.
const BOMB: usize = 2000;
/// Pieces after which a scratch folder has no quota.
const PIECES: usize = 4096;
const STANDARD_OUTPUT: i32 = 1;

/// The whole program, as a probe.
pub fn probe() {
    let words: Vec<String> = std::env::args().skip(2).collect();
    let Some((act, rest)) = words.split_first() else { return };
    match act.as_str() {
        "network" => network(),
        "read" => rest.iter().for_each(|path| say(path, File::open(Path::new("/").join(path)))),
        "write" => rest.iter().for_each(|folder| say(folder, File::create(Path::new(folder).join("probe")))),
        "fill" => fill(),
        "fork" => bomb(),
        "orphan" => orphan(),
        _ => {}
    }
}

fn say<T>(what: &str, result: io::Result<T>) {
    let answer = match result {
        Ok(_) => "ok".to_owned(),
        Err(error) => match error.raw_os_error() {
            Some(number) => format!("{:?}", Errno::from_raw(number)),
            None => error.kind().to_string(),
        },
    };
    // Where nobody listens nothing was proven, and that is seen by the missing line.
    sys::send_all(STANDARD_OUTPUT, format!("{what} {answer}\n").as_bytes(), &[]).ok();
}

fn network() {
    // A port on which nobody listens refuses: then it was reached.
    let tcp = TcpStream::connect(("127.0.0.1", 1)).map(drop);
    let refused = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    say("tcp", if tcp.as_ref().is_err_and(refused) { Ok(()) } else { tcp });
    say("udp", UdpSocket::bind(("127.0.0.1", 0)));
}

fn fill() {
    let piece = vec![1; MIB];
    let fill = |number: usize| -> io::Result<()> {
        File::create(Path::new(SCRATCH).join(number.to_string()))?.write_all(&piece)
    };
    say("fill", (0..PIECES).try_for_each(fill));
    for number in 0..PIECES {
        fs::remove_file(Path::new(SCRATCH).join(number.to_string())).ok();
    }
}

fn bomb() {
    for _ in 0..BOMB {
        match sys::fork() {
            Ok(Fork::Child) => sys::sleep_for_ever(),
            Ok(Fork::Parent(_)) => {}
            Err(errno) => return say::<()>("fork", Err(errno.into())),
        }
    }
    say("fork", Ok(()));
}

/// Leaves a process behind, in a session of its own and without a parent.
fn orphan() {
    if let Ok(Fork::Child) = sys::fork() {
        setsid().ok();
        if let Ok(Fork::Child) = sys::fork() {
            sys::sleep_for_ever();
        }
        sys::exit(0);
    }
    sys::send_all(STANDARD_OUTPUT, b"orphan left\n", &[]).ok();
}
