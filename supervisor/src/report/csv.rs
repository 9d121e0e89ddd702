//! Objects as rows of CSV: the same columns, nested values as JSON text, `null` as nothing.

use serde_json::Value;
use std::io;

/// The header.
///
/// # Errors
/// Never in practice: it is written to memory.
pub fn header(columns: &[&str]) -> io::Result<String> {
    row(columns.iter().map(|column| (*column).to_owned()))
}

/// One object, by these columns.
///
/// # Errors
/// As [`header`].
pub fn object(columns: &[&str], object: &Value) -> io::Result<String> {
    row(columns.iter().map(|column| match &object[*column] {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }))
}

fn row(cells: impl Iterator<Item = String>) -> io::Result<String> {
    let mut writer =
        csv::WriterBuilder::new().terminator(csv::Terminator::Any(b'\n')).from_writer(Vec::new());
    writer.write_record(cells).map_err(io::Error::other)?;
    let bytes = writer.into_inner().map_err(|error| io::Error::other(error.to_string()))?;
    let mut line = String::from_utf8(bytes).map_err(io::Error::other)?;
    line.truncate(line.trim_end_matches('\n').len());
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn cells_are_quoted_and_nested_values_are_json() {
        let value = json!({"a": "x,\"y\"\n", "b": null, "c": {"d": 1}, "e": 7});
        assert_eq!(header(&["a", "b", "c", "e"]).unwrap(), "a,b,c,e");
        assert_eq!(object(&["a", "b", "c", "e"], &value).unwrap(), "\"x,\"\"y\"\"\n\",,\"{\"\"d\"\":1}\",7");
    }
}
