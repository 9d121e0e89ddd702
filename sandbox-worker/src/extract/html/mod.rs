//! HTML: the charset first, then a walk over the tokens of a browser's tokenizer.
//!
//! No tree is built. A tree of 200,000 nested elements costs quadratic time or a stack, and the text needs none: where
//! lines break is known from the tags alone, and what is left out ends at its own end tag.

mod walk;

use super::charset;
use super::{Document, Done, Output};
use encoding_rs::Encoding;
use shared::{Format, Metadata};

const ENGINE: &str = "html5ever 0.40";

/// Browsers look for the charset in the first 1,024 bytes; documents put long comments before it.
const DECLARED_WITHIN: usize = 8 << 10;

/// Says the text of `document`, its title, author and description.
pub(super) fn extract(document: &Document<'_>, out: &mut Output<'_>) -> Done {
    let found = charset::find(document.bytes, declared(document.bytes));
    let body = document.bytes.get(found.mark..).unwrap_or_default();
    let mut walk = walk::Walk::new();
    found.charset.decode_into(body, |piece| {
        walk.feed(piece);
        out.text(&walk.take_text());
    });
    let (rest, head) = walk.end();
    out.text(&rest);
    out.metadata(Metadata {
        title: head.title,
        author: head.author,
        subject: head.description,
        keywords: head.keywords,
        created: head.created,
        producer: head.generator,
        charset: Some(found.charset.name().to_owned()),
        ..Metadata::default()
    });
    Done::whole(Format::Html, ENGINE)
}

/// The text of HTML that is decoded already: the body of a mail.
pub(super) fn text_of(html: &str) -> String {
    let mut walk = walk::Walk::new();
    let mut text = String::new();
    let mut rest = html;
    while !rest.is_empty() {
        // The tokenizer's own buffers count to 4 GiB; pieces keep far from that.
        let (head, tail) = rest.split_at(rest.floor_char_boundary(1 << 20));
        walk.feed(head);
        text.push_str(&walk.take_text());
        rest = tail;
    }
    text.push_str(&walk.end().0);
    text
}

/// HTML in bytes, decoded by what it says of itself.
pub(super) fn decoded(bytes: &[u8]) -> String {
    let found = charset::find(bytes, declared(bytes));
    found.charset.decode(bytes.get(found.mark..).unwrap_or_default()).into_owned()
}

/// The charset that a `meta` or an XML declaration names.
fn declared(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = bytes.get(..DECLARED_WITHIN).unwrap_or(bytes).to_ascii_lowercase();
    let mut rest = head.as_slice();
    loop {
        let at = find(rest, b"charset").map(|at| at + 7);
        let xml = find(rest, b"encoding").filter(|_| rest.starts_with(b"<?xml")).map(|at| at + 8);
        let at = xml.or(at)?;
        rest = rest.get(at..)?;
        let value = trim_start(rest);
        let Some(value) = value.strip_prefix(b"=") else { continue };
        let value = trim_start(value);
        let value = value.strip_prefix(b"\"").or_else(|| value.strip_prefix(b"'")).unwrap_or(value);
        let end = value
            .iter()
            .position(|b| !b.is_ascii_graphic() || matches!(b, b'"' | b'\'' | b';' | b'>' | b'/'));
        if let Some(encoding) = Encoding::for_label(value.get(..end.unwrap_or(value.len()))?) {
            return Some(encoding);
        }
    }
}

fn trim_start(bytes: &[u8]) -> &[u8] {
    bytes.trim_ascii_start()
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    #[test]
    fn scripts_styles_templates_and_comments_are_left_out() {
        let html =
            "<p>a<script>var x='<p>';</script><style>p{}</style><template><p>t</template><!-- c -->b</p>";
        assert_eq!(text_of(html).trim(), "ab");
    }

    #[test]
    fn blocks_break_lines_and_cells_are_spaced() {
        let html = "<h1>T</h1><table><tr><td>1</td><td>2</td></tr><tr><td>3<td>4</table><p>x<br>y";
        assert_eq!(text_of(html), "T\n1\t2\n3\t4\nx\ny\n");
    }

    #[test]
    fn entities_alternatives_and_preformatted_lines_come_out() {
        let html = "<p>a &amp; b&nbsp;&eacute; <img src=x alt='a picture'></p><pre>one\n  two</pre>";
        assert_eq!(text_of(html), "a & b\u{a0}é a picture\none\n  two\n");
    }

    #[test]
    fn the_head_is_metadata() {
        let html = b"<html><head><title>A  title</title><meta name=Author content=Me>\
            <meta name=description content='What it is'><meta charset=windows-1252></head><body>gr\xf6\xdfer</body></html>";
        let said = testing::said(html, extract);
        assert_eq!(said.metadata.title.as_deref(), Some("A title"));
        assert_eq!(said.metadata.author.as_deref(), Some("Me"));
        assert_eq!(said.metadata.subject.as_deref(), Some("What it is"));
        assert_eq!(said.metadata.charset.as_deref(), Some("windows-1252"));
        assert_eq!(said.text, "A title\ngrößer\n");
    }

    #[test]
    fn deep_nesting_costs_no_more_than_its_length() {
        let mut html = "<div>".repeat(200_000);
        html.push_str("deep");
        assert_eq!(text_of(&html).trim(), "deep");
    }
}
