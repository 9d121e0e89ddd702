//! The walk over the tokens: which text is seen, and where its lines break.

use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{
    BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};
use std::cell::RefCell;

/// What the head says.
#[derive(Debug, Default, Clone)]
pub(super) struct Head {
    pub(super) title: Option<String>,
    pub(super) author: Option<String>,
    pub(super) description: Option<String>,
    pub(super) keywords: Option<String>,
    pub(super) created: Option<String>,
    pub(super) generator: Option<String>,
}

/// A tokenizer, and the text that it has given so far.
pub(super) struct Walk {
    tokenizer: Tokenizer<Sink>,
    queue: BufferQueue,
}

struct Sink(RefCell<State>);

#[derive(Default)]
struct State {
    text: String,
    head: Head,
    /// The element whose content is left out, and how many of its name are open.
    left_out: Option<(String, u32)>,
    title: Option<String>,
    preformatted: u32,
    /// What separates the next word from the last one.
    gap: Gap,
    started: bool,
}

/// In rising order: the widest one asked for is what counts.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Gap {
    #[default]
    None,
    Space,
    Cell,
    Line,
}

impl Walk {
    pub(super) fn new() -> Self {
        let sink = Sink(RefCell::new(State::default()));
        Walk { tokenizer: Tokenizer::new(sink, TokenizerOpts::default()), queue: BufferQueue::default() }
    }

    /// More of the document.
    pub(super) fn feed(&mut self, html: &str) {
        self.queue.push_back(StrTendril::from(html));
        self.run();
    }

    /// The text since the last call.
    pub(super) fn take_text(&mut self) -> String {
        std::mem::take(&mut self.tokenizer.sink.0.borrow_mut().text)
    }

    /// The document is over: the last of its text, and its head.
    pub(super) fn end(mut self) -> (String, Head) {
        self.run();
        self.tokenizer.end();
        let mut state = self.tokenizer.sink.0.borrow_mut();
        state.end_title();
        if state.started {
            state.text.push('\n');
        }
        (std::mem::take(&mut state.text), std::mem::take(&mut state.head))
    }

    fn run(&mut self) {
        // The tokenizer stops where a browser would run a script; the sink never asks for that.
        let result = self.tokenizer.feed(&self.queue);
        drop(result);
    }
}

impl TokenSink for Sink {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        let mut state = self.0.borrow_mut();
        match token {
            Token::TagToken(tag) => return state.tag(&tag),
            Token::CharacterTokens(text) => state.characters(&text),
            _ => {}
        }
        TokenSinkResult::Continue
    }
}

impl State {
    fn tag(&mut self, tag: &Tag) -> TokenSinkResult<()> {
        let name = &*tag.name;
        match tag.kind {
            TagKind::StartTag => self.start(name, tag),
            TagKind::EndTag => self.stop(name),
        }
        match (tag.kind, name) {
            (TagKind::EndTag, _) => TokenSinkResult::Continue,
            (_, "script") => TokenSinkResult::RawData(RawKind::ScriptData),
            (_, "style" | "xmp" | "iframe" | "noembed" | "noframes") => {
                TokenSinkResult::RawData(RawKind::Rawtext)
            }
            (_, "title" | "textarea") => TokenSinkResult::RawData(RawKind::Rcdata),
            _ => TokenSinkResult::Continue,
        }
    }

    fn start(&mut self, name: &str, tag: &Tag) {
        if let Some((outer, open)) = &mut self.left_out {
            *open += u32::from(outer == name);
            return;
        }
        match name {
            "script" | "style" | "template" | "iframe" | "noembed" => {
                self.left_out = Some((name.to_owned(), 1));
            }
            "title" if self.head.title.is_none() => self.title = Some(String::new()),
            "meta" => self.meta(tag),
            "pre" | "textarea" | "xmp" | "listing" => self.preformatted += 1,
            "img" | "area" => self.spaced(attribute(tag, "alt")),
            "input" if attribute(tag, "type") != Some("hidden") => self.spaced(attribute(tag, "value")),
            "option" => self.gap = self.gap.max(Gap::Space),
            _ => {}
        }
        match name {
            "td" | "th" => self.gap = self.gap.max(Gap::Cell),
            name if breaks_lines(name) => self.break_line(),
            _ => {}
        }
    }

