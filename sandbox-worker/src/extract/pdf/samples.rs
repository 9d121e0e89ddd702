//! Decoded samples of a PDF's image, written as PNM: the simplest file that every reader of images takes.
//!
//! Colours need not be exact, since the file is there to be read by a machine that looks for letters: profiles are taken for
//! the device's colours that they have as many components as.

use pdfboss_core::{Dict, Document, Object};

/// Bytes that are handed on at a time.
const PIECE: usize = 256 << 10;
/// Colour spaces inside of one another.
const DEPTH_MAX: u32 = 8;

/// What a sample's components are.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Space {
    Gray,
    Rgb,
    Cmyk,
    /// One ink: all of it is black.
    Ink,
    /// Lightness comes first, and is enough.
    Lab,
    /// Places in a table of colours of the other space.
    Indexed(Box<Space>, Vec<u8>),
}

impl Space {
    /// The space that an image's dictionary names.
    ///
    /// # Errors
    /// Which space cannot be read, in words.
    pub(super) fn of(pdf: &Document, image: &Dict, resources: &Dict) -> Result<Space, String> {
        match image.get("ColorSpace") {
            None | Some(Object::Null) => Ok(Space::Gray),
            Some(space) => Space::read(pdf, space, resources, 0),
        }
    }

    fn read(pdf: &Document, space: &Object, resources: &Dict, depth: u32) -> Result<Space, String> {
        if depth > DEPTH_MAX {
            return Err("colour spaces are nested too deep".to_owned());
        }
        match resolved(pdf, Some(space)) {
            Object::Name(name) => Space::named(&name.0).map_or_else(
                || {
                    let spaces = resolved(pdf, resources.get("ColorSpace"));
                    let own = spaces.as_dict().and_then(|spaces| spaces.get(&name.0));
                    let own = own.ok_or_else(|| format!("the colour space {} is not known", name.0))?;
                    Space::read(pdf, own, resources, depth + 1)
                },
                Ok,
            ),
            Object::Array(parts) => Space::composed(pdf, &parts, resources, depth),
            _ => Err("its colour space is neither a name nor an array".to_owned()),
        }
    }

    fn named(name: &str) -> Option<Space> {
        match name {
            "DeviceGray" | "CalGray" | "G" => Some(Space::Gray),
            "DeviceRGB" | "CalRGB" | "RGB" => Some(Space::Rgb),
            "DeviceCMYK" | "CMYK" => Some(Space::Cmyk),
            "Lab" => Some(Space::Lab),
            _ => None,
        }
    }

    fn composed(pdf: &Document, parts: &[Object], resources: &Dict, depth: u32) -> Result<Space, String> {
        let family = resolved(pdf, parts.first());
        let family = family.as_name().map(|name| name.0.as_str()).unwrap_or_default();
        match family {
            "ICCBased" => {
                let profile = resolved(pdf, parts.get(1));
                Space::of_components(profile.as_stream().and_then(|stream| stream.dict.get_int("N")))
            }
            "Indexed" | "I" => {
                let base = parts.get(1).ok_or("an indexed colour space has no base")?;
                let base = Space::read(pdf, base, resources, depth + 1)?;
                let table = match resolved(pdf, parts.get(3)) {
                    Object::String(bytes) => bytes,
                    Object::Stream(stream) => pdf.stream_data(&stream).map_err(|error| error.to_string())?,
                    _ => return Err("an indexed colour space has no table".to_owned()),
                };
                Ok(Space::Indexed(Box::new(base), table))
            }
            "Separation" => Ok(Space::Ink),
            "DeviceN" => match resolved(pdf, parts.get(1)).as_array().map(<[Object]>::len) {
                Some(1) => Ok(Space::Ink),
                Some(4) => Ok(Space::Cmyk),
                _ => Err("a colour space of several inks is not read".to_owned()),
            },
            other => Space::named(other).ok_or_else(|| format!("the colour space {other} is not read")),
        }
    }

    fn of_components(count: Option<i64>) -> Result<Space, String> {
        match count {
            Some(1) => Ok(Space::Gray),
            Some(3) => Ok(Space::Rgb),
            Some(4) => Ok(Space::Cmyk),
            _ => Err("a colour profile does not say how many components it has".to_owned()),
        }
    }

    fn components(&self) -> usize {
        match self {
            Space::Gray | Space::Ink | Space::Indexed(..) => 1,
            Space::Rgb | Space::Lab => 3,
            Space::Cmyk => 4,
        }
    }

