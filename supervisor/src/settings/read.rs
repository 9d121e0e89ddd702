//! From what was written to [`Settings`]: the file, `--set` over it, then section by section.

use super::section::{Complaints, Section, SettingError, nearest};
use super::{
    Breakers, Cage, Check, Connector, KindPolicy, Policy, Retry, Settings, Watch, extractors, large_lane,
};
use crate::rules::breaker;
use crate::rules::kind::{Class, Kind};
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use shared::{Format, Layer, Layers, Limits};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// How many times its processor time a child must have in wall time: on a machine that is shared it gets no more.
const WALL_PER_CPU: u64 = 4;
/// The largest file of passwords, in bytes.
const PASSWORDS_MAX: u64 = 1 << 20;

impl Settings {
    /// Reads the settings of `file`, with each `KEY=VALUE` of `sets` over it. A value is TOML; what is no TOML is a text.
    /// Relative paths in the file are relative to the file's folder, those in `sets` to where the program was started.
    ///
    /// # Errors
    /// All that is wrong, at once.
    pub fn load(file: Option<&Path>, sets: &[String]) -> Result<Settings, Vec<SettingError>> {
        let mut all = Complaints { file: file.map(Path::to_owned), ..Complaints::default() };
        let mut table = file.map_or_else(Table::new, |file| read_file(file, &mut all));
        flatten_kinds(&mut table);
        for set in sets {
            apply_set(&mut table, set, &mut all);
        }
        let settings = settings(table, &mut all);
        if all.errors.is_empty() { Ok(settings) } else { Err(all.errors) }
    }
}

fn read_file(file: &Path, all: &mut Complaints) -> Table {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) => {
            all.add("", format!("cannot be read: {error}"));
            return Table::new();
        }
    };
    text.parse().unwrap_or_else(|error: toml::de::Error| {
        all.add("", error.to_string().trim_end().to_owned());
        Table::new()
    })
}

/// Lays one `KEY=VALUE` over the table.
fn apply_set(table: &mut Table, set: &str, all: &mut Complaints) {
    let Some((key, value)) = set.split_once('=') else {
        all.set.push(set.to_owned());
        all.add(set, "must be KEY=VALUE, such as `limits.memory=1GiB`");
        return;
    };
    let (key, value) = (key.trim(), value.trim());
    let as_toml = format!("{key} = {value}").parse::<Table>();
    let parsed = as_toml.or_else(|_| format!("{key} = {}", Value::String(value.to_owned())).parse());
    let Ok(mut over) = parsed else {
        all.set.push(key.to_owned());
        all.add(key, "is no key; keys are words joined by dots, such as `limits.memory`");
        return;
    };
    leaves("", &over, &mut all.set);
    flatten_kinds(&mut over);
    merge(table, over);
}

/// The full names of all values in `table`.
fn leaves(prefix: &str, table: &Table, into: &mut Vec<String>) {
    for (key, value) in table {
        let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match value {
            Value::Table(inner) => leaves(&name, inner, into),
            _ => into.push(name),
        }
    }
}

fn merge(under: &mut Table, over: Table) {
    for (key, value) in over {
        match (under.get_mut(&key), value) {
            (Some(Value::Table(under)), Value::Table(over)) => merge(under, over),
            (_, value) => drop(under.insert(key, value)),
        }
    }
}

fn settings(table: Table, all: &mut Complaints) -> Settings {
    let default = Settings::default();
    let mut root = Section::new("", table);
    let (limits, large) = limits(root.section("limits", all), all);
    let retry = retry(root.section("retry", all), all);
    let watch = watch(root.section("run", all), Watch::within(&large), all);
    let kinds = kinds(root.section("kinds", all), all);
    let policy = policy(root.section("policy", all), all);
    let cage = cage(root.section("cage", all), all);
    let passwords = passwords(root.section("passwords", all), all);
    let extractors = extractors::extractors(root.take("extractor"), all);
    let recognise = extractors::recognise(root.section("recognise", all), all);
    let mut deletion = root.section("deletion", all);
    let deletion_guard = deletion.share("guard", all).unwrap_or(default.deletion_guard);
    deletion.finish(all);
    let breakers = breakers(root.section("breaker", all), all);
    let mut section = root.section("alert", all);
    let alert = section.texts("command", all).unwrap_or_default();
    section.finish(all);
    let check = check(root.section("check", all), all);
    let mut verify = root.section("verify", all);
    let verify_share = verify.share("share", all).unwrap_or(default.verify_share);
    verify.finish(all);
    let connectors = connectors(root.take("connector"), all);
    let children = root.count("children", (1, 4096), all).and_then(|count| usize::try_from(count).ok());
    root.finish(all);
    Settings {
        limits,
        large,
        retry,
        watch,
        kinds,
        policy,
        cage,
        passwords,
        extractors,
        recognise,
        connectors,
        children,
        breakers,
        alert,
        deletion_guard,
        check,
        verify_share,
    }
}

