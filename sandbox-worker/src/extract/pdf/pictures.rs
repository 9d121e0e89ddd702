//! The pictures that are pages: what a scanner made, taken out as it is, for something else to read.
//!
//! Where pictures lie over one another the one with the most pixels is taken: where a page is drawn in layers, the letters
//! are in the finest. JPEG and JPEG 2000 are passed on as they are; all else is decoded and sent as PNM.

use super::super::{Done, Output};
use super::pages::{Pages, covers, may_be_a_page, overlap};
use super::samples::{Picture, Space, resolved};
use pdfboss_core::content::{ContentOps, Op};
use pdfboss_core::filters::trailing_filter_with;
use pdfboss_core::source::{Immediate, block_on};
use pdfboss_core::{Dict, Document, Matrix, ObjRef, Object, Page, Rect, Stream};
use shared::{Format, MemberEnd, MemberHead, MemberKind, Refusal, Refused};
use std::collections::HashMap;

/// So many pages give their picture.
const PAGES_MAX: u64 = 1_000;
/// A picture of more pixels is not decoded.
const PIXELS_MAX: u64 = 64 << 20;
/// Forms inside of one another.
const DEPTH_MAX: u32 = 12;
/// So many pictures of one page are sent.
const PICTURES_MAX: usize = 16;
/// So many pictures and forms of one page are looked at.
const LOOKED_AT_MAX: u32 = 20_000;
/// States that a page may put aside.
const STATES_MAX: usize = 1_024;

/// Sends one member for each page that is a picture.
pub(super) fn send(pdf: &Document, out: &mut Output<'_>) -> Done {
    let total = pdf.flattened_page_count();
    let pages = Pages::of(pdf);
    let mut sent = 0;
    for index in 0..total {
        if let Ok((page, text, _)) = pages.read(index)
            && let Some(least) = pages.picture(&page, &text)
        {
            if sent == PAGES_MAX {
                return too_many(index, total);
            }
            one(pdf, &page, least, out);
            sent += 1;
        }
        out.progress(index as u64 + 1, total as u64);
    }
    Done::whole(Format::Pdf, super::ENGINE)
}

fn too_many(index: usize, total: usize) -> Done {
    let message = format!(
        "the pictures of {PAGES_MAX} pages are enough; those from page {} on are left out",
        index + 1
    );
    Done::refused(Format::Pdf, super::ENGINE, Refused::Unsupported, message)
        .with_parts(index as u64, total as u64)
}

/// Sends the pictures of one page; one that failed where none is found, since the page is one.
fn one(pdf: &Document, page: &Page, least: f32, out: &mut Output<'_>) {
    let pictures = drawn_on(pdf, page, least);
    if pictures.is_empty() {
        member(page, 0, Err("the picture is drawn in a way that is not followed".to_owned()), out);
    }
    for (place, picture) in pictures.iter().enumerate() {
        member(page, place, content(pdf, picture), out);
    }
}

fn member(page: &Page, place: usize, found: Result<(&str, Content), String>, out: &mut Output<'_>) {
    let suffix = found.as_ref().map_or("pnm", |(suffix, _)| suffix);
    let further = if place == 0 { String::new() } else { format!("-{}", place + 1) };
    let name = format!("page-{:04}{further}.{suffix}", page.index + 1).into_bytes();
    out.member(MemberHead { name, kind: MemberKind::File, mtime: None });
    let written = found.and_then(|(_, content)| match content {
        Content::Coded(bytes) => {
            out.member_data(&bytes);
            Ok(())
        }
        Content::Samples(picture) => picture.write(&mut |piece| out.member_data(piece)),
    });
    out.member_end(match written {
        Ok(()) => MemberEnd::Whole,
        Err(message) => MemberEnd::Failed(Refusal { why: Refused::Unsupported, message }),
    });
}

enum Content {
    /// A file as it is.
    Coded(Vec<u8>),
    Samples(Picture),
}

