//! The embedded index (Tantivy), in `state/index`.
//!
//! It owns the folder. One document of ours is one document there, under its id; the text itself is not stored, the kept
//! texts are. A commit is all or nothing and synced. The folder is a cache of what the kept texts say: one that is
//! missing or damaged is made anew, and the caller writes everything again.

pub use super::query::has_words;
pub use super::snippet::snippet;

use super::opening::{NEW, Unusable, discard, make, manual_reader, open_index, open_sound, sink_error};
use super::query::{Part, parts};
use super::words::Words;
use super::{Batch, Entry, NotTaken, SinkError};
use crate::rules::reconcile::mark;
use shared::{ContentHash, DocumentId};
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tantivy::collector::TopDocs;
use tantivy::indexer::{LogMergePolicy, UserOperation};
use tantivy::query::{BooleanQuery, BoostQuery, Occur, PhraseQuery, Query, RegexQuery, TermQuery};
use tantivy::schema::{
    FAST, Field, IndexRecordOption, STORED, STRING, Schema, TextFieldIndexing, TextOptions, Value,
};
use tantivy::tokenizer::{TextAnalyzer, Token, TokenStream, Tokenizer};
use tantivy::{Index, IndexReader, IndexWriter, TantivyDocument, TantivyError, Term};

/// The name in records.
pub const NAME: &str = "embedded";

/// The longest text that is taken, in bytes.
pub const TEXT_MAX: usize = 1 << 30;

/// What the indexing thread gathers before it writes a segment, in bytes.
const HEAP: usize = 64 << 20;
/// Under which name the index knows our way of cutting words. Another way needs another name, so that an index made by
/// the old one is made anew.
const TOKENIZER: &str = "lazaret-1";

/// The index, open for writing. Its methods block: call them from a thread that may.
pub struct Embedded {
    folder: PathBuf,
    /// Device and inode of the folder. Where its volume is taken away another folder may stand in its place, and would take
    /// what is written without a word.
    place: (u64, u64),
    index: Index,
    fields: Fields,
    /// `None` after an error that the writer did not survive; the next commit makes another.
    writer: Option<IndexWriter>,
    text_max: usize,
}

/// Something that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    pub id: DocumentId,
    pub score: f32,
}

