//! `[[extractor]]` and `[recognise]`: which external commands take which formats. Only what was written is looked at;
//! whether a program is there is found out when it is wanted.

use super::read::named;
use super::section::{Complaints, Section};
use shared::launch::INPUT;
use shared::{Format, format::Role};
use std::path::Path;
use toml::Value;

/// The word that stands for our own extractor.
const BUILTIN: &str = "builtin";
/// All arguments of a command together, in bytes: they go to its cage in one message.
const ARGUMENTS_MAX: usize = 32 << 10;

/// One section: an engine and the formats that it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extractor {
    pub formats: Vec<Format>,
    pub engine: Engine,
}

/// What takes a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Engine {
    /// Our own extractor for the format.
    Builtin,
    Command(Command),
}

/// A command for the cage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// A name to be looked for on the `PATH`, or a path.
    pub program: String,
    /// Behind it. [`INPUT`] in them stands for the document's path; in none of them: it comes on standard input.
    pub arguments: Vec<String>,
    pub output: OutputKind,
    /// It may make memory executable that it has written.
    pub jit: bool,
}

/// What a command writes on standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputKind {
    /// The text, in UTF-8.
    Text,
    /// `{"text": …, "metadata": {…}}`.
    Json,
}

/// `[recognise]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recognise {
    pub enabled: bool,
    /// As tesseract names them.
    pub languages: Vec<String>,
    /// So many pages of a document are read at most.
    pub pages: usize,
    /// In place of tesseract.
    pub command: Option<Command>,
}

impl Default for Recognise {
    fn default() -> Self {
        Recognise { enabled: true, languages: vec!["eng".to_owned()], pages: 200, command: None }
    }
}

impl Recognise {
    /// The command that reads a picture: PNG, JPEG, TIFF or PNM in, text out.
    pub fn command(&self) -> Command {
        self.command.clone().unwrap_or_else(|| Command {
            program: "tesseract".to_owned(),
            arguments: [INPUT, "stdout", "-l", &self.languages.join("+")].map(str::to_owned).to_vec(),
            output: OutputKind::Text,
            jit: false,
        })
    }
}

/// What makes tesseract look which way up a picture is before it reads it. That takes about as long again, so that it is asked
/// only of what came out as no language.
pub const TURNED: [&str; 2] = ["--psm", "1"];

pub(super) fn extractors(value: Option<Value>, all: &mut Complaints) -> Vec<Extractor> {
    let sections = match value {
        None => return Vec::new(),
        Some(Value::Array(values)) => values,
        Some(other) => vec![other],
    };
    let mut extractors: Vec<Extractor> = Vec::new();
    for (number, value) in sections.into_iter().enumerate() {
        let key = format!("extractor[{number}]");
        let Value::Table(table) = value else {
            all.add(&key, "must be a section `[[extractor]]` with `format` and `command`");
            continue;
        };
        let Some(extractor) = extractor(Section::new(key.clone(), table), all) else { continue };
        let twice = |known: &Extractor, format: &Format| {
            known.formats.contains(format) && known.engine == extractor.engine
        };
        for format in &extractor.formats {
            if extractors.iter().any(|known| twice(known, format)) {
                let problem = format!("an earlier section has the same for `{}`", format.name());
                all.add(&format!("{key}.command"), problem);
            }
        }
        extractors.push(extractor);
    }
    extractors
}

fn extractor(mut section: Section, all: &mut Complaints) -> Option<Extractor> {
    let before = all.errors.len();
    let formats = formats(&mut section, all);
    let words = section.texts("command", all);
    let output = output(&mut section, all);
    let jit = section.flag("jit", all);
    let key = section.key("command");
    let engine = match words {
        None => {
            if !all.errors.iter().skip(before).any(|error| error.key == key) {
                all.add(&key, "is missing");
            }
            None
        }
        Some(words) if words == [BUILTIN] => {
            builtin(&section, &formats, output, jit, all);
            Some(Engine::Builtin)
        }
        Some(words) => command(words, &key, output.unwrap_or(OutputKind::Text), jit.unwrap_or(false), all)
            .map(Engine::Command),
    };
    section.finish(all);
    Some(Extractor { formats, engine: engine? })
}

fn formats(section: &mut Section, all: &mut Complaints) -> Vec<Format> {
    let before = all.errors.len();
    let key = section.key("format");
    let Some(names) = section.texts("format", all) else {
        if all.errors.len() == before {
            all.add(&key, "is missing");
        }
        return Vec::new();
    };
    if names.is_empty() {
        all.add(&key, "names no format");
    }
    named(&names, "format", &key, all, Format::named, || {
        Format::ALL.iter().map(|format| format.name()).collect()
    })
}

