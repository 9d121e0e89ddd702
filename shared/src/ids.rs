//! Names that do not change: of a document (from where it lies) and of content (from what it is).

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;

/// The SHA-256 of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ContentHash(pub [u8; 32]);

impl ContentHash {
    /// Hashes `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        ContentHash(Sha256::digest(bytes).into())
    }
}

/// Names a document for as long as it lies where it lies: 160 bits of a SHA-256, see [`DocumentId::derive`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DocumentId(pub [u8; 20]);

/// One level of where a document lies: an item's path below its root, or a member's name in its container.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Level {
    /// The raw bytes. Empty for a member without a name.
    pub name: Vec<u8>,
    /// Counts equal names in one container, from 0. For members without a name: their position.
    pub occurrence: u32,
}

/// Where a document lies: the item, then for each container the member in it. Never empty.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Identity(pub Vec<Level>);

impl Identity {
    /// An item of a source, by the raw bytes of its path below the source's root.
    pub fn item(path: &[u8]) -> Self {
        Identity(vec![Level { name: path.to_vec(), occurrence: 0 }])
    }

    /// A member of the container that lies here.
    pub fn member(&self, name: &[u8], occurrence: u32) -> Self {
        let mut levels = self.0.clone();
        levels.push(Level { name: name.to_vec(), occurrence });
        Identity(levels)
    }

    /// Where the container lies, if this is a member.
    pub fn parent(&self) -> Option<Identity> {
        let (_, above) = self.0.split_last()?;
        (!above.is_empty()).then(|| Identity(above.to_vec()))
    }

    /// How many containers are around it: 0 for an item.
    pub fn depth(&self) -> usize {
        self.0.len().saturating_sub(1)
    }

    /// The path as people and programs see it: `/` between components, `!/` where a container is entered. Bytes
    /// that are no UTF-8 show as U+FFFD. A `!` that ends a real component is doubled, so that an odd number of them
    /// before `/` always means "inside". A member without a name shows as `#N`.
    pub fn shown(&self) -> String {
        let mut out = String::new();
        for (n, level) in self.0.iter().enumerate() {
            if n > 0 {
                out.push_str("!/");
            }
            if level.name.is_empty() {
                out.push('#');
                out.push_str(&level.occurrence.to_string());
                continue;
            }
            let name = String::from_utf8_lossy(&level.name);
            for (m, component) in name.split('/').enumerate() {
                if m > 0 {
                    out.push('/');
                }
                let marks = component.len() - component.trim_end_matches('!').len();
                out.push_str(component);
                out.extend(std::iter::repeat_n('!', marks));
            }
        }
        out
    }

    /// The raw bytes behind [`Identity::shown`], levels joined by `!/`, where they are not UTF-8; else `None`.
    pub fn raw_if_not_utf8(&self) -> Option<Vec<u8>> {
        if self.0.iter().all(|l| std::str::from_utf8(&l.name).is_ok()) {
            return None;
        }
        Some(self.0.iter().map(|l| l.name.as_slice()).collect::<Vec<_>>().join(&b"!/"[..]))
    }

    /// A form to store, which [`Identity::decode`] reads: for each level the name's length, the name, the occurrence.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for level in &self.0 {
            out.extend_from_slice(&(level.name.len() as u64).to_be_bytes());
            out.extend_from_slice(&level.name);
            out.extend_from_slice(&level.occurrence.to_be_bytes());
        }
        out
    }

    /// Reads what [`Identity::encode`] wrote; `None` where it is damaged.
    pub fn decode(mut bytes: &[u8]) -> Option<Self> {
        let mut levels = Vec::new();
        while !bytes.is_empty() {
            let (length, rest) = bytes.split_first_chunk::<8>()?;
            let length = usize::try_from(u64::from_be_bytes(*length)).ok()?;
            let (name, rest) = rest.split_at_checked(length)?;
            let (occurrence, rest) = rest.split_first_chunk::<4>()?;
            levels.push(Level { name: name.to_vec(), occurrence: u32::from_be_bytes(*occurrence) });
            bytes = rest;
        }
        (!levels.is_empty()).then_some(Identity(levels))
    }
}

impl DocumentId {
    /// The id of what lies at `identity` in the source of this name. Every part is length-prefixed, so that no two
    /// places share their bytes; the path as shown plays no part.
    pub fn derive(source: &str, identity: &Identity) -> Self {
        let mut hash = Sha256::new();
        hash.update((source.len() as u64).to_be_bytes());
        hash.update(source.as_bytes());
        hash.update(identity.encode());
        let digest: [u8; 32] = hash.finalize().into();
        let mut id = [0; 20];
        id.copy_from_slice(&digest[..20]);
        DocumentId(id)
    }

    /// Reads 40 lower or upper hex digits.
    pub fn parse(hex: &str) -> Option<Self> {
        decode_hex(hex).map(DocumentId)
    }
}

impl ContentHash {
    /// Reads 64 lower or upper hex digits.
    pub fn parse(hex: &str) -> Option<Self> {
        decode_hex(hex).map(ContentHash)
    }
}

fn decode_hex<const N: usize>(hex: &str) -> Option<[u8; N]> {
    let digits = hex.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let mut out = [0; N];
    for (byte, pair) in out.iter_mut().zip(digits.chunks_exact(2)) {
        let high = (pair[0] as char).to_digit(16)?;
        let low = (pair[1] as char).to_digit(16)?;
        *byte = u8::try_from(high << 4 | low).ok()?;
    }
    Some(out)
}

fn write_hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

impl fmt::Display for DocumentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Debug for DocumentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_at_a_components_end_are_doubled_so_that_an_odd_number_means_inside() {
        let shown = |levels: &[&[u8]]| {
            let mut id = Identity::item(levels[0]);
            for name in &levels[1..] {
                id = id.member(name, 0);
            }
            id.shown()
        };
        assert_eq!(shown(&[b"mail/a.eml", b"report.zip", b"q3.pdf"]), "mail/a.eml!/report.zip!/q3.pdf");
        assert_eq!(shown(&[b"wow!/x!!"]), "wow!!/x!!!!");
        assert_eq!(shown(&[b"wow!", b"x"]), "wow!!!/x");
        assert_eq!(shown(&[b"a.zip", b""]), "a.zip!/#0");
        assert_eq!(shown(&[b"bad-\xf1"]), "bad-\u{fffd}");
    }

    #[test]
    fn no_two_places_share_an_id() {
        let a = Identity::item(b"a").member(b"bc", 0);
        let b = Identity::item(b"ab").member(b"c", 0);
        assert_ne!(DocumentId::derive("s", &a), DocumentId::derive("s", &b));
        assert_ne!(DocumentId::derive("s", &a), DocumentId::derive("t", &a));
        assert_ne!(
            DocumentId::derive("s", &Identity::item(b"a").member(b"x", 0)),
            DocumentId::derive("s", &Identity::item(b"a").member(b"x", 1))
        );
    }

    #[test]
    fn what_is_stored_is_read_back_and_damage_is_noticed() {
        let id = Identity::item(b"a/\xff").member(b"", 7).member(b"x", 1);
        let stored = id.encode();
        assert_eq!(Identity::decode(&stored), Some(id));
        assert_eq!(Identity::decode(&stored[..stored.len() - 1]), None);
        assert_eq!(Identity::decode(&[]), None);
    }

    #[test]
    fn hex_is_read_back() {
        let id = DocumentId::derive("s", &Identity::item(b"a"));
        assert_eq!(DocumentId::parse(&id.to_string()), Some(id));
        assert_eq!(DocumentId::parse("xyz"), None);
    }
}