/// The bytes of an image, and what a file of them is called.
fn content(pdf: &Document, drawn: &Drawn) -> Result<(&'static str, Content), String> {
    let image = &drawn.image;
    let dict = &image.dict;
    let (width, height) = size(pdf, dict);
    if width == 0 || height == 0 || u64::from(width) * u64::from(height) > PIXELS_MAX {
        return Err(format!("{width} × {height} pixels, and from 1 to {PIXELS_MAX} are decoded"));
    }
    let last = block_on(trailing_filter_with(&Immediate(pdf), dict));
    let bytes = pdf.stream_data(image).map_err(|error| error.to_string())?;
    match last.as_ref().map(|name| name.0.as_str()) {
        Some("DCTDecode" | "DCT") => return Ok(("jpg", Content::Coded(bytes))),
        Some("JPXDecode") => return Ok(("jp2", Content::Coded(bytes))),
        _ => {}
    }
    let stencil = is_stencil(pdf, dict);
    let bilevel = stencil
        || matches!(
            last.as_ref().map(|name| name.0.as_str()),
            Some("JBIG2Decode" | "CCITTFaxDecode" | "CCF")
        );
    let bits =
        resolved(pdf, dict.get("BitsPerComponent")).as_int().and_then(|bits| usize::try_from(bits).ok());
    let decode = resolved(pdf, dict.get("Decode"));
    let decode = decode.as_array().unwrap_or_default();
    let picture = Picture {
        width: width as usize,
        height: height as usize,
        bits: if bilevel { 1 } else { bits.unwrap_or(8) },
        space: if stencil { Space::Gray } else { Space::of(pdf, dict, &drawn.resources)? },
        decode: decode.iter().filter_map(|bound| resolved(pdf, Some(bound)).as_f64()).collect(),
        samples: bytes,
    };
    Ok(("pnm", Content::Samples(picture)))
}

fn size(pdf: &Document, image: &Dict) -> (u32, u32) {
    let of = |key: &str| {
        resolved(pdf, image.get(key)).as_int().and_then(|size| u32::try_from(size).ok()).unwrap_or(0)
    };
    (of("Width"), of("Height"))
}

fn is_stencil(pdf: &Document, image: &Dict) -> bool {
    resolved(pdf, image.get("ImageMask")).as_bool() == Some(true)
}

/// A picture on a page.
struct Drawn {
    image: Stream,
    pixels: u64,
    place: Rect,
    /// What its names mean.
    resources: Dict,
}

/// The finest pictures of a page, from top to bottom, none over another; of those that cover at least this share of it.
fn drawn_on(pdf: &Document, page: &Page, least: f32) -> Vec<Drawn> {
    let Ok(content) = page.content(pdf) else { return Vec::new() };
    let mut walk = Walk { pdf, page, least, drawn: Vec::new(), looked_at: 0, known: HashMap::new() };
    walk.content(&content, &page.resources, Matrix::identity(), 0);
    walk.drawn.sort_by(|a, b| b.place.y1.total_cmp(&a.place.y1).then(a.place.x0.total_cmp(&b.place.x0)));
    walk.drawn
}

/// Whether one lies over the other, for the better part of the smaller.
fn lie_together(one: Rect, other: Rect) -> bool {
    overlap(one, other) * 2.0 > overlap(one, one).min(overlap(other, other))
}

/// Follows what a page draws.
struct Walk<'a> {
    pdf: &'a Document,
    page: &'a Page,
    least: f32,
    drawn: Vec<Drawn>,
    looked_at: u32,
    /// What is no form, by its number.
    known: HashMap<ObjRef, Kind>,
}

/// What decides whether a picture is taken, besides its place.
#[derive(Clone, Copy)]
struct Kind {
    width: u32,
    height: u32,
    stencil: bool,
}

impl Kind {
    fn of(pdf: &Document, image: &Dict) -> Self {
        let (width, height) = size(pdf, image);
        Kind { width, height, stencil: is_stencil(pdf, image) }
    }

    fn pixels(self) -> u64 {
        u64::from(self.width) * u64::from(self.height)
    }
}

