//! All that the embedded index holds, by id, for a comparison with the ledger. The ids of each segment are sorted already; the
//! segments are merged, so that nothing is held but the one at hand.

use super::SinkError;
use super::embedded::Search;
use crate::rules::kind::State;
use crate::rules::reconcile::Held;
use shared::DocumentId;
use std::sync::Arc;
use tantivy::columnar::{Column, StrColumn};
use tantivy::schema::IndexRecordOption;
use tantivy::termdict::TermStreamer;
use tantivy::{DocId, DocSet, InvertedIndexReader, SegmentReader, TERMINATED};

impl Search {
    /// Calls `each` with all that the index holds, by id.
    ///
    /// # Errors
    /// The index cannot be read; those of `each`.
    pub fn held<E: From<SinkError>>(&self, each: &mut dyn FnMut(Held) -> Result<(), E>) -> Result<(), E> {
        let searcher = self.reader.searcher();
        let io = |error| SinkError::io(&self.folder, error);
        let failed = |error| super::opening::sink_error(&self.folder, &error);
        let mut segments = Vec::new();
        for segment in searcher.segment_readers() {
            segments.push(Segment::open(segment, self.fields.id).map_err(failed)?);
        }
        let mut streams = Vec::new();
        for segment in &segments {
            let mut stream = segment.ids.terms().stream().map_err(io)?;
            if stream.advance() {
                streams.push((segment, stream));
            }
        }
        while let Some(least) = streams.iter().map(|(_, stream)| stream.key()).min().map(<[u8]>::to_vec) {
            let id = std::str::from_utf8(&least).ok().and_then(DocumentId::parse);
            let mut held: Option<Held> = None;
            let mut left = Vec::with_capacity(streams.len());
            for (segment, mut stream) in streams {
                if stream.key() != least {
                    left.push((segment, stream));
                    continue;
                }
                if let Some(id) = id {
                    segment.add(id, &stream, &mut held).map_err(io)?;
                }
                if stream.advance() {
                    left.push((segment, stream));
                }
            }
            streams = left;
            held.map_or(Ok(()), &mut *each)?;
        }
        Ok(())
    }
}

/// What is read of a segment.
struct Segment<'a> {
    reader: &'a SegmentReader,
    ids: Arc<InvertedIndexReader>,
    texts: Column<u64>,
    states: Option<StrColumn>,
}

impl<'a> Segment<'a> {
    fn open(reader: &'a SegmentReader, id: tantivy::schema::Field) -> tantivy::Result<Self> {
        let columns = reader.fast_fields();
        Ok(Segment {
            reader,
            ids: reader.inverted_index(id)?,
            texts: columns.u64("text")?,
            states: columns.str("state")?,
        })
    }

    /// Adds what this segment holds under the id that `stream` is at.
    fn add(&self, id: DocumentId, stream: &TermStreamer<'_>, held: &mut Option<Held>) -> std::io::Result<()> {
        let mut documents = self.ids.read_postings_from_terminfo(stream.value(), IndexRecordOption::Basic)?;
        while documents.doc() != TERMINATED {
            let document = documents.doc();
            documents.advance();
            if self.reader.is_deleted(document) {
                continue;
            }
            *held = Some(match held {
                None => Held { id, text: self.texts.first(document), state: self.state(document)? },
                // Twice is as wrong as another text, and is put right in the same way.
                Some(_) => Held { id, text: None, state: None },
            });
        }
        Ok(())
    }

    fn state(&self, document: DocId) -> std::io::Result<Option<State>> {
        let Some(states) = &self.states else { return Ok(None) };
        let Some(ordinal) = states.ords().first(document) else { return Ok(None) };
        let mut word = String::new();
        states.ord_to_str(ordinal, &mut word)?;
        Ok(State::named(&word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::reconcile::mark;
    use crate::sink::embedded::Embedded;
    use crate::sink::{Batch, Entry};
    use shared::{ContentHash, Identity};

    fn id(n: u8) -> DocumentId {
        DocumentId::derive("s", &Identity::item(&[n]))
    }

    fn entry(n: u8, text: &str, state: State) -> Entry {
        Entry { id: id(n), title: None, path: "a".to_owned(), state, text: text.into() }
    }

    fn expected(n: u8, text: &str, state: State) -> Held {
        Held { id: id(n), text: Some(mark(ContentHash::of(text.as_bytes()))), state: Some(state) }
    }

    fn held(state: &std::path::Path) -> Vec<Held> {
        let mut all = Vec::new();
        let search = Search::open(state).unwrap().unwrap();
        search
            .held(&mut |held| -> Result<(), SinkError> {
                all.push(held);
                Ok(())
            })
            .unwrap();
        all
    }

    #[test]
    fn all_segments_are_told_as_one_by_id_without_what_was_removed() {
        let state = tempfile::tempdir().unwrap();
        let (mut index, _) = Embedded::open(state.path()).unwrap();
        assert_eq!(held(state.path()), []);
        for n in [3, 1, 2, 5, 4] {
            let writes = vec![entry(n, "old", State::Indexed), entry(n + 10, "more", State::Suspect)];
            index.commit(&Batch { writes, removals: vec![] }).unwrap();
        }
        let writes = vec![entry(2, "new", State::Suspect)];
        index.commit(&Batch { writes, removals: vec![id(4), id(13)] }).unwrap();
        let mut all: Vec<Held> = [1, 3, 5].map(|n| expected(n, "old", State::Indexed)).into();
        all.extend([11, 12, 14, 15].map(|n| expected(n, "more", State::Suspect)));
        all.push(expected(2, "new", State::Suspect));
        all.sort_by_key(|held| held.id);
        assert_eq!(held(state.path()), all);
    }

    #[test]
    fn the_first_error_ends_it() {
        let state = tempfile::tempdir().unwrap();
        let (mut index, _) = Embedded::open(state.path()).unwrap();
        let writes = vec![entry(1, "a", State::Indexed), entry(2, "b", State::Indexed)];
        index.commit(&Batch { writes, removals: vec![] }).unwrap();
        let mut calls = 0;
        let search = Search::open(state.path()).unwrap().unwrap();
        let outcome = search.held(&mut |_| -> Result<(), SinkError> {
            calls += 1;
            Err(SinkError::Index { path: "x".into(), message: String::new() })
        });
        assert!(outcome.is_err());
        assert_eq!(calls, 1);
    }
}