impl fmt::Debug for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Embedded").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl Embedded {
    /// Opens the index below `state`, or makes an empty one; `true` where it is new (or was damaged and is made anew), so that all that the
    /// ledger believes to be in it has to be written again. It stays new, over deaths and openings, until [`Embedded::mark_known`]
    /// was said.
    ///
    /// # Errors
    /// The folder cannot be read or written to, the disk is full, another writer is alive. A sound index stays as it was.
    pub fn open(state: &Path) -> Result<(Self, bool), SinkError> {
        let folder = state.join("index");
        let (index, new) = match open_sound(&folder) {
            Ok(index) => {
                let mark = folder.join(NEW).try_exists().map_err(|error| SinkError::io(&folder, error))?;
                (index, mark)
            }
            Err(Unusable::Held(error)) => return Err(error),
            Err(Unusable::Missing) => (make(&folder)?, true),
            Err(Unusable::Damaged(why)) => {
                tracing::warn!(folder = %folder.display(), why, "the index is damaged and is made anew");
                (make(&folder)?, true)
            }
        };
        let fields = Fields::of(&index.schema());
        let place = place(&folder)?;
        let mut embedded = Embedded { folder, place, index, fields, writer: None, text_max: TEXT_MAX };
        embedded.writer = Some(embedded.new_writer()?);
        Ok((embedded, new))
    }

    /// Whoever keeps account of what is in here knows that it was made anew, and has said so durably.
    ///
    /// # Errors
    /// The folder cannot be written to; the index is still new at the next opening.
    pub fn mark_known(&self) -> Result<(), SinkError> {
        discard(&self.folder.join(NEW)).map_err(|error| SinkError::io(&self.folder, error))
    }

    /// Carries out a batch and commits it durably: when this returns, all of it is there, or (on an error) none.
    ///
    /// # Errors
    /// The disk is full, or the index cannot be written; the index is as it was before.
    pub fn commit(&mut self, batch: &Batch) -> Result<Vec<NotTaken>, SinkError> {
        self.is_in_place()?;
        let (operations, not_taken) = self.operations(batch);
        let mut writer = match self.writer.take() {
            Some(writer) => writer,
            None => self.new_writer()?,
        };
        let outcome = writer.run(operations).and_then(|_| writer.commit());
        match outcome {
            Ok(_) => {
                self.writer = Some(writer);
                self.is_in_place()?;
                Ok(not_taken)
            }
            Err(error) => {
                // Dropping the writer forgets all that was not committed, as a rollback does, and frees its lock.
                drop(writer);
                Err(sink_error(&self.folder, &error))
            }
        }
    }

    /// Whether the folder is the one that was opened. Where it is not, the writer knows nothing of what is in it, or of what
    /// will be when the right one is back: the next commit makes another.
    fn is_in_place(&mut self) -> Result<(), SinkError> {
        let now = place(&self.folder);
        if now.as_ref().is_ok_and(|now| *now == self.place) {
            return Ok(());
        }
        self.writer = None;
        now?;
        let other = std::io::Error::other("another folder is in its place than when it was opened");
        Err(SinkError::io(&self.folder, other))
    }

    /// How many documents it holds.
    ///
    /// # Errors
    /// The index cannot be read.
    pub fn count(&self) -> Result<u64, SinkError> {
        let reader = manual_reader(&self.index).map_err(|error| sink_error(&self.folder, &error))?;
        Ok(reader.searcher().num_docs())
    }

    fn new_writer(&self) -> Result<IndexWriter, SinkError> {
        let writer = self
            .index
            .writer_with_num_threads(1, HEAP)
            .map_err(|error: TantivyError| sink_error(&self.folder, &error))?;
        let mut merges = LogMergePolicy::default();
        merges.set_del_docs_ratio_before_merge(0.3);
        writer.set_merge_policy(Box::new(merges));
        Ok(writer)
    }

    /// Everything of the batch, as one group: a document's removal goes before its addition, and no reader sees the one
    /// without the other.
    fn operations(&self, batch: &Batch) -> (Vec<UserOperation>, Vec<NotTaken>) {
        let mut operations = Vec::with_capacity(batch.removals.len() + 2 * batch.writes.len());
        let mut not_taken = Vec::new();
        operations.extend(batch.removals.iter().map(|id| UserOperation::Delete(self.fields.id_term(*id))));
        for entry in &batch.writes {
            if entry.text.len() > self.text_max {
                let message = format!("a text of {} bytes; at most {}", entry.text.len(), self.text_max);
                not_taken.push(NotTaken { id: entry.id, message });
                continue;
            }
            operations.push(UserOperation::Delete(self.fields.id_term(entry.id)));
            operations.push(UserOperation::Add(self.fields.document(entry)));
        }
        (operations, not_taken)
    }
}

fn place(folder: &Path) -> Result<(u64, u64), SinkError> {
    let found = folder.metadata().map_err(|error| SinkError::io(folder, error))?;
    Ok((found.dev(), found.ino()))
}

impl Drop for Embedded {
    fn drop(&mut self) {
        if let Some(writer) = self.writer.take()
            && let Err(error) = writer.wait_merging_threads()
        {
            tracing::warn!(%error, "merging the index's segments failed; nothing is lost");
        }
    }
}

/// The index, open for searching, also while a run writes.
pub struct Search {
    pub(super) folder: PathBuf,
    pub(super) reader: IndexReader,
    pub(super) fields: Fields,
}

impl fmt::Debug for Search {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Search").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl Search {
    /// Opens the index below `state` for reading; `None` where there is none yet.
    ///
    /// # Errors
    /// It is damaged or cannot be read.
    pub fn open(state: &Path) -> Result<Option<Self>, SinkError> {
        let folder = state.join("index");
        match folder.join("meta.json").try_exists() {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(error) => return Err(SinkError::io(&folder, error)),
        }
        let index = open_index(&folder).map_err(|error| sink_error(&folder, &error))?;
        if index.schema() != schema() {
            let message = "it was made by another version; the next run makes it anew".to_owned();
            return Err(SinkError::Index { path: folder, message });
        }
        let reader = manual_reader(&index).map_err(|error| sink_error(&folder, &error))?;
        let fields = Fields::of(&index.schema());
        Ok(Some(Search { folder, reader, fields }))
    }

