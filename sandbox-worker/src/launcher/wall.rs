//! Landlock as the second wall of a command: the same view as its root has, no port, no socket and no signal outwards.

use super::lock::Inner;
use super::{Way, root};
use crate::jail::Failed;
use crate::jail::landlock::{NEWEST, everything, restrict, unknown};
use landlock::{
    Access, AccessFs, BitFlags, PathBeneath, RulesetCreated, RulesetCreatedAttr, RulesetError,
    path_beneath_rules,
};
use shared::launch::{Launch, SCRATCH};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Enters the domain; nothing happens where the kernel has none and the command has a root of its own.
pub(super) fn enter(way: Way, launch: &Launch, inner: &Inner) -> Result<(), Failed> {
    if way.landlock == 0 {
        return if way.has_namespaces() { Ok(()) } else { Err(unknown()) };
    }
    restrict(rules(way, launch, inner))
}

fn rules(way: Way, launch: &Launch, inner: &Inner) -> Result<RulesetCreated, RulesetError> {
    let shown = launch.shown.iter().map(|path| Path::new(OsStr::from_bytes(path)));
    let mut ruleset = everything()?
        .add_rules(path_beneath_rules(root::SYSTEM, AccessFs::from_read(NEWEST)))?
        .add_rules(path_beneath_rules(shown, AccessFs::from_read(NEWEST)))?
        .add_rules(path_beneath_rules(root::DEVICES, device()))?;
    if launch.program.is_empty() {
        ruleset = ruleset.add_rule(PathBeneath::new(&inner.own, AccessFs::ReadFile | AccessFs::Execute))?;
    }
    if way.has_namespaces() {
        let everything_but_programs = AccessFs::from_all(NEWEST) & !BitFlags::from(AccessFs::Execute);
        ruleset = ruleset
            .add_rules(path_beneath_rules([SCRATCH], everything_but_programs))?
            .add_rules(path_beneath_rules([root::INPUT], AccessFs::ReadFile | AccessFs::ReadDir))?;
    } else if !launch.stdin && named(inner) {
        ruleset = ruleset.add_rule(PathBeneath::new(&inner.document, AccessFs::ReadFile))?;
    }
    Ok(ruleset)
}

fn device() -> BitFlags<AccessFs> {
    AccessFs::ReadFile | AccessFs::WriteFile
}

/// Whether the document lies in a file system. What lies in memory alone needs no rule, and can have none.
fn named(inner: &Inner) -> bool {
    use nix::sys::statfs::{TMPFS_MAGIC, fstatfs};
    fstatfs(&inner.document).is_ok_and(|system| system.filesystem_type() != TMPFS_MAGIC)
}
