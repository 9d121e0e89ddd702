//! The product's words for what can happen to a document: states, stages, classes and kinds. One word for one thing,
//! in the code, the ledger, the JSON and the docs.
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// Makes an enum whose variants have one name each, used in JSON, SQL and on the command line alike.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident $word:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$vdoc])* $variant),* }

        impl $name {
            /// All of them, in their order.
            pub const ALL: &[$name] = &[$($name::$variant),*];

            /// The word for it.
            pub fn name(self) -> &'static str {
                match self { $($name::$variant => $word),* }
            }

            /// What this word stands for.
            pub fn named(word: &str) -> Option<Self> {
                match word { $($word => Some($name::$variant),)* _ => None }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(self.name())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let word = String::deserialize(from)?;
                $name::named(&word).ok_or_else(|| {
                    serde::de::Error::custom(format!("`{word}` is no {}", stringify!($name).to_lowercase()))
                })
            }
        }
    };
}

words! {
    /// Where a document stands. The equation: discovered = indexed + suspect + retrying + quarantined + excluded + pending.
    State {
        /// Its text is in the sink, acknowledged, and passed the content check.
        Indexed "indexed",
        /// A text came out that is not the document's; in the sink, flagged, never counted as covered.
        Suspect "suspect",
        /// Failed; another attempt is due.
        Retrying "retrying",
        /// Not tried again until something changes.
        Quarantined "quarantined",
        /// Rejected by policy; not a failure.
        Excluded "excluded",
        /// Known, not finished.
        Pending "pending",
        /// Gone from the source; a tombstone outside the equation.
        Deleted "deleted",
    }
}

words! {
    /// Why a document is quarantined.
    Why {
        /// The same bytes will fail the same way.
        Permanent "permanent",
        /// The bytes are damaged.
        Corrupt "corrupt",
        /// The attempts are used up.
        GaveUp "gave_up",
    }
}

words! {
    /// A step of the path.
    Stage {
        Discover "discover",
        Fetch "fetch",
        Identify "identify",
        Extract "extract",
        Recognise "recognise",
        Normalise "normalise",
        Check "check",
        Write "write",
    }
}

words! {
    /// What a fault calls for.
    Class {
        /// Nothing about the document caused it: try again.
        Transient "transient",
        /// Trying again changes nothing until the pipeline or its limits change.
        Permanent "permanent",
        /// The bytes are damaged; the question is where.
        Corrupt "corrupt",
        /// A policy says no. Not a failure.
        Rejected "rejected",
    }
}

words! {
    /// Where damage happened.
    Damage {
        /// A second fetch gave the same bytes.
        Source "source",
        /// A second fetch gave other bytes.
        Transfer "transfer",
    }
}

words! {
    /// What happened.
    Kind {
        SourceUnreachable "source.unreachable",
        SourceIo "source.io",
        SourceTimeout "source.timeout",
        SourceThrottled "source.throttled",
        SourceChanged "source.changed",
        SourceVanished "source.vanished",
        SourceDenied "source.denied",
        TransferDamaged "transfer.damaged",
        FormatUnsupported "format.unsupported",
        ExtractorUnavailable "extractor.unavailable",
        ParseEncrypted "parse.encrypted",
        ParseMalformed "parse.malformed",
        ParseTruncated "parse.truncated",
        ParsePanic "parse.panic",
        CrashSegv "crash.segv",
        CrashBus "crash.bus",
        CrashIll "crash.ill",
        CrashFpe "crash.fpe",
        CrashAbort "crash.abort",
        CrashStackOverflow "crash.stack_overflow",
        CrashSignal "crash.signal",
        ExtractorFailed "extractor.failed",
        MemoryLimit "memory.limit",
        MemoryPressure "memory.pressure",
        TimeCpu "time.cpu",
        TimeStalled "time.stalled",
        TimeWall "time.wall",
        TimeUnkillable "time.unkillable",
        OutputLimit "output.limit",
        ViolationSyscall "violation.syscall",
        ViolationArch "violation.arch",
        ViolationProtocol "violation.protocol",
        WorkerLost "worker.lost",
        ExtractorBroken "extractor.broken",
        SupervisorLost "supervisor.lost",
        InternalPanic "internal.panic",
        SinkUnavailable "sink.unavailable",
        SinkThrottled "sink.throttled",
        SinkRejected "sink.rejected",
        PolicyTooLarge "policy.too_large",
        PolicyTooOld "policy.too_old",
        PolicyType "policy.type",
        PolicyPath "policy.path",
        PolicyEmptyFile "policy.empty_file",
        PolicySpecialFile "policy.special_file",
        PolicyExpansion "policy.expansion",
        PolicyDepth "policy.depth",
        PolicyEntries "policy.entries",
        ContentEmpty "content.empty",
        ContentNearEmpty "content.near_empty",
        ContentUnderExtracted "content.under_extracted",
        ContentGarbled "content.garbled",
    }
}

