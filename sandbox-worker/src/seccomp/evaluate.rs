//! The filters, run outside of the kernel: what becomes of every number with arguments that matter.

use super::assemble::{
    AND, JUMP_ANY_BIT, JUMP_AT_LEAST, JUMP_EQUAL, LOAD, NATIVE, RETURN, RETURN_ALLOW, RETURN_ERRNO,
    RETURN_KILL, RETURN_NOTIFY, RETURN_TRAP,
};
use super::{BARE_COMMAND, CHILD, COMMAND, KEEPER, Listener, Policy, Program, Rule, ZYGOTE, table};
use std::fmt::Write;
use std::sync::LazyLock;

const OWN: u32 = 7;
const LAST_NUMBER: u32 = 470;

#[derive(Debug, Clone, Copy)]
struct Data {
    number: u32,
    arch: u32,
    arguments: [u64; 6],
}

impl Data {
    fn native(number: u32, arguments: [u64; 6]) -> Self {
        Data { number, arch: NATIVE, arguments }
    }

    fn word(&self, offset: u32) -> u32 {
        match offset {
            0 => self.number,
            4 => self.arch,
            _ => {
                let argument = self.arguments[((offset - 16) / 8) as usize];
                let half = if offset.is_multiple_of(8) { argument } else { argument >> 32 };
                u32::try_from(half & 0xffff_ffff).unwrap()
            }
        }
    }
}

fn run(program: &Program, data: &Data) -> u32 {
    let (mut at, mut accumulator) = (0, 0);
    loop {
        let instruction = program.instructions()[at];
        at += 1;
        let holds = match instruction.code {
            LOAD => {
                accumulator = data.word(instruction.k);
                continue;
            }
            AND => {
                accumulator &= instruction.k;
                continue;
            }
            RETURN => return instruction.k,
            JUMP_EQUAL => accumulator == instruction.k,
            JUMP_AT_LEAST => accumulator >= instruction.k,
            JUMP_ANY_BIT => accumulator & instruction.k != 0,
            other => panic!("no such instruction: {other:#x}"),
        };
        at += usize::from(if holds { instruction.jt } else { instruction.jf });
    }
}

fn assembled(policy: &Policy<'_>) -> Program {
    let mut program = Program::assemble(policy, Listener::Heard);
    program.set_own_process(OWN);
    program
}

/// The more severe answer, as the kernel orders them: by the upper half, as a signed number.
fn stacked(data: &Data) -> u32 {
    static BOTH: LazyLock<[Program; 2]> = LazyLock::new(|| [assembled(&ZYGOTE), assembled(&CHILD)]);
    BOTH.iter().map(|program| run(program, data)).min_by_key(|action| action.cast_signed()).unwrap()
}

fn word(action: u32) -> String {
    match action & 0xffff_0000 {
        RETURN_ALLOW => "allow".to_owned(),
        RETURN_NOTIFY => "report".to_owned(),
        RETURN_TRAP => "trap".to_owned(),
        RETURN_KILL => "kill".to_owned(),
        RETURN_ERRNO => format!("{:?}", nix::errno::Errno::from_raw(i32::try_from(action & 0xffff).unwrap())),
        other => panic!("no such action: {other:#x}"),
    }
}

/// For every number: arguments near every border of every rule.
fn arguments() -> Vec<[u64; 6]> {
    let mut all = vec![[0; 6], [u64::MAX; 6], [1 << 32; 6]];
    for first in 0..8 {
        all.push([first, 0, 0, 0, 0, 0]);
        all.push([first, 3, 1, 2, 0, 0]);
    }
    for operation in [1, 2, 3, 4, 6, 9, 10, 128, 129, 256 + 9, 0x5401, 0x5412] {
        all.push([0, operation, 0, 0, 0, 0]);
    }
    for protection in [0, 1, 3, 4, 5, 7] {
        for flags in [0, 1, 2, 3, 0x20, 0x21, 0x22, 0x28, 0x32, 0x4022, 0x0010_0022, 0x8022, 1 << 33 | 0x22] {
            all.push([0, 4096, protection, flags, u64::MAX, 0]);
        }
    }
    for signal in [6, 9, 11, 31] {
        all.extend([[u64::from(OWN), 8, signal, 0, 0, 0], [8, 8, signal, 0, 0, 0], [signal, 0, 0, 0, 0, 0]]);
    }
    for advice in [4, 8, 14, 15, 16, 100] {
        all.push([0, 0, advice, 0, 0, 0]);
    }
    for option in [1, 2, 3, 4, 22, 39, 0x5356_4d41] {
        all.extend([[option, 0, 0, 0, 0, 0], [option, 1, 0, 0, 0, 0], [option, 9, 0, 0, 0, 0]]);
    }
    all.extend([[0x9000, 0, 0, 0, 0, 0], [0x8000, 0, 0, 0, 0, 0], [17, 0, 0, 0, 0, 0], [0, 9, 8, 0, 0, 0]]);
    all
}

