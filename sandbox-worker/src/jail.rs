//! The cage around a child, as a checklist.

/// Proof that the cage is shut. Only [`enter`] makes one, so that a parser before the cage does not compile.
#[derive(Debug)]
pub struct Jailed(());
