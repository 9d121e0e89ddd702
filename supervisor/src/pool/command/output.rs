//! What a command says, taken as hostile bytes: text as it comes, JSON once it is whole. Nothing beyond the limit is kept.

use super::super::{Flow, Receiver};
use super::OutputKind;
use serde_json::Value;
use shared::answer::STRING_MAX;
use shared::{Answer, Metadata};

/// Why no more is listened to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Halt {
    /// That many bytes, or more.
    Bytes(u64),
    /// The receiver has had enough.
    Stopped,
}

/// The output so far.
#[derive(Debug)]
pub(super) struct Output {
    kind: OutputKind,
    limit: u64,
    /// Bytes that the command wrote.
    pub(super) bytes: u64,
    /// Bytes of text that were passed on.
    pub(super) text_bytes: u64,
    /// The beginning of a character whose end has not come yet; with JSON all of it.
    held: Vec<u8>,
}

impl Output {
    pub(super) fn new(kind: OutputKind, limit: u64) -> Self {
        Output { kind, limit, bytes: 0, text_bytes: 0, held: Vec::new() }
    }

    /// Takes what came.
    pub(super) fn take(&mut self, bytes: &[u8], receiver: &mut dyn Receiver) -> Result<(), Halt> {
        self.bytes += bytes.len() as u64;
        if self.bytes > self.limit {
            return Err(Halt::Bytes(self.bytes));
        }
        self.held.extend_from_slice(bytes);
        match self.kind {
            OutputKind::Json => Ok(()),
            OutputKind::Text => {
                let text = whole_characters(&mut self.held);
                self.pass(text, receiver)
            }
        }
    }

    /// The command has said all. Gives what is wrong with it as a whole, where something is.
    pub(super) fn finish(&mut self, receiver: &mut dyn Receiver) -> Result<Option<String>, Halt> {
        if self.held.is_empty() {
            return Ok(None);
        }
        let held = std::mem::take(&mut self.held);
        match self.kind {
            OutputKind::Text => self.pass(char::REPLACEMENT_CHARACTER.to_string(), receiver).map(|()| None),
            OutputKind::Json => match parse(&held) {
                Ok((text, metadata)) => {
                    if receiver.take(Answer::Metadata(metadata)) == Flow::Stop {
                        return Err(Halt::Stopped);
                    }
                    self.pass(text, receiver).map(|()| None)
                }
                Err(broken) => Ok(Some(broken)),
            },
        }
    }

    fn pass(&mut self, text: String, receiver: &mut dyn Receiver) -> Result<(), Halt> {
        if text.is_empty() {
            return Ok(());
        }
        // What is no UTF-8 grows when it is replaced.
        self.text_bytes += text.len() as u64;
        if self.text_bytes > self.limit {
            return Err(Halt::Bytes(self.text_bytes));
        }
        match receiver.take(Answer::Text(text)) {
            Flow::Continue => Ok(()),
            Flow::Stop => Err(Halt::Stopped),
        }
    }
}

/// Takes all characters that are whole; what is none becomes the replacement character.
fn whole_characters(held: &mut Vec<u8>) -> String {
    let mut text = String::with_capacity(held.len());
    let mut left = 0;
    for chunk in held.utf8_chunks() {
        text.push_str(chunk.valid());
        match chunk.invalid() {
            [] => {}
            invalid if is_beginning(invalid) && ends_with(held, invalid) => left = invalid.len(),
            _ => text.push(char::REPLACEMENT_CHARACTER),
        }
    }
    held.drain(..held.len() - left);
    text
}