fn name(number: u32) -> &'static str {
    let calls = table::ZYGOTE.iter().flat_map(|rule| rule.calls);
    calls.clone().find(|call| call.number == number).map_or("-", |call| call.name)
}

/// One line a number: the verdict on zeros, then every verdict that some arguments bring.
fn golden() -> String {
    let mut text = String::new();
    for number in 0..=LAST_NUMBER {
        let zeros = word(stacked(&Data::native(number, [0; 6])));
        let mut all: Vec<_> =
            arguments().iter().map(|&args| word(stacked(&Data::native(number, args)))).collect();
        all.sort();
        all.dedup();
        writeln!(text, "{number} {} {zeros} [{}]", name(number), all.join(" ")).unwrap();
    }
    text
}

/// With `LAZARET_BLESS` set it writes the expected table anew, to be read before it is kept.
#[test]
#[expect(clippy::disallowed_methods, reason = "the expected table is written on a developer's machine")]
fn every_number_has_its_verdict() {
    let golden = golden();
    if std::env::var_os("LAZARET_BLESS").is_some() {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/src/seccomp/golden.txt"), &golden).unwrap();
    }
    let expected = include_str!("golden.txt");
    for (now, then) in golden.lines().zip(expected.lines()) {
        assert_eq!(now, then);
    }
    assert_eq!(golden.lines().count(), expected.lines().count());
}

#[test]
fn arguments_decide_where_they_must() {
    let verdict = |call: libc::c_long, args| word(stacked(&Data::native(u32::try_from(call).unwrap(), args)));
    let own = u64::from(OWN);
    for (call, args, expected) in [
        (libc::SYS_write, [3, 0, 0, 0, 0, 0], "allow"),
        (libc::SYS_write, [2, 0, 0, 0, 0, 0], "EBADF"),
        (libc::SYS_write, [4, 0, 0, 0, 0, 0], "report"),
        (libc::SYS_mmap, [0, 4096, 3, 0x22, 0, 0], "allow"),
        (libc::SYS_mmap, [0, 4096, 7, 0x22, 0, 0], "report"),
        (libc::SYS_mmap, [0, 4096, 3, 0x21, 0, 0], "report"),
        (libc::SYS_mmap, [0, 4096, 1, 2, 3, 0], "trap"),
        (libc::SYS_mmap, [0, 4096, 3, 1, 3, 0], "trap"),
        (libc::SYS_mmap, [0, 4096, 3 | 1 << 40, 0x22, 0, 0], "report"),
        (libc::SYS_mprotect, [0, 4096, 5, 0, 0, 0], "report"),
        (libc::SYS_tgkill, [own, 9, 6, 0, 0, 0], "allow"),
        (libc::SYS_tgkill, [1, 9, 6, 0, 0, 0], "trap"),
        (libc::SYS_tgkill, [own, 9, 31, 0, 0, 0], "report"),
        (libc::SYS_futex, [0, 128, 0, 0, 0, 0], "allow"),
        (libc::SYS_futex, [0, 6, 0, 0, 0, 0], "report"),
        (libc::SYS_clone3, [0, 88, 0, 0, 0, 0], "ENOSYS"),
        (libc::SYS_clone, [0x9000, 0, 0, 0, 0, 0], "trap"),
        (libc::SYS_clone, [17, 0, 0, 0, 0, 0], "report"),
        (libc::SYS_prctl, [4, 1, 0, 0, 0, 0], "report"),
        (libc::SYS_prlimit64, [0, 9, 0, 0, 0, 0], "allow"),
        (libc::SYS_prlimit64, [0, 9, 8, 0, 0, 0], "trap"),
        (libc::SYS_prlimit64, [1, 9, 8, 0, 0, 0], "report"),
        (libc::SYS_seccomp, [1, 0, 8, 0, 0, 0], "trap"),
    ] {
        assert_eq!(verdict(call, args), expected, "{call} {args:x?}");
    }
}

