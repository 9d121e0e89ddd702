//! The layers of the cage, by name. A record carries those that held for it.

use serde::{Deserialize, Serialize};

macro_rules! layers {
    ($($variant:ident $name:literal $doc:literal),* $(,)?) => {
        /// One layer of the cage.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[repr(u8)]
        pub enum Layer { $(#[doc = $doc] $variant),* }

        impl Layer {
            /// All of them, in the order in which they are put up.
            pub const ALL: &[Layer] = &[$(Layer::$variant),*];

            /// The name in records, settings and `doctor`.
            pub fn name(self) -> &'static str {
                match self { $(Layer::$variant => $name),* }
            }

            /// What it does, for people.
            pub fn purpose(self) -> &'static str {
                match self { $(Layer::$variant => $doc),* }
            }
        }
    };
}

layers! {
    Descriptors "descriptors" "no descriptor but the fixed ones is open",
    Environment "environment" "the environment is empty",
    Uid "uid" "a user id of its own, where started by root",
    UserNamespace "user-namespace" "a user namespace without privileges outside",
    MountNamespace "mount-namespace" "an empty, read-only root",
    NetworkNamespace "network-namespace" "no network device",
    PidNamespace "pid-namespace" "no other process can be named, and all die together",
    IpcNamespace "ipc-namespace" "no System V object or message queue of others",
    UtsNamespace "uts-namespace" "a host name of its own",
    CgroupNamespace "cgroup-namespace" "no cgroup path of the host",
    Capabilities "capabilities" "no capability, and none to be had",
    NoNewPrivileges "no-new-privileges" "no program can give privileges back",
    LandlockZygote "landlock-zygote" "no file, no TCP port, no abstract socket, no signal outwards",
    SeccompZygote "seccomp-zygote" "only the listed system calls; the dangerous ones are reported",
    SeccompListener "seccomp-listener" "a dangerous system call is named by the kernel itself",
    ParentDeath "parent-death" "dies with the supervisor",
    Rlimits "rlimits" "the kernel's own limits on memory, time, files and processes",
    NotDumpable "not-dumpable" "no core file, no tracing",
    MemoryBudget "memory-budget" "the allocator's own limit",
    LandlockChild "landlock-child" "siblings cannot be signalled or traced",
    SeccompChild "seccomp-child" "the zygote's own calls are gone too",
    Cgroup "cgroup" "the kernel counts and limits the memory",
}

/// A set of [`Layer`]s.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layers(pub u32);

impl Layers {
    /// None of them.
    pub const NONE: Layers = Layers(0);

    /// The set with `layer` in it.
    #[must_use]
    pub fn with(self, layer: Layer) -> Self {
        Layers(self.0 | 1 << layer as u8)
    }

    /// The set without `layer`.
    #[must_use]
    pub fn without(self, layer: Layer) -> Self {
        Layers(self.0 & !(1 << layer as u8))
    }

    /// What is in either.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Layers(self.0 | other.0)
    }

    /// Whether `layer` is in it.
    pub fn has(self, layer: Layer) -> bool {
        self.0 & 1 << layer as u8 != 0
    }

    /// What is in it, in order.
    pub fn iter(self) -> impl Iterator<Item = Layer> {
        Layer::ALL.iter().copied().filter(move |&layer| self.has(layer))
    }
}

impl FromIterator<Layer> for Layers {
    fn from_iter<T: IntoIterator<Item = Layer>>(layers: T) -> Self {
        layers.into_iter().fold(Layers::NONE, Layers::with)
    }
}
