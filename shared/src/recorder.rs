//! The flight recorder: one page that a child writes and the supervisor copies out once, after the child's death.
//!
//! It costs the child no system call and survives SIGKILL. It is a hint: whatever it says, it can never change the
//! class that the wait status and the supervisor's own intent give; it chooses between names inside one class. Every
//! value is clamped when it is read. All numbers are little endian and aligned to 8 bytes.

/// Bytes of the page.
pub const SIZE: usize = 4096;
/// Stands at [`offset::MAGIC`] once the child has mapped the page.
pub const MAGIC: u64 = 0x4c5a_5245_4344_0001;
/// The most frames of a crash that are kept.
pub const FRAMES_MAX: usize = 32;
/// The longest panic message that is kept, in bytes.
pub const PANIC_MESSAGE_MAX: usize = 512;
/// The longest file name of a panic's place, in bytes.
pub const PANIC_FILE_MAX: usize = 128;

/// Exit status of a child whose parser panicked.
pub const EXIT_PANIC: i32 = 101;
/// Exit status of a child that met a system call that the filter traps; the number stands in the page.
pub const EXIT_TRAPPED: i32 = 99;
/// Exit status of a child that could not put up its cage; the step stands in the page.
pub const EXIT_SETUP: i32 = 120;

/// Where each field lies.
pub mod offset {
    pub const MAGIC: usize = 0;
    /// [`super::Stage`] as a number.
    pub const STAGE: usize = 8;
    /// How far the parser is: bytes or parts.
    pub const POSITION: usize = 16;
    pub const ALLOC_PEAK: usize = 24;
    /// Bytes of the allocation that failed, 0 if none did.
    pub const ALLOC_FAILED: usize = 32;
    /// [`super::AllocFailure`] as a number.
    pub const ALLOC_WHY: usize = 40;
    /// System calls that were answered with an error instead of death.
    pub const DENIED: usize = 48;
    /// 1 where a panic was recorded.
    pub const PANICKED: usize = 56;
    pub const PANIC_LINE: usize = 64;
    pub const PANIC_FILE_LEN: usize = 72;
    pub const PANIC_MESSAGE_LEN: usize = 80;
    /// 1 where the crash handler ran.
    pub const CRASHED: usize = 88;
    pub const CRASH_SIGNAL: usize = 96;
    /// Sign-extended.
    pub const CRASH_CODE: usize = 104;
    pub const CRASH_ADDRESS: usize = 112;
    pub const CRASH_PC: usize = 120;
    pub const CRASH_SP: usize = 128;
    /// Of a trapped system call: number and architecture.
    pub const SYSCALL_NR: usize = 136;
    pub const SYSCALL_ARCH: usize = 144;
    pub const FRAME_COUNT: usize = 152;
    /// Lowest address of the stack that the parser ran on.
    pub const STACK_LOW: usize = 160;
    /// [`super::EXIT_SETUP`]: the step's number and the error's.
    pub const SETUP_STEP: usize = 168;
    pub const SETUP_ERRNO: usize = 176;
    /// Address range of the mapped document.
    pub const DOCUMENT_START: usize = 184;
    pub const DOCUMENT_LEN: usize = 192;
    /// `FRAMES_MAX` addresses.
    pub const FRAMES: usize = 256;
    pub const PANIC_FILE: usize = 1024;
    pub const PANIC_MESSAGE: usize = 1280;
}

/// What a child was doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Stage {
    Setup = 0,
    Parse = 1,
    End = 2,
}

macro_rules! steps {
    ($($variant:ident = $number:literal $name:literal),* $(,)?) => {
        /// A step by which a child shuts its cage, as it is numbered at [`offset::SETUP_STEP`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u64)]
        pub enum Step { $($variant = $number),* }

        impl Step {
            /// All of them, in their order.
            pub const ALL: &[Step] = &[$(Step::$variant),*];

            /// The name in records.
            pub fn name(self) -> &'static str {
                match self { $(Step::$variant => $name),* }
            }

            /// The step of this number; `None` where the page lies.
            pub fn of(number: u64) -> Option<Step> {
                Step::ALL.iter().copied().find(|&step| step as u64 == number)
            }
        }
    };
}

