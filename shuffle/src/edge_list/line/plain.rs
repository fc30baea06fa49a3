//! Parses the lines that nearly all edge lists have: two numbers of a few digits, and a byte between them.
//!
//! Where a number ends is found for a block of lines at once. So where one begins follows from no other that was parsed before, and the processor has several on their way.

use super::value_of;
use crate::text_file::block::{BLOCK_BYTES, bytes_that};

/// Digits that are looked at together.
const DIGITS_MAX: u32 = u64::BITS / 8;

/// Two numbers and what is between them; without the line end.
pub(super) const PLAIN_LINE_BYTES_MAX: usize = 2 * DIGITS_MAX as usize + 1;

/// A block, and as much behind it as a number that begins at its end may have.
const WINDOW_BYTES: usize = BLOCK_BYTES + DIGITS_MAX as usize;

/// Calls `each` with the edges of the lines from the first on, up to one that is not plain, or near the end of the text. Returns how many it were, and what follows them.
#[inline]
pub(super) fn each_plain_line<'t, E>(
    text: &'t [u8],
    each: &mut impl FnMut(u64, u64) -> Result<(), E>,
) -> Result<(u64, &'t [u8]), E> {
    let (mut rest, mut lines) = (text, 0);
    while let Some(window) = rest.first_chunk::<WINDOW_BYTES>() {
        let block = window.first_chunk().expect("a window is longer");
        let mut others = bytes_that(block, |byte| byte.wrapping_sub(b'0') > 9);
        let mut start = 0;
        let is_plain = loop {
            let source_end = others.trailing_zeros();
            others &= others.wrapping_sub(1);
            let target_end = others.trailing_zeros();
            others &= others.wrapping_sub(1);
            if target_end == u64::BITS {
                // The rest of it begins the next block, unless it is too long for any.
                break start > 0;
            }
            let digits = (source_end - start, target_end - source_end - 1);
            let is_short = |digits: u32| digits.wrapping_sub(1) < DIGITS_MAX;
            let between = window[source_end as usize];
            let is_plain = is_short(digits.0)
                && is_short(digits.1)
                && (between == b'\t' || between == b' ')
                && window[target_end as usize] == b'\n';
            if !is_plain {
                break false;
            }
            let number = |start: u32, digits| {
                let from = &window[start as usize..];
                value_of(*from.first_chunk().expect("it begins in the block"), digits)
            };
            each(number(start, digits.0), number(source_end + 1, digits.1))?;
            lines += 1;
            start = target_end + 1;
        };
        rest = &rest[start as usize..];
        if !is_plain {
            break;
        }
    }
    Ok((lines, rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(text: &str) -> (Vec<(u64, u64)>, u64, &[u8]) {
        let mut edges = Vec::new();
        let (lines, rest) = each_plain_line::<()>(text.as_bytes(), &mut |source, target| {
            edges.push((source, target));
            Ok(())
        })
        .unwrap();
        (edges, lines, rest)
    }

    #[test]
    fn an_error_ends_it() {
        let text = "1 2\n3 4\n5 6\n".repeat(10);
        let mut seen = 0;
        let ended = each_plain_line(text.as_bytes(), &mut |source, _| {
            seen += 1;
            if source == 3 { Err(seen) } else { Ok(()) }
        });
        assert_eq!(ended, Err(2));
    }

    proptest! {
        #[test]
        fn plain_lines_are_what_they_say_up_to_the_first_that_is_not(
            numbers in prop::collection::vec((0..8_u32, 0..8_u32, any::<(u64, u64, bool)>()), 0..60),
            odd in "[0-9]{9,80}[ \t][0-9]{1,8}\n|[0-9]{1,8} [0-9]{9,80}\n|[0-9]{0,8}\n| [0-9] [0-9]\n|[0-9]  [0-9]\n|[0-9]{1,8}[ \t][0-9]{1,8}[ \t\r][0-9]{0,9}\n|[0-9]+[a-z/:%#\u{ff}][0-9]+\n|\n",
            behind in "[0-9 \n]{0,200}",
        ) {
            let edges: Vec<(u64, u64)> = numbers
                .iter()
                .map(|(one, other, (source, target, _))| {
                    (source % 10_u64.pow(1 + one), target % 10_u64.pow(1 + other))
                })
                .collect();
            let lines = edges.iter().zip(&numbers).map(|((source, target), (_, _, (_, _, tab)))| {
                format!("{source}{}{target}\n", if *tab { '\t' } else { ' ' })
            });
            let text = [&lines.collect::<String>(), &*odd, &behind].concat();
            let (found, lines, rest) = found(&text);
            prop_assert_eq!(lines, found.len() as u64);
            // Not all of them where the text ends soon.
            prop_assert!(found.len() <= edges.len());
            prop_assert_eq!(&found[..], &edges[..found.len()]);
            prop_assert!(text.as_bytes().ends_with(rest));
            let line_bytes: usize = text.split_inclusive('\n').take(found.len()).map(str::len).sum();
            prop_assert_eq!(text.len() - rest.len(), line_bytes);
            if found.len() < edges.len() {
                prop_assert!(rest.len() < WINDOW_BYTES);
            }
        }
    }
}
