//! What a system error at the source means for the document, and what a `stat` says in the ledger's words.

use crate::ledger::Stat;
use crate::rules::fault::{Evidence, Fault};
use crate::rules::kind::{Kind, Stage};
use nix::errno::Errno;
use nix::sys::stat::FileStat;

/// The kind that goes with an error of the source's file system.
pub(super) fn kind_of(errno: Errno) -> Kind {
    match errno {
        Errno::EACCES | Errno::EPERM => Kind::SourceDenied,
        Errno::ENOENT | Errno::ENOTDIR | Errno::ESTALE => Kind::SourceVanished,
        Errno::ENOTCONN | Errno::EHOSTDOWN | Errno::EHOSTUNREACH | Errno::ENETDOWN | Errno::ENETUNREACH => {
            Kind::SourceUnreachable
        }
        Errno::ETIMEDOUT | Errno::ENODEV | Errno::ECONNREFUSED | Errno::ECONNRESET => Kind::SourceUnreachable,
        // What those are told who wait when a file system's server or its connection dies.
        Errno::ECONNABORTED | Errno::ENETRESET | Errno::EPIPE | Errno::ESHUTDOWN => Kind::SourceUnreachable,
        // A link or a device took the file's place after it was listed; a socket cannot be opened at all.
        Errno::ELOOP | Errno::EXDEV | Errno::ENXIO => Kind::PolicySpecialFile,
        _ => Kind::SourceIo,
    }
}

/// The fault for an error of the source's file system.
pub(super) fn fault(stage: Stage, errno: Errno, act: &str) -> Fault {
    // These are shortages of our own, whatever the file.
    let ours = matches!(errno, Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM);
    let evidence = Evidence {
        errno: Some(format!("{errno:?}")),
        detail: ours.then(|| crate::rules::fault::OUR_OWN.to_owned()),
        ..Evidence::default()
    };
    Fault::new(stage, kind_of(errno), format!("{act}: {}", errno.desc())).with(evidence)
}

/// What a listing compares.
pub(crate) fn stat_of(stat: &FileStat) -> Stat {
    Stat {
        size: u64::try_from(stat.st_size).unwrap_or(0),
        mtime_ns: nanoseconds(stat.st_mtime, stat.st_mtime_nsec),
        ctime_ns: nanoseconds(stat.st_ctime, stat.st_ctime_nsec),
        dev: stat.st_dev,
        ino: stat.st_ino,
    }
}

/// A file system may claim any year: what does not fit is cut at the ends.
fn nanoseconds(seconds: i64, rest: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::kind::Class;

    #[test]
    fn each_error_has_its_kind() {
        for (errno, kind) in [
            (Errno::EACCES, Kind::SourceDenied),
            (Errno::EPERM, Kind::SourceDenied),
            (Errno::ENOENT, Kind::SourceVanished),
            (Errno::ENOTDIR, Kind::SourceVanished),
            (Errno::ESTALE, Kind::SourceVanished),
            (Errno::EIO, Kind::SourceIo),
            (Errno::ENOTCONN, Kind::SourceUnreachable),
            (Errno::EHOSTDOWN, Kind::SourceUnreachable),
            (Errno::ETIMEDOUT, Kind::SourceUnreachable),
            (Errno::ENODEV, Kind::SourceUnreachable),
            (Errno::ELOOP, Kind::PolicySpecialFile),
            (Errno::EMFILE, Kind::SourceIo),
        ] {
            assert_eq!(kind_of(errno), kind, "{errno}");
        }
    }

    #[test]
    fn the_raw_error_is_kept_and_our_own_shortage_is_told() {
        let fault = fault(Stage::Fetch, Errno::EMFILE, "open");
        assert_eq!(fault.class, Some(Class::Transient));
        assert_eq!(fault.evidence.errno.as_deref(), Some("EMFILE"));
        assert_eq!(fault.evidence.detail.as_deref(), Some("supervisor.resources"));
    }

    #[test]
    fn absurd_times_do_not_overflow() {
        assert_eq!(nanoseconds(i64::MAX, 1), i64::MAX);
        assert_eq!(nanoseconds(i64::MIN, 0), i64::MIN);
    }
}
