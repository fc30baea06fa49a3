//! Keys and values between bytes, which they are, and text, which people type and read.

use std::ffi::OsString;
use std::ops::Deref;
use std::os::unix::ffi::OsStringExt;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use clap::builder::{MapValueParser, OsStringValueParser, TypedValueParser, ValueParserFactory};
use serde_json::{Map, Value};

/// An argument as it was typed, UTF-8 or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bytes(Vec<u8>);

impl Bytes {
    pub(crate) fn into_vec(self) -> Vec<u8> {
        self.0
    }
}

impl ValueParserFactory for Bytes {
    type Parser = MapValueParser<OsStringValueParser, fn(OsString) -> Bytes>;

    fn value_parser() -> Self::Parser {
        OsStringValueParser::new().map(|typed| Self(typed.into_vec()))
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// For people: as it is if it is plain text, with escapes if it is not.
pub(crate) fn readable(bytes: &[u8]) -> String {
    let is_plain = |text: &&str| !text.contains(|c: char| c.is_control() && c != '\n' && c != '\t');
    match std::str::from_utf8(bytes).ok().filter(is_plain) {
        Some(text) => text.to_owned(),
        None => bytes.escape_ascii().to_string(),
    }
}

/// As much of a key or value as a line of a table or a message has room for.
const CHARS_MAX: usize = 60;

/// In one line of a table, and not too much of it.
pub(crate) fn abridged(bytes: &[u8]) -> String {
    abridged_of(bytes, bytes.len())
}

/// The same of something `len` bytes long, of which only the beginning is there.
pub(crate) fn abridged_of(beginning: &[u8], len: usize) -> String {
    let text = readable(beginning).replace('\n', "\\n").replace('\t', "\\t");
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}… ({len} bytes)", &text[..end]),
        None => text,
    }
}

/// In a message: in quotes, and not too much of it.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    let text = readable(bytes);
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{:?}… ({} bytes)", &text[..end], bytes.len()),
        None => format!("{text:?}"),
    }
}

/// For programs: `name` with the text, or `name_base64` if the bytes are no text.
pub(crate) fn insert(object: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => object.insert(name.to_owned(), text.into()),
        Err(_) => object.insert(format!("{name}_base64"), BASE64_STANDARD.encode(bytes).into()),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_see_no_control_characters() {
        assert_eq!(readable("weft é\n".as_bytes()), "weft é\n");
        assert_eq!(readable(b"\x1b[31m"), "\\x1b[31m");
        assert_eq!(readable(&[0xff, b'a']), "\\xffa");
        assert_eq!(abridged(b"a\nb"), "a\\nb");
        assert_eq!(abridged(&[b'x'; 100]), format!("{}… (100 bytes)", "x".repeat(60)));
        assert_eq!(quoted(b"a\nb"), "\"a\\nb\"");
        assert_eq!(quoted(&[b'x'; 65_536]), format!("\"{}\"… (65536 bytes)", "x".repeat(60)));
    }

    #[test]
    fn programs_get_every_byte() {
        let mut object = Map::new();
        insert(&mut object, "key", b"warp");
        insert(&mut object, "value", &[0xff, 0x00]);
        assert_eq!(Value::from(object).to_string(), r#"{"key":"warp","value_base64":"/wA="}"#);
    }
}
