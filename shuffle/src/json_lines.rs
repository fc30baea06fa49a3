//! Writes records as lines of JSON.

use std::io::{self, Write};

use serde::Serialize;

/// Writes records, each a line of JSON, which ends with `\n`.
///
/// Where to is up to the caller: a file that others must not see before it is whole is written by another name, as `shuffle` does it.
#[derive(Debug)]
pub struct JsonLines<W> {
    out: W,
    lines: u64,
}

impl<W: Write> JsonLines<W> {
    /// Lines are written to `out`, in small pieces: give a [`BufWriter`](std::io::BufWriter).
    pub fn new(out: W) -> JsonLines<W> {
        JsonLines { out, lines: 0 }
    }

    /// Writes a record.
    ///
    /// # Errors
    /// That of what it is written to, and another if it is nothing that JSON has, such as a map whose keys are no texts.
    pub fn write<T: Serialize + ?Sized>(&mut self, record: &T) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, record)?;
        self.out.write_all(b"\n")?;
        self.lines += 1;
        Ok(())
    }

    /// All was written. Returns how many lines there are.
    ///
    /// # Errors
    /// That of what it is written to, if what waits cannot be written.
    pub fn finish(mut self) -> io::Result<u64> {
        self.out.flush()?;
        Ok(self.lines)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(Serialize)]
    struct Counted<'w> {
        word: &'w str,
        count: u64,
    }

    #[test]
    fn each_record_is_a_line() {
        let mut bytes = Vec::new();
        let mut lines = JsonLines::new(&mut bytes);
        lines.write(&Counted { word: "a\n\"b\"", count: u64::MAX }).unwrap();
        lines.write(&(1, 0.1, "größe")).unwrap();
        assert_eq!(lines.finish().unwrap(), 2);
        let expected =
            "{\"word\":\"a\\n\\\"b\\\"\",\"count\":18446744073709551615}\n[1,0.1,\"größe\"]\n";
        assert_eq!(String::from_utf8(bytes).unwrap(), expected);
    }

    #[test]
    fn what_cannot_be_written_is_an_error() {
        let mut room = [0; 3];
        let mut lines = JsonLines::new(&mut room[..]);
        lines.write(&1).unwrap();
        assert_eq!(lines.write(&22).unwrap_err().kind(), io::ErrorKind::WriteZero);
        let no_text = BTreeMap::from([((1, 2), 3)]);
        assert!(JsonLines::new(Vec::new()).write(&no_text).is_err());
    }
}
