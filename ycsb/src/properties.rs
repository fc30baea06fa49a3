//! YCSB's properties: names with values, from files in Java's `.properties` format in the order
//! given, overridden by the command line. Reading a setting parses it, and says what is wrong with
//! it and what to do.

mod known;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use thiserror::Error;

pub(crate) use known::{KNOWN, Property};

/// Bytes of a properties file. Upstream's have 3 KB; more is another file, or one without an end.
const FILE_MAX: u64 = 1 << 20;

/// Why a run cannot begin: the command or its properties are wrong. Exit code 2.
#[derive(Debug, Error)]
pub(crate) enum UsageError {
    #[error(
        "cannot read property file {path}: {reason}; give the path of a workload file, such as \
         ycsb/workloads/workloada"
    )]
    File { path: PathBuf, reason: io::Error },
    #[error(
        "property file {path} is longer than 1 MiB; give the path of a workload file, such as \
         ycsb/workloads/workloada"
    )]
    FileTooLong { path: PathBuf },
    #[error("cannot write the report to {path}: {reason}; give another -p exportfile=FILE")]
    ExportFile { path: PathBuf, reason: io::Error },
    #[error("{path}, line {line}: `{text}` is not a valid escape; write \\\\ for a backslash")]
    Escape { path: PathBuf, line: usize, text: String },
    #[error("`-p {given}` names no value; write -p name=value")]
    Override { given: String },
    #[error("property {name} = `{value}` is not {expected}; {advice}")]
    Value { name: &'static str, value: String, expected: String, advice: String },
    #[error("property {name} is missing; give it by -p {name}=VALUE or in a file by -P: {meaning}")]
    Missing { name: &'static str, meaning: &'static str },
    #[error("{what}; {advice}")]
    Conflict { what: String, advice: &'static str },
}

/// Names with values, the last setting of a name holding.
#[derive(Clone, Debug, Default)]
pub(crate) struct Properties {
    values: BTreeMap<String, String>,
}

impl Properties {
    /// Adds what is in the file at `path`.
    #[expect(clippy::disallowed_methods, reason = "settings are read once, before the run")]
    pub(crate) fn read_file(&mut self, path: &Path) -> Result<(), UsageError> {
        let file = |reason| UsageError::File { path: path.to_owned(), reason };
        let mut bytes = Vec::new();
        let opened = std::fs::File::open(path).map_err(file)?;
        opened.take(FILE_MAX + 1).read_to_end(&mut bytes).map_err(file)?;
        if bytes.len() as u64 > FILE_MAX {
            return Err(UsageError::FileTooLong { path: path.to_owned() });
        }
        let text = String::from_utf8(bytes)
            .map_err(|error| file(io::Error::new(io::ErrorKind::InvalidData, error)))?;
        for (line, entry) in logical_lines(&text) {
            let (name, value) = split_entry(&entry);
            let escape = |text: String| UsageError::Escape { path: path.to_owned(), line, text };
            self.set(&unescape(name).map_err(escape)?, &unescape(value).map_err(escape)?);
        }
        Ok(())
    }

    /// Adds `name=value`, as given on the command line.
    pub(crate) fn read_override(&mut self, given: &str) -> Result<(), UsageError> {
        match given.split_once('=') {
            Some((name, value)) if !name.trim().is_empty() => {
                self.set(name.trim(), value);
                Ok(())
            }
            _ => Err(UsageError::Override { given: given.to_owned() }),
        }
    }

    /// Trailing blanks, which Java keeps, are never meant: they are dropped.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.values.insert(name.to_owned(), value.trim().to_owned());
    }

    /// The value given, or else the documented default. An empty value counts as not given.
    pub(crate) fn text(&self, name: &'static str) -> Option<&str> {
        let given = self.values.get(name).map(String::as_str).filter(|value| !value.is_empty());
        given.or(Property::named(name).default)
    }

    /// Whether the property is given as nothing, which where the default would be a surprise is
    /// not the same as not given.
    pub(crate) fn is_given_empty(&self, name: &'static str) -> bool {
        self.values.get(name).is_some_and(String::is_empty)
    }

    /// As [`Properties::text`], for a property that must have a value.
    pub(crate) fn required(&self, name: &'static str) -> Result<&str, UsageError> {
        let missing = UsageError::Missing { name, meaning: Property::named(name).meaning };
        self.text(name).ok_or(missing)
    }

    /// A number, where the default is one or the property must be given.
    pub(crate) fn number<T: Number>(&self, name: &'static str) -> Result<T, UsageError> {
        let value = self.required(name)?;
        match value.parse() {
            Ok(number) if T::is_valid(&number) => Ok(number),
            _ => Err(self.wrong(name, T::EXPECTED)),
        }
    }

    /// As [`Properties::number`], for a property that may be left out.
    pub(crate) fn optional_number<T: Number>(
        &self,
        name: &'static str,
    ) -> Result<Option<T>, UsageError> {
        self.text(name).map(|_| self.number(name)).transpose()
    }

    pub(crate) fn flag(&self, name: &'static str) -> Result<bool, UsageError> {
        self.choice(name, &[("true", true), ("false", false)])
    }

    /// One of several words, in any case.
    pub(crate) fn choice<T: Copy>(
        &self,
        name: &'static str,
        words: &[(&str, T)],
    ) -> Result<T, UsageError> {
        let value = self.required(name)?;
        let found = words.iter().find(|(word, _)| word.eq_ignore_ascii_case(value));
        found.map(|&(_, choice)| choice).ok_or_else(|| {
            let words: Vec<&str> = words.iter().map(|&(word, _)| word).collect();
            self.wrong(name, format!("one of {}", words.join(", ")))
        })
    }

    /// The error of a property whose value is not what was expected.
    pub(crate) fn wrong(&self, name: &'static str, expected: impl Display) -> UsageError {
        let property = Property::named(name);
        let advice = match property.default {
            Some(default) => format!("it is {} (default {default})", property.meaning),
            None => format!("it is {}", property.meaning),
        };
        let given = self.values.get(name).map(String::as_str);
        let value = given.or(property.default).unwrap_or_default().to_owned();
        UsageError::Value { name, value, expected: expected.to_string(), advice }
    }

    /// What should be said about names that do nothing, one line a name.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.values.keys().filter_map(|name| known::warning(name)).collect()
    }
}

