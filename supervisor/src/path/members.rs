//! What a container's listing says of a member before the member itself is looked at: whether it goes to rest with its record,
//! and where. Nothing is recorded here.

use super::collect::Member;
use crate::ledger::{Record, Settle};
use crate::rules::budget::Budget;
use crate::rules::fault::{Evidence, Fault};
use crate::rules::kind::{Class, Kind, Stage, State, Why};
use crate::rules::policy;
use crate::settings::Settings;
use shared::format::Role;
use shared::{ContentHash, Identity, MemberKind, Parts, Refusal, Refused};

/// Against what the members of one container are held.
pub(super) struct Judge<'a> {
    pub(super) settings: &'a Settings,
    pub(super) budget: &'a Budget,
    /// The hashes of the containers around the container.
    pub(super) above: &'a [ContentHash],
    /// Its own.
    pub(super) container: Option<ContentHash>,
}

impl Judge<'_> {
    /// Why a member goes to rest with its record; `None`: it is to be carried.
    pub(super) fn refusal(&self, identity: &Identity, member: &Member) -> Option<Fault> {
        if let Some(over) = &member.over {
            return Some((**over).clone());
        }
        no_file(member)
            .or_else(|| member.refusal.as_ref().map(|refusal| refused(refusal, None, self.settings)))
            .or_else(|| self.holds_itself(member))
            .or_else(|| self.too_deep(identity, member))
            .or_else(|| policy::judge_size(Stage::Fetch, member.bytes.size(), self.settings.limits.input))
    }

    fn holds_itself(&self, member: &Member) -> Option<Fault> {
        let hash = member.bytes.sha256;
        let is_around = self.above.contains(&hash) || self.container == Some(hash);
        (member.bytes.size() > 0 && is_around).then(|| {
            let message = "its bytes are those of a container around it";
            Fault::new(Stage::Discover, Kind::PolicyDepth, message)
        })
    }

    /// An archive is not opened where it would be one container too many around its members; of what else has members, the
    /// members are left out.
    fn too_deep(&self, identity: &Identity, member: &Member) -> Option<Fault> {
        let around = u32::try_from(identity.depth()).unwrap_or(u32::MAX);
        let is_archive = member.bytes.format.role() == Role::Archive;
        let opened = if is_archive { around } else { around.saturating_sub(1) };
        self.budget.enter_container(opened).err()
    }
}

fn no_file(member: &Member) -> Option<Fault> {
    let what = match member.head.kind {
        MemberKind::File => return None,
        MemberKind::Link => "a link",
        _ => "a device or the like",
    };
    let message = format!("{what} inside of a container");
    Some(Fault::new(Stage::Discover, Kind::PolicySpecialFile, message))
}

/// What an extractor's refusal is called, of a document or of a member.
pub(super) fn refused(refusal: &Refusal, parts: Option<Parts>, settings: &Settings) -> Fault {
    let kind = match refusal.why {
        Refused::Encrypted => Kind::ParseEncrypted,
        Refused::Malformed => Kind::ParseMalformed,
        Refused::Truncated => Kind::ParseTruncated,
        Refused::Unsupported => Kind::FormatUnsupported,
    };
    let passwords = settings.passwords_mark().filter(|_| kind == Kind::ParseEncrypted);
    let evidence = Evidence { parts, passwords, ..Evidence::default() };
    Fault::new(Stage::Extract, kind, refusal.message.clone()).with(evidence)
}

/// Whether a listing says something new of a known member.
pub(super) fn differs(known: &Record, member: &Member, fault: Option<&Fault>) -> bool {
    if known.state == State::Deleted {
        return true;
    }
    match fault {
        Some(fault) => {
            let passwords = |evidence: &Evidence| evidence.passwords.clone();
            known.kind != Some(fault.kind)
                || !matches!(known.state, State::Excluded | State::Quarantined)
                || known.evidence.as_ref().and_then(passwords) != passwords(&fault.evidence)
        }
        None => known.sha256 != Some(member.bytes.sha256) || known.state == State::Excluded,
    }
}

/// Where a member goes that its container's listing already settles: no attempt was made on it.
pub(super) fn settle_of_listing(fault: &Fault) -> Settle {
    match fault.class {
        Some(Class::Rejected) => Settle::Exclude,
        Some(Class::Corrupt) => Settle::Quarantine { why: Why::Corrupt },
        _ => Settle::Quarantine { why: Why::Permanent },
    }
}
