//! The account of which layers stand, kept while they are put up.

use nix::errno::Errno;
use shared::{Layer, Layers};

/// Why a step failed: which one, and the system's error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failed {
    pub(crate) step: String,
    pub(crate) errno: Errno,
}

impl Failed {
    pub(crate) fn at(step: impl Into<String>) -> impl FnOnce(Errno) -> Failed {
        let step = step.into();
        move |errno| Failed { step, errno }
    }

    /// In words, for the record.
    pub(crate) fn words(&self) -> String {
        let Failed { step, errno } = self;
        if *errno == Errno::UnknownErrno {
            step.clone()
        } else {
            format!("{step}: {errno:?}, {}", errno.desc())
        }
    }
}

/// The layers so far.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    layers: Layers,
    absent: Vec<(Layer, String)>,
    omit: Layers,
}

impl Standing {
    /// None yet. Those in `omit` are never put up and claimed nevertheless, in a build that is made for that: so that
    /// an attack has to find them out.
    pub(crate) fn none(omit: Layers) -> Self {
        let omit = if cfg!(feature = "omit-layers") { omit } else { Layers::NONE };
        Standing { layers: Layers::NONE, absent: Vec::new(), omit }
    }

    /// Puts a layer up, and notes whether it stands.
    pub(crate) fn put_up(&mut self, layer: Layer, step: impl FnOnce() -> Result<(), Failed>) {
        match if self.omits(layer) { Ok(()) } else { step() } {
            Ok(()) => self.stands(layer),
            Err(failed) => self.lacks(layer, failed.words()),
        }
    }

    /// Whether this layer is to be left out.
    pub(crate) fn omits(&self, layer: Layer) -> bool {
        self.omit.has(layer)
    }

    pub(crate) fn stands(&mut self, layer: Layer) {
        self.layers = self.layers.with(layer);
    }

    pub(crate) fn lacks(&mut self, layer: Layer, why: impl Into<String>) {
        self.absent.push((layer, why.into()));
    }

    pub(crate) fn layers(&self) -> Layers {
        self.layers
    }

    pub(crate) fn absent(&self) -> &[(Layer, String)] {
        &self.absent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_stands_or_is_absent_with_its_reason() {
        let mut standing = Standing::none(Layers::NONE);
        standing.put_up(Layer::Uid, || Ok(()));
        standing.put_up(Layer::UserNamespace, || Err(Failed::at("unshare")(Errno::EPERM)));
        assert_eq!(standing.layers(), Layers::NONE.with(Layer::Uid));
        let why = "unshare: EPERM, Operation not permitted".to_owned();
        assert_eq!(standing.absent(), [(Layer::UserNamespace, why)]);
    }

    #[test]
    fn omission_is_for_builds_made_for_it() {
        let mut standing = Standing::none(Layers::NONE.with(Layer::Uid));
        let mut ran = false;
        standing.put_up(Layer::Uid, || {
            ran = true;
            Ok(())
        });
        assert_eq!(ran, !cfg!(feature = "omit-layers"));
        assert!(standing.layers().has(Layer::Uid), "claimed either way");
    }
}
