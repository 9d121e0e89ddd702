//! stub
/// stub
pub fn main_impl() {}