steps! {
    MapRecorder = 1 "recorder",
    ResultPipe = 2 "result_pipe",
    DocumentSize = 3 "document_size",
    MapDocument = 4 "document",
    Limits = 5 "rlimits",
    ParentDeath = 6 "parent_death",
    NotDumpable = 7 "not_dumpable",
    Landlock = 8 "landlock",
    Descriptors = 9 "descriptors",
    Filter = 10 "seccomp",
}

/// Why an allocation failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum AllocFailure {
    /// The budget of the allocator.
    Budget = 1,
    /// The kernel said no.
    Kernel = 2,
}

/// What the page said, copied out and clamped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recording {
    /// The child got as far as mapping the page.
    pub mapped: bool,
    pub stage: u64,
    pub position: u64,
    pub alloc_peak: u64,
    pub alloc_failed: Option<FailedAllocation>,
    pub denied: u64,
    pub panic: Option<Panic>,
    pub crash: Option<Crash>,
    pub setup: Option<(u64, i32)>,
}

/// The last allocation that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailedAllocation {
    pub bytes: u64,
    pub why: AllocFailure,
}

/// Where a panic came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Panic {
    pub file: String,
    pub line: u64,
    pub message: String,
}

/// What the crash handler saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crash {
    pub signal: u64,
    pub code: i64,
    pub address: u64,
    pub pc: u64,
    pub sp: u64,
    pub syscall: u64,
    pub arch: u64,
    pub stack_low: u64,
    pub document: (u64, u64),
    pub frames: Vec<u64>,
}

impl Recording {
    /// Reads a copy of the page. Total: any bytes give some recording.
    pub fn read(page: &[u8; SIZE]) -> Self {
        let word = |at: usize| -> u64 {
            page.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
        };
        if word(offset::MAGIC) != MAGIC {
            return Recording::default();
        }
        let text = |at: usize, length: usize, most: usize| {
            let length = usize::try_from(word(length)).unwrap_or(most).min(most);
            String::from_utf8_lossy(page.get(at..at + length).unwrap_or_default()).into_owned()
        };
        let why = match word(offset::ALLOC_WHY) {
            1 => Some(AllocFailure::Budget),
            2 => Some(AllocFailure::Kernel),
            _ => None,
        };
        Recording {
            mapped: true,
            stage: word(offset::STAGE),
            position: word(offset::POSITION),
            alloc_peak: word(offset::ALLOC_PEAK),
            alloc_failed: why.map(|why| FailedAllocation { bytes: word(offset::ALLOC_FAILED), why }),
            denied: word(offset::DENIED),
            panic: (word(offset::PANICKED) == 1).then(|| Panic {
                file: text(offset::PANIC_FILE, offset::PANIC_FILE_LEN, PANIC_FILE_MAX),
                line: word(offset::PANIC_LINE),
                message: text(offset::PANIC_MESSAGE, offset::PANIC_MESSAGE_LEN, PANIC_MESSAGE_MAX),
            }),
            crash: (word(offset::CRASHED) == 1).then(|| Crash {
                signal: word(offset::CRASH_SIGNAL),
                code: word(offset::CRASH_CODE).cast_signed(),
                address: word(offset::CRASH_ADDRESS),
                pc: word(offset::CRASH_PC),
                sp: word(offset::CRASH_SP),
                syscall: word(offset::SYSCALL_NR),
                arch: word(offset::SYSCALL_ARCH),
                stack_low: word(offset::STACK_LOW),
                document: (word(offset::DOCUMENT_START), word(offset::DOCUMENT_LEN)),
                frames: (0..usize::try_from(word(offset::FRAME_COUNT)).unwrap_or(FRAMES_MAX).min(FRAMES_MAX))
                    .map(|n| word(offset::FRAMES + 8 * n))
                    .collect(),
            }),
            setup: (word(offset::SETUP_STEP) != 0)
                .then(|| (word(offset::SETUP_STEP), i32::try_from(word(offset::SETUP_ERRNO)).unwrap_or(0))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lies_are_clamped() {
        let mut page = [0xff; SIZE];
        assert_eq!(Recording::read(&page), Recording::default());
        page[..8].copy_from_slice(&MAGIC.to_le_bytes());
        for at in [offset::CRASHED, offset::PANICKED] {
            page[at..at + 8].copy_from_slice(&1_u64.to_le_bytes());
        }
        let recording = Recording::read(&page);
        assert_eq!(recording.crash.unwrap().frames.len(), FRAMES_MAX);
        assert_eq!(recording.panic.unwrap().message.chars().count(), PANIC_MESSAGE_MAX);
    }
}