/// Numbers that properties hold; none is negative.
pub(crate) trait Number: FromStr {
    const EXPECTED: &str;

    fn is_valid(&self) -> bool;
}

impl Number for u64 {
    const EXPECTED: &str = "a whole number of 0 or more";

    fn is_valid(&self) -> bool {
        true
    }
}

impl Number for usize {
    const EXPECTED: &str = "a whole number of 0 or more";

    fn is_valid(&self) -> bool {
        true
    }
}

impl Number for f64 {
    const EXPECTED: &str = "a number of 0 or more";

    fn is_valid(&self) -> bool {
        self.is_finite() && *self >= 0.0
    }
}

/// Lines joined where a backslash ends them, with the number of the first, without comments and
/// blank lines.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut entries = Vec::new();
    let mut lines = text.lines().map(str::trim_start).zip(1..);
    while let Some((line, number)) = lines.next() {
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        let mut entry = line.to_owned();
        while ends_in_continuation(&entry) {
            entry.pop();
            match lines.next() {
                Some((line, _)) => entry.push_str(line),
                None => break,
            }
        }
        entries.push((number, entry));
    }
    entries
}

/// An odd number of backslashes at the end: an even one is escaped backslashes.
fn ends_in_continuation(line: &str) -> bool {
    line.bytes().rev().take_while(|&byte| byte == b'\\').count() % 2 == 1
}

/// Name and value, divided by the first `=`, `:` or blank that is not escaped.
fn split_entry(entry: &str) -> (&str, &str) {
    let mut escaped = false;
    let end = entry.find(|character: char| {
        let divides = !escaped && (character.is_whitespace() || matches!(character, '=' | ':'));
        escaped = character == '\\' && !escaped;
        divides
    });
    let (name, rest) = entry.split_at(end.unwrap_or(entry.len()));
    let rest = rest.trim_start();
    (name, rest.strip_prefix(['=', ':']).unwrap_or(rest).trim_start())
}

/// Resolves Java's escapes; the error is the escape that is none.
fn unescape(text: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        if character != '\\' {
            plain.push(character);
            continue;
        }
        plain.push(match rest.next() {
            Some('t') => '\t',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('f') => '\u{C}',
            Some('u') => {
                let digits: String = rest.by_ref().take(4).collect();
                let code = u32::from_str_radix(&digits, 16).ok();
                let complete = code.filter(|_| digits.len() == 4);
                complete.and_then(char::from_u32).ok_or(format!("\\u{digits}"))?
            }
            Some(other) => other,
            None => break,
        });
    }
    Ok(plain)
}

#[cfg(test)]
mod tests;