    /// The colour of components from 0 to 255.
    fn colour(&self, components: &[u8]) -> [u8; 3] {
        let of = |place: usize| components.get(place).copied().unwrap_or(0);
        match self {
            Space::Gray | Space::Lab => [of(0); 3],
            Space::Ink => [255 - of(0); 3],
            Space::Rgb => [of(0), of(1), of(2)],
            Space::Cmyk => [0, 1, 2].map(|place| 255 - of(place).saturating_add(of(3))),
            Space::Indexed(base, table) => {
                let width = base.components();
                let start = usize::from(of(0)) * width;
                base.colour(table.get(start..start + width).unwrap_or_default())
            }
        }
    }

    /// Whether it has no colours, so that a byte is enough for each sample.
    fn is_gray(&self) -> bool {
        matches!(self, Space::Gray | Space::Ink | Space::Lab)
    }
}

/// An object that is no reference any more; null where it cannot be read.
pub(super) fn resolved(pdf: &Document, object: Option<&Object>) -> Object {
    object.and_then(|object| pdf.resolve(object).ok()).unwrap_or(Object::Null)
}

/// An image whose samples are decoded.
#[derive(Debug)]
pub(super) struct Picture {
    pub(super) width: usize,
    pub(super) height: usize,
    /// Of a component: 1, 2, 4, 8 or 16.
    pub(super) bits: usize,
    pub(super) space: Space,
    /// What the least and the greatest value of each component mean, where that is not the usual.
    pub(super) decode: Vec<f64>,
    pub(super) samples: Vec<u8>,
}

impl Picture {
    /// Writes it as PNM, piece by piece. Rows that are missing at the end are left out.
    ///
    /// # Errors
    /// Why there is nothing to write, in words.
    pub(super) fn write(&self, to: &mut dyn FnMut(&[u8])) -> Result<(), String> {
        if !matches!(self.bits, 1 | 2 | 4 | 8 | 16) {
            return Err(format!("samples of {} bits are not read", self.bits));
        }
        let row = (self.width * self.space.components() * self.bits).div_ceil(8);
        let rows = self.samples.chunks_exact(row.max(1)).take(self.height);
        if rows.len() == 0 {
            return Err("it has not one whole row of samples".to_owned());
        }
        let tables: Vec<[u8; 256]> = (0..self.space.components()).map(|place| self.table(place)).collect();
        let black_and_white = self.bits == 1 && self.space.is_gray();
        let kind = if black_and_white {
            '4'
        } else if self.space.is_gray() {
            '5'
        } else {
            '6'
        };
        let most = if black_and_white { "" } else { "255\n" };
        let mut piece = format!("P{kind}\n{} {}\n{most}", self.width, rows.len()).into_bytes();
        for row in rows {
            if black_and_white {
                let bit = |value: usize| {
                    tables.first().is_some_and(|table| self.space.colour(&table[value..])[0] < 128)
                };
                piece.extend(row.iter().map(|byte| black(*byte, bit(0), bit(1))));
            } else {
                self.pixels(row, &tables, &mut piece);
            }
            if piece.len() >= PIECE {
                to(&piece);
                piece.clear();
            }
        }
        to(&piece);
        Ok(())
    }

    /// Of each value of a component, what it means from 0 to 255; of an index, the index.
    fn table(&self, component: usize) -> [u8; 256] {
        let most = if self.bits == 16 { 255 } else { (1_usize << self.bits) - 1 };
        let indexed = matches!(self.space, Space::Indexed(..));
        let usual = if indexed { (0.0, as_float(most)) } else { (0.0, 1.0) };
        let pair = self.decode.get(2 * component).copied().zip(self.decode.get(2 * component + 1).copied());
        let (least, greatest) = pair.filter(|_| self.space != Space::Lab).unwrap_or(usual);
        let scale = if indexed { 1.0 } else { 255.0 };
        let mut table = [0; 256];
        for (value, meaning) in table.iter_mut().enumerate() {
            let share = as_float(value.min(most)) / as_float(most);
            *meaning = byte(scale * (least + share * (greatest - least)));
        }
        table
    }

    fn pixels(&self, row: &[u8], tables: &[[u8; 256]], piece: &mut Vec<u8>) {
        let mut components = [0; 4];
        let count = tables.len().min(components.len());
        for pixel in 0..self.width {
            for (place, table) in tables.iter().enumerate().take(count) {
                let value = sample(row, pixel * count + place, self.bits);
                components[place] = table[usize::from(value)];
            }
            let colour = self.space.colour(components.get(..count).unwrap_or_default());
            piece.extend_from_slice(if self.space.is_gray() { &colour[..1] } else { &colour });
        }
    }
}

