//! Takes settings out of TOML tables one by one, and keeps every complaint: what was asked for is known, what is left over
//! is unknown.

use super::units;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// One thing that is wrong with the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingError {
    /// Where it was written: a file's path, `--set`, or `settings`.
    pub origin: String,
    /// The full key; empty where the whole file is meant.
    pub key: String,
    /// What is wrong, what is allowed, and for unknown keys which one may be meant.
    pub problem: String,
}

impl std::fmt::Display for SettingError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.key.is_empty() {
            return write!(f, "{}: {}", self.origin, self.problem);
        }
        write!(f, "{}: `{}`: {}", self.origin, self.key, self.problem)
    }
}

impl std::error::Error for SettingError {}

/// Which keys come from where, and all complaints so far.
#[derive(Debug, Default)]
pub(super) struct Complaints {
    pub(super) file: Option<PathBuf>,
    /// Keys that `--set` gave a value.
    pub(super) set: Vec<String>,
    pub(super) errors: Vec<SettingError>,
}

impl Complaints {
    pub(super) fn add(&mut self, key: &str, problem: impl Into<String>) {
        let origin = if self.is_set(key) {
            "--set".to_owned()
        } else {
            self.file.as_ref().map_or_else(|| "settings".to_owned(), |file| file.display().to_string())
        };
        self.errors.push(SettingError { origin, key: key.to_owned(), problem: problem.into() });
    }

    /// A path as it was meant: relative to the file that names it, or to where the program was started.
    pub(super) fn path(&self, key: &str, written: &str) -> PathBuf {
        match self.file.as_deref().and_then(Path::parent) {
            Some(folder) if !self.is_set(key) => folder.join(written),
            _ => PathBuf::from(written),
        }
    }

    fn is_set(&self, key: &str) -> bool {
        let below = |long: &str, short: &str| {
            long.strip_prefix(short).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        self.set.iter().any(|set| below(key, set) || below(set, key))
    }
}

/// One table of the settings.
#[derive(Debug)]
pub(super) struct Section {
    prefix: String,
    table: Table,
    known: Vec<&'static str>,
}

impl Section {
    pub(super) fn new(prefix: impl Into<String>, table: Table) -> Self {
        Section { prefix: prefix.into(), table, known: Vec::new() }
    }

    /// The full name of a key.
    pub(super) fn key(&self, key: &str) -> String {
        if self.prefix.is_empty() { key.to_owned() } else { format!("{}.{key}", self.prefix) }
    }

    pub(super) fn take(&mut self, key: &'static str) -> Option<Value> {
        self.known.push(key);
        self.table.remove(key)
    }

    pub(super) fn section(&mut self, key: &'static str, all: &mut Complaints) -> Section {
        let name = self.key(key);
        let table = match self.take(key) {
            None => Table::new(),
            Some(Value::Table(table)) => table,
            Some(other) => {
                all.add(&name, format!("is {}, and must be a section of settings", kind_of(&other)));
                Table::new()
            }
        };
        Section::new(name, table)
    }

    pub(super) fn size(&mut self, key: &'static str, all: &mut Complaints) -> Option<u64> {
        let value = self.take(key)?;
        let size = match &value {
            Value::Integer(bytes) => u64::try_from(*bytes).ok(),
            Value::String(text) => units::size(text),
            _ => None,
        };
        self.checked(
            key,
            size.filter(|&size| size > 0),
            &value,
            &format!("{}, above 0", units::SIZE_ALLOWED),
            all,
        )
    }

    pub(super) fn time(&mut self, key: &'static str, all: &mut Complaints) -> Option<u64> {
        let value = self.take(key)?;
        let time = match &value {
            Value::String(text) => units::time(text),
            _ => None,
        };
        let hint = match value {
            Value::Integer(number) if number > 0 => format!(" (did you mean `\"{number}s\"`?)"),
            _ => String::new(),
        };
        let allowed = format!("{}, above 0{hint}", units::TIME_ALLOWED);
        self.checked(key, time.filter(|&time| time > 0), &value, &allowed, all)
    }

    /// A whole number within these bounds, both included.
    pub(super) fn count(
        &mut self,
        key: &'static str,
        (least, most): (u64, u64),
        all: &mut Complaints,
    ) -> Option<u64> {
        let value = self.take(key)?;
        let count = value.as_integer().and_then(|number| u64::try_from(number).ok());
        let count = count.filter(|count| (least..=most).contains(count));
        self.checked(key, count, &value, &format!("a whole number from {least} to {most}"), all)
    }

