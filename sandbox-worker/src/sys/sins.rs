//! stub
pub(crate) struct Sin;