impl Walk<'_> {
    fn content(&mut self, content: &[u8], resources: &Dict, outer: Matrix, depth: u32) {
        let (mut state, mut aside) = (outer, Vec::new());
        let mut ops = ContentOps::new(content);
        while let Ok(Some((op, _))) = ops.next_op() {
            match op {
                Op::Save if aside.len() < STATES_MAX => aside.push(state),
                Op::Restore => state = aside.pop().unwrap_or(state),
                Op::Concat(matrix) => state = matrix.concat(state),
                Op::XObject(name) => self.object(&name.0, resources, state, depth),
                Op::InlineImage(image) => {
                    self.looked_at += 1;
                    let kind = Kind::of(self.pdf, &image.dict);
                    self.take(Stream { dict: image.dict, data: image.data }, kind, state, resources);
                }
                _ => {}
            }
            if self.looked_at > LOOKED_AT_MAX {
                return;
            }
        }
    }

    fn object(&mut self, name: &str, resources: &Dict, state: Matrix, depth: u32) {
        self.looked_at += 1;
        let objects = resolved(self.pdf, resources.get("XObject"));
        let Some(object) = objects.as_dict().and_then(|objects| objects.get(name)) else { return };
        let number = object.as_ref();
        // What is known and is not wanted need not be read once more.
        let known = number.and_then(|number| self.known.get(&number));
        if known.is_some_and(|kind| !self.is_wanted(*kind, state)) {
            return;
        }
        let Object::Stream(stream) = resolved(self.pdf, Some(object)) else { return };
        match resolved(self.pdf, stream.dict.get("Subtype")).as_name().map(|name| name.0.as_str()) {
            Some("Image") => {
                let kind = Kind::of(self.pdf, &stream.dict);
                if let Some(number) = number {
                    self.known.insert(number, kind);
                }
                self.take(stream, kind, state, resources);
            }
            Some("Form") if depth < DEPTH_MAX => self.form(&stream, resources, state, depth),
            _ => {}
        }
    }

    fn form(&mut self, form: &Stream, resources: &Dict, state: Matrix, depth: u32) {
        let Ok(content) = self.pdf.stream_data(form) else { return };
        let own = resolved(self.pdf, form.dict.get("Resources"));
        let matrix = matrix(self.pdf, &form.dict).concat(state);
        self.content(&content, own.as_dict().unwrap_or(resources), matrix, depth + 1);
    }

    /// Whether it covers enough of the page, and is finer than all that it lies over or under.
    fn is_wanted(&self, kind: Kind, state: Matrix) -> bool {
        let place = place(state);
        let finer = |drawn: &Drawn| kind.pixels() > drawn.pixels || !lie_together(place, drawn.place);
        kind.pixels() > 0
            && may_be_a_page(kind.stencil, kind.width)
            && covers(self.page, place, self.least)
            && self.drawn.iter().all(finer)
    }

    fn take(&mut self, image: Stream, kind: Kind, state: Matrix, resources: &Dict) {
        if !self.is_wanted(kind, state) {
            return;
        }
        let place = place(state);
        self.drawn.retain(|drawn| !lie_together(place, drawn.place));
        if self.drawn.len() < PICTURES_MAX {
            self.drawn.push(Drawn { image, pixels: kind.pixels(), place, resources: resources.clone() });
        }
    }
}

/// Where an image is drawn: it is one by one in a space of its own.
fn place(state: Matrix) -> Rect {
    Rect::new(0.0, 0.0, 1.0, 1.0).transform(state)
}