/// The value of one sample in a row; of 16 bits the upper 8.
fn sample(row: &[u8], place: usize, bits: usize) -> u8 {
    let of = |at: usize| row.get(at).copied().unwrap_or(0);
    match bits {
        16 => of(2 * place),
        8 => of(place),
        _ => {
            let each = 8 / bits;
            let shift = 8 - bits * (place % each + 1);
            (of(place / each) >> shift) & ((1 << bits) - 1)
        }
    }
}

/// Eight samples of one bit as PBM has them: a bit that is set is black.
fn black(byte: u8, zero_is_black: bool, one_is_black: bool) -> u8 {
    (if zero_is_black { !byte } else { 0 }) | (if one_is_black { byte } else { 0 })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is between 0 and 255; of no number 0 is made"
)]
fn byte(value: f64) -> u8 {
    value.round().clamp(0.0, 255.0) as u8
}

fn as_float(value: usize) -> f64 {
    f64::from(u32::try_from(value).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(
        space: Space,
        (width, height): (usize, usize),
        bits: usize,
        decode: &[f64],
        samples: &[u8],
    ) -> Vec<u8> {
        let picture =
            Picture { width, height, bits, space, decode: decode.to_vec(), samples: samples.to_vec() };
        let mut file = Vec::new();
        picture.write(&mut |piece| file.extend_from_slice(piece)).unwrap();
        file
    }

    #[test]
    fn each_space_and_depth_has_its_pixels() {
        let palette = Space::Indexed(Box::new(Space::Rgb), vec![1, 2, 3, 4, 5, 6]);
        let inks = Space::Indexed(Box::new(Space::Ink), vec![0, 255]);
        for (space, size, bits, decode, samples, expected) in [
            (Space::Gray, (10, 1), 1, &[][..], &[0b1010_1010, 0b1100_0000][..], &b"P4\n10 1\n\x55\x3f"[..]),
            (Space::Gray, (8, 1), 1, &[1.0, 0.0], &[0b1010_1010], b"P4\n8 1\n\xaa"),
            (Space::Ink, (8, 1), 1, &[], &[0b1010_1010], b"P4\n8 1\n\xaa"),
            (Space::Gray, (3, 1), 2, &[], &[0b0001_1100], b"P5\n3 1\n255\n\x00\x55\xff"),
            (Space::Gray, (2, 2), 4, &[], &[0x0f, 0x70], b"P5\n2 2\n255\n\x00\xff\x77\x00"),
            (Space::Gray, (2, 1), 8, &[1.0, 0.0], &[0, 200], b"P5\n2 1\n255\n\xff\x37"),
            (Space::Gray, (2, 1), 16, &[], &[1, 9, 2, 9], b"P5\n2 1\n255\n\x01\x02"),
            (
                Space::Lab,
                (1, 1),
                8,
                &[0.0, 100.0, -99.0, 99.0, -99.0, 99.0],
                &[7, 8, 9],
                b"P5\n1 1\n255\n\x07",
            ),
            (Space::Rgb, (1, 1), 8, &[], &[1, 2, 3], b"P6\n1 1\n255\n\x01\x02\x03"),
            (
                Space::Cmyk,
                (2, 1),
                8,
                &[],
                &[255, 0, 0, 0, 10, 20, 30, 250],
                b"P6\n2 1\n255\n\x00\xff\xff\x00\x00\x00",
            ),
            (
                palette.clone(),
                (3, 1),
                8,
                &[],
                &[1, 0, 9],
                b"P6\n3 1\n255\n\x04\x05\x06\x01\x02\x03\x00\x00\x00",
            ),
            (palette, (2, 1), 1, &[1.0, 0.0], &[0b0100_0000], b"P6\n2 1\n255\n\x04\x05\x06\x01\x02\x03"),
            (inks, (2, 1), 1, &[], &[0b0100_0000], b"P6\n2 1\n255\n\xff\xff\xff\x00\x00\x00"),
        ] {
            let name = format!("{space:?} {bits} {decode:?}");
            assert_eq!(written(space, size, bits, decode, samples), expected, "{name}");
        }
    }

    #[test]
    fn rows_that_are_missing_are_left_out_and_none_is_an_error() {
        assert_eq!(written(Space::Gray, (2, 9), 8, &[], &[1, 2, 3, 4, 5]), b"P5\n2 2\n255\n\x01\x02\x03\x04");
        let none =
            Picture { width: 2, height: 2, bits: 8, space: Space::Gray, decode: vec![], samples: vec![1] };
        assert!(none.write(&mut |_| {}).is_err());
        let odd = Picture { bits: 3, samples: vec![1; 9], ..none };
        assert_eq!(odd.write(&mut |_| {}).unwrap_err(), "samples of 3 bits are not read");
    }
}