    /// Documents in which all words and "phrases" of `query` occur, best first. Never a syntax error.
    ///
    /// # Errors
    /// The index cannot be read.
    pub fn find(&self, query: &str, limit: usize) -> Result<Vec<Hit>, SinkError> {
        let parts = parts(query);
        if parts.is_empty() || limit == 0 {
            return Ok(Vec::new());
        }
        let failed = |error: TantivyError| sink_error(&self.folder, &error);
        let query = self.fields.query(&parts).map_err(failed)?;
        let searcher = self.reader.searcher();
        let collector = TopDocs::with_limit(limit).order_by_score();
        let found: Vec<(f32, tantivy::DocAddress)> = searcher.search(&query, &collector).map_err(failed)?;
        let mut hits = Vec::with_capacity(found.len());
        for (score, address) in found {
            let document: TantivyDocument = searcher.doc(address).map_err(failed)?;
            hits.extend(self.fields.id_of(&document).map(|id| Hit { id, score }));
        }
        Ok(hits)
    }
}

/// The fields of the index.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields {
    pub(super) id: Field,
    state: Field,
    text: Field,
    title: Field,
    path: Field,
    body: Field,
}

pub(super) fn schema() -> Schema {
    let words = TextFieldIndexing::default()
        .set_tokenizer(TOKENIZER)
        .set_index_option(IndexRecordOption::WithFreqsAndPositions);
    let words = TextOptions::default().set_indexing_options(words);
    let mut schema = Schema::builder();
    schema.add_text_field("id", STRING | STORED);
    schema.add_text_field("state", STRING | STORED | FAST);
    // The mark of the text, so that a comparison can tell whether it is another one.
    schema.add_u64_field("text", FAST);
    schema.add_text_field("title", words.clone());
    schema.add_text_field("path", words.clone());
    schema.add_text_field("body", words);
    schema.build()
}

impl Fields {
    fn of(schema: &Schema) -> Self {
        let field = |name| schema.get_field(name).expect("only an index with our own schema gets here");
        Fields {
            id: field("id"),
            state: field("state"),
            text: field("text"),
            title: field("title"),
            path: field("path"),
            body: field("body"),
        }
    }

    fn id_term(&self, id: DocumentId) -> Term {
        Term::from_field_text(self.id, &id.to_string())
    }

    fn id_of(&self, document: &TantivyDocument) -> Option<DocumentId> {
        document.get_first(self.id).and_then(|value| value.as_str()).and_then(DocumentId::parse)
    }

    fn document(&self, entry: &Entry) -> TantivyDocument {
        let mut document = TantivyDocument::default();
        document.add_text(self.id, entry.id.to_string());
        document.add_text(self.state, entry.state.name());
        document.add_u64(self.text, mark(ContentHash::of(entry.text.as_bytes())));
        if let Some(title) = &entry.title {
            document.add_text(self.title, title);
        }
        document.add_text(self.path, &entry.path);
        document.add_text(self.body, &entry.text);
        document
    }

    /// All parts must match, each in any one of the fields.
    fn query(&self, parts: &[Part]) -> tantivy::Result<BooleanQuery> {
        let mut all: Vec<(Occur, Box<dyn Query>)> = Vec::new();
        for part in parts {
            if !part.words.is_empty() {
                all.push((Occur::Must, Box::new(self.in_any(|field| Ok(phrase(field, &part.words)))?)));
            }
            for character in &part.characters {
                // Each character begins exactly one word, of one or two characters.
                let pattern = format!("{character}.?");
                let one = |field| -> tantivy::Result<Box<dyn Query>> {
                    Ok(Box::new(RegexQuery::from_pattern(&pattern, field)?))
                };
                all.push((Occur::Must, Box::new(self.in_any(one)?)));
            }
        }
        Ok(BooleanQuery::new(all))
    }

    fn in_any(
        &self,
        query: impl Fn(Field) -> tantivy::Result<Box<dyn Query>>,
    ) -> tantivy::Result<BooleanQuery> {
        let any: Vec<(Occur, Box<dyn Query>)> = vec![
            (Occur::Should, query(self.body)?),
            (Occur::Should, Box::new(BoostQuery::new(query(self.title)?, 2.0))),
            (Occur::Should, query(self.path)?),
        ];
        Ok(BooleanQuery::new(any))
    }
}

fn phrase(field: Field, words: &[(usize, String)]) -> Box<dyn Query> {
    let term = |word: &str| Term::from_field_text(field, word);
    match words {
        [(_, word)] => Box::new(TermQuery::new(term(word), IndexRecordOption::WithFreqs)),
        _ => {
            let terms = words.iter().map(|(position, word)| (*position, term(word))).collect();
            Box::new(PhraseQuery::new_with_offset(terms))
        }
    }
}

