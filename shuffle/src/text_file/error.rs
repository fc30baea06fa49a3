//! What can be wrong with an input: where, what was found there, and what to do.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// As much of a line as a message shows, in bytes.
const EXCERPT_BYTES_MAX: usize = 40;

/// Why an input could not be read.
#[derive(Debug, Error)]
pub enum InputError {
    /// There is no such file, it may not be read, or it is none.
    #[error("cannot open {}; {}", path.display(), to_open(source))]
    CannotOpen {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The disk failed, or the file is cut off or damaged.
    #[error("cannot read {} to its end; {}", path.display(), to_read(source))]
    CannotRead {
        /// Which file.
        path: PathBuf,
        /// What the system or the decompressor said.
        #[source]
        source: io::Error,
    },
    /// A file of records that are all equally long does not end with one.
    #[error("{} has {file_bytes} bytes, which are no records of {record_bytes} bytes: it is cut off, or something else", path.display())]
    PartialRecord {
        /// Which file.
        path: PathBuf,
        /// Its bytes.
        file_bytes: u64,
        /// Those of a record.
        record_bytes: usize,
    },
    /// A file begins as a binary edge list does, and goes on as none.
    #[error("{} is no binary edge list from byte {offset} on: {problem}", path.display())]
    MalformedBinary {
        /// Which file.
        path: PathBuf,
        /// Where what is wrong begins, in bytes.
        offset: u64,
        /// What is wrong.
        problem: BinaryProblem,
    },
    /// A line is not what the input has to have: no text, or of an edge list, neither an edge nor a comment
    /// nor blank.
    #[error("line {line} of {} {problem}; it reads \"{found}\"{}", path.display(), before(*skipped))]
    MalformedLine {
        /// Which file.
        path: PathBuf,
        /// Which line of the text, counted from 1.
        line: u64,
        /// How the line begins, in ASCII: other bytes are escaped.
        found: String,
        /// What is wrong with it.
        problem: LineProblem,
        /// Malformed lines that were skipped before, as many as were allowed.
        skipped: u64,
    },
    /// Workers have skipped more malformed lines together than were allowed.
    #[error("{} has {found} malformed lines, where {limit} may be skipped", path.display())]
    TooManyMalformed {
        /// Which file.
        path: PathBuf,
        /// Malformed lines of all workers' shares.
        found: u64,
        /// How many may be skipped.
        limit: u64,
    },
}

/// What is wrong with a binary edge list.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum BinaryProblem {
    /// It ends before its header says.
    #[error("{missing} bytes are missing: it is cut off; fetch or make it again")]
    CutOff {
        /// Bytes that are not there.
        missing: u64,
    },
    /// It goes on behind the last edge that its header counts.
    #[error("{bytes} bytes are behind its last edge; make it again")]
    MoreBehind {
        /// How many there are.
        bytes: u64,
    },
    /// It has another version.
    #[error(
        "expected version 1, and it has version {found}: a newer program made it, or it is damaged"
    )]
    OtherVersion {
        /// Which.
        found: u32,
    },
    /// Its identifiers are of no width that there is.
    #[error("expected identifiers of 4 or 8 bytes, and it has such of {found}: it is damaged")]
    OtherWidth {
        /// Bytes that they have.
        found: u32,
    },
    /// It counts more edges than a file can have.
    #[error("no file has {found} edges: it is damaged")]
    TooManyEdges {
        /// How many.
        found: u64,
    },
}

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum LineProblem {
    /// It does not begin with two numbers.
    #[error(
        "is no edge: expected two decimal numbers with blanks or tabs between, or # or % first"
    )]
    NotAnEdge,
    /// It is not as many numbers as the first line of points has.
    #[error(
        "is no point: expected numbers with commas, blanks or tabs between, {dimensions} as the first point has, or # or % first"
    )]
    NotAPoint {
        /// How many numbers the first point of the file has.
        dimensions: usize,
    },
    /// A number does not fit into 64 bits.
    #[error("has too large a number: expected vertices from 0 to {}", u64::MAX)]
    NumberTooLarge,
    /// It has bytes that are no UTF-8.
    #[error("is no text: expected UTF-8, as `iconv --to-code=UTF-8` makes it")]
    NotUtf8,
    /// It is longer than a line may be.
    #[error("is too long: expected a line of text of at most {limit} bytes")]
    TooLong {
        /// The most that a line may have, in bytes.
        limit: usize,
    },
    /// A quoted field does not end in it.
    #[error("ends within quotes: a field must have no line break, as lines are read apart")]
    LineBreakInQuotes,
    /// It has not as many fields as the first line has names.
    #[error("has {found} fields: expected {expected}, as many as the first line")]
    OtherFieldCount {
        /// How many it has.
        found: usize,
        /// How many names there are.
        expected: usize,
    },
    /// Its fields are not those of the record that they are to be.
    #[error("is not the record that was expected{}", of_field(*field))]
    NotTheRecord {
        /// Which field is something else, counted from 1, where that can be told.
        field: Option<u64>,
    },
    /// It begins a file of Matrix Market, whose first line of numbers is a size and would pass for an
    /// edge.
    #[error("begins a Matrix Market file: expected edges only; remove all before its first entry")]
    MatrixMarket,
}

/// The beginning of a line, such that a terminal can show it whatever the file is.
pub(super) fn excerpt(line: &[u8]) -> String {
    let end = line.iter().position(|byte| *byte == b'\n').unwrap_or(line.len());
    let line = line[..end].strip_suffix(b"\r").unwrap_or(&line[..end]);
    if line.len() <= EXCERPT_BYTES_MAX {
        return line.escape_ascii().to_string();
    }
    format!("{}…", line[..EXCERPT_BYTES_MAX].escape_ascii())
}

fn before(skipped: u64) -> String {
    match skipped {
        0 => String::new(),
        1 => "; 1 malformed line before it was skipped".to_owned(),
        _ => format!("; {skipped} malformed lines before it were skipped"),
    }
}

fn of_field(field: Option<u64>) -> String {
    field.map_or_else(String::new, |field| format!(": look at field {field}"))
}

fn to_open(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "check the path",
        io::ErrorKind::PermissionDenied => "check its permissions",
        _ => "give a regular file: every worker reads it from its beginning",
    }
}

fn to_read(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "it is cut off: fetch it again",
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => "it is damaged: fetch it again",
        io::ErrorKind::Unsupported => "compress it again without --long and without a dictionary",
        _ => "check the disk",
    }
}
