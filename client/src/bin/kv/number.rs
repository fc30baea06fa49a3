//! Whole numbers as people write them.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Reads a whole number of `range`, and says what would be one of anything else.
pub(crate) fn within<N>(
    range: RangeInclusive<N>,
) -> impl Fn(&str) -> Result<N, String> + Clone + Send + Sync + 'static
where
    N: FromStr + PartialOrd + Display + Clone + Send + Sync + 'static,
{
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        let (min, max) = (range.start(), range.end());
        number.ok_or_else(|| format!("give a whole number from {min} to {max}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_of_the_range_is_told_the_range() {
        let percent = within(0..=100_u32);
        assert_eq!(percent("100"), Ok(100));
        for text in ["", "x", "101", "-1", "1.5", "2MiB", "99999999999"] {
            assert_eq!(
                percent(text),
                Err("give a whole number from 0 to 100".to_owned()),
                "{text}"
            );
        }
    }
}
