//! The compression of RTF bodies in mails: a ring of 4 KiB that is filled beforehand, and references into it.

/// What the ring holds before the first byte.
const BEFORE: &[u8; 207] = b"{\\rtf1\\ansi\\mac\\deff0\\deftab720{\\fonttbl;}{\\f0\\fnil \\froman \\fswiss \\fmodern \\fscript \
\\fdecor MS Sans SerifSymbolArialTimes New RomanCourier{\\colortbl\\red0\\green0\\blue0\r\n\\par \\pard\\plain\\f0\\fs20\\b\\i\\u\\tab\\tx";

const RING: usize = 4096;

/// The RTF within `packed`; `None` where it is neither packed nor plain. A stream that is cut gives what came before.
pub(super) fn unpack(packed: &[u8]) -> Option<Vec<u8>> {
    let (header, body) = packed.split_first_chunk::<16>()?;
    match header.get(8..12)? {
        b"LZFu" => Some(inflate(body)),
        b"MELA" => Some(body.to_vec()),
        _ => None,
    }
}

fn inflate(body: &[u8]) -> Vec<u8> {
    let mut ring = [0_u8; RING];
    ring[..BEFORE.len()].copy_from_slice(BEFORE);
    let mut at = BEFORE.len();
    let mut out = Vec::new();
    let mut bytes = body.iter().copied();
    let mut put = |byte: u8, ring: &mut [u8; RING], at: &mut usize| {
        ring[*at] = byte;
        *at = (*at + 1) % RING;
        out.push(byte);
    };
    'all: while let Some(control) = bytes.next() {
        for bit in 0..8 {
            let Some(first) = bytes.next() else { break 'all };
            if control >> bit & 1 == 0 {
                put(first, &mut ring, &mut at);
                continue;
            }
            let Some(second) = bytes.next() else { break 'all };
            let pair = usize::from(first) << 8 | usize::from(second);
            let (from, length) = (pair >> 4, (pair & 0xf) + 2);
            // A reference to the place that is written next is the end.
            if from == at {
                break 'all;
            }
            for step in 0..length {
                put(ring[(from + step) % RING], &mut ring, &mut at);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_specification() {
        let packed = b"\x2d\0\0\0\x2b\0\0\0LZFu\xf1\xc5\xc7\xa7\x03\x00\x0a\x00rcpg125\x42\x32\x0a\xf3 hel\x09\x00 bw\x05\xb0ld}\x0a\x80\x0f\xa0";
        assert_eq!(unpack(packed).expect("packed"), b"{\\rtf1\\ansi\\ansicpg1252\\pard hello world}\r\n");
    }

    #[test]
    fn a_cut_stream_gives_what_came_before() {
        let packed = b"\x2d\0\0\0\x2b\0\0\0LZFu\xf1\xc5\xc7\xa7\x03\x00\x0a\x00rcpg125";
        assert_eq!(unpack(packed).expect("packed"), b"{\\rtf1\\ansi\\ansicpg125");
        assert_eq!(unpack(b"short"), None);
    }
}