fn matrix(pdf: &Document, form: &Dict) -> Matrix {
    let numbers = resolved(pdf, form.get("Matrix"));
    let numbers: Vec<f64> =
        numbers.as_array().unwrap_or_default().iter().filter_map(Object::as_f64).collect();
    let [a, b, c, d, e, f] = numbers.as_slice() else { return Matrix::identity() };
    #[expect(clippy::cast_possible_truncation, reason = "places on a page are no more exact than that")]
    let [a, b, c, d, e, f] = [a, b, c, d, e, f].map(|number| *number as f32);
    Matrix { a, b, c, d, e, f }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{self, Said};
    use super::*;

    /// A PDF of these pages, each a content and its own objects, which are named by number: `I5` is object 5.
    fn pdf(pages: &[&str], objects: &[(u32, &str, &[u8])]) -> Vec<u8> {
        let mut file = b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n".to_vec();
        let kids: Vec<String> = (0..pages.len()).map(|n| format!("{} 0 R", 100 + 2 * n)).collect();
        file.extend(
            format!("2 0 obj<</Type/Pages/Kids[{}]/Count {}>>endobj\n", kids.join(" "), pages.len()).bytes(),
        );
        let names: Vec<String> = objects.iter().map(|(n, _, _)| format!("/I{n} {n} 0 R")).collect();
        let resources =
            format!("<</XObject<<{}>>/Font<</F 3 0 R>>/ColorSpace<</Own/DeviceRGB>>>>", names.join(" "));
        file.extend(b"3 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj\n");
        for (n, content) in pages.iter().enumerate() {
            let page = 100 + 2 * n;
            file.extend(
                format!(
                    "{page} 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]/Contents {} 0 R/Resources {resources}>>endobj\n\
                     {} 0 obj<</Length {}>>stream\n{content}\nendstream endobj\n",
                    page + 1,
                    page + 1,
                    content.len()
                )
                .bytes(),
            );
        }
        for (n, dict, data) in objects {
            file.extend(format!("{n} 0 obj<</Type/XObject{dict}/Length {}>>stream\n", data.len()).bytes());
            file.extend_from_slice(data);
            file.extend(b"\nendstream endobj\n");
        }
        file.extend(b"trailer<</Root 1 0 R/Size 300>>\nstartxref\n0\n%%EOF\n");
        file
    }

    fn pictures(pages: &[&str], objects: &[(u32, &str, &[u8])]) -> Said {
        testing::said(&pdf(pages, objects), super::super::pictures)
    }

    /// Draws object `n` over the whole page.
    fn whole(n: u32) -> String {
        format!("q 200 0 0 200 0 0 cm /I{n} Do Q")
    }

    const GRAY: &str = "/Subtype/Image/Width 2/Height 2/BitsPerComponent 8/ColorSpace/DeviceGray";

    #[test]
    fn pages_that_are_pictures_are_members_by_their_number() {
        let text = "BT /F 12 Tf 20 100 Td (A page with so many words on it that nobody takes it for the picture of a page, whatever it \
                    has behind its words, and words enough) Tj ET";
        let words = format!("{} {text}", whole(5));
        let jpeg = b"\xff\xd8 not looked into \xff\xd9";
        let said = pictures(
            &[&whole(5), text, &words, &whole(6), "q 20 0 0 20 0 0 cm /I5 Do Q", &whole(7)],
            &[
                (5, GRAY, &[0, 1, 2, 3]),
                (
                    6,
                    "/Subtype/Image/Width 9/Height 9/BitsPerComponent 8/ColorSpace/DeviceRGB/Filter/DCTDecode",
                    jpeg,
                ),
                (7, "/Subtype/Image/Width 9/Height 9/Filter/JPXDecode", b"codes"),
            ],
        );
        assert_eq!(said.done, Done::whole(Format::Pdf, "pdfboss 2.16.1"));
        assert_eq!(said.names(), [&b"page-0001.pnm"[..], b"page-0004.jpg", b"page-0006.jp2"]);
        let bytes: Vec<&[u8]> = said.members.iter().map(|(_, bytes, _)| bytes.as_slice()).collect();
        assert_eq!(bytes, [&b"P5\n2 2\n255\n\x00\x01\x02\x03"[..], jpeg, b"codes"]);
        assert_eq!(said.ends(), [None, None, None]);
    }

    #[test]
    fn the_finest_picture_of_a_page_is_taken_wherever_it_is_drawn() {
        let layers = format!("{} {} {}", whole(5), whole(6), whole(7));
        let form = "/Subtype/Form/BBox[0 0 1 1]/Matrix[200 0 0 200 0 0]/Resources<</XObject<</X 5 0 R>>>>";
        let inline = "q 200 0 0 200 0 0 cm BI /W 2 /H 1 /BPC 8 /CS /G ID \x05\x06 EI Q";
        let said = pictures(
            &[&layers, "/I8 Do", inline],
            &[
                (5, GRAY, &[0, 1, 2, 3]),
                (6, "/Subtype/Image/Width 300/Height 1/ImageMask true/BitsPerComponent 1", &[0; 38]),
                (7, GRAY, &[9, 9, 9, 9]),
                (8, form, b"/X Do"),
            ],
        );
        let bytes: Vec<&[u8]> = said.members.iter().map(|(_, bytes, _)| bytes.as_slice()).collect();
        assert!(bytes[0].starts_with(b"P4\n300 1\n\xff"), "{bytes:?}");
        assert_eq!(bytes[1..], [&b"P5\n2 2\n255\n\x00\x01\x02\x03"[..], b"P5\n2 1\n255\n\x05\x06"]);
    }

    #[test]
    fn a_page_without_a_letter_gives_its_smaller_pictures_too_from_top_to_bottom() {
        let (upper, lower) = ("q 100 0 0 50 0 140 cm /I5 Do Q", "q 100 0 0 50 0 10 cm /I6 Do Q");
        let small = "q 20 0 0 20 150 150 cm /I7 Do Q";
        let number = "BT /F 9 Tf 90 2 Td (17) Tj ET";
        let said = pictures(
            &[&format!("{lower} {upper} {small}"), &format!("{lower} {number}"), small],
            &[(5, GRAY, &[0, 1, 2, 3]), (6, GRAY, &[4, 5, 6, 7]), (7, GRAY, &[8; 4])],
        );
        assert_eq!(said.names(), [&b"page-0001.pnm"[..], b"page-0001-2.pnm"]);
        assert!(said.members[0].1.ends_with(&[0, 1, 2, 3]) && said.members[1].1.ends_with(&[4, 5, 6, 7]));
        // Each half over the one below, which is not the better part of it.
        let strips: Vec<String> = (0..19).map(|n| format!("q 200 0 0 22 0 {} cm /I5 Do Q", n * 11)).collect();
        let high = String::from_utf8(pdf(&[&strips.join(" ")], &[(5, GRAY, &[0, 1, 2, 3])])).unwrap();
        let high = high.replace("MediaBox[0 0 200 200]", "MediaBox[0 0 200 220]");
        assert_eq!(testing::said(high.as_bytes(), super::super::pictures).members.len(), PICTURES_MAX);
    }

    #[test]
    fn colours_are_found_by_name_and_through_profiles_and_tables() {
        let indexed = "/Subtype/Image/Width 2/Height 1/BitsPerComponent 8/ColorSpace[/Indexed/DeviceCMYK 1<00000000000000ff>]";
        let named = "/Subtype/Image/Width 1/Height 1/BitsPerComponent 8/ColorSpace/Own";
        let profile = "/Subtype/Image/Width 1/Height 1/BitsPerComponent 8/ColorSpace[/ICCBased 9 0 R]";
        let inverted = "/Subtype/Image/Width 8/Height 1/BitsPerComponent 1/ColorSpace/DeviceGray/Decode[1 0]";
        let said = pictures(
            &[&whole(5), &whole(6), &whole(7), &whole(8)],
            &[
                (5, indexed, &[0, 1]),
                (6, named, &[1, 2, 3]),
                (7, profile, &[4]),
                (8, inverted, &[0b1111_0000]),
                (9, "/N 1", b"profile"),
            ],
        );
        let bytes: Vec<&[u8]> = said.members.iter().map(|(_, bytes, _)| bytes.as_slice()).collect();
        assert_eq!(
            bytes,
            [
                &b"P6\n2 1\n255\n\xff\xff\xff\x00\x00\x00"[..],
                b"P6\n1 1\n255\n\x01\x02\x03",
                b"P5\n1 1\n255\n\x04",
                b"P4\n8 1\n\xf0"
            ]
        );
    }

    #[test]
    fn what_cannot_be_decoded_is_a_member_that_says_why() {
        let large = "/Subtype/Image/Width 8193/Height 8192/BitsPerComponent 1/ColorSpace/DeviceGray";
        let inks =
            "/Subtype/Image/Width 1/Height 1/BitsPerComponent 8/ColorSpace[/DeviceN[/A/B/C]/DeviceRGB null]";
        let filter =
            "/Subtype/Image/Width 1/Height 1/BitsPerComponent 8/ColorSpace/DeviceGray/Filter/Unheard";
        let none = "/Subtype/Image/Width 0/Height 9/BitsPerComponent 8/ColorSpace/DeviceGray";
        let short = "/Subtype/Image/Width 9/Height 9/BitsPerComponent 8/ColorSpace/DeviceGray";
        let pages: Vec<String> = (5..10).map(whole).collect();
        let pages: Vec<&str> = pages.iter().map(String::as_str).collect();
        let said = pictures(
            &pages,
            &[(5, large, b"x"), (6, inks, b"xyz"), (7, filter, b"x"), (8, none, b"x"), (9, short, b"x")],
        );
        assert_eq!(said.members.len(), 5);
        assert_eq!(said.ends(), [Some(Refused::Unsupported); 5]);
        assert!(said.members.iter().all(|(_, bytes, _)| bytes.is_empty()));
        let MemberEnd::Failed(refusal) = said.members[0].2.clone().unwrap() else { panic!("it failed") };
        assert_eq!(refusal.message, "8193 × 8192 pixels, and from 1 to 67108864 are decoded");
    }

    #[test]
    fn a_thousand_pages_are_enough() {
        let page = whole(5);
        let said = pictures(&vec![page.as_str(); 1_001], &[(5, GRAY, &[0, 1, 2, 3])]);
        assert_eq!((said.members.len(), said.why()), (1_000, Some(Refused::Unsupported)));
        assert_eq!(said.done.parts, Some(shared::Parts { done: 1_000, total: 1_001 }));
    }

    #[test]
    fn forms_that_draw_themselves_and_a_page_that_draws_for_ever_end() {
        let form = "/Subtype/Form/BBox[0 0 1 1]/Resources<</XObject<</A 6 0 R>>>>";
        let twice = b"/A Do /A Do";
        let said =
            pictures(&[&format!("{} /I6 Do", whole(5))], &[(5, GRAY, &[0, 1, 2, 3]), (6, form, twice)]);
        assert_eq!(said.names(), [b"page-0001.pnm"]);
    }

    #[test]
    fn a_page_is_followed_only_so_far() {
        let drawn = |content: &str, objects: &[(u32, &str, &[u8])]| {
            let pdf = Document::load(pdf(&[content], objects)).unwrap();
            drawn_on(&pdf, &pdf.page(0).unwrap(), 0.1).len()
        };
        let image: (u32, &str, &[u8]) = (5, GRAY, &[0, 1, 2, 3]);
        let far = |count: u32| format!("{} {}", "/None Do ".repeat(count as usize), whole(5));
        assert_eq!(
            (drawn(&far(LOOKED_AT_MAX - 1), &[image]), drawn(&far(LOOKED_AT_MAX + 1), &[image])),
            (1, 0)
        );
        let deep = |count| format!("{}100 0 0 100 0 0 cm q 2 0 0 2 0 0 cm Q /I5 Do", "q ".repeat(count));
        assert_eq!((drawn(&deep(STATES_MAX - 1), &[image]), drawn(&deep(STATES_MAX), &[image])), (1, 0));
        let nested = |count: u32| {
            let inner = |n: u32| if n == count { "/I5 Do".to_owned() } else { format!("/I{} Do", n + 11) };
            let contents: Vec<String> = (1..=count).map(inner).collect();
            let numbers = (11..).zip(&contents);
            let form = "/Subtype/Form/BBox[0 0 1 1]";
            let mut objects: Vec<_> = numbers.map(|(n, content)| (n, form, content.as_bytes())).collect();
            objects.push(image);
            drawn("200 0 0 200 0 0 cm /I11 Do", &objects)
        };
        assert_eq!((nested(DEPTH_MAX), nested(DEPTH_MAX + 1)), (1, 0));
    }
}