fn output(section: &mut Section, all: &mut Complaints) -> Option<OutputKind> {
    section.word("output", &[("text", OutputKind::Text), ("json", OutputKind::Json)], all)
}

/// What our own extractor writes is not to be chosen, and it reads not everything that has a name.
fn builtin(
    section: &Section,
    formats: &[Format],
    output: Option<OutputKind>,
    jit: Option<bool>,
    all: &mut Complaints,
) {
    for (key, set) in [("output", output.is_some()), ("jit", jit.is_some())] {
        if set {
            all.add(&section.key(key), format!("means nothing to `{BUILTIN}`"));
        }
    }
    for format in formats {
        if matches!(format.role(), Role::Unsupported | Role::Picture) {
            let problem =
                format!("nothing here reads `{}`: `{BUILTIN}` is no extractor for it", format.name());
            all.add(&section.key("command"), problem);
        }
    }
}

/// A program that is named by a relative path lies where the settings file does.
fn command(
    words: Vec<String>,
    key: &str,
    output: OutputKind,
    jit: bool,
    all: &mut Complaints,
) -> Option<Command> {
    let length: usize = words.iter().map(|word| word.len() + 1).sum();
    if length > ARGUMENTS_MAX {
        all.add(key, format!("has {length} bytes of arguments; {ARGUMENTS_MAX} are allowed"));
        return None;
    }
    if words.iter().any(|word| word.contains('\0')) {
        all.add(key, "contains a NUL, which no program can be given");
        return None;
    }
    let mut words = words.into_iter();
    let program = words.next().unwrap_or_default();
    if program.is_empty() {
        all.add(key, "must begin with a program, such as `[\"pdftotext\", \"{input}\", \"-\"]`");
        return None;
    }
    if program.contains(char::is_whitespace) && words.len() == 0 {
        let problem =
            format!("`{program}` is one word; a command is a list of them, such as `[\"cat\", \"{INPUT}\"]`");
        all.add(key, problem);
        return None;
    }
    if program.contains(INPUT) {
        all.add(key, format!("the program itself cannot be `{INPUT}`"));
        return None;
    }
    let is_relative = program.contains('/') && Path::new(&program).is_relative();
    let program = if is_relative { all.path(key, &program).to_string_lossy().into_owned() } else { program };
    Some(Command { program, arguments: words.collect(), output, jit })
}