    /// As [`Section::count`], for what is kept in 32 bits.
    pub(super) fn small(
        &mut self,
        key: &'static str,
        (least, most): (u32, u32),
        all: &mut Complaints,
    ) -> Option<u32> {
        self.count(key, (least.into(), most.into()), all).and_then(|count| u32::try_from(count).ok())
    }

    pub(super) fn flag(&mut self, key: &'static str, all: &mut Complaints) -> Option<bool> {
        let value = self.take(key)?;
        self.checked(key, value.as_bool(), &value, "`true` or `false`", all)
    }

    /// A share between 0 and 1.
    pub(super) fn share(&mut self, key: &'static str, all: &mut Complaints) -> Option<f64> {
        let value = self.take(key)?;
        let share = match &value {
            Value::Float(share) => Some(*share),
            Value::Integer(0) => Some(0.0),
            Value::Integer(1) => Some(1.0),
            _ => None,
        };
        self.checked(key, share.filter(|s| (0.0..=1.0).contains(s)), &value, "a number from 0 to 1", all)
    }

    pub(super) fn text(&mut self, key: &'static str, all: &mut Complaints) -> Option<String> {
        let value = self.take(key)?;
        let text = value.as_str().filter(|text| !text.is_empty() && !text.contains('\0')).map(str::to_owned);
        self.checked(key, text, &value, "a text that is not empty", all)
    }

    /// A list of texts; a single one stands for a list of one.
    pub(super) fn texts(&mut self, key: &'static str, all: &mut Complaints) -> Option<Vec<String>> {
        let value = self.take(key)?;
        let texts = match &value {
            Value::String(text) => Some(vec![text.clone()]),
            Value::Array(values) => values.iter().map(|value| value.as_str().map(str::to_owned)).collect(),
            _ => None,
        };
        self.checked(key, texts, &value, "a list of texts", all)
    }

    /// A word out of a closed list.
    pub(super) fn word<T>(
        &mut self,
        key: &'static str,
        words: &[(&'static str, T)],
        all: &mut Complaints,
    ) -> Option<T>
    where
        T: Copy,
    {
        let value = self.take(key)?;
        let word = value.as_str().and_then(|text| words.iter().find(|(word, _)| *word == text));
        let allowed = words.iter().map(|(word, _)| format!("`{word}`")).collect::<Vec<_>>().join(", ");
        self.checked(key, word.map(|&(_, meaning)| meaning), &value, &format!("one of {allowed}"), all)
    }

    fn checked<T>(
        &self,
        key: &str,
        found: Option<T>,
        value: &Value,
        allowed: &str,
        all: &mut Complaints,
    ) -> Option<T> {
        if found.is_none() {
            all.add(&self.key(key), format!("`{value}` is not allowed: {allowed}"));
        }
        found
    }

    /// The table itself, for sections whose keys are free.
    pub(super) fn into_table(self) -> Table {
        self.table
    }

    /// What nobody asked for is unknown.
    pub(super) fn finish(self, all: &mut Complaints) {
        for key in self.table.keys() {
            let hint = match nearest(key, &self.known) {
                Some(near) => format!("did you mean `{}`?", self.key(near)),
                None => format!("known here: {}", self.known.join(", ")),
            };
            let problem = format!("there is no such setting; {hint}");
            all.add(&self.key(key), problem);
        }
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "a text",
        Value::Integer(_) | Value::Float(_) => "a number",
        Value::Boolean(_) => "true or false",
        Value::Datetime(_) => "a date",
        Value::Array(_) => "a list",
        Value::Table(_) => "a section",
    }
}

/// The known word that is closest to `word`, if one is close at all.
pub(super) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let (distance, near) = known.iter().map(|known| (distance(word, known), *known)).min()?;
    (distance <= 1 + word.chars().count() / 3).then_some(near)
}

/// Insertions, deletions, replacements and swaps of neighbours that make one word of the other.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_finds_its_word() {
        let known = ["memory", "wall", "stalled", "output"];
        assert_eq!(nearest("memroy", &known), Some("memory"));
        assert_eq!(nearest("stale", &known), Some("stalled"));
        assert_eq!(nearest("wal", &known), Some("wall"));
        assert_eq!(nearest("parachute", &known), None);
    }
}
