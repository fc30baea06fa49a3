//! Reads points, one a line, one worker's share of them at a time.

use std::path::Path;
use std::sync::atomic::AtomicU64;

use memchr::memchr_iter;

use crate::error::JobError;
use crate::kept_points::KeptPoints;
use crate::text_file::{CHUNK_BYTES, Chunk, Cut, InputError, LineProblem, Share, TextFile};
use crate::worker::Worker;

const CUT: Cut = Cut { chunk_bytes: CHUNK_BYTES, line_bytes_max: CHUNK_BYTES - 1 };

/// A file of comma-separated values, or of numbers with blanks or tabs between, as many in each line as in the first that has some. Blank lines and such as begin with
/// `#` or `%` are skipped. How it is compressed, and how it is shared out, is as with [`TextFile`].
#[derive(Debug)]
pub struct PointFile {
    text: TextFile,
    dimensions: usize,
}

/// Points, one behind the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Points {
    dimensions: usize,
    values: Vec<f64>,
}

impl Points {
    /// Points of so many dimensions.
    ///
    /// # Panics
    /// Unless the values are those of whole points, of at least one dimension.
    pub fn new(dimensions: usize, values: Vec<f64>) -> Points {
        assert!(values.len().is_multiple_of(dimensions), "whole points");
        Points { dimensions, values }
    }

    /// How many numbers a point has.
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// All of them.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[f64]> {
        self.values.chunks_exact(self.dimensions)
    }
}

/// How the search for the first point ends.
enum Search {
    Found,
    Failed(InputError),
}

impl From<InputError> for Search {
    fn from(error: InputError) -> Search {
        Search::Failed(error)
    }
}

impl PointFile {
    /// Opens the file; see [`TextFile::open`].
    ///
    /// # Errors
    /// Those of [`TextFile::open`].
    pub fn open(path: &Path) -> Result<PointFile, InputError> {
        let text = TextFile::open(path)?;
        let mut point = Vec::new();
        let found = text.each_chunk(CUT, Share::WHOLE, &AtomicU64::new(0), |chunk| {
            let is_point = |line: &[u8]| parse(line, &mut point);
            match chunk.bytes.split(|byte| *byte == b'\n').any(is_point) {
                true => Err(Search::Found),
                false => Ok(0),
            }
        });
        let dimensions = match found {
            Err(Search::Found) => point.len(),
            // Without one, any number will do; and what a line that is too long is told is told when its worker comes to it.
            Ok(_) | Err(Search::Failed(InputError::MalformedLine { .. })) => 1,
            Err(Search::Failed(error)) => return Err(error),
        };
        Ok(PointFile { text, dimensions })
    }

    /// The same file, of which up to `limit` malformed lines are skipped and counted; see
    /// [`TextFile::skip_malformed`].
    #[must_use]
    pub fn skip_malformed(self, limit: u64) -> PointFile {
        PointFile { text: self.text.skip_malformed(limit), ..self }
    }

    /// Malformed lines that all workers have skipped, an exchange; see [`TextFile::skipped_in_all`].
    ///
    /// # Errors
    /// Those of [`TextFile::skipped_in_all`].
    pub fn skipped_in_all(&self, worker: &Worker) -> Result<u64, JobError> {
        self.text.skipped_in_all(worker)
    }

    /// See [`TextFile::bytes_to_read`].
    pub fn bytes_to_read(&self, workers: usize) -> u64 {
        self.text.bytes_to_read(workers)
    }

    /// The points of the share, in the order of the file, kept in half of the worker's memory and behind that in a file; what is read is added to `file_bytes_read`, as [`TextFile::lines`] does.
    ///
    /// # Errors
    /// [`InputError::CannotRead`] if the disk fails or the file is cut off or damaged, and [`InputError::MalformedLine`] if a line has another number of numbers than the first, or something
    /// else, and may not be [skipped](Self::skip_malformed); [`JobError::Spill`] if points cannot be kept.
    pub fn points(
        &self,
        worker: &Worker,
        share: Share,
        file_bytes_read: &AtomicU64,
    ) -> Result<KeptPoints, JobError> {
        let mut points = KeptPoints::new(worker, self.dimensions);
        self.each(share, file_bytes_read, |point| points.push(point))?;
        Ok(points)
    }

