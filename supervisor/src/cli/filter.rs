//! The options that say which documents are meant, for every command that takes them.

use super::moment::moment;
use super::{CliError, open};
use crate::ledger::{Filter, Millis, Reader, id_range};
use crate::rules::kind::{Class, Damage, Kind, Stage, State, Why};
use crate::settings::units;
use clap::Args as ClapArgs;
use globset::{GlobBuilder, GlobMatcher};
use jiff::ZonedDateTime;
use shared::{DocumentId, Format};

/// Which documents are meant: those for which all that is given holds. To be flattened behind a command's own options: its
/// heading holds for all that follow.
#[derive(Debug, Clone, Default, ClapArgs)]
#[command(next_help_heading = "Which documents")]
pub struct FilterArgs {
    /// Only documents in this state
    #[arg(long, value_name = "STATE")]
    pub state_is: Option<State>,
    /// Only documents that are quarantined for this reason
    #[arg(long, value_name = "WHY")]
    pub why: Option<Why>,
    /// Only documents with a fault of this class
    #[arg(long, value_name = "CLASS")]
    pub class: Option<Class>,
    /// Only documents with a fault of this kind, such as `parse.encrypted`; `status` tells which there are
    #[arg(long, value_name = "KIND", hide_possible_values = true)]
    pub kind: Option<Kind>,
    /// Only documents with a fault of this stage
    #[arg(long, value_name = "STAGE")]
    pub stage: Option<Stage>,
    /// Only documents of the source with this name
    #[arg(long, value_name = "NAME")]
    pub source: Option<String>,
    /// Only documents whose path, as `list` shows it, matches; `*` does not cross `/`, `**` does
    #[arg(long, value_name = "GLOB", value_parser = glob)]
    pub path: Option<GlobMatcher>,
    /// Only documents of this format, such as `pdf`
    #[arg(long, value_name = "FORMAT", value_parser = format)]
    pub format_is: Option<Format>,
    /// Only documents made under a version of this stage that begins with this text: `extract=1 lopdf`
    #[arg(long, value_name = "STAGE=TEXT", value_parser = version)]
    pub version: Vec<(Stage, String)>,
    /// Only documents last tried (or first seen, where never tried) since: a time, a date, or a span back from now (`2d`, `36h`)
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub since: Option<Millis>,
    /// Only documents that have been failing since before then
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub first_failed_before: Option<Millis>,
    /// Only documents that did what no honest document does
    #[arg(long)]
    pub hostile: bool,
    /// Only documents that were damaged there
    #[arg(long, value_name = "WHERE")]
    pub damage: Option<Damage>,
    /// Only documents that crashed in this one way
    #[arg(long, value_name = "HEX", value_parser = fingerprint)]
    pub fingerprint: Option<String>,
    /// Only documents that met this error of the system, such as `EACCES`
    #[arg(long, value_name = "NAME", value_parser = errno)]
    pub errno: Option<String>,
    /// Only documents of at least this size: `10MiB`
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub min_size: Option<u64>,
    /// Only documents of at most this size
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub max_size: Option<u64>,
    /// Only the document with this id, or those whose ids begin with it (at least 4 digits)
    #[arg(long, value_name = "ID", value_parser = ids)]
    pub id: Option<(DocumentId, DocumentId)>,
}

impl FilterArgs {
    /// Whether anything is said at all.
    pub(super) fn is_given(&self) -> bool {
        let FilterArgs {
            state_is,
            why,
            class,
            kind,
            stage,
            source,
            path,
            format_is,
            version,
            since,
            first_failed_before,
            hostile,
            damage,
            fingerprint,
            errno,
            min_size,
            max_size,
            id,
        } = self;
        *hostile
            || !version.is_empty()
            || [state_is.is_some(), why.is_some(), class.is_some(), kind.is_some(), stage.is_some()]
                .contains(&true)
            || [source.is_some(), path.is_some(), format_is.is_some(), since.is_some()].contains(&true)
            || [first_failed_before.is_some(), damage.is_some(), fingerprint.is_some()].contains(&true)
            || [errno.is_some(), min_size.is_some(), max_size.is_some(), id.is_some()].contains(&true)
    }

    /// The filter.
    ///
    /// # Errors
    /// No source has the name that is given.
    pub(super) fn filter(&self, reader: &Reader) -> Result<Filter, CliError> {
        if let Some(name) = &self.source {
            open::known_source(reader, name)?;
        }
        Ok(Filter {
            state: self.state_is,
            among: Vec::new(),
            why: self.why,
            class: self.class,
            kind: self.kind,
            stage: self.stage,
            source: self.source.clone(),
            path: self.path.clone(),
            format: self.format_is.map(|format| format.name().to_owned()),
            versions: self.version.clone(),
            since: self.since,
            first_failed_before: self.first_failed_before,
            hostile: self.hostile,
            damage: self.damage,
            fingerprint: self.fingerprint.clone(),
            errno: self.errno.clone(),
            min_size: self.min_size,
            max_size: self.max_size,
            ids: self.id,
        })
    }
}

/// As the settings read one.
fn glob(text: &str) -> Result<GlobMatcher, String> {
    let glob = GlobBuilder::new(text).literal_separator(true).backslash_escape(true).build();
    glob.map(|glob| glob.compile_matcher()).map_err(|error| error.kind().to_string())
}

fn format(text: &str) -> Result<Format, String> {
    Format::named(text).ok_or_else(|| {
        let names: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
        format!("one of {}", names.join(", "))
    })
}

fn version(text: &str) -> Result<(Stage, String), String> {
    let stages = || {
        let names: Vec<&str> = Stage::ALL.iter().map(|stage| stage.name()).collect();
        format!("a stage ({}), `=` and how its version begins", names.join(", "))
    };
    let (stage, text) = text.split_once('=').ok_or_else(stages)?;
    Ok((Stage::named(stage.trim()).ok_or_else(stages)?, text.to_owned()))
}

fn time(text: &str) -> Result<Millis, String> {
    moment(text, &ZonedDateTime::now())
}

fn size(text: &str) -> Result<u64, String> {
    units::size(text).ok_or_else(|| units::SIZE_ALLOWED.to_owned())
}

fn fingerprint(text: &str) -> Result<String, String> {
    let is_hex = !text.is_empty() && text.chars().all(|c| c.is_ascii_hexdigit());
    if is_hex { Ok(text.to_ascii_lowercase()) } else { Err("hex digits, as `show` prints them".to_owned()) }
}

fn errno(text: &str) -> Result<String, String> {
    let is_name = text.starts_with(['E', 'e']) && text.chars().all(|c| c.is_ascii_alphanumeric());
    if is_name { Ok(text.to_ascii_uppercase()) } else { Err("a name such as `EACCES`".to_owned()) }
}

fn ids(text: &str) -> Result<(DocumentId, DocumentId), String> {
    id_range(text).ok_or_else(|| "4 to 40 hex digits".to_owned())
}
