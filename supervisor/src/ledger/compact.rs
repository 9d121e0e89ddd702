//! Short forms for what is stored as JSON: hashes and ids as hex, an identity as base64 of its stored form. Without
//! them each byte would be a number with a comma.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use shared::{ContentHash, DocumentId, Identity};

/// What has a short form.
pub(super) trait Short: Sized {
    fn short(&self) -> String;
    fn long(text: &str) -> Option<Self>;
}

impl Short for ContentHash {
    fn short(&self) -> String {
        self.to_string()
    }

    fn long(text: &str) -> Option<Self> {
        ContentHash::parse(text)
    }
}

impl Short for DocumentId {
    fn short(&self) -> String {
        self.to_string()
    }

    fn long(text: &str) -> Option<Self> {
        DocumentId::parse(text)
    }
}

impl Short for Identity {
    fn short(&self) -> String {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD_NO_PAD.encode(self.encode())
    }

    fn long(text: &str) -> Option<Self> {
        use base64::Engine as _;
        Identity::decode(&base64::engine::general_purpose::STANDARD_NO_PAD.decode(text).ok()?)
    }
}

pub(super) fn serialize<T: Short, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    value.short().serialize(to)
}

pub(super) fn deserialize<'de, T: Short, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    let text = String::deserialize(from)?;
    T::long(&text).ok_or_else(|| D::Error::custom("a damaged short form"))
}

/// The same for what may be absent.
pub(super) mod option {
    use super::Short;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(in crate::ledger) fn serialize<T: Short, S: Serializer>(
        value: &Option<T>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        value.as_ref().map(Short::short).serialize(to)
    }

    pub(in crate::ledger) fn deserialize<'de, T: Short, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<T>, D::Error> {
        let Some(text) = Option::<String>::deserialize(from)? else { return Ok(None) };
        T::long(&text).map(Some).ok_or_else(|| D::Error::custom("a damaged short form"))
    }
}