#[test]
fn other_doors_are_reported() {
    for (number, arch) in [(20, 0x4000_0003), (0x4000_0000, NATIVE), (u32::MAX, NATIVE)] {
        assert_eq!(word(stacked(&Data { number, arch, arguments: [0; 6] })), "report");
    }
    let deaf = Program::assemble(&ZYGOTE, Listener::Nobody);
    assert_eq!(run(&deaf, &Data { number: 20, arch: 0x4000_0003, arguments: [0; 6] }), RETURN_KILL);
    assert_eq!(run(&deaf, &Data::native(41, [0; 6])), RETURN_KILL);
    assert_eq!(word(run(&assembled(&KEEPER), &Data::native(1, [3; 6]))), "report");
}

/// All verdicts of a policy on the calls of one rule.
fn verdicts(policy: &Policy<'_>, rule: &Rule) -> Vec<u32> {
    let program = assembled(policy);
    let data = rule
        .calls
        .iter()
        .flat_map(|call| arguments().into_iter().map(|arguments| Data::native(call.number, arguments)));
    data.map(|data| run(&program, &data)).collect()
}

#[test]
fn no_rule_and_no_case_is_dead_and_each_has_a_reason() {
    for policy in [ZYGOTE, CHILD] {
        for (index, rule) in policy.rules.iter().enumerate() {
            assert!(!rule.why.is_empty());
            let whole = verdicts(&policy, rule);
            let mut rules = policy.rules.to_vec();
            rules.remove(index);
            assert!(whole != verdicts(&Policy { rules: &rules, ..policy }, rule), "dead: {}", rule.why);
            for case in 0..rule.cases.len() {
                let cases: Vec<_> = rule
                    .cases
                    .iter()
                    .enumerate()
                    .filter(|(at, _)| *at != case)
                    .map(|(_, case)| *case)
                    .collect();
                let mut rules = policy.rules.to_vec();
                rules[index].cases = cases.leak();
                let without = verdicts(&Policy { rules: &rules, ..policy }, rule);
                assert!(whole != without, "dead: case {case} of {}", rule.why);
            }
        }
        let mut numbers: Vec<_> =
            policy.rules.iter().flat_map(|rule| rule.calls).map(|call| call.number).collect();
        numbers.sort_unstable();
        let before = numbers.len();
        numbers.dedup();
        assert_eq!(numbers.len(), before, "a call stands in two rules");
    }
}