pub(super) fn register(index: &mut Index) {
    index.tokenizers().register(TOKENIZER, TextAnalyzer::from(Cutter));
}

/// Our way of cutting words, for the index.
#[derive(Debug, Clone)]
struct Cutter;

/// The words of one text, for the index.
struct Cuts<'a> {
    words: Words<'a>,
    token: Token,
}

impl Tokenizer for Cutter {
    type TokenStream<'a> = Cuts<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> Cuts<'a> {
        Cuts { words: Words::of(text), token: Token::default() }
    }
}

impl TokenStream for Cuts<'_> {
    fn advance(&mut self) -> bool {
        let Some(word) = self.words.next() else { return false };
        self.token = Token {
            offset_from: word.range.start,
            offset_to: word.range.end,
            position: word.position,
            text: word.text,
            position_length: 1,
        };
        true
    }

    fn token(&self) -> &Token {
        &self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        &mut self.token
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::kind::State;
    use shared::Identity;

    fn id(n: usize) -> DocumentId {
        DocumentId::derive("s", &Identity::item(n.to_string().as_bytes()))
    }

    fn entry(n: usize, text: &str) -> Entry {
        let path = format!("mail/box{n}.eml");
        Entry { id: id(n), title: None, path, state: State::Indexed, text: text.into() }
    }

    fn batch(entries: Vec<Entry>) -> Batch {
        Batch { writes: entries, removals: vec![] }
    }

    fn found(state: &Path, query: &str) -> Vec<DocumentId> {
        let search = Search::open(state).unwrap().unwrap();
        let mut ids: Vec<_> = search.find(query, 10).unwrap().into_iter().map(|hit| hit.id).collect();
        ids.sort();
        ids
    }

    fn sorted(mut ids: Vec<DocumentId>) -> Vec<DocumentId> {
        ids.sort();
        ids
    }

    #[test]
    fn all_words_and_phrases_must_match_folded_as_they_were_indexed() {
        let state = tempfile::tempdir().unwrap();
        let (mut index, new) = Embedded::open(state.path()).unwrap();
        assert!(new);
        let texts = ["The Café in Straße 7", "in the cafe", "旧東京都庁", "京都の水"];
        let entries = texts.iter().enumerate().map(|(n, text)| entry(n, text)).collect();
        assert_eq!(index.commit(&batch(entries)).unwrap(), []);
        assert_eq!(index.count().unwrap(), 4);
        let state = state.path();
        assert_eq!(found(state, "CAFÉ"), sorted(vec![id(0), id(1)]));
        assert_eq!(found(state, "cafe strasse"), [id(0)]);
        assert_eq!(found(state, "\"the cafe\""), sorted(vec![id(0), id(1)]));
        assert_eq!(found(state, "\"in the cafe\""), [id(1)]);
        assert_eq!(found(state, "東京"), [id(2)]);
        assert_eq!(found(state, "京都"), sorted(vec![id(2), id(3)]));
        assert_eq!(found(state, "水"), [id(3)]);
        assert_eq!(found(state, "庁"), [id(2)]);
        assert_eq!(found(state, "box2.eml"), [id(2)]);
        for nothing in ["", "()", "cafe zebra", "field:x^", "\""] {
            assert_eq!(found(state, nothing), [], "{nothing}");
        }
    }

    #[test]
    fn a_write_replaces_and_a_removal_removes() {
        let state = tempfile::tempdir().unwrap();
        let (mut index, _) = Embedded::open(state.path()).unwrap();
        index.commit(&batch(vec![entry(1, "old"), entry(2, "kept")])).unwrap();
        index.commit(&batch(vec![entry(1, "new")])).unwrap();
        assert_eq!(found(state.path(), "old"), []);
        assert_eq!(found(state.path(), "new"), [id(1)]);
        index.commit(&Batch { writes: vec![], removals: vec![id(2), id(9)] }).unwrap();
        assert_eq!(index.count().unwrap(), 1);
        index.mark_known().unwrap();
        drop(index);
        let (index, new) = Embedded::open(state.path()).unwrap();
        assert!(!new);
        assert_eq!(index.count().unwrap(), 1);
    }

    #[test]
    fn a_text_that_is_too_long_is_not_taken_and_the_rest_is_written() {
        let state = tempfile::tempdir().unwrap();
        let (mut index, _) = Embedded::open(state.path()).unwrap();
        index.text_max = 4;
        let not_taken = index.commit(&batch(vec![entry(1, "12345"), entry(2, "1234")])).unwrap();
        assert_eq!(not_taken, [NotTaken { id: id(1), message: "a text of 5 bytes; at most 4".to_owned() }]);
        assert_eq!(found(state.path(), "1234"), [id(2)]);
    }

    #[test]
    fn a_huge_text_is_indexed_whole() {
        let state = tempfile::tempdir().unwrap();
        let (mut index, _) = Embedded::open(state.path()).unwrap();
        let mut text = "lorem ipsum dolor ".repeat((64 << 20) / 18);
        text.push_str("needle");
        index.commit(&batch(vec![entry(1, &text)])).unwrap();
        assert_eq!(found(state.path(), "\"dolor needle\""), [id(1)]);
    }

    #[test]
    fn a_damaged_index_is_made_anew_and_says_so() {
        for damage in ["meta.json", "segment", "foreign"] {
            let state = tempfile::tempdir().unwrap();
            let (mut index, _) = Embedded::open(state.path()).unwrap();
            index.commit(&batch(vec![entry(1, "text")])).unwrap();
            drop(index);
            let folder = state.path().join("index");
            match damage {
                "meta.json" => std::fs::write(folder.join("meta.json"), "{").unwrap(),
                "segment" => {
                    let files = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
                    let file =
                        files.filter(|file| file.extension().is_some_and(|x| x == "idx")).min().unwrap();
                    let mut bytes = std::fs::read(&file).unwrap();
                    bytes[0] ^= 1;
                    std::fs::write(file, bytes).unwrap();
                }
                _ => {
                    std::fs::remove_dir_all(&folder).unwrap();
                    std::fs::write(&folder, "a file in the way").unwrap();
                }
            }
            let (mut index, new) = Embedded::open(state.path()).unwrap();
            assert!(new, "{damage}");
            assert_eq!(index.count().unwrap(), 0);
            index.mark_known().unwrap();
            index.commit(&batch(vec![entry(1, "text")])).unwrap();
            assert_eq!(found(state.path(), "text"), [id(1)]);
            assert!(!folder.with_extension("damaged").exists());
        }
    }

    #[test]
    fn an_index_is_new_until_somebody_knows_of_it() {
        let state = tempfile::tempdir().unwrap();
        let new = || Embedded::open(state.path()).map(|(index, new)| (new, index.mark_known())).unwrap().0;
        assert!(Embedded::open(state.path()).unwrap().1);
        assert!(new());
        assert!(!new());
    }

    #[test]
    fn a_lock_file_without_a_holder_does_not_hinder_and_a_live_writer_does() {
        let state = tempfile::tempdir().unwrap();
        let (index, _) = Embedded::open(state.path()).unwrap();
        assert!(matches!(Embedded::open(state.path()), Err(SinkError::Index { .. })));
        drop(index);
        assert!(state.path().join("index/.tantivy-writer.lock").exists());
        Embedded::open(state.path()).unwrap().0.mark_known().unwrap();
        assert!(!Embedded::open(state.path()).unwrap().1);
    }

    #[test]
    fn an_index_that_cannot_be_written_is_left_as_it_was_and_works_again_later() {
        let state = tempfile::tempdir().unwrap();
        let (mut index, _) = Embedded::open(state.path()).unwrap();
        index.commit(&batch(vec![entry(1, "one")])).unwrap();
        let (folder, away) = (state.path().join("index"), state.path().join("away"));
        std::fs::rename(&folder, &away).unwrap();
        assert!(index.commit(&batch(vec![entry(2, "two")])).is_err());
        std::fs::rename(&away, &folder).unwrap();
        assert_eq!(found(state.path(), "one"), [id(1)]);
        assert_eq!(found(state.path(), "two"), []);
        index.commit(&batch(vec![entry(3, "three")])).unwrap();
        assert_eq!(found(state.path(), "two"), []);
        assert_eq!(found(state.path(), "three"), [id(3)]);
    }

    #[test]
    fn reading_makes_nothing() {
        let state = tempfile::tempdir().unwrap();
        assert!(Search::open(state.path()).unwrap().is_none());
        assert_eq!(std::fs::read_dir(state.path()).unwrap().count(), 0);
    }
}
