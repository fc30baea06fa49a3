//! A moment as people write it.

use std::time::{SystemTime, UNIX_EPOCH};

const DAY_SECONDS: u64 = 24 * 60 * 60;

/// Days of 400 years, after which the calendar is the same again.
const ERA_DAYS: u64 = 146_097;

/// In UTC, to the millisecond, as RFC 3339 has it.
pub(super) fn rfc_3339(moment: SystemTime) -> String {
    let since = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, seconds) = (since.as_secs() / DAY_SECONDS, since.as_secs() % DAY_SECONDS);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let millis = since.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// The date so many days after 1970-01-01, by Hinnant's `civil_from_days`: years begin with March, so that the day that some lack is their last.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / ERA_DAYS, days % ERA_DAYS);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn moments_are_written_as_the_standard_says() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_164_800_000, "2024-02-29T00:00:00.000Z"),
            (1_709_251_200_000, "2024-03-01T00:00:00.000Z"),
            (1_796_007_561_042, "2026-11-30T02:59:21.042Z"),
            (4_102_444_799_000, "2099-12-31T23:59:59.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(rfc_3339(UNIX_EPOCH + Duration::from_millis(millis)), text);
        }
    }
}
