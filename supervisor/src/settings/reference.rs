//! Every setting with its default and its meaning, for `--help` and the README. A test holds it against what is read.

/// `(key, default, meaning)`, in the order of the sections. `KIND` and `[[connector]]` stand for any number of them.
pub fn reference() -> &'static [(&'static str, &'static str, &'static str)] {
    &[
        ("children", "as many as processors and memory allow", "documents that are worked on at a time"),
        ("limits.input", "512MiB", "the largest item that is read at all"),
        ("limits.fetch", "60s", "the longest wait for the next byte of an item"),
        (
            "limits.wall",
            "120s, or 4 × limits.cpu",
            "from the start of a document's child to its end; at least 4 × limits.cpu",
        ),
        ("limits.stalled", "30s", "the longest wait for a sign of life from a child"),
        ("limits.cpu", "30s, or a quarter of limits.wall", "processor time of a document's child"),
        ("limits.memory", "512MiB", "what a document's child may allocate"),
        ("limits.output", "64MiB", "text and metadata of a document"),
        ("limits.expansion", "2GiB", "bytes of all members of an item, all levels together"),
        ("limits.ratio", "200", "bytes of members for each byte of the item, above 16 MiB of members"),
        ("limits.depth", "8", "containers inside one another"),
        ("limits.entries", "100000", "members of an item, all levels together"),
        ("limits.large.input", "limits.input", "as limits.input, in the large lane"),
        ("limits.large.fetch", "limits.fetch", "as limits.fetch, in the large lane"),
        ("limits.large.wall", "4 × limits.wall", "as limits.wall, in the large lane"),
        ("limits.large.stalled", "4 × limits.stalled", "as limits.stalled, in the large lane"),
        ("limits.large.cpu", "4 × limits.cpu", "as limits.cpu, in the large lane"),
        ("limits.large.memory", "4 × limits.memory", "as limits.memory, in the large lane"),
        ("limits.large.output", "4 × limits.output", "as limits.output, in the large lane"),
        ("limits.large.expansion", "limits.expansion", "as limits.expansion, in the large lane"),
        ("limits.large.ratio", "limits.ratio", "as limits.ratio, in the large lane"),
        ("limits.large.depth", "limits.depth", "as limits.depth, in the large lane"),
        ("limits.large.entries", "limits.entries", "as limits.entries, in the large lane"),
        ("retry.attempts", "5", "attempts at a document before it is given up"),
        ("retry.floor", "1m", "the shortest upper bound of the delay between attempts; it doubles with each"),
        ("retry.cap", "6h", "the longest delay between attempts"),
        (
            "retry.max_crashes",
            "3",
            "deaths of the supervisor, with a document alone in hand, until it is quarantined",
        ),
        (
            "kinds.KIND.class",
            "the kind's own",
            "`transient`, `permanent` or `corrupt`: what a fault of this kind calls for",
        ),
        ("kinds.KIND.attempts", "retry.attempts", "attempts that may end with this kind"),
        ("kinds.KIND.delay", "by retry.floor and retry.cap", "a fixed delay before the next attempt"),
        (
            "policy.include",
            "everything",
            "globs; only items that one of them matches. `*` does not cross `/`, `**` does",
        ),
        (
            "policy.exclude",
            "nothing",
            "globs; a file that one matches is excluded, a directory is not walked",
        ),
        ("policy.max_age", "none", "the greatest age of an item, by its modification time"),
        ("policy.types", "all", "names of formats; only these"),
        (
            "cage.require",
            "[\"descriptors\", \"environment\", \"no-new-privileges\", \"seccomp-zygote\", \"parent-death\", \"rlimits\", \
             \"not-dumpable\", \"memory-budget\", \"seccomp-child\"]",
            "layers without which a run refuses to start",
        ),
        ("cage.faults", "false", "carry out documents of the fault language, for tests of the cage"),
        ("cage.uid_base", "1900000000", "the first of the user ids of children, where started by root"),
        ("cage.worker", "beside the program", "the worker's program"),
        ("passwords.file", "none", "a file with passwords for encrypted documents, one a line"),
        (
            "deletion.guard",
            "0.1",
            "the share of its documents that a source may lose in one listing, above 100 documents",
        ),
        ("[[connector]].name", "(required)", "the source's name"),
        ("[[connector]].kind", "folder", "`folder`"),
        ("[[connector]].path", "(required)", "the folder"),
    ]
}
