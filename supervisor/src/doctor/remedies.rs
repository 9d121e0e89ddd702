//! What a person can do about a missing layer.

use shared::Layer;

/// The advice, where there is one.
pub(super) fn of(layer: Layer) -> Option<&'static str> {
    Some(match layer {
        Layer::UserNamespace
        | Layer::MountNamespace
        | Layer::NetworkNamespace
        | Layer::PidNamespace
        | Layer::IpcNamespace
        | Layer::UtsNamespace
        | Layer::CgroupNamespace => {
            "allow user namespaces: sysctl user.max_user_namespaces above 0 and, on Debian, \
             kernel.unprivileged_userns_clone=1; on Ubuntu give lazaret-worker an AppArmor profile with `userns,` \
             (kernel.apparmor_restrict_unprivileged_userns); in Docker use --security-opt with a seccomp profile that \
             allows unshare and mount"
        }
        Layer::Cgroup => {
            "let lazaret make cgroups with the memory controller: run it as a systemd unit or scope with \
             Delegate=yes, or start it as root"
        }
        Layer::Uid => {
            "start lazaret as the machine's root, or leave it: the other layers do not depend on it"
        }
        Layer::LandlockZygote | Layer::LandlockChild => {
            "boot a kernel of 5.13 or newer (6.12 for sockets and signals) with landlock among the security modules \
             (lsm=landlock,…)"
        }
        Layer::SeccompZygote | Layer::SeccompChild | Layer::SeccompListener => {
            "use a kernel of 5.0 or newer with CONFIG_SECCOMP_FILTER; no other process may hold a listener on lazaret"
        }
        _ => return None,
    })
}
