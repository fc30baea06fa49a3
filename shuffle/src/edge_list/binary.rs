//! Edges as numbers of 32 or 64 bits, one pair behind the other: no text to parse, and every worker reads its own part alone.
//!
//! `docs/shuffle.md` draws the format.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::text_file::{BinaryProblem, InputError, Share, open_regular};

/// How a file begins. No text does: its first byte is none of UTF-8; and what takes the file for text changes the line end.
const MAGIC: [u8; 8] = *b"\x89WEDGE\r\n";

const VERSION: u32 = 1;

/// Magic, version, bytes of an identifier, and how many edges there are.
const HEADER_BYTES: u64 = 24;

/// Bytes that one system call asks for: whole edges of either width.
const READ_BYTES: u64 = 1 << 20;

/// How wide the identifiers of a file are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    /// Numbers of 32 bits.
    Narrow = 4,
    /// Numbers of 64 bits.
    Wide = 8,
}

impl Width {
    fn of_edge(self) -> u64 {
        2 * self as u64
    }
}

/// The header of a file of `edges` edges.
pub(crate) fn header(width: Width, edges: u64) -> [u8; HEADER_BYTES as usize] {
    let mut header = [0; HEADER_BYTES as usize];
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[12..16].copy_from_slice(&(width as u32).to_le_bytes());
    header[16..].copy_from_slice(&edges.to_le_bytes());
    header
}

/// A file of edges as numbers.
#[derive(Debug)]
pub(super) struct BinaryEdges {
    path: PathBuf,
    file: File,
    width: Width,
    edges: u64,
}

