//! stub
pub(super) mod compressed;
pub(super) mod seven_zip;
pub(super) mod tar;
pub(super) mod zip;
