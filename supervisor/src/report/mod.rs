//! What a person or a program gets to see. Everything here turns values into text; it decides nothing, and only
//! [`printer`] writes.

pub mod advice;
pub mod csv;
pub mod json;
pub mod printer;
pub mod progress;
pub mod show;
pub mod status;
pub mod style;
pub mod summary;
pub mod table;
pub mod time;

pub use printer::Printer;
