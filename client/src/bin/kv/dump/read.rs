//! Reading a file of objects, and saying which of them makes no sense.

use std::io::{BufRead, Read};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use weft_protocol::limits::{KEY_MAX, VALUE_MAX};

use super::{BASE64, COLUMNS, Entry, FileFormat};

/// Longer lines are no object, but somebody else's file: the largest value and the longest key, each byte an escape of six.
const LINE_BYTES_MAX: u64 = 6 * (VALUE_MAX + KEY_MAX) as u64 + 1024;

/// The byte order mark of UTF-8.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// What is wrong with an object of a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("object {number} {what}")]
pub(crate) struct MalformedEntry {
    /// Which it is, from 1 on.
    number: u64,
    what: String,
}

/// The objects of a file.
pub(crate) struct Entries<R> {
    source: Source<R>,
    number: u64,
}

enum Source<R> {
    Jsonl { file: R, line: Vec<u8> },
    Csv(csv::ByteRecordsIntoIter<R>),
}

impl<R: BufRead> Entries<R> {
    /// Reads what comes before the first object.
    pub(crate) fn new(format: FileFormat, mut file: R) -> Result<Self, MalformedEntry> {
        // Some editors begin a file with what says that it is UTF-8.
        let begins = file.fill_buf().map_err(|error| malformed(0, &error))?;
        if begins.starts_with(MARK) {
            file.consume(MARK.len());
        }
        let source = match format {
            FileFormat::Jsonl => Source::Jsonl { file, line: Vec::new() },
            FileFormat::Csv => {
                let mut csv = csv::Reader::from_reader(file);
                let heading = csv.byte_headers().map_err(|error| malformed(0, &error))?;
                if heading.iter().ne(COLUMNS.iter().map(|name| name.as_bytes())) {
                    let what = format!("has no heading {}", COLUMNS.join(","));
                    return Err(MalformedEntry { number: 0, what });
                }
                Source::Csv(csv.into_byte_records())
            }
        };
        Ok(Self { source, number: 0 })
    }
}

impl<R: BufRead> Iterator for Entries<R> {
    type Item = Result<Entry, MalformedEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        self.number += 1;
        let number = self.number;
        match &mut self.source {
            Source::Jsonl { file, line } => {
                line.clear();
                match file.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', line) {
                    Ok(0) => return None,
                    Ok(_) => {}
                    Err(error) => return Some(Err(malformed(number, &error))),
                }
                Some(entry_of_json(line).map_err(|what| MalformedEntry { number, what }))
            }
            Source::Csv(records) => Some(match records.next()? {
                Ok(record) => {
                    entry_of_columns(&record).map_err(|what| MalformedEntry { number, what })
                }
                Err(error) => Err(malformed(number, &error)),
            }),
        }
    }
}

fn malformed(number: u64, error: &dyn std::error::Error) -> MalformedEntry {
    MalformedEntry { number, what: format!("cannot be read: {error}") }
}

fn entry_of_json(line: &[u8]) -> Result<Entry, String> {
    if line.len() as u64 == LINE_BYTES_MAX {
        return Err(format!("is a line of more than {LINE_BYTES_MAX} bytes"));
    }
    let value: Value =
        serde_json::from_slice(line).map_err(|error| format!("is no JSON: {error}"))?;
    let bytes = |name: &str| {
        let base64 = format!("{name}_base64");
        match (value.get(name), value.get(&base64)) {
            (Some(Value::String(text)), None) => Ok(text.clone().into_bytes()),
            (None, Some(Value::String(text))) => decoded(text.as_bytes(), &base64),
            _ => Err(format!("has no text {name}, or {base64} in its place")),
        }
    };
    let expires_at_ms = match value.get("expires_at_ms") {
        None | Some(Value::Null) => None,
        Some(at) => Some(at.as_u64().ok_or("has an expires_at_ms that is no whole number")?),
    };
    Ok(Entry { key: bytes("key")?, value: bytes("value")?, expires_at_ms })
}

fn entry_of_columns(record: &csv::ByteRecord) -> Result<Entry, String> {
    let [Some(key), Some(value), Some(expiry), Some(encoding)] =
        [0, 1, 2, 3].map(|column| record.get(column))
    else {
        return Err(format!("has no {} columns", COLUMNS.len()));
    };
    let (key, value) = match encoding {
        b"" => (key.to_vec(), value.to_vec()),
        _ if encoding == BASE64.as_bytes() => (decoded(key, "key")?, decoded(value, "value")?),
        _ => return Err(format!("has an encoding that is neither empty nor {BASE64}")),
    };
    let expires_at_ms = match expiry {
        b"" => None,
        _ => Some(
            std::str::from_utf8(expiry)
                .ok()
                .and_then(|text| text.parse().ok())
                .ok_or("has an expires_at_ms that is no whole number")?,
        ),
    };
    Ok(Entry { key, value, expires_at_ms })
}

fn decoded(text: &[u8], name: &str) -> Result<Vec<u8>, String> {
    BASE64_STANDARD.decode(text).map_err(|error| format!("has a {name} that is no base64: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(format: FileFormat, file: &str) -> String {
        match Entries::new(format, file.as_bytes()) {
            Ok(entries) => entries.collect::<Result<Vec<_>, _>>().expect_err(file).to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let good = r#"{"key":"a","value":"1"}"#;
        for (line, said) in [
            ("", "is no JSON"),
            ("nonsense", "is no JSON"),
            ("[]", "no text key"),
            (r#"{"key":"a"}"#, "no text value"),
            (r#"{"key":1,"value":"1"}"#, "no text key"),
            (r#"{"key":"a","key_base64":"YQ==","value":"1"}"#, "no text key"),
            (r#"{"key":"a","value_base64":"?"}"#, "no base64"),
            (r#"{"key":"a","value":"1","expires_at_ms":-1}"#, "expires_at_ms"),
        ] {
            let said_of = error(FileFormat::Jsonl, &format!("{good}\n{line}\n"));
            assert!(said_of.starts_with("object 2 ") && said_of.contains(said), "{said_of}");
        }
        let heading = "key,value,expires_at_ms,encoding\n";
        assert!(error(FileFormat::Csv, "a,1,,\n").contains("heading"));
        assert!(error(FileFormat::Csv, "").contains("heading"));
        for (line, said) in [
            ("a,1", "cannot be read"),
            ("a,1,soon,", "expires_at_ms"),
            ("a,1,,rot13", "encoding"),
            ("a,?,,base64", "no base64"),
        ] {
            let said_of = error(FileFormat::Csv, &format!("{heading}a,1,,\n{line}\n"));
            assert!(said_of.starts_with("object 2 ") && said_of.contains(said), "{said_of}");
        }
    }
}