pub(super) fn recognise(mut section: Section, all: &mut Complaints) -> Recognise {
    let default = Recognise::default();
    let languages = section.texts("languages", all).unwrap_or(default.languages);
    let key = section.key("languages");
    if languages.is_empty() {
        all.add(&key, "names no language");
    }
    // tesseract takes them for names of files: a path would lead out of its folder.
    let is_name = |name: &&String| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        !name.is_empty() && name.bytes().all(is_plain)
    };
    for wrong in languages.iter().filter(|name| !is_name(name)) {
        let problem = format!("`{wrong}` is no language of tesseract's, such as `eng`, `deu` or `chi_sim`");
        all.add(&key, problem);
    }
    let pages = section.count("pages", (1, 100_000), all);
    let words = section.texts("command", all);
    let key = section.key("command");
    let recognise = Recognise {
        enabled: section.flag("enabled", all).unwrap_or(default.enabled),
        languages,
        pages: pages.and_then(|pages| usize::try_from(pages).ok()).unwrap_or(default.pages),
        command: words.and_then(|words| command(words, &key, OutputKind::Text, false, all)),
    };
    section.finish(all);
    recognise
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    fn load(toml: &str) -> Result<Settings, Vec<String>> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("s.toml");
        std::fs::write(&file, toml).unwrap();
        let loaded = Settings::load(Some(&file), &[]);
        let told = |errors: Vec<crate::settings::SettingError>| {
            errors.iter().map(|error| format!("{}: {}", error.key, error.problem)).collect()
        };
        loaded.map_err(told)
    }

    #[test]
    fn sections_of_one_format_are_a_chain_in_their_order() {
        let settings = load(
            "[[extractor]]\nformat = \"pdf\"\ncommand = \"builtin\"\n\
             [[extractor]]\nformat = [\"pdf\", \"postscript\"]\ncommand = [\"pdftotext\", \"{input}\", \"-\"]\n\
             [[extractor]]\nformat = \"doc\"\ncommand = \"antiword\"\noutput = \"json\"\njit = true\n",
        )
        .unwrap();
        let command = |program: &str, arguments: &[&str], output, jit| {
            let arguments = arguments.iter().map(|word| (*word).to_owned()).collect();
            Engine::Command(Command { program: program.to_owned(), arguments, output, jit })
        };
        let expected = [
            Extractor { formats: vec![Format::Pdf], engine: Engine::Builtin },
            Extractor {
                formats: vec![Format::Pdf, Format::Postscript],
                engine: command("pdftotext", &["{input}", "-"], OutputKind::Text, false),
            },
            Extractor {
                formats: vec![Format::Doc],
                engine: command("antiword", &[], OutputKind::Json, true),
            },
        ];
        assert_eq!(settings.extractors, expected);
    }

    #[test]
    fn a_relative_program_lies_beside_the_settings() {
        let settings = load("[[extractor]]\nformat = \"doc\"\ncommand = [\"bin/tool\", \"x/y\"]\n").unwrap();
        let Engine::Command(command) = &settings.extractors[0].engine else { panic!("a command") };
        assert!(command.program.starts_with('/') && command.program.ends_with("/bin/tool"), "{command:?}");
        assert_eq!(command.arguments, ["x/y"]);
    }

    #[test]
    fn what_is_wrong_with_an_extractor_is_said() {
        for (section, expected) in [
            (
                "format = \"pfd\"\ncommand = \"x\"",
                "extractor[0].format: there is no format `pfd`; did you mean `pdf`?",
            ),
            ("format = []\ncommand = \"x\"", "extractor[0].format: names no format"),
            ("command = \"x\"", "extractor[0].format: is missing"),
            ("format = \"pdf\"", "extractor[0].command: is missing"),
            ("format = \"pdf\"\ncommand = []", "extractor[0].command: must begin with a program"),
            (
                "format = \"pdf\"\ncommand = \"pdftotext {input} -\"",
                "extractor[0].command: `pdftotext {input} -` is one word",
            ),
            (
                "format = \"pdf\"\ncommand = [\"{input}\"]",
                "extractor[0].command: the program itself cannot be",
            ),
            (
                "format = \"pdf\"\ncommand = \"x\"\noutput = \"xml\"",
                "extractor[0].output: `\"xml\"` is not allowed: one of `text`, `json`",
            ),
            ("format = \"pdf\"\ncommand = \"x\"\njit = 1", "extractor[0].jit: `1` is not allowed"),
            (
                "format = \"pdf\"\ncommand = \"builtin\"\noutput = \"text\"",
                "extractor[0].output: means nothing to `builtin`",
            ),
            ("format = \"rar\"\ncommand = \"builtin\"", "extractor[0].command: nothing here reads `rar`"),
            (
                "format = \"pdf\"\ncommand = \"x\"\nformats = 1",
                "extractor[0].formats: there is no such setting; did you mean",
            ),
        ] {
            let found = load(&format!("[[extractor]]\n{section}\n")).unwrap_err();
            assert_eq!(found.len(), 1, "{section}: {found:?}");
            assert!(found[0].starts_with(expected), "{section}: {found:?}");
        }
        let twice = "[[extractor]]\nformat = \"pdf\"\ncommand = \"x\"\n".repeat(2);
        assert_eq!(
            load(&twice).unwrap_err(),
            ["extractor[1].command: an earlier section has the same for `pdf`"]
        );
        let long =
            format!("[[extractor]]\nformat = \"pdf\"\ncommand = [\"x\", \"{}\"]\n", "y".repeat(40_000));
        assert!(load(&long).unwrap_err()[0].contains("bytes of arguments"));
        assert_eq!(load("extractor = 1").unwrap_err().len(), 1);
    }

    #[test]
    fn recognise_is_tesseract_in_these_languages_or_what_is_named() {
        let words = |toml: &str| {
            let command = load(toml).unwrap().recognise.command();
            [vec![command.program], command.arguments].concat().join(" ")
        };
        assert_eq!(words(""), "tesseract {input} stdout -l eng");
        assert_eq!(
            words("[recognise]\nlanguages = [\"deu\", \"chi_sim\"]"),
            "tesseract {input} stdout -l deu+chi_sim"
        );
        assert_eq!(words("[recognise]\ncommand = [\"ocr\", \"-\"]"), "ocr -");
        assert!(!load("[recognise]\nenabled = false").unwrap().recognise.enabled);
        let found = load("[recognise]\nlanguages = [\"../x\"]").unwrap_err();
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("recognise.languages: `../x` is no language"), "{found:?}");
        assert_eq!(
            load("[recognise]\nlanguages = []").unwrap_err(),
            ["recognise.languages: names no language"]
        );
    }
}
