//! Counts members and their bytes over all levels of an outermost item. The counts are the supervisor's own: nothing that a
//! child says of sizes enters them.
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

use super::fault::{Evidence, Fault, Limit};
use super::kind::{Kind, Stage};
use shared::Limits;

/// What one outermost item may still unfold to.
#[derive(Debug, Clone)]
pub struct Budget {
    item_bytes: u64,
    expansion: u64,
    ratio: u64,
    depth: u32,
    entries: u64,
    counted_entries: u64,
    counted_bytes: u64,
}

impl Budget {
    /// For an outermost item of this many bytes.
    pub fn new(item_bytes: u64, limits: &Limits) -> Self {
        Budget {
            item_bytes,
            expansion: limits.expansion,
            ratio: limits.ratio,
            depth: limits.depth,
            entries: limits.entries,
            counted_entries: 0,
            counted_bytes: 0,
        }
    }

    /// Takes over what earlier listings of containers in the same item counted.
    pub fn carry_over(&mut self, entries: u64, bytes: u64) {
        self.counted_entries = self.counted_entries.saturating_add(entries);
        self.counted_bytes = self.counted_bytes.saturating_add(bytes);
    }

    /// Members and bytes of members so far.
    pub fn counted(&self) -> (u64, u64) {
        (self.counted_entries, self.counted_bytes)
    }

    /// A container is about to be opened that lies inside `depth` others.
    ///
    /// # Errors
    /// `policy.depth` where that makes more containers inside one another than the limit.
    pub fn enter_container(&self, depth: u32) -> Result<(), Fault> {
        let levels = depth.saturating_add(1);
        if levels > self.depth {
            return Err(over(Kind::PolicyDepth, "depth", self.depth.into(), levels.into()));
        }
        Ok(())
    }

    /// A member begins.
    ///
    /// # Errors
    /// `policy.entries` where it is one too many.
    pub fn member_begins(&mut self) -> Result<(), Fault> {
        self.counted_entries = self.counted_entries.saturating_add(1);
        if self.counted_entries > self.entries {
            return Err(over(Kind::PolicyEntries, "entries", self.entries, self.counted_entries));
        }
        Ok(())
    }

    /// So many more bytes of the member came.
    ///
    /// # Errors
    /// `policy.expansion` where they are too many, absolutely or for the size of the outermost item.
    pub fn member_bytes(&mut self, bytes: u64) -> Result<(), Fault> {
        self.counted_bytes = self.counted_bytes.saturating_add(bytes);
        if self.counted_bytes > self.expansion {
            return Err(over(Kind::PolicyExpansion, "expansion", self.expansion, self.counted_bytes));
        }
        let allowed = self.item_bytes.saturating_mul(self.ratio);
        if self.counted_bytes > Limits::RATIO_FLOOR && self.counted_bytes > allowed {
            let measured = self.counted_bytes.div_ceil(self.item_bytes.max(1));
            return Err(over(Kind::PolicyExpansion, "ratio", self.ratio, measured));
        }
        Ok(())
    }
}

fn over(kind: Kind, name: &str, value: u64, measured: u64) -> Fault {
    let limit = Some(Limit { name: name.to_owned(), value, measured: Some(measured) });
    let what = match name {
        "entries" => "members",
        "expansion" => "bytes of members",
        "ratio" => "bytes of members for each byte of the item",
        _ => "containers inside one another",
    };
    let message = format!("{measured} {what}, and at most {value} are allowed (limits.{name})");
    Fault::new(Stage::Extract, kind, message).with(Evidence { limit, ..Evidence::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(result: Result<(), Fault>) -> (Kind, String, u64, u64) {
        let fault = result.unwrap_err();
        let limit = fault.evidence.limit.unwrap();
        (fault.kind, limit.name, limit.value, limit.measured.unwrap())
    }

    #[test]
    fn the_last_allowed_passes_and_the_next_does_not() {
        let limits = Limits { entries: 2, depth: 3, expansion: 100, ..Limits::default() };
        let mut budget = Budget::new(10, &limits);
        assert!(budget.member_begins().is_ok() && budget.member_begins().is_ok());
        assert_eq!(limit(budget.member_begins()), (Kind::PolicyEntries, "entries".into(), 2, 3));
        assert!(budget.member_bytes(60).is_ok() && budget.member_bytes(40).is_ok());
        assert_eq!(limit(budget.member_bytes(1)), (Kind::PolicyExpansion, "expansion".into(), 100, 101));
        assert!(budget.enter_container(2).is_ok());
        assert_eq!(limit(budget.enter_container(3)), (Kind::PolicyDepth, "depth".into(), 3, 4));
    }

    #[test]
    fn the_ratio_counts_only_above_its_floor_and_against_the_outermost_item() {
        let mut budget = Budget::new(1_000, &Limits::default());
        assert!(budget.member_bytes(Limits::RATIO_FLOOR).is_ok());
        let (kind, name, value, measured) = limit(budget.member_bytes(1));
        assert_eq!((kind, name.as_str(), value), (Kind::PolicyExpansion, "ratio", 200));
        assert_eq!(measured, (Limits::RATIO_FLOOR + 1).div_ceil(1_000));
        let mut budget = Budget::new(1 << 20, &Limits::default());
        assert!(budget.member_bytes(200 << 20).is_ok());
        assert!(budget.member_bytes(1).is_err());
    }

    #[test]
    fn all_levels_count_together_and_numbers_do_not_overflow() {
        let mut budget = Budget::new(1, &Limits { entries: 5, ..Limits::default() });
        budget.carry_over(5, 7);
        assert_eq!(budget.counted(), (5, 7));
        assert!(budget.member_begins().is_err());
        assert!(budget.member_bytes(u64::MAX).is_err());
        assert!(budget.member_bytes(u64::MAX).is_err());
    }
}