/// What a section of limits says; what it leaves open stays open.
#[derive(Debug, Default)]
struct RawLimits {
    wall: Option<u64>,
    cpu: Option<u64>,
    rest: Limits,
}

fn limits(mut section: Section, all: &mut Complaints) -> (Limits, Limits) {
    let large = section.section("large", all);
    let raw = raw_limits(section, Limits::default(), all);
    let limits = settled(raw, "limits", all);
    let raw = raw_limits(large, large_lane(&limits), all);
    let large = settled(raw, "limits.large", all);
    // What the supervisor itself counts sends nothing to the large lane: a document must not meet another limit there.
    let large = Limits {
        input: limits.input,
        expansion: limits.expansion,
        ratio: limits.ratio,
        depth: limits.depth,
        entries: limits.entries,
        ..large
    };
    for (name, large, small) in [
        ("wall", large.wall_ms, limits.wall_ms),
        ("cpu", large.cpu_ms, limits.cpu_ms),
        ("stalled", large.stalled_ms, limits.stalled_ms),
        ("memory", large.memory, limits.memory),
        ("output", large.output, limits.output),
    ] {
        if large < small {
            all.add(&format!("limits.large.{name}"), format!("must be at least `limits.{name}`"));
        }
    }
    (limits, large)
}

fn raw_limits(mut section: Section, base: Limits, all: &mut Complaints) -> RawLimits {
    const MOST: u64 = 1 << 40;
    let raw = RawLimits {
        rest: Limits {
            input: section.size("input", all).unwrap_or(base.input),
            fetch_ms: section.time("fetch", all).unwrap_or(base.fetch_ms),
            wall_ms: base.wall_ms,
            stalled_ms: section.time("stalled", all).unwrap_or(base.stalled_ms),
            cpu_ms: base.cpu_ms,
            memory: section.size("memory", all).unwrap_or(base.memory),
            output: section.size("output", all).unwrap_or(base.output),
            expansion: section.size("expansion", all).unwrap_or(base.expansion),
            ratio: section.count("ratio", (1, MOST), all).unwrap_or(base.ratio),
            depth: section.small("depth", (1, 64), all).unwrap_or(base.depth),
            entries: section.count("entries", (1, MOST), all).unwrap_or(base.entries),
        },
        wall: section.time("wall", all),
        cpu: section.time("cpu", all),
    };
    section.finish(all);
    raw
}

/// Wall and processor time follow one another where only one is set, and are held against one another where both are.
fn settled(raw: RawLimits, section: &str, all: &mut Complaints) -> Limits {
    let base = &raw.rest;
    let (wall_ms, cpu_ms) = match (raw.wall, raw.cpu) {
        (None, None) => (base.wall_ms, base.cpu_ms),
        (None, Some(cpu)) => (base.wall_ms.max(cpu.saturating_mul(WALL_PER_CPU)), cpu),
        (Some(wall), None) => (wall, base.cpu_ms.min(wall.div_ceil(WALL_PER_CPU))),
        (Some(wall), Some(cpu)) => {
            if wall < cpu.saturating_mul(WALL_PER_CPU) {
                let problem =
                    format!("must be at least {WALL_PER_CPU} × `{section}.cpu`, {}ms", cpu * WALL_PER_CPU);
                all.add(&format!("{section}.wall"), problem);
            }
            (wall, cpu)
        }
    };
    Limits { wall_ms, cpu_ms, ..raw.rest }
}

fn retry(mut section: Section, all: &mut Complaints) -> Retry {
    let default = Retry::default();
    let retry = Retry {
        attempts: section.small("attempts", (1, 1000), all).unwrap_or(default.attempts),
        floor_ms: section.time("floor", all).unwrap_or(default.floor_ms),
        cap_ms: section.time("cap", all).unwrap_or(default.cap_ms),
        max_crashes: section.small("max_crashes", (1, 1_000_000), all).unwrap_or(default.max_crashes),
    };
    if retry.cap_ms < retry.floor_ms {
        all.add("retry.cap", format!("must be at least `retry.floor`, {}ms", retry.floor_ms));
    }
    section.finish(all);
    retry
}

fn breakers(mut section: Section, all: &mut Complaints) -> Breakers {
    let breakers = Breakers {
        source: breaker(section.section("source", all), all),
        extractor: breaker(section.section("extractor", all), all),
        sink: breaker(section.section("sink", all), all),
    };
    section.finish(all);
    breakers
}

