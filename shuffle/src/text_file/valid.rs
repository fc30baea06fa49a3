//! What of a chunk is text.

use memchr::{memchr, memrchr};

use super::{InputError, LineProblem, TextFile};

/// Calls `each` with the lines of a chunk, which begins at `begin` of the text, of which some are no text: these are malformed, and those between two of them come at once. `each` says how many
/// lines it was given; returns how many there are.
#[cold]
pub(super) fn each_text<E: From<InputError>>(
    file: &TextFile,
    begin: u64,
    chunk: &[u8],
    mut each: impl FnMut(&str) -> Result<u64, E>,
) -> Result<u64, E> {
    let (mut rest, mut count) = (chunk, 0);
    while let Some(part) = rest.utf8_chunks().next() {
        let valid = part.valid();
        let line_start = match part.invalid() {
            [] => valid.len(),
            _ => memrchr(b'\n', valid.as_bytes()).map_or(0, |before| before + 1),
        };
        count += each(&valid[..line_start])?;
        rest = &rest[line_start..];
        if let Some(line_end) = memchr(b'\n', rest) {
            file.pass_over(begin, count, LineProblem::NotUtf8, rest)?;
            count += 1;
            rest = &rest[line_end + 1..];
        }
    }
    Ok(count)
}
