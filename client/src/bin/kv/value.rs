//! Where a value comes from: the command line, stdin or a file.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::{fs, io};

use anyhow::Context;
use clap::builder::BoolishValueParser;

use crate::text::Bytes;

/// A value among the arguments of a command.
#[derive(Debug, clap::Args)]
pub(crate) struct ValueArgument {
    /// The value; `-` reads it from stdin, `@FILE` from a file
    #[arg(allow_negative_numbers = true)]
    value: Bytes,

    /// Take the value as it is typed, `-` and `@` included
    #[arg(long, env = "WEFT_LITERAL", value_parser = BoolishValueParser::new())]
    literal: bool,
}

impl ValueArgument {
    /// The value.
    pub(crate) fn read(self) -> anyhow::Result<Vec<u8>> {
        Source::of(self.value.into_vec(), self.literal).read()
    }
}

/// What was typed for a value.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The bytes themselves.
    Typed(Vec<u8>),
    /// `-`
    Stdin,
    /// `@FILE`
    File(PathBuf),
}

impl Source {
    /// Takes `-` and `@FILE` for what they stand for, unless the value is meant as it is.
    pub(crate) fn of(typed: Vec<u8>, literal: bool) -> Self {
        match typed.as_slice() {
            _ if literal => Self::Typed(typed),
            b"-" => Self::Stdin,
            [b'@', path @ ..] => Self::File(OsString::from_vec(path.to_vec()).into()),
            _ => Self::Typed(typed),
        }
    }

    /// The value.
    #[expect(clippy::disallowed_methods, reason = "this is where values come from")]
    pub(crate) fn read(self) -> anyhow::Result<Vec<u8>> {
        match self {
            Self::Typed(bytes) => Ok(bytes),
            Self::Stdin => {
                let mut bytes = Vec::new();
                io::stdin()
                    .lock()
                    .read_to_end(&mut bytes)
                    .context("cannot read the value from stdin")?;
                Ok(bytes)
            }
            Self::File(path) => fs::read(&path).with_context(|| {
                format!(
                    "cannot read the value from {} (give --literal if `@` is part of the value)",
                    path.display()
                )
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_typed_or_read() {
        let of = |text: &str, literal| Source::of(text.as_bytes().to_vec(), literal);
        assert_eq!(of("hello", false), Source::Typed(b"hello".to_vec()));
        assert_eq!(of("", false), Source::Typed(Vec::new()));
        assert_eq!(of("-", false), Source::Stdin);
        assert_eq!(of("@a/b", false), Source::File("a/b".into()));
        assert_eq!(of("@a/b", true), Source::Typed(b"@a/b".to_vec()));
        assert_eq!(of("-", true), Source::Typed(b"-".to_vec()));
    }
}