#[test]
fn a_command_is_denied_what_leads_out_and_may_do_the_rest() {
    let verdict = |policy: &Policy<'_>, call: libc::c_long, args| {
        word(run(&assembled(policy), &Data::native(u32::try_from(call).unwrap(), args)))
    };
    let forked = 0x0120_0011;
    let thread = 0x003d_0f00;
    for (call, args, caged, bare) in [
        (libc::SYS_openat, [0; 6], "allow", "allow"),
        (libc::SYS_execve, [0; 6], "allow", "allow"),
        (libc::SYS_clone, [forked, 0, 0, 0, 0, 0], "allow", "allow"),
        (libc::SYS_clone, [thread, 0, 0, 0, 0, 0], "allow", "allow"),
        (libc::SYS_clone, [forked | 0x1000_0000, 0, 0, 0, 0, 0], "EPERM", "EPERM"),
        (libc::SYS_clone, [forked | 0x0002_0000, 0, 0, 0, 0, 0], "EPERM", "EPERM"),
        (libc::SYS_clone3, [0; 6], "ENOSYS", "ENOSYS"),
        (libc::SYS_unshare, [0x1000_0000, 0, 0, 0, 0, 0], "EPERM", "EPERM"),
        (libc::SYS_socket, [1, 1, 0, 0, 0, 0], "allow", "EACCES"),
        (libc::SYS_socket, [2, 1, 0, 0, 0, 0], "EACCES", "EACCES"),
        (libc::SYS_socket, [40, 1, 0, 0, 0, 0], "EACCES", "EACCES"),
        (libc::SYS_socketpair, [1, 1, 0, 0, 0, 0], "allow", "allow"),
        (libc::SYS_ioctl, [0, 0x5401, 0, 0, 0, 0], "allow", "allow"),
        (libc::SYS_ioctl, [0, 0x5412, 0, 0, 0, 0], "EPERM", "EPERM"),
        (libc::SYS_ioctl, [0, 1 << 32 | 0x5412, 0, 0, 0, 0], "EPERM", "EPERM"),
        (libc::SYS_prctl, [15, 0, 0, 0, 0, 0], "allow", "allow"),
        (libc::SYS_prctl, [4, 1, 0, 0, 0, 0], "EPERM", "EPERM"),
        (libc::SYS_fcntl, [3, 1, 0, 0, 0, 0], "allow", "allow"),
        (libc::SYS_fcntl, [3, 1024, 0, 0, 0, 0], "EPERM", "EPERM"),
        (libc::SYS_fcntl, [3, 8, 1, 0, 0, 0], "allow", "EPERM"),
        (libc::SYS_fcntl, [3, 10, 9, 0, 0, 0], "allow", "EPERM"),
        (libc::SYS_fcntl, [3, 15, 0, 0, 0, 0], "allow", "EPERM"),
        (libc::SYS_ioctl, [0, 0x8901, 0, 0, 0, 0], "allow", "EPERM"),
        (libc::SYS_prlimit64, [0, 0, 0, 0, 0, 0], "allow", "allow"),
        (libc::SYS_prlimit64, [7, 0, 0, 0, 0, 0], "allow", "EPERM"),
        (libc::SYS_setpriority, [0; 6], "allow", "EPERM"),
        (libc::SYS_personality, [0; 6], "allow", "allow"),
        (libc::SYS_personality, [0xffff_ffff, 0, 0, 0, 0, 0], "allow", "allow"),
        (libc::SYS_personality, [8, 0, 0, 0, 0, 0], "EPERM", "EPERM"),
        (libc::SYS_memfd_create, [0; 6], "ENOSYS", "ENOSYS"),
        (libc::SYS_ptrace, [0; 6], "EPERM", "EPERM"),
        (libc::SYS_io_uring_setup, [0; 6], "EPERM", "EPERM"),
        (libc::SYS_keyctl, [0; 6], "EPERM", "EPERM"),
        (libc::SYS_mount, [0; 6], "EPERM", "EPERM"),
        (libc::SYS_kill, [1, 9, 0, 0, 0, 0], "allow", "EPERM"),
        (libc::SYS_setsid, [0; 6], "allow", "EPERM"),
        (libc::SYS_tgkill, [9, 9, 6, 0, 0, 0], "allow", "allow"),
        (libc::SYS_tgkill, [9, 9, 9, 0, 0, 0], "allow", "EPERM"),
    ] {
        assert_eq!(verdict(&COMMAND, call, args), caged, "{call} {args:x?}");
        assert_eq!(verdict(&BARE_COMMAND, call, args), bare, "{call} {args:x?}, without namespaces");
    }
    for policy in [COMMAND, BARE_COMMAND] {
        let mut numbers: Vec<_> =
            policy.rules.iter().flat_map(|rule| rule.calls).map(|call| call.number).collect();
        numbers.sort_unstable();
        let before = numbers.len();
        numbers.dedup();
        assert_eq!(numbers.len(), before, "a call stands in two rules");
        assert!(policy.rules.iter().all(|rule| !rule.why.is_empty()));
        let deaf = Program::assemble(&policy, Listener::Nobody);
        assert_eq!(run(&deaf, &Data { number: 20, arch: 0x4000_0003, arguments: [0; 6] }), RETURN_KILL);
    }
}

#[test]
fn the_childs_filter_is_short() {
    let length = assembled(&CHILD).instructions().len();
    assert!(length <= 100, "{length} instructions, paid for at every document");
}
