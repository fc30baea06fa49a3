//! Durations as people write them.

use std::time::Duration;

/// A duration, which may be nothing at all.
pub(crate) fn any(text: &str) -> Result<Duration, &'static str> {
    humantime::parse_duration(text)
        .map_err(|_| "write a number and a unit, such as 5s, 200ms or 1m 30s")
}

/// A duration of more than nothing.
pub(crate) fn positive(text: &str) -> Result<Duration, &'static str> {
    match any(text)? {
        Duration::ZERO => Err("it has to be longer than nothing, such as 5s or 200ms"),
        duration => Ok(duration),
    }
}

/// How long an object is to live, among the arguments of a command.
#[derive(Debug, clap::Args)]
pub(crate) struct Lifetime {
    /// Let the object cease to be after this long, such as 10m
    #[arg(long, env = "WEFT_EXPIRES_IN", value_name = "DURATION", value_parser = any)]
    pub(crate) expires_in: Option<Duration>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_a_number_and_a_unit() {
        assert_eq!(any("200ms"), Ok(Duration::from_millis(200)));
        assert_eq!(any("0s"), Ok(Duration::ZERO));
        assert_eq!(positive("1m 30s"), Ok(Duration::from_secs(90)));
        for text in ["", "abc", "5", "-1s", "s"] {
            assert!(
                any(text).is_err_and(|advice| advice.contains("a number and a unit")),
                "{text}"
            );
        }
        for text in ["0s", "0ms"] {
            assert!(positive(text).is_err_and(|advice| advice.contains("longer")), "{text}");
        }
    }
}
