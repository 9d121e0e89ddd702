//! The rulesets: everything that the kernel can forbid, and no exception; a command's adds its own.

use super::layers::Failed;
use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, RestrictSelfAttr, Ruleset, RulesetAttr,
    RulesetCreated, RulesetError, RulesetStatus, Scope,
};
use nix::errno::Errno;
use std::os::fd::OwnedFd;

/// The newest set of rights that is asked for; the kernel's own is used where it is older.
pub(crate) const NEWEST: ABI = ABI::V10;

pub(crate) fn everything() -> Result<RulesetCreated, RulesetError> {
    Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()
}

/// Enters a domain without any right.
pub(super) fn enter() -> Result<(), Failed> {
    restrict(everything())
}

/// Enters the domain of this ruleset, and reads back whether the kernel enforces it.
pub(crate) fn restrict(ruleset: Result<RulesetCreated, RulesetError>) -> Result<(), Failed> {
    let status = ruleset
        .and_then(|ruleset| ruleset.log_subdomains(false))
        .and_then(RulesetCreated::restrict_self)
        .map_err(failed)?;
    match status.ruleset {
        RulesetStatus::NotEnforced => Err(unknown()),
        _ => Ok(()),
    }
}

/// A ruleset for a child to enter later.
pub(super) fn ruleset() -> Result<OwnedFd, Failed> {
    Option::<OwnedFd>::from(everything().map_err(failed)?).ok_or_else(unknown)
}

fn failed(error: RulesetError) -> Failed {
    let mut step = format!("landlock: {error}");
    let mut source = std::error::Error::source(&error);
    while let Some(error) = source {
        step = format!("{step}: {error}");
        source = error.source();
    }
    Failed { step, errno: Errno::UnknownErrno }
}

pub(crate) fn unknown() -> Failed {
    Failed { step: "the kernel has no Landlock, or it is off".to_owned(), errno: Errno::UnknownErrno }
}