fn breaker(mut section: Section, all: &mut Complaints) -> breaker::Policy {
    let default = breaker::Policy::default();
    let window = section.count("window", (0, 10_000), all).and_then(|count| usize::try_from(count).ok());
    let share = section.share("share", all);
    if share == Some(0.0) {
        all.add(&section.key("share"), "must be above 0; a window of 0 switches the breaker off");
    }
    section.finish(all);
    breaker::Policy { window: window.unwrap_or(default.window), share: share.unwrap_or(default.share) }
}

fn watch(mut section: Section, default: Watch, all: &mut Complaints) -> Watch {
    let watch = Watch {
        deadline_ms: section.time("deadline", all),
        watchdog_ms: section.time("watchdog", all).unwrap_or(default.watchdog_ms),
    };
    section.finish(all);
    watch
}

fn kinds(section: Section, all: &mut Complaints) -> BTreeMap<Kind, KindPolicy> {
    let mut kinds = BTreeMap::new();
    for (name, value) in section.into_table() {
        let key = format!("kinds.{name}");
        let Some(kind) = Kind::named(&name) else {
            let names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
            let near =
                nearest(&name, &names).map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
            all.add(&key, format!("there is no such kind{near}"));
            continue;
        };
        if !is_configurable(kind) {
            all.add(&key, "what follows this kind is fixed");
            continue;
        }
        let Value::Table(table) = value else {
            all.add(&key, "must be a section with `class`, `attempts`, `delay`");
            continue;
        };
        kinds.insert(kind, kind_policy(Section::new(key, table), all));
    }
    kinds
}

/// `kinds.time.wall.attempts`, written without quotes, means `kinds."time.wall".attempts`.
fn flatten_kinds(table: &mut Table) {
    let Some(Value::Table(kinds)) = table.get_mut("kinds") else { return };
    for (name, value) in std::mem::take(kinds) {
        match value {
            Value::Table(inner) if !name.contains('.') => {
                let inner = inner.into_iter().map(|(rest, value)| (format!("{name}.{rest}"), value));
                merge(kinds, inner.collect());
            }
            value => merge(kinds, Table::from_iter([(name, value)])),
        }
    }
}

/// Rejections are the policies' own, what the content check finds has no class, and a death of the supervisor is counted
/// by `retry.max_crashes`.
fn is_configurable(kind: Kind) -> bool {
    let class = kind.default_class();
    class.is_some()
        && class != Some(Class::Rejected)
        && !matches!(kind, Kind::SupervisorLost | Kind::ExtractorBroken)
}

fn kind_policy(mut section: Section, all: &mut Complaints) -> KindPolicy {
    let classes = [Class::Transient, Class::Permanent, Class::Corrupt].map(|class| (class.name(), class));
    let policy = KindPolicy {
        class: section.word("class", &classes, all),
        attempts: section.small("attempts", (1, 1000), all),
        delay_ms: section.time("delay", all),
    };
    section.finish(all);
    policy
}

fn policy(mut section: Section, all: &mut Complaints) -> Policy {
    let policy = Policy {
        include: globs(&mut section, "include", all),
        exclude: globs(&mut section, "exclude", all),
        max_age_ms: section.time("max_age", all),
        types: types(&mut section, all),
    };
    section.finish(all);
    policy
}

fn globs(section: &mut Section, key: &'static str, all: &mut Complaints) -> Option<GlobSet> {
    let patterns = section.texts(key, all)?;
    let key = section.key(key);
    let mut set = GlobSetBuilder::new();
    for pattern in &patterns {
        match GlobBuilder::new(pattern).literal_separator(true).backslash_escape(true).build() {
            Ok(glob) => drop(set.add(glob)),
            Err(error) => all.add(&key, format!("`{pattern}` is no glob: {}", error.kind())),
        }
    }
    if patterns.is_empty() {
        return None;
    }
    set.build().map_err(|error| all.add(&key, error.to_string())).ok()
}

fn types(section: &mut Section, all: &mut Complaints) -> Option<Vec<Format>> {
    let names = section.texts("types", all)?;
    let formats = named(&names, "format", &section.key("types"), all, Format::named, || {
        Format::ALL.iter().map(|format| format.name()).collect()
    });
    (!names.is_empty()).then_some(formats)
}

/// What the names of a closed list stand for.
pub(super) fn named<T>(
    names: &[String],
    what: &str,
    key: &str,
    all: &mut Complaints,
    find: impl Fn(&str) -> Option<T>,
    known: impl Fn() -> Vec<&'static str>,
) -> Vec<T> {
    let mut found = Vec::new();
    for name in names {
        match find(name) {
            Some(meaning) => found.push(meaning),
            None => {
                let known = known();
                let hint = nearest(name, &known).map_or_else(
                    || format!("known: {}", known.join(", ")),
                    |near| format!("did you mean `{near}`?"),
                );
                all.add(key, format!("there is no {what} `{name}`; {hint}"));
            }
        }
    }
    found
}

