//! One document: shut the cage, say so, extract, say the end, die.
//!
//! Runs in a fork of the zygote and never returns to it. Nothing is flushed or dropped at the end: what matters went
//! through the pipe or stands in the recorder page.

use crate::extract::{self, Document, Done, Frames, Output};
use crate::jail::child::{Given, enter};
use crate::jail::zygote::Cage;
use crate::jail::{Jailed, RESULT_FD};
use crate::{faults, memory, recorder, sys};
use shared::frame::{self, Kind};
use shared::recorder::{EXIT_PANIC, EXIT_SETUP, Stage};
use shared::{Ask, End, Format, Work};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Exit status of a child whose answer nobody reads any more.
pub(crate) const EXIT_UNHEARD: i32 = 1;

/// Carries `ask` out, and ends this process.
pub(crate) fn run(cage: &Cage, ask: &Ask, given: Given) -> ! {
    memory::set_wiping(false);
    let (bytes, jailed) = match enter(cage, ask, given) {
        Ok(entered) => entered,
        Err((step, errno)) => {
            recorder::setup_failed(step as u64, errno as i32);
            sys::exit(EXIT_SETUP)
        }
    };
    let answered = catch_unwind(AssertUnwindSafe(|| answer(cage, ask, bytes, &jailed)));
    sys::exit(if answered.is_ok() { 0 } else { EXIT_PANIC })
}

fn answer(cage: &Cage, ask: &Ask, bytes: &[u8], jailed: &Jailed) {
    let mut pipe = Pipe { nonce: ask.nonce, sent: 0 };
    let fault = ask.format == Format::Fault;
    if !(fault && faults::keeps_locked_back(bytes)) {
        pipe.frame(Kind::Locked, &frame::encode(&cage.standing.layers()));
    }
    recorder::stage(Stage::Parse);
    let document = Document { bytes, name: &ask.name, passwords: &ask.passwords };
    let mut out = Output::new(&mut pipe);
    if ask.work != Work::Extract {
        out.members_only();
    }
    let done = match ask.work {
        _ if fault => faults::carry_out(jailed, &document, &mut out),
        Work::Extract | Work::Members => extract::extract(jailed, ask.format, &document, &mut out),
        Work::Pictures => extract::pictures(jailed, ask.format, &document, &mut out),
    };
    recorder::stage(Stage::End);
    end(out, done);
}

fn end(mut out: Output<'_>, done: Done) {
    out.flush();
    let (text_bytes, members) = out.counts();
    let Done { format, engine, refusal, parts } = done;
    let end = End { format, refusal, parts, engine: engine.to_owned(), text_bytes, members };
    out.frames().frame(Kind::End, &frame::encode(&end));
}

/// The result pipe.
#[derive(Debug)]
struct Pipe {
    nonce: [u8; 16],
    sent: u64,
}

impl Pipe {
    fn send(&mut self, first: &[u8], second: &[u8]) {
        if sys::send_all(RESULT_FD, first, second).is_err() {
            sys::exit(EXIT_UNHEARD);
        }
        self.sent += (first.len() + second.len()) as u64;
        recorder::position(self.sent);
    }
}

impl Frames for Pipe {
    fn frame(&mut self, kind: Kind, payload: &[u8]) {
        let length = u32::try_from(payload.len()).expect("no caller sends more than PAYLOAD_MAX in a frame");
        let header = frame::header(kind, &self.nonce, length);
        self.send(&header, payload);
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.send(bytes, &[]);
    }

    fn nonce(&self) -> [u8; 16] {
        self.nonce
    }
}
