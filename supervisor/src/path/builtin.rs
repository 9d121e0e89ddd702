//! The built-in documents: one for each extractor, to tell an extractor that is broken from a document that is.
//!
//! They are documents like those that `fixtures/make` makes. A format without one here is watched by its breaker's window
//! alone.

use super::Means;
use super::engines::Engine;
use crate::pool::command::{CommandJob, Program};
use crate::pool::{Ending, Flow, Job, JobLimits, Outcome, Receiver};
use crate::rules::fault::Fault;
use crate::rules::kind::{Kind, Stage};
use crate::source::fetch::sealed;
use shared::{Answer, Format, Work};
use std::sync::Arc;

/// The document for a format, and a word that must come out of it: of its text, or of its members' names.
fn document(format: Format) -> Option<(&'static [u8], &'static str)> {
    macro_rules! file {
        ($name:literal) => {
            include_bytes!(concat!("builtin/", $name)).as_slice()
        };
    }
    Some(match format {
        Format::Pdf => (file!("builtin.pdf"), WORD),
        Format::Docx => (file!("builtin.docx"), WORD),
        Format::Xlsx => (file!("builtin.xlsx"), WORD),
        Format::Pptx => (file!("builtin.pptx"), WORD),
        Format::Odt => (file!("builtin.odt"), WORD),
        Format::Ods => (file!("builtin.ods"), WORD),
        Format::Odp => (file!("builtin.odp"), WORD),
        Format::Epub => (file!("builtin.epub"), WORD),
        Format::Rtf => (file!("builtin.rtf"), WORD),
        Format::Html => (file!("builtin.html"), WORD),
        Format::Xml => (file!("builtin.xml"), WORD),
        Format::Eml => (file!("builtin.eml"), WORD),
        Format::Mbox => (file!("builtin.mbox"), ""),
        Format::Text => (b"lazaret\n", WORD),
        Format::Csv => (b"lazaret,1\n", WORD),
        Format::Json => (b"{\"word\": \"lazaret\"}\n", WORD),
        Format::Zip => (file!("builtin.zip"), WORD),
        Format::Tar => (file!("builtin.tar"), WORD),
        Format::Gzip => (file!("builtin.txt.gz"), ""),
        Format::Bzip2 => (file!("builtin.txt.bz2"), ""),
        Format::Xz => (file!("builtin.txt.xz"), ""),
        _ => return None,
    })
}

const WORD: &str = "lazaret";

/// A picture of the word.
const PICTURE: &[u8] = include_bytes!("builtin/builtin.png");

/// Keeps what is said: text, and the names of members.
#[derive(Debug, Default)]
struct Said {
    words: String,
    members: usize,
}

impl Receiver for Said {
    fn take(&mut self, answer: Answer) -> Flow {
        match answer {
            Answer::Text(text) => self.words.push_str(&text),
            Answer::Member(head) => {
                self.members += 1;
                self.words.push_str(&String::from_utf8_lossy(&head.name));
            }
            _ => {}
        }
        Flow::Continue
    }
}

/// Carries the built-in document of a format through one of its engines.
///
/// # Errors
/// Why it did not come back.
pub(super) async fn try_out(means: &Means, engine: &Engine, format: Format) -> Result<(), Fault> {
    let Some((bytes, word)) = document(format) else { return Ok(()) };
    let mut said = Said::default();
    let limits = JobLimits::from(&means.settings.limits);
    let size = bytes.len() as u64;
    let document = Arc::new(sealed(bytes).map_err(|error| not_had(&error))?);
    let name = b"built-in".to_vec();
    let ending = match engine {
        Engine::Builtin => {
            let (work, passwords) = (Work::Extract, Vec::new());
            let job = Job { document, size, format, work, name, passwords, limits };
            means.pool.lend().await.run(job, &mut said).await
        }
        Engine::Command(program) => {
            let (program, stage) = (program.clone(), Stage::Extract);
            let job = CommandJob { program, document, size, name, format, stage, limits };
            means.engines.commands.run(job, &mut said).await
        }
    };
    came_back(ending, &said, word)
}

/// Lets the program read the built-in picture.
///
/// # Errors
/// Why its word did not come back.
pub(super) async fn try_recognition(means: &Means, program: &Arc<Program>) -> Result<(), Fault> {
    let mut said = Said::default();
    let job = CommandJob {
        program: program.clone(),
        document: Arc::new(sealed(PICTURE).map_err(|error| not_had(&error))?),
        size: PICTURE.len() as u64,
        name: b"built-in.png".to_vec(),
        format: Format::Png,
        stage: Stage::Recognise,
        limits: JobLimits::from(&means.settings.limits),
    };
    let ending = means.engines.commands.run(job, &mut said).await;
    came_back(ending, &said, WORD)
}

fn not_had(error: &std::io::Error) -> Fault {
    Fault::new(Stage::Fetch, Kind::WorkerLost, format!("no memory for the built-in document: {error}"))
}

fn came_back(ending: Ending, said: &Said, word: &str) -> Result<(), Fault> {
    match ending.outcome {
        Outcome::Failed(fault) => Err(fault),
        Outcome::Ended(_) | Outcome::Stopped if said.words.to_lowercase().contains(word) => Ok(()),
        Outcome::Ended(end) => {
            let why = end.refusal.map_or_else(|| "its word is missing".to_owned(), |refusal| refusal.message);
            Err(Fault::new(Stage::Extract, Kind::ParseMalformed, why))
        }
        Outcome::Stopped => Err(Fault::new(Stage::Extract, Kind::ParseMalformed, "its word is missing")),
    }
}
