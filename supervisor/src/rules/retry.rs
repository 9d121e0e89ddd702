//! stub
use super::fault::Fault;
use super::kind::Kind;
use crate::ledger::{Millis, Settle};
use crate::settings::{KindPolicy, Retry};
use std::collections::BTreeMap;
pub fn decide(
    _fault: &Fault,
    _attempts: u32,
    _retry: &Retry,
    _kinds: &BTreeMap<Kind, KindPolicy>,
    _random: f64,
    _now: Millis,
) -> Settle {
    Settle::AtOnce
}
pub fn supervisor_lost(_crashes: u32, _alone: bool, _max: u32, _now: Millis) -> Settle {
    Settle::AtOnce
}
