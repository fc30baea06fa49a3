//! What is logged, and how.

use std::str::FromStr;

use tracing_subscriber::filter::{LevelFilter, Targets};

/// How logs are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// One line an event, for people.
    Text,
    /// One JSON object an event, for programs.
    Json,
}

impl FromStr for LogFormat {
    type Err = LogFormatError;

    fn from_str(text: &str) -> Result<LogFormat, LogFormatError> {
        match text {
            "text" => Ok(LogFormat::Text),
            "json" => Ok(LogFormat::Json),
            _ => Err(LogFormatError),
        }
    }
}

/// The text names no log format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("give `text` or `json`")]
pub struct LogFormatError;

/// Which events are logged: a level for all, or levels by target.
#[derive(Debug, Clone, PartialEq)]
pub struct LogFilter(Targets);

impl LogFilter {
    /// As `tracing_subscriber` takes it.
    pub fn targets(&self) -> &Targets {
        &self.0
    }
}

impl Default for LogFilter {
    fn default() -> LogFilter {
        LogFilter(Targets::new().with_default(LevelFilter::INFO))
    }
}

impl FromStr for LogFilter {
    type Err = LogFilterError;

    fn from_str(text: &str) -> Result<LogFilter, LogFilterError> {
        // `Targets` takes a word that is no level for the name of a target, so that a mistyped
        // level would silence everything.
        let is_level = |part: &str| !part.is_empty() && part.parse::<LevelFilter>().is_ok();
        if !text.split(',').all(|part| part.contains('=') || is_level(part)) {
            return Err(LogFilterError);
        }
        text.parse().map(LogFilter).map_err(|_| LogFilterError)
    }
}

/// The text is no filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("give off, error, warn, info, debug or trace, or target=level,…")]
pub struct LogFilterError;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_levels_by_target() {
        for good in ["info", "off", "warn,weft_server=debug", "weft_transport=trace"] {
            assert!(good.parse::<LogFilter>().is_ok(), "{good}");
        }
        for bad in ["inof", "", "weft_server=loud", "info,loud"] {
            assert_eq!(bad.parse::<LogFilter>(), Err(LogFilterError), "{bad}");
        }
    }
}