fn cage(mut section: Section, all: &mut Complaints) -> Cage {
    let default = Cage::default();
    let worker = section.text("worker", all).map(|written| all.path("cage.worker", &written));
    let cage = Cage {
        require: layers(&mut section, "require", all).unwrap_or(default.require),
        faults: section.flag("faults", all).unwrap_or(default.faults),
        // A user id of 0 would be root, and the last one means "none".
        uid_base: section.small("uid_base", (1, u32::MAX - 4096), all).unwrap_or(default.uid_base),
        omit: omit(&mut section, all).unwrap_or(default.omit),
        worker: worker.or(default.worker),
    };
    section.finish(all);
    cage
}

#[cfg(feature = "fault-points")]
fn omit(section: &mut Section, all: &mut Complaints) -> Option<Layers> {
    layers(section, "omit", all)
}

/// No release leaves a layer out on purpose: there is no such key.
#[cfg(not(feature = "fault-points"))]
fn omit(_: &mut Section, _: &mut Complaints) -> Option<Layers> {
    None
}

fn layers(section: &mut Section, key: &'static str, all: &mut Complaints) -> Option<Layers> {
    let names = section.texts(key, all)?;
    let find = |name: &str| Layer::ALL.iter().copied().find(|layer| layer.name() == name);
    let known = || Layer::ALL.iter().map(|layer| layer.name()).collect();
    Some(named(&names, "layer", &section.key(key), all, find, known).into_iter().collect())
}

fn check(mut section: Section, all: &mut Complaints) -> Check {
    let default = Check::default();
    let check = Check {
        near_empty: section.count("near_empty", (0, 1_000_000), all).unwrap_or(default.near_empty),
        under_extracted: section.share("under_extracted", all).unwrap_or(default.under_extracted),
        junk: section.share("junk", all).unwrap_or(default.junk),
        glyph_codes: section.share("glyph_codes", all).unwrap_or(default.glyph_codes),
        repeated_lines: section.share("repeated_lines", all).unwrap_or(default.repeated_lines),
        common_words: section.share("common_words", all).unwrap_or(default.common_words),
    };
    section.finish(all);
    check
}

fn passwords(mut section: Section, all: &mut Complaints) -> Vec<String> {
    let file = section.text("file", all).map(|written| all.path("passwords.file", &written));
    section.finish(all);
    let Some(file) = file else { return Vec::new() };
    read_passwords(&file).unwrap_or_else(|problem| {
        all.add("passwords.file", format!("{}: {problem}", file.display()));
        Vec::new()
    })
}

/// One a line; blanks belong to the password, empty lines are none.
fn read_passwords(file: &Path) -> Result<Vec<String>, String> {
    let size = std::fs::metadata(file).map_err(|error| error.to_string())?.len();
    if size > PASSWORDS_MAX {
        return Err(format!("is larger than {PASSWORDS_MAX} bytes"));
    }
    let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
    Ok(text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

fn connectors(value: Option<Value>, all: &mut Complaints) -> Vec<Connector> {
    let tables = match value {
        None => return Vec::new(),
        Some(Value::Array(values)) => values,
        Some(other) => vec![other],
    };
    let mut connectors: Vec<Connector> = Vec::new();
    for (number, value) in tables.into_iter().enumerate() {
        let key = format!("connector[{number}]");
        let Value::Table(table) = value else {
            all.add(&key, "must be a section `[[connector]]` with `name`, `kind`, `path`");
            continue;
        };
        let Some(connector) = connector(Section::new(key.clone(), table), all) else { continue };
        if connectors.iter().any(|known| known.name == connector.name) {
            all.add(&format!("{key}.name"), format!("`{}` is taken by an earlier connector", connector.name));
            continue;
        }
        connectors.push(connector);
    }
    connectors
}

fn connector(mut section: Section, all: &mut Complaints) -> Option<Connector> {
    let _the_only_one: Option<()> = section.word("kind", &[("folder", ())], all);
    let name = required(&mut section, "name", all);
    let path = required(&mut section, "path", all);
    let path: Option<PathBuf> = path.map(|written| all.path(&section.key("path"), &written));
    let deadline_ms = section.time("deadline", all);
    section.finish(all);
    Some(Connector { name: name?, path: path?, deadline_ms })
}

fn required(section: &mut Section, key: &'static str, all: &mut Complaints) -> Option<String> {
    let before = all.errors.len();
    let text = section.text(key, all);
    if text.is_none() && all.errors.len() == before {
        all.add(&section.key(key), "is missing");
    }
    text
}
