//! Every `unsafe` block of this crate, each behind a safe function that keeps the block's invariant.