    fn stop(&mut self, name: &str) {
        if let Some((outer, open)) = &mut self.left_out {
            *open -= u32::from(outer == name);
            if *open == 0 {
                self.left_out = None;
            }
            return;
        }
        match name {
            "title" => self.end_title(),
            "pre" | "textarea" | "xmp" | "listing" => self.preformatted = self.preformatted.saturating_sub(1),
            "td" | "th" => self.gap = self.gap.max(Gap::Cell),
            _ => {}
        }
        if breaks_lines(name) {
            self.break_line();
        }
    }

    fn end_title(&mut self) {
        let Some(title) = self.title.take() else { return };
        let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
        self.break_line();
        self.words(&title);
        self.break_line();
        self.head.title = Some(title);
    }

    fn meta(&mut self, tag: &Tag) {
        let Some(content) = attribute(tag, "content") else { return };
        let name = attribute(tag, "name").or_else(|| attribute(tag, "property")).unwrap_or_default();
        let field = match name.to_ascii_lowercase().as_str() {
            "author" | "dc.creator" | "article:author" => &mut self.head.author,
            "description" | "dc.description" | "og:description" => &mut self.head.description,
            "keywords" => &mut self.head.keywords,
            "generator" => &mut self.head.generator,
            "date" | "dc.date" | "dcterms.created" | "article:published_time" => &mut self.head.created,
            _ => return,
        };
        field.get_or_insert_with(|| content.to_owned());
    }

    fn characters(&mut self, text: &str) {
        if self.left_out.is_some() {
            return;
        }
        if let Some(title) = &mut self.title {
            title.push_str(text);
        } else if self.preformatted > 0 {
            self.close_gap();
            self.text.push_str(text);
            self.started |= !text.is_empty();
        } else {
            self.words(text);
        }
    }

    fn spaced(&mut self, text: Option<&str>) {
        if let Some(text) = text {
            self.gap = self.gap.max(Gap::Space);
            self.words(text);
            self.gap = self.gap.max(Gap::Space);
        }
    }

    /// Runs of white space are one space; a no-break space is a letter here.
    fn words(&mut self, text: &str) {
        for (n, word) in text.split(is_space).enumerate() {
            if n > 0 {
                self.gap = self.gap.max(Gap::Space);
            }
            if !word.is_empty() {
                self.close_gap();
                self.text.push_str(word);
                self.started = true;
            }
        }
    }

    fn break_line(&mut self) {
        self.gap = Gap::Line;
    }

    fn close_gap(&mut self) {
        let gap = std::mem::take(&mut self.gap);
        if !self.started {
            return;
        }
        match gap {
            Gap::None => {}
            Gap::Space => self.text.push(' '),
            Gap::Cell => self.text.push('\t'),
            Gap::Line => self.text.push('\n'),
        }
    }
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0c')
}

fn attribute<'t>(tag: &'t Tag, name: &str) -> Option<&'t str> {
    tag.attrs.iter().find(|attribute| &*attribute.name.local == name).map(|attribute| &*attribute.value)
}

fn breaks_lines(name: &str) -> bool {
    matches!(
        name,
        "address"
            | "article"
            | "aside"
            | "blockquote"
            | "body"
            | "br"
            | "caption"
            | "center"
            | "dd"
            | "details"
            | "dir"
            | "div"
            | "dl"
            | "dt"
            | "fieldset"
            | "figcaption"
            | "figure"
            | "footer"
            | "form"
            | "frame"
            | "frameset"
            | "h1"
            | "h2"
            | "h3"
            | "h4"
            | "h5"
            | "h6"
            | "head"
            | "header"
            | "hgroup"
            | "hr"
            | "html"
            | "legend"
            | "li"
            | "listing"
            | "main"
            | "menu"
            | "nav"
            | "ol"
            | "optgroup"
            | "p"
            | "pre"
            | "search"
            | "section"
            | "select"
            | "summary"
            | "table"
            | "tbody"
            | "tfoot"
            | "thead"
            | "tr"
            | "ul"
            | "xmp"
            | "textarea"
            | "noscript"
            | "title"
    )
}
