//! stub

pub mod control;
