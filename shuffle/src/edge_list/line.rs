//! Parses the lines of a chunk, without a look at UTF-8 and without an allocation.

mod plain;

use memchr::memchr;

use self::plain::{PLAIN_LINE_BYTES_MAX, each_plain_line};
use crate::text_file::LineProblem;

/// No number of so many digits is too large.
const SAFE_DIGITS: usize = 19;

/// Lines that are parsed one by one when one has come that is not plain: most likely there are more of them.
const LINES_BEFORE_PLAIN: u64 = 64;

/// What a chunk had.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Parsed {
    pub(super) edges: u64,
    pub(super) lines: u64,
}

/// Calls `each` with the edges of a chunk that ends with a line end, and `malformed` for a line that is
/// none of an edge list, with the lines of the chunk before it, and what follows it behind it.
pub(super) fn parse<E>(
    chunk: &[u8],
    line_bytes_max: usize,
    each: &mut impl FnMut(u64, u64) -> Result<(), E>,
    malformed: impl Fn(u64, LineProblem, &[u8]) -> Result<(), E>,
) -> Result<Parsed, E> {
    let mut parsed = Parsed::default();
    let mut rest = chunk;
    let mut plain_from = if line_bytes_max < PLAIN_LINE_BYTES_MAX { u64::MAX } else { 0 };
    while !rest.is_empty() {
        if parsed.lines >= plain_from {
            let (lines, behind) = each_plain_line(rest, each)?;
            parsed.edges += lines;
            parsed.lines += lines;
            plain_from = parsed.lines + LINES_BEFORE_PLAIN;
            // Never the whole: a plain line is one of a window that is longer.
            rest = behind;
        }
        let next = match first_line(rest, line_bytes_max) {
            Ok((None, next)) => next,
            Ok((Some((source, target)), next)) => {
                each(source, target)?;
                parsed.edges += 1;
                next
            }
            Err(problem) => {
                malformed(parsed.lines, problem, rest)?;
                after_line_end(rest)
            }
        };
        parsed.lines += 1;
        rest = next;
    }
    Ok(parsed)
}

type Edge = (u64, u64);

/// The edge of the first line, if it has one, and the lines after it.
fn first_line(text: &[u8], bytes_max: usize) -> Result<(Option<Edge>, &[u8]), LineProblem> {
    let (edge, next) = first_edge(text)?;
    // The line end does not count.
    if text.len() - next.len() > bytes_max + 1 {
        return Err(LineProblem::TooLong { limit: bytes_max });
    }
    Ok((edge, next))
}

/// The same, however long the line is.
fn first_edge(text: &[u8]) -> Result<(Option<Edge>, &[u8]), LineProblem> {
    let text = after_blanks(text);
    match text {
        [b'0'..=b'9', ..] => {}
        [b'\n', next @ ..] | [b'\r', b'\n', next @ ..] => return Ok((None, next)),
        [b'#' | b'%', ..] => return Ok((None, after_line_end(text))),
        _ => return Err(LineProblem::NotAnEdge),
    }
    let (source, text) = number(text)?;
    let separated = after_blanks(text);
    if separated.len() == text.len() {
        return Err(LineProblem::NotAnEdge);
    }
    let (target, text) = number(separated)?;
    let next = match text {
        [b'\n', next @ ..] | [b'\r', b'\n', next @ ..] => next,
        [b' ' | b'\t', ..] => after_line_end(text),
        _ => return Err(LineProblem::NotAnEdge),
    };
    Ok((Some((source, target)), next))
}

fn after_blanks(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = text {
        text = rest;
    }
    text
}

fn after_line_end(text: &[u8]) -> &[u8] {
    memchr(b'\n', text).map_or(&[], |end| &text[end + 1..])
}

/// The number that the text begins with, and what follows it.
#[inline(always)]
fn number(text: &[u8]) -> Result<(u64, &[u8]), LineProblem> {
    match text.split_first_chunk() {
        Some((first, after)) => match digits(*first) {
            (value, count @ 1..8) => Ok((value, &text[count..])),
            (value, 8) if !after.first().is_some_and(u8::is_ascii_digit) => Ok((value, after)),
            _ => number_of_any_length(text),
        },
        None => number_of_any_length(text),
    }
}

/// The number that eight bytes begin with, and how many digits it has. All digits are looked at in a few steps, as long as that many (Lemire): how long numbers are, no processor can foresee.
#[inline(always)]
fn digits(bytes: [u8; 8]) -> (u64, usize) {
    const LOW_BITS: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let values = u64::from_le_bytes(bytes) ^ u64::from_le_bytes([b'0'; 8]);
    // The highest bit of each byte that is more than nine.
    let others = (((values & LOW_BITS) + u64::from_le_bytes([0x7f - 9; 8])) | values) & !LOW_BITS;
    let count = others.trailing_zeros() / 8;
    match count {
        0 => (0, 0),
        _ => (value_of(bytes, count), count as usize),
    }
}

/// The number that the first `count` of eight bytes are the digits of, from one to eight.
#[inline(always)]
fn value_of(bytes: [u8; 8], count: u32) -> u64 {
    let values = u64::from_le_bytes(bytes) ^ u64::from_le_bytes([b'0'; 8]);
    // As if there were zeros before it. The first digit is in the lowest byte.
    let digits = values << (64 - 8 * count);
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8);
    let pair = |place: u32| pairs >> (16 * place) & 0xff;
    (pair(0) * 100 + pair(1)) * 10_000 + pair(2) * 100 + pair(3)
}

/// The same, digit by digit.
#[cold]
fn number_of_any_length(text: &[u8]) -> Result<(u64, &[u8]), LineProblem> {
    let mut value = 0_u64;
    let mut rest = text;
    while let [digit @ b'0'..=b'9', after @ ..] = rest {
        value = value.wrapping_mul(10).wrapping_add((digit - b'0').into());
        rest = after;
    }
    let digits = &text[..text.len() - rest.len()];
    match digits.len() {
        0 => Err(LineProblem::NotAnEdge),
        1..=SAFE_DIGITS => Ok((value, rest)),
        _ => checked(digits).map(|value| (value, rest)).ok_or(LineProblem::NumberTooLarge),
    }
}

/// The same for many digits, of which the first may be zeros.
fn checked(digits: &[u8]) -> Option<u64> {
    digits
        .iter()
        .try_fold(0_u64, |value, digit| value.checked_mul(10)?.checked_add((digit - b'0').into()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_number_is_what_its_digits_say(
            zeros in 0..12_usize,
            value: u64,
            shift in 0..64_u32,
            behind: Vec<u8>,
        ) {
            prop_assume!(!behind.first().is_some_and(u8::is_ascii_digit));
            let value = value >> shift;
            let digits = format!("{}{value}", "0".repeat(zeros));
            let text = [digits.as_bytes(), &behind].concat();
            prop_assert_eq!(number(&text).ok(), Some((value, &behind[..])));
        }

        #[test]
        fn what_is_no_digit_begins_no_number(text in prop::collection::vec(any::<u8>(), 0..20)) {
            let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
            prop_assert_eq!(number(&text).is_ok(), count > 0);
        }
    }
}
