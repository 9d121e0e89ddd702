//! Turns a policy into instructions of classic BPF, as seccomp runs them.
//!
//! Each rule becomes a block: the number is compared with the rule's calls, then the cases follow, each ending in a
//! return. A block is skipped by a jump of at most 255 instructions, so a rule with many calls is cut into several.

use super::{Case, Check, Listener, Policy, Rule, Verdict};
use crate::sys::{BpfInstruction, BpfProgram};

#[cfg(not(target_arch = "x86_64"))]
compile_error!("the tables of system calls are made for x86-64 alone");

/// The architecture word of native calls.
pub(super) const NATIVE: u32 = 0xc000_003e;
/// Numbers from here on are calls of the x32 kind, through the native door.
pub(super) const X32: u32 = 0x4000_0000;

const OFFSET_NUMBER: u32 = 0;
const OFFSET_ARCH: u32 = 4;
const OFFSET_ARGUMENTS: u32 = 16;

pub(super) const LOAD: u16 = 0x20;
pub(super) const JUMP_EQUAL: u16 = 0x15;
pub(super) const JUMP_AT_LEAST: u16 = 0x35;
pub(super) const JUMP_ANY_BIT: u16 = 0x45;
pub(super) const AND: u16 = 0x54;
pub(super) const RETURN: u16 = 0x06;

pub(super) const RETURN_KILL: u32 = 0x8000_0000;
pub(super) const RETURN_TRAP: u32 = 0x0003_0000;
pub(super) const RETURN_ERRNO: u32 = 0x0005_0000;
pub(super) const RETURN_NOTIFY: u32 = 0x7fc0_0000;
pub(super) const RETURN_ALLOW: u32 = 0x7fff_0000;

/// Calls of one rule that are compared in one block.
const CALLS_IN_A_BLOCK: usize = 100;

/// A filter, and where in it the process's own number belongs.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    instructions: Vec<BpfInstruction>,
    own_process: Vec<usize>,
}

impl Program {
    /// Assembles a policy.
    pub(crate) fn assemble(policy: &Policy<'_>, listener: Listener) -> Self {
        let mut program = Program { instructions: Vec::new(), own_process: Vec::new() };
        let foreign = returned(policy.foreign, listener);
        program.push(LOAD, OFFSET_ARCH, 0, 0);
        program.push(JUMP_EQUAL, NATIVE, 1, 0);
        program.push(RETURN, foreign, 0, 0);
        program.push(LOAD, OFFSET_NUMBER, 0, 0);
        program.push(JUMP_AT_LEAST, X32, 0, 1);
        program.push(RETURN, foreign, 0, 0);
        for rule in policy.rules {
            program.rule(rule, listener);
        }
        program.push(RETURN, returned(policy.default, listener), 0, 0);
        program
    }

    /// The instructions, for the kernel.
    pub(crate) fn instructions(&self) -> &BpfProgram {
        &self.instructions
    }

    /// Writes the process's own number to where it is compared.
    pub(crate) fn set_own_process(&mut self, number: u32) {
        for &index in &self.own_process {
            self.instructions[index].k = number;
        }
    }

    fn push(&mut self, code: u16, value: u32, yes: u8, no: u8) {
        self.instructions.push(BpfInstruction { code, jt: yes, jf: no, k: value });
    }

    fn rule(&mut self, rule: &Rule, listener: Listener) {
        for calls in rule.calls.chunks(CALLS_IN_A_BLOCK) {
            let start = self.instructions.len();
            for call in calls {
                self.push(JUMP_EQUAL, call.number, 0, 0);
            }
            let body = self.instructions.len();
            for case in rule.cases {
                self.case(case, listener);
            }
            self.push(RETURN, returned(rule.otherwise, listener), 0, 0);
            let end = self.instructions.len();
            for index in start..body {
                self.instructions[index].jt = distance(index, body);
                // Only the last of them may skip the block: the others try the next number.
                self.instructions[index].jf = if index + 1 == body { distance(index, end) } else { 0 };
            }
        }
    }

    fn case(&mut self, case: &Case, listener: Listener) {
        let start = self.instructions.len();
        for check in case.when {
            self.check(check);
        }
        self.push(RETURN, returned(case.then, listener), 0, 0);
        let end = self.instructions.len();
        for index in start..end {
            let instruction = &mut self.instructions[index];
            for jump in [&mut instruction.jt, &mut instruction.jf] {
                if *jump == FAIL {
                    *jump = distance(index, end);
                }
            }
        }
    }

    fn check(&mut self, check: &Check) {
        match *check {
            Check::Is(argument, value) => {
                self.push(LOAD, lower(argument), 0, 0);
                self.push(JUMP_EQUAL, value, 0, FAIL);
            }
            Check::IsLong(argument, value) => {
                self.upper_is_zero(argument);
                self.check(&Check::Is(argument, value));
            }
            Check::OneOf(argument, values) => self.one_of(argument, None, values),
            Check::OneOfWithout(argument, bits, values) => self.one_of(argument, Some(!bits), values),
            Check::Within(argument, bits) => {
                self.upper_is_zero(argument);
                self.push(LOAD, lower(argument), 0, 0);
                self.push(JUMP_ANY_BIT, !bits, FAIL, 0);
            }
            Check::Has(argument, bits) => {
                self.push(LOAD, lower(argument), 0, 0);
                self.push(AND, bits, 0, 0);
                self.push(JUMP_EQUAL, bits, 0, FAIL);
            }
            Check::OwnProcess(argument) => {
                self.push(LOAD, lower(argument), 0, 0);
                self.own_process.push(self.instructions.len());
                self.push(JUMP_EQUAL, 0, 0, FAIL);
            }
        }
    }

    fn upper_is_zero(&mut self, argument: u8) {
        self.push(LOAD, lower(argument) + 4, 0, 0);
        self.push(JUMP_EQUAL, 0, 0, FAIL);
    }

    fn one_of(&mut self, argument: u8, mask: Option<u32>, values: &[u32]) {
        self.push(LOAD, lower(argument), 0, 0);
        if let Some(mask) = mask {
            self.push(AND, mask, 0, 0);
        }
        let end = self.instructions.len() + values.len();
        for &value in values {
            let last = self.instructions.len() + 1 == end;
            let found = distance(self.instructions.len(), end);
            self.push(JUMP_EQUAL, value, found, if last { FAIL } else { 0 });
        }
    }
}

/// Stands for the end of the case until that is known. No case is long enough for a jump of this length.
const FAIL: u8 = u8::MAX;

fn distance(from: usize, to: usize) -> u8 {
    u8::try_from(to - from - 1).expect("a block is shorter than a jump: rules are cut into blocks")
}

/// Where the lower half of an argument lies; the upper half is 4 bytes behind it.
fn lower(argument: u8) -> u32 {
    OFFSET_ARGUMENTS + 8 * u32::from(argument)
}

pub(super) fn returned(verdict: Verdict, listener: Listener) -> u32 {
    match (verdict, listener) {
        (Verdict::Allow, _) => RETURN_ALLOW,
        (Verdict::Errno(number), _) => RETURN_ERRNO | number.unsigned_abs(),
        (Verdict::Trap, _) => RETURN_TRAP,
        (Verdict::Report, Listener::Heard) => RETURN_NOTIFY,
        (Verdict::Report, Listener::Nobody) => RETURN_KILL,
    }
}
