//! Which engines take which format, in which order, and the stage versions that follow from it.
//!
//! Settled once, when a run begins: a command that the settings name and that is not there stops the run; text recognition is
//! used where it is found.

use super::{Pipeline, versions};
use crate::pool::command::{Commands, Missing, Program};
use crate::rules::kind::Stage;
use crate::rules::versions::{NONE, THEN};
use crate::settings::{Engine as Named, Settings, TURNED};
use shared::Format;
use shared::format::Role;
use std::collections::HashMap;
use std::sync::Arc;

/// What can take a document.
#[derive(Debug, Clone)]
pub enum Engine {
    /// The extractor of our own.
    Builtin,
    /// A command of the user's.
    Command(Arc<Program>),
}

impl Engine {
    /// Its name before the gate: a format's own extractor bears the format's.
    pub fn name(&self, format: Format) -> &str {
        match self {
            Engine::Builtin => format.name(),
            Engine::Command(program) => program.name(),
        }
    }

    /// What a result of it depends on.
    pub fn version(&self, format: Format) -> String {
        match self {
            Engine::Builtin => versions::extract(format).to_owned(),
            Engine::Command(program) => program.version().to_owned(),
        }
    }
}

/// The engines of a run.
#[derive(Debug)]
pub struct Engines {
    pub commands: Commands,
    chains: HashMap<Format, Vec<Engine>>,
    recognise: Option<Arc<Program>>,
    /// The same, for pictures that may not stand upright.
    turned: Option<Arc<Program>>,
    /// Why there is no text recognition.
    unavailable: Option<String>,
}

impl Engines {
    /// Finds what the settings name.
    ///
    /// # Errors
    /// A command that is not there, or that cannot be caged on this machine.
    pub async fn find(settings: &Settings) -> Result<Engines, Missing> {
        let commands = Commands::new(&settings.cage);
        let mut chains: HashMap<Format, Vec<Engine>> = HashMap::new();
        for extractor in &settings.extractors {
            let engine = match &extractor.engine {
                Named::Builtin => Engine::Builtin,
                Named::Command(command) => {
                    Engine::Command(Arc::new(Program::find(&commands, command).await?))
                }
            };
            for format in &extractor.formats {
                chains.entry(*format).or_default().push(engine.clone());
            }
        }
        let (recognise, unavailable) = recogniser(&commands, settings).await?;
        let turn = |program: &Arc<Program>| Arc::new(program.with(TURNED));
        // What another command makes of its arguments is not known.
        let turned = recognise.as_ref().filter(|_| settings.recognise.command.is_none()).map(turn);
        Ok(Engines { commands, chains, recognise, turned, unavailable })
    }

    /// The engines for documents of this format, the first to try first.
    pub fn chain(&self, format: Format) -> &[Engine] {
        const BUILTIN: &[Engine] = &[Engine::Builtin];
        match (self.chains.get(&format), format.role()) {
            (Some(chain), _) => chain,
            (None, Role::Document | Role::Archive) => BUILTIN,
            (None, Role::Picture | Role::Unsupported) => &[],
        }
    }

    /// What recognises text.
    ///
    /// # Errors
    /// Why nothing does.
    pub fn recognise(&self) -> Result<&Arc<Program>, &str> {
        self.recognise.as_ref().ok_or_else(|| self.unavailable.as_deref().unwrap_or("there is none"))
    }

    /// What recognises text in a picture that may not stand upright.
    pub(super) fn turned(&self) -> Option<&Arc<Program>> {
        self.turned.as_ref()
    }

    /// The command of this name, and a format that it is for.
    pub(super) fn command(&self, name: &str) -> Option<(&Engine, Format)> {
        let mut chains: Vec<_> = self.chains.iter().collect();
        chains.sort_by_key(|(format, _)| **format);
        chains.into_iter().find_map(|(format, chain)| {
            let is_it =
                |engine: &&Engine| matches!(engine, Engine::Command(program) if program.name() == name);
            chain.iter().find(is_it).map(|engine| (engine, *format))
        })
    }

    /// The stage versions that documents of this format meet today.
    pub fn pipeline(&self, format: Format) -> Pipeline {
        let chain = self.chain(format);
        let mut pipeline = Pipeline::new();
        pipeline.insert(Stage::Identify, versions::IDENTIFY.to_owned());
        if !chain.is_empty() {
            let chain: Vec<String> = chain.iter().map(|engine| engine.version(format)).collect();
            pipeline.insert(Stage::Extract, chain.join(THEN));
        }
        if matches!(format.role(), Role::Picture) || format == Format::Pdf {
            let version = self.recognise.as_ref().map_or(NONE, |program| program.version());
            pipeline.insert(Stage::Recognise, version.to_owned());
        }
        if !chain.is_empty() || format.role() == Role::Picture {
            pipeline.insert(Stage::Normalise, versions::NORMALISE.to_owned());
            pipeline.insert(Stage::Check, versions::CHECK.to_owned());
        }
        pipeline
    }
}

/// What recognises text, or why nothing does. Tesseract is used where it is found; a command that the settings name has to be
/// there.
async fn recogniser(
    commands: &Commands,
    settings: &Settings,
) -> Result<(Option<Arc<Program>>, Option<String>), Missing> {
    if !settings.recognise.enabled {
        return Ok((None, Some("text recognition is switched off by `recognise.enabled`".to_owned())));
    }
    match Program::find(commands, &settings.recognise.command()).await {
        Ok(program) => Ok((Some(Arc::new(program)), None)),
        Err(missing) if settings.recognise.command.is_some() => Err(missing),
        Err(missing) => Ok((None, Some(format!("nothing recognises text: {missing}")))),
    }
}
