//! A file of objects: JSON, an object a line, or CSV.

pub(crate) mod progress;
mod read;

use std::fmt;
use std::io::{self, Write};
use std::path::Path;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use clap::ValueEnum;
use serde_json::{Map, Value, json};

pub(crate) use self::read::Entries;
use crate::output::{Format, Output};
use crate::text;

/// How objects are written to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FileFormat {
    /// A JSON object a line: key, value, expires_at_ms
    Jsonl,
    /// Comma-separated values with a heading: key, value, expires_at_ms, encoding
    Csv,
}

/// An object in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
    /// Milliseconds of Unix time.
    pub(crate) expires_at_ms: Option<u64>,
}

/// What the columns of a CSV file are. Bytes that are no text are in base64 then, key and value.
const COLUMNS: [&str; 4] = ["key", "value", "expires_at_ms", "encoding"];
/// In the last column, if key and value are in base64.
const BASE64: &str = "base64";

impl fmt::Display for FileFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Jsonl => "jsonl",
            Self::Csv => "csv",
        })
    }
}

impl FileFormat {
    /// The one that was asked for, or that the name of the file says.
    pub(crate) fn of(asked: Option<Self>, path: &Path) -> Self {
        let is_csv =
            path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv"));
        asked.unwrap_or(if is_csv { Self::Csv } else { Self::Jsonl })
    }

    /// Writes what comes before the first object.
    pub(crate) fn begin(self, file: &mut impl Write) -> io::Result<()> {
        match self {
            Self::Jsonl => Ok(()),
            Self::Csv => Ok(csv::Writer::from_writer(file).write_record(COLUMNS)?),
        }
    }

    /// Writes an object.
    pub(crate) fn write(self, file: &mut impl Write, entry: &Entry) -> io::Result<()> {
        let Entry { key, value, expires_at_ms } = entry;
        match self {
            Self::Jsonl => {
                let mut object = Map::new();
                text::insert(&mut object, "key", key);
                text::insert(&mut object, "value", value);
                if let Some(expires_at_ms) = *expires_at_ms {
                    object.insert("expires_at_ms".to_owned(), expires_at_ms.into());
                }
                serde_json::to_writer(&mut *file, &Value::from(object))?;
                file.write_all(b"\n")
            }
            Self::Csv => {
                let expiry = expires_at_ms.map(|at| at.to_string()).unwrap_or_default();
                let mut csv = csv::Writer::from_writer(file);
                match (std::str::from_utf8(key), std::str::from_utf8(value)) {
                    (Ok(key), Ok(value)) => csv.write_record([key, value, &expiry, ""])?,
                    _ => {
                        let encoded = [key, value].map(|bytes| BASE64_STANDARD.encode(bytes));
                        csv.write_record([&encoded[0], &encoded[1], &expiry, BASE64])?;
                    }
                }
                csv.flush()
            }
        }
    }
}

/// Prints how many objects of a file are done.
pub(crate) fn tell(objects: u64, file: &Path, output: &mut Output) -> io::Result<()> {
    match output.format {
        Format::Table => output.line(format!("{objects} objects of {}", file.display())),
        Format::Raw => output.line(objects.to_string()),
        Format::Json => output.json(&json!({ "file": file.to_string_lossy(), "objects": objects })),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn objects_are_read_as_they_were_written(
            entries in prop::collection::vec(
                (
                    prop_oneof![".{0,12}".prop_map(String::into_bytes), prop::collection::vec(any::<u8>(), 0..12)],
                    prop_oneof![".{0,40}".prop_map(String::into_bytes), prop::collection::vec(any::<u8>(), 0..40)],
                    any::<Option<u64>>(),
                ),
                0..12,
            ),
        ) {
            let entries: Vec<_> = entries
                .into_iter()
                .map(|(key, value, expires_at_ms)| Entry { key, value, expires_at_ms })
                .collect();
            for format in [FileFormat::Jsonl, FileFormat::Csv] {
                let mut file = Vec::new();
                format.begin(&mut file).unwrap();
                for entry in &entries {
                    format.write(&mut file, entry).unwrap();
                }
                let read: Result<Vec<_>, _> = Entries::new(format, &file[..]).unwrap().collect();
                prop_assert_eq!(&read.unwrap(), &entries);
            }
        }
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_first_object() {
        let lines = "\u{feff}{\"key\":\"a\",\"value\":\"b\"}\n";
        let columns = "\u{feff}key,value,expires_at_ms,encoding\na,b,,\n";
        for (format, file) in [(FileFormat::Jsonl, lines), (FileFormat::Csv, columns)] {
            let read: Result<Vec<_>, _> = Entries::new(format, file.as_bytes()).unwrap().collect();
            assert_eq!(read.unwrap()[0].key, b"a");
        }
    }

    #[test]
    fn the_name_of_a_file_says_its_format() {
        let of = |asked, name: &str| FileFormat::of(asked, Path::new(name));
        assert_eq!(of(None, "a.csv"), FileFormat::Csv);
        assert_eq!(of(None, "a.CSV"), FileFormat::Csv);
        assert_eq!(of(None, "a.jsonl"), FileFormat::Jsonl);
        assert_eq!(of(None, "-"), FileFormat::Jsonl);
        assert_eq!(of(Some(FileFormat::Jsonl), "a.csv"), FileFormat::Jsonl);
    }
}