impl BinaryEdges {
    /// Opens the file if it begins as one does.
    pub(super) fn open(path: &Path) -> Result<Option<BinaryEdges>, InputError> {
        let (file, file_bytes) = open_regular(path)
            .map_err(|source| InputError::CannotOpen { path: path.to_owned(), source })?;
        let cannot_read = |source| InputError::CannotRead { path: path.to_owned(), source };
        let mut header = [0; HEADER_BYTES as usize];
        let header = &mut header[..file_bytes.min(HEADER_BYTES) as usize];
        file.read_exact_at(header, 0).map_err(cannot_read)?;
        if !header.starts_with(&MAGIC) {
            return Ok(None);
        }
        let (width, edges) = checked(header, file_bytes).map_err(|(offset, problem)| {
            InputError::MalformedBinary { path: path.to_owned(), offset, problem }
        })?;
        Ok(Some(BinaryEdges { path: path.to_owned(), file, width, edges }))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of all edges.
    pub(super) fn bytes(&self) -> u64 {
        self.edges * self.width.of_edge()
    }

    /// Calls `each` with the edges of the share, a range of the file. Returns how many they are. Adds what is read to `bytes_read`.
    pub(super) fn each<E: From<InputError>>(
        &self,
        share: Share,
        bytes_read: &AtomicU64,
        mut each: impl FnMut(u64, u64) -> Result<(), E>,
    ) -> Result<u64, E> {
        let edge_bytes = self.width.of_edge();
        let edges = share.of_count(self.edges);
        let Range { start, end } = edges;
        let mut buffer = Vec::new();
        let mut at = start;
        while at < end {
            let next = end.min(at + READ_BYTES / edge_bytes);
            buffer.resize(((next - at) * edge_bytes) as usize, 0);
            self.file
                .read_exact_at(&mut buffer, HEADER_BYTES + at * edge_bytes)
                .map_err(|source| InputError::CannotRead { path: self.path.clone(), source })?;
            bytes_read.fetch_add(buffer.len() as u64, Ordering::Relaxed);
            match self.width {
                Width::Narrow => {
                    let numbers = buffer.as_chunks::<4>().0.as_chunks::<2>().0;
                    let number = |bytes: [u8; 4]| u32::from_le_bytes(bytes).into();
                    numbers.iter().try_for_each(|[from, to]| each(number(*from), number(*to)))?;
                }
                Width::Wide => {
                    let numbers = buffer.as_chunks::<8>().0.as_chunks::<2>().0;
                    let number = |bytes: [u8; 8]| u64::from_le_bytes(bytes);
                    numbers.iter().try_for_each(|[from, to]| each(number(*from), number(*to)))?;
                }
            }
            at = next;
        }
        Ok(end - start)
    }
}

/// What a header says of a file of so many bytes, or where the file is wrong, and how.
fn checked(header: &[u8], file_bytes: u64) -> Result<(Width, u64), (u64, BinaryProblem)> {
    let Some(&[version, id_bytes, edges_low, edges_high]) =
        header.get(8..).and_then(|rest| rest.as_chunks::<4>().0.as_array())
    else {
        return Err((file_bytes, BinaryProblem::CutOff { missing: HEADER_BYTES - file_bytes }));
    };
    let version = u32::from_le_bytes(version);
    if version != VERSION {
        return Err((8, BinaryProblem::OtherVersion { found: version }));
    }
    let width = match u32::from_le_bytes(id_bytes) {
        4 => Width::Narrow,
        8 => Width::Wide,
        found => return Err((12, BinaryProblem::OtherWidth { found })),
    };
    let low = u64::from(u32::from_le_bytes(edges_low));
    let edges = u64::from(u32::from_le_bytes(edges_high)) << 32 | low;
    let expected = edges.checked_mul(width.of_edge()).and_then(|all| all.checked_add(HEADER_BYTES));
    let expected = expected.ok_or((16, BinaryProblem::TooManyEdges { found: edges }))?;
    if file_bytes < expected {
        return Err((file_bytes, BinaryProblem::CutOff { missing: expected - file_bytes }));
    }
    if file_bytes > expected {
        return Err((expected, BinaryProblem::MoreBehind { bytes: file_bytes - expected }));
    }
    Ok((width, edges))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge_list::{EdgeList, Summary};
    use crate::text_file::tests::{file_of, share};

    fn bytes_of(width: Width, edges: &[(u64, u64)]) -> Vec<u8> {
        let mut bytes = header(width, edges.len() as u64).to_vec();
        for number in edges.iter().flat_map(|(from, to)| [from, to]) {
            bytes.extend_from_slice(&number.to_le_bytes()[..width as usize]);
        }
        bytes
    }

    fn read(bytes: &[u8], share: Share) -> Result<Vec<(u64, u64)>, InputError> {
        let (file, counter) = (file_of(bytes), AtomicU64::new(0));
        let list = EdgeList::open(file.path())?;
        let mut edges = Vec::new();
        let summary = list.edges(share, &counter, |from, to| edges.push((from, to)))?;
        assert_eq!(summary, Summary { edges: edges.len() as u64, lines: 0 });
        if share == Share::WHOLE {
            assert_eq!(counter.into_inner(), list.bytes_to_read(3), "all is read once");
        }
        Ok(edges)
    }

    fn problem(bytes: &[u8]) -> (u64, BinaryProblem) {
        match read(bytes, Share::WHOLE).unwrap_err() {
            InputError::MalformedBinary { offset, problem, .. } => (offset, problem),
            other => panic!("not about the format: {other:?}"),
        }
    }

    #[test]
    fn edges_of_either_width_are_read_and_shares_add_up() {
        let narrow = [(1, 2), (0, u64::from(u32::MAX)), (3, 3)];
        assert_eq!(read(&bytes_of(Width::Narrow, &narrow), Share::WHOLE).unwrap(), narrow);
        let wide = [(1, 2), (0, u64::MAX), (1 << 40, 7)];
        assert_eq!(read(&bytes_of(Width::Wide, &wide), Share::WHOLE).unwrap(), wide);
        assert_eq!(read(&bytes_of(Width::Wide, &[]), Share::WHOLE).unwrap(), []);
        // Longer than what is read at once.
        let many: Vec<_> = (0..200_000).map(|number| (number, number * 7 % 1000)).collect();
        for width in [Width::Narrow, Width::Wide] {
            let bytes = bytes_of(width, &many);
            for of in [1, 2, 3, 7] {
                let parts: Vec<_> =
                    (0..of).map(|index| read(&bytes, share(index, of)).unwrap()).collect();
                assert!(parts.iter().all(|part| part.len().abs_diff(many.len() / of) <= 1));
                assert!(parts.concat() == many, "{of} shares");
            }
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let whole = bytes_of(Width::Narrow, &[(1, 2), (3, 4)]);
        for len in MAGIC.len()..HEADER_BYTES as usize {
            let missing = HEADER_BYTES - len as u64;
            assert_eq!(problem(&whole[..len]), (len as u64, BinaryProblem::CutOff { missing }));
        }
        for len in HEADER_BYTES as usize..whole.len() {
            let missing = (whole.len() - len) as u64;
            assert_eq!(problem(&whole[..len]), (len as u64, BinaryProblem::CutOff { missing }));
        }
        let longer = [&whole[..], b"x"].concat();
        assert_eq!(problem(&longer), (40, BinaryProblem::MoreBehind { bytes: 1 }));
        let changed = |at: usize, bytes: &[u8]| {
            let mut changed = whole.clone();
            changed[at..at + bytes.len()].copy_from_slice(bytes);
            problem(&changed)
        };
        assert_eq!(changed(8, &[2]), (8, BinaryProblem::OtherVersion { found: 2 }));
        assert_eq!(changed(12, &[5]), (12, BinaryProblem::OtherWidth { found: 5 }));
        let found = u64::MAX;
        assert_eq!(changed(16, &[0xff; 8]), (16, BinaryProblem::TooManyEdges { found }));
        // As many as a file could have, and this one has not: nothing is taken for them.
        let many = (1_u64 << 60).to_le_bytes();
        assert!(matches!(changed(16, &many), (40, BinaryProblem::CutOff { .. })));
    }

    #[test]
    fn an_error_says_what_is_wrong_where_and_what_to_do() {
        let file = file_of(&bytes_of(Width::Narrow, &[(1, 2)])[..30]);
        let expected = format!(
            "{} is no binary edge list from byte 30 on: 2 bytes are missing: it is cut off; fetch or make it again",
            file.path().display()
        );
        assert_eq!(EdgeList::open(file.path()).unwrap_err().to_string(), expected);
    }

    #[test]
    fn a_file_that_becomes_shorter_is_an_error() {
        let file = file_of(&bytes_of(Width::Wide, &[(1, 2), (3, 4)]));
        let list = EdgeList::open(file.path()).unwrap();
        file.as_file().set_len(40).unwrap();
        let read = list.edges(Share::WHOLE, &AtomicU64::new(0), |_, _| {});
        assert!(matches!(read.unwrap_err(), InputError::CannotRead { .. }));
    }

    #[test]
    fn no_line_is_skipped_of_what_has_none() {
        let file = file_of(&bytes_of(Width::Wide, &[(1, 2)])[..39]);
        assert!(EdgeList::open(file.path()).is_err());
        let file = file_of(&bytes_of(Width::Wide, &[(1, 2)]));
        assert_eq!(EdgeList::open(file.path()).unwrap().skip_malformed(9).skipped(), 0);
    }
}