    fn each<E: From<InputError>>(
        &self,
        share: Share,
        file_bytes_read: &AtomicU64,
        mut each: impl FnMut(&[f64]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut point = Vec::new();
        self.text.each_chunk(CUT, share, file_bytes_read, |Chunk { bytes, begin }| {
            let (mut start, mut lines) = (0, 0);
            for end in memchr_iter(b'\n', bytes) {
                let line = &bytes[start..end];
                if parse(line, &mut point) && point.len() == self.dimensions {
                    each(&point)?;
                } else if !is_passed_over(line) {
                    let problem = LineProblem::NotAPoint { dimensions: self.dimensions };
                    self.text.pass_over(begin, lines, problem, &bytes[start..])?;
                }
                (start, lines) = (end + 1, lines + 1);
            }
            Ok::<_, E>(lines)
        })?;
        Ok(())
    }
}

/// Whether a line is a point, whose numbers are then in `point`.
fn parse(line: &[u8], point: &mut Vec<f64>) -> bool {
    point.clear();
    let Ok(line) = str::from_utf8(line) else { return false };
    let mut take = |field: &str| {
        let number = field.trim_ascii().parse::<f64>().ok().filter(|number| number.is_finite());
        point.extend(number);
        number.is_some()
    };
    let is_point = match line.contains(',') {
        true => line.split(',').all(&mut take),
        false => line.split_ascii_whitespace().all(&mut take),
    };
    is_point && !point.is_empty()
}

fn is_passed_over(line: &[u8]) -> bool {
    matches!(line.trim_ascii(), [] | [b'#' | b'%', ..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text_file::tests::{file_of, malformed, share};

    fn read(text: &[u8], skip: u64) -> Result<Points, InputError> {
        let file = file_of(text);
        read_share(&PointFile::open(file.path())?.skip_malformed(skip), Share::WHOLE)
    }

    fn read_share(file: &PointFile, share: Share) -> Result<Points, InputError> {
        let mut values = Vec::new();
        file.each(share, &AtomicU64::new(0), |point| {
            values.extend_from_slice(point);
            Ok::<_, InputError>(())
        })?;
        Ok(Points::new(file.dimensions, values))
    }

    #[test]
    fn numbers_are_set_apart_by_commas_or_blanks() {
        let text = b"# x, y\n1,2\n% more\n\n 3 , -4e2\r\n5 6\n\t7\t8.5\r\n  # end\n9,10";
        let expected = [1.0, 2.0, 3.0, -400.0, 5.0, 6.0, 7.0, 8.5, 9.0, 10.0];
        assert_eq!(read(text, 0).unwrap(), Points::new(2, expected.to_vec()));
        for text in [&b""[..], b"\n", b"# nothing"] {
            assert_eq!(read(text, 0).unwrap().iter().len(), 0);
        }
    }

    #[test]
    fn what_is_no_point_is_told_or_skipped() {
        for line in
            ["1", "1,2,3", "1,", ",1", "1,,2", "x,y", "1,nan", "1,inf", "1 2,3 4", "1;2", "0x1,2"]
        {
            let text = format!("1,2\n{line}\n3,4\n");
            let (number, found, problem) = malformed(read(text.as_bytes(), 0).unwrap_err());
            assert_eq!((number, found.as_str()), (2, line));
            assert_eq!(problem, LineProblem::NotAPoint { dimensions: 2 });
            assert_eq!(read(text.as_bytes(), 1).unwrap().iter().len(), 2, "{line}");
        }
        let (number, _, problem) = malformed(read(b"x,y\n1,2\n", 0).unwrap_err());
        assert_eq!((number, problem), (1, LineProblem::NotAPoint { dimensions: 2 }));
        assert_eq!(malformed(read(b"1,2\n\xff,2\n", 0).unwrap_err()).0, 2);
    }

    #[test]
    fn the_first_point_may_come_late_and_across_two_chunks() {
        for comments in [CHUNK_BYTES / 100, CHUNK_BYTES / 50] {
            let text = ["#".repeat(97) + "\n", "1,2,3\n4,5,6\n".to_owned()];
            let text = text[0].repeat(comments) + &text[1].repeat(40_000);
            let points = read(text.as_bytes(), 0).unwrap();
            assert_eq!((points.dimensions(), points.iter().len()), (3, 80_000));
        }
    }

    #[test]
    fn shares_add_up_to_all() {
        let text: String =
            (0..200_000).map(|number| format!("{number},{}\n", number % 7)).collect();
        let file = file_of(text.as_bytes());
        let points = PointFile::open(file.path()).unwrap();
        let of = |index| read_share(&points, share(index, 3)).unwrap();
        let mut all: Vec<f64> = (0..3).flat_map(|index| of(index).values).step_by(2).collect();
        all.sort_by(f64::total_cmp);
        assert!(all.into_iter().eq((0..200_000).map(f64::from)));
    }
}