/// Whether more bytes could make a character of these.
fn is_beginning(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

/// Whether this piece of `all` is its end.
fn ends_with(all: &[u8], piece: &[u8]) -> bool {
    std::ptr::eq(all.as_ptr_range().end, piece.as_ptr_range().end)
}

/// `{"text": …, "metadata": {…}}`; other keys are not looked at.
fn parse(bytes: &[u8]) -> Result<(String, Metadata), String> {
    let value: Value =
        serde_json::from_slice(bytes).map_err(|error| format!("its output is no JSON: {error}"))?;
    let Some(text) = value.get("text").and_then(Value::as_str) else {
        return Err("its output is JSON without a `text`".to_owned());
    };
    let metadata = value.get("metadata").unwrap_or(&Value::Null);
    let word = |key: &str| {
        let mut word = metadata.get(key)?.as_str()?.to_owned();
        word.truncate(word.floor_char_boundary(STRING_MAX));
        Some(word)
    };
    let count = |key: &str| metadata.get(key)?.as_u64().and_then(|count| u32::try_from(count).ok());
    let metadata = Metadata {
        title: word("title"),
        author: word("author"),
        subject: word("subject"),
        keywords: word("keywords"),
        created: word("created"),
        modified: word("modified"),
        producer: word("producer"),
        pages: count("pages"),
        pages_with_text: count("pages_with_text"),
        charset: word("charset"),
        from: word("from"),
        to: word("to"),
        ..Metadata::default()
    };
    Ok((text.to_owned(), metadata))
}

/// The end of what comes, within a limit.
#[derive(Debug, Default)]
pub(super) struct Complaints {
    bytes: Vec<u8>,
}

impl Complaints {
    pub(super) fn take(&mut self, bytes: &[u8], most: usize) {
        self.bytes.extend_from_slice(bytes);
        let over = self.bytes.len().saturating_sub(most);
        self.bytes.drain(..over);
    }

    /// As text; a character that was cut in half is left out.
    pub(super) fn text(&self) -> String {
        let start = self.bytes.iter().take(3).take_while(|&&byte| byte & 0xc0 == 0x80).count();
        String::from_utf8_lossy(self.bytes.get(start..).unwrap_or_default()).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Kept {
        text: String,
        metadata: Option<Metadata>,
    }

    impl Receiver for Kept {
        fn take(&mut self, answer: Answer) -> Flow {
            match answer {
                Answer::Text(text) => self.text.push_str(&text),
                Answer::Metadata(metadata) => self.metadata = Some(metadata),
                _ => {}
            }
            Flow::Continue
        }
    }

    #[test]
    fn characters_are_whole_however_they_come() {
        let bytes = "aé€😀".as_bytes();
        for size in 1..=bytes.len() {
            let (mut output, mut kept) = (Output::new(OutputKind::Text, 100), Kept::default());
            for piece in bytes.chunks(size) {
                output.take(piece, &mut kept).unwrap();
            }
            assert_eq!(output.finish(&mut kept), Ok(None));
            assert_eq!((kept.text.as_str(), output.text_bytes), ("aé€😀", 10));
        }
    }

    #[test]
    fn what_is_no_text_is_replaced_and_counted_as_it_is_passed_on() {
        let (mut output, mut kept) = (Output::new(OutputKind::Text, 10), Kept::default());
        output.take(b"a\xffb\xe2\x82", &mut kept).unwrap();
        assert_eq!(kept.text, "a\u{fffd}b");
        assert_eq!(output.finish(&mut kept), Ok(None));
        assert_eq!(kept.text, "a\u{fffd}b\u{fffd}");
        assert_eq!(output.take(b"\xff", &mut kept), Err(Halt::Bytes(11)));
    }

    #[test]
    fn more_than_the_limit_is_not_kept() {
        for kind in [OutputKind::Text, OutputKind::Json] {
            let (mut output, mut kept) = (Output::new(kind, 4), Kept::default());
            assert_eq!(output.take(b"12345", &mut kept), Err(Halt::Bytes(5)));
            assert!(kept.text.is_empty());
        }
    }

    #[test]
    fn json_gives_text_and_metadata_or_says_what_is_wrong() {
        let run = |json: &str| {
            let (mut output, mut kept) = (Output::new(OutputKind::Json, 100_000), Kept::default());
            output.take(json.as_bytes(), &mut kept).unwrap();
            (output.finish(&mut kept), kept)
        };
        let (finished, kept) = run(r#"{"text": "a\u00e9", "metadata": {"title": "T", "pages": 3, "x": []}}"#);
        assert_eq!((finished, kept.text.as_str()), (Ok(None), "aé"));
        let metadata = kept.metadata.unwrap();
        assert_eq!((metadata.title.as_deref(), metadata.pages, metadata.author), (Some("T"), Some(3), None));
        assert!(run("nonsense").0.unwrap().unwrap().starts_with("its output is no JSON: "));
        assert_eq!(run(r#"{"texts": ""}"#).0.unwrap().unwrap(), "its output is JSON without a `text`");
        let long = format!(r#"{{"text": "", "metadata": {{"title": "{}"}}}}"#, "é".repeat(STRING_MAX));
        assert_eq!(run(&long).1.metadata.unwrap().title.unwrap().len(), STRING_MAX);
        assert!(run(&"[".repeat(50_000)).0.unwrap().is_some(), "depth is limited");
    }

    #[test]
    fn the_end_of_the_complaints_is_kept() {
        let mut complaints = Complaints::default();
        complaints.take("aé".as_bytes(), 8);
        complaints.take(b"12345678", 8);
        assert_eq!(complaints.text(), "12345678");
        complaints.take("€".as_bytes(), 4);
        complaints.take(b"xx", 4);
        assert_eq!(complaints.text(), "xx", "half a character is none");
    }
}
