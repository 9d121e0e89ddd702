//! Objects as rows of CSV (RFC 4180): the same columns, nested values as JSON text, `null` as nothing.
//!
//! Names and messages come from hostile documents, and a spreadsheet takes a cell that begins like a formula for one: such a
//! cell gets a `'` in front, which spreadsheets show as text.

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
        Value::String(text) => no_formula(text),
        other => other.to_string(),
    }))
}

/// The text, with a `'` in front where it begins like a formula.
fn no_formula(text: &str) -> String {
    // The wide forms as well: where these are typed, spreadsheets take them for the plain ones.
    if text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠']) {
        return ["'", text].concat();
    }
    text.to_owned()
}

/// One row. It ends with the CR of its line end; the LF is the printer's.
fn row(cells: impl Iterator<Item = String>) -> io::Result<String> {
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    writer.write_record(cells).map_err(io::Error::other)?;
    let bytes = writer.into_inner().map_err(|error| io::Error::other(error.to_string()))?;
    let mut line = String::from_utf8(bytes).map_err(io::Error::other)?;
    line.pop();
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn cells_are_quoted_and_nested_values_are_json() {
        let value = json!({"a": "x,\"y\"\n", "b": null, "c": {"d": 1}, "e": 7});
        assert_eq!(header(&["a", "b", "c", "e"]).unwrap(), "a,b,c,e\r");
        assert_eq!(
            object(&["a", "b", "c", "e"], &value).unwrap(),
            "\"x,\"\"y\"\"\n\",,\"{\"\"d\"\":1}\",7\r"
        );
    }

    #[test]
    fn what_begins_like_a_formula_is_text() {
        let cells = json!({"a": "=1+1", "b": "+1", "c": "-1", "d": "@x", "e": "\tx", "f": "\rx", "g": -1, "h": "a=b"});
        let columns = ["a", "b", "c", "d", "e", "f", "g", "h"];
        assert_eq!(object(&columns, &cells).unwrap(), "'=1+1,'+1,'-1,'@x,'\tx,\"'\rx\",-1,a=b\r");
        assert_eq!(object(&["a"], &json!({"a": "Ünï \u{1f980}\n"})).unwrap(), "\"Ünï \u{1f980}\n\"\r");
        assert_eq!(object(&["a", "b"], &json!({"a": "＝1", "b": "\n=1"})).unwrap(), "'＝1,\"'\n=1\"\r");
        assert_eq!(object(&["a"], &json!({"a": null})).unwrap(), "\"\"\r");
    }
}