impl Kind {
    /// Whether it says something of the bytes. What the source could not give, and what a broken extractor holds up, says nothing
    /// of them: they may be those of an earlier attempt.
    pub fn is_of_the_bytes(self) -> bool {
        !matches!(
            self,
            Kind::SourceUnreachable
                | Kind::SourceIo
                | Kind::SourceTimeout
                | Kind::SourceThrottled
                | Kind::SourceChanged
                | Kind::SourceVanished
                | Kind::SourceDenied
                | Kind::TransferDamaged
                | Kind::ExtractorBroken
        )
    }

    /// The class that the kind has where the settings name no other; `None` for what the content check finds and no
    /// fault stands behind.
    pub fn default_class(self) -> Option<Class> {
        Some(match self {
            Kind::SourceUnreachable
            | Kind::SourceIo
            | Kind::SourceTimeout
            | Kind::SourceThrottled
            | Kind::SourceChanged
            | Kind::SourceVanished
            | Kind::SourceDenied
            | Kind::TransferDamaged
            | Kind::MemoryPressure
            | Kind::TimeStalled
            | Kind::TimeWall
            | Kind::TimeUnkillable
            | Kind::WorkerLost
            | Kind::ExtractorBroken
            | Kind::SupervisorLost
            | Kind::SinkUnavailable
            | Kind::SinkThrottled => Class::Transient,
            Kind::FormatUnsupported
            | Kind::ExtractorUnavailable
            | Kind::ParseEncrypted
            | Kind::ParsePanic
            | Kind::CrashSegv
            | Kind::CrashBus
            | Kind::CrashIll
            | Kind::CrashFpe
            | Kind::CrashAbort
            | Kind::CrashStackOverflow
            | Kind::CrashSignal
            | Kind::ExtractorFailed
            | Kind::MemoryLimit
            | Kind::TimeCpu
            | Kind::OutputLimit
            | Kind::ViolationSyscall
            | Kind::ViolationArch
            | Kind::ViolationProtocol
            | Kind::InternalPanic
            | Kind::SinkRejected => Class::Permanent,
            Kind::ParseMalformed | Kind::ParseTruncated | Kind::ContentGarbled => Class::Corrupt,
            Kind::PolicyTooLarge
            | Kind::PolicyTooOld
            | Kind::PolicyType
            | Kind::PolicyPath
            | Kind::PolicyEmptyFile
            | Kind::PolicySpecialFile
            | Kind::PolicyExpansion
            | Kind::PolicyDepth
            | Kind::PolicyEntries => Class::Rejected,
            Kind::ContentEmpty | Kind::ContentNearEmpty | Kind::ContentUnderExtracted => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_finds_its_meaning() {
        for &kind in Kind::ALL {
            assert_eq!(Kind::named(kind.name()), Some(kind));
        }
        for &state in State::ALL {
            assert_eq!(State::named(state.name()), Some(state));
        }
    }

    #[test]
    fn policies_and_only_policies_are_rejections() {
        for &kind in Kind::ALL {
            assert_eq!(
                kind.default_class() == Some(Class::Rejected),
                kind.name().starts_with("policy."),
                "{kind}"
            );
        }
    }
}
