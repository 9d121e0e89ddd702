//! Acts that end the process, exhaust a limit or break a rule of the kernel's.

use super::{Line, Next};
use crate::extract::Output;
use crate::sys;
use nix::errno::Errno;
use std::hint::black_box;

pub(super) fn act(line: Line<'_>, out: &mut Output<'_>) -> Next {
    match line.act {
        "signal" => return signal(line.operand),
        "raise" => report(line, raise(line.operand), out),
        "syscall" => match sys::forbidden_call(line.operand) {
            Some(result) => report(line, result, out),
            None => return Next::Unknown,
        },
        "int80" => report(line, Ok(sys::through_int80()), out),
        "x32" | "nanosleep" | "kill-self" => {
            let result = sys::forbidden_call(line.act).unwrap_or(Err(Errno::ENOSYS));
            report(line, result, out);
        }
        "read-fd" => report(line, sys::read_from(descriptor(line)), out),
        "write-fd" => report(line, sys::write_to(descriptor(line)), out),
        "alloc" => drop(black_box(vec![1_u8; amount(line)])),
        "grow" => grow(),
        "malloc" => report(line, Ok(i64::from(sys::native_block(amount(line)))), out),
        "native-grow" => sys::native_growth(),
        "mmap" => report(line, sys::map_anonymous(amount(line), false).map(|()| 0), out),
        "mmap-shared" => report(line, sys::map_anonymous(1 << 20, true).map(|()| 0), out),
        "stack-overflow" => drop(black_box(recurse::<64>())),
        "deep-frames" => drop(black_box(recurse::<{ 256 << 10 }>())),
        "spin" | "spin-ignoring-xcpu" => spin(),
        "sleep" => sleep(),
        "stall" => {
            out.progress(1, 2);
            sleep();
        }
        "panic" => panic!("{}", if line.operand.is_empty() { "asked to" } else { line.operand }),
        "panic-twice" => panic_twice(),
        "panic-huge" => panic!("{}", "x".repeat(64 << 20)),
        "half" => {
            out.line("the first half of what there is");
            out.flush();
            sys::null_read();
        }
        "exit" => {
            out.flush();
            sys::exit(i32::try_from(line.number(0).unwrap_or(0)).unwrap_or(1));
        }
        _ => return Next::Unknown,
    }
    Next::Act
}

fn signal(name: &str) -> Next {
    match name {
        "segv" => sys::null_read(),
        "wild-jump" => sys::wild_jump(),
        "bus" => sys::unaligned_read(),
        "ill" => sys::illegal_instruction(),
        "fpe" => sys::divide_by_zero(),
        "abort" => sys::abort(),
        "trap" => sys::breakpoint(),
        _ => return Next::Unknown,
    }
    Next::Act
}

/// What a call answered that should not have answered at all.
fn report(line: Line<'_>, result: Result<i64, Errno>, out: &mut Output<'_>) {
    let answer = result.map_or_else(|errno| format!("{errno:?}"), |value| value.to_string());
    out.line(&format!("{} {}: {answer}", line.act, line.operand));
}

fn raise(name: &str) -> Result<i64, Errno> {
    let signal: nix::sys::signal::Signal = format!("SIG{name}").parse().map_err(|_| Errno::EINVAL)?;
    sys::raise(signal as i32).map(|()| 0)
}

fn descriptor(line: Line<'_>) -> i32 {
    line.number(0).and_then(|number| i32::try_from(number).ok()).unwrap_or(5)
}

fn amount(line: Line<'_>) -> usize {
    line.number(0).and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(1 << 40)
}

fn grow() {
    let mut block = Vec::new();
    loop {
        block.push(black_box(1_u64));
    }
}

#[expect(unconditional_recursion, reason = "it is to overflow the stack")]
fn recurse<const SIZE: usize>() -> u64 {
    let frame = black_box([1_u8; SIZE]);
    recurse::<SIZE>() + u64::from(frame[0])
}

fn spin() -> ! {
    loop {
        black_box(0);
    }
}

fn sleep() -> ! {
    loop {
        sys::wait(None);
    }
}

fn panic_twice() {
    struct PanicsToo;
    impl Drop for PanicsToo {
        fn drop(&mut self) {
            panic!("the second");
        }
    }
    let _guard = PanicsToo;
    panic!("the first");
}
