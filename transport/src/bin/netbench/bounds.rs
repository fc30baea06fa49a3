//! The ranges of what the command line says, each refused by the name of its flag.

use std::time::Duration;

use crate::numbered;

/// Threads and connections: enough for any machine that two processes fit on, few enough for the usual limit of 1,024
/// descriptors, but over verbs, where each client has opened the device besides: there `ulimit -n` is to be raised.
pub(crate) const LANES_MAX: usize = 256;
/// Threads of a receiver's pool.
pub(crate) const HANDLERS_MAX: usize = 16;
pub(crate) const SIZE_MAX: usize = weft_transport::limits::MESSAGE_MAX;
/// Bytes of a streamed body: longer than anybody measures.
pub(crate) const BODY_MAX: usize = 1 << 50;
const SECONDS_MAX: f64 = 3600.0;
const RUNS_MAX: usize = 1000;

pub(crate) fn within(flag: &str, value: usize, min: usize, max: usize) -> Result<(), String> {
    if (min..=max).contains(&value) {
        Ok(())
    } else {
        Err(format!("{flag} is {value}, but must be from {min} to {max}"))
    }
}

pub(crate) fn all_within(
    flag: &str,
    values: &[usize],
    min: usize,
    max: usize,
) -> Result<(), String> {
    values.iter().try_for_each(|value| within(flag, *value, min, max))
}

pub(crate) fn runs(value: usize) -> Result<usize, String> {
    within("--runs", value, 1, RUNS_MAX).map(|()| value)
}

/// Time that is measured.
pub(crate) fn window(value: f64) -> Result<Duration, String> {
    seconds("--seconds", value, 0.01)
}

/// Time that passes before.
pub(crate) fn warm_up(value: f64) -> Result<Duration, String> {
    seconds("--warm-up", value, 0.0)
}

fn seconds(flag: &str, value: f64, min: f64) -> Result<Duration, String> {
    if (min..=SECONDS_MAX).contains(&value) {
        Ok(Duration::from_secs_f64(value))
    } else {
        Err(format!("{flag} is {value}, but must be from {min} to {SECONDS_MAX} seconds"))
    }
}

/// A short message has little room to say which producer it is from.
pub(crate) fn producers(size: usize, producers: usize) -> Result<(), String> {
    let max = numbered::producers_max(size);
    if producers <= max {
        Ok(())
    } else {
        Err(format!(
            "a message of {size} bytes can tell {max} senders apart, but there are {producers}: \
             give fewer, or larger messages"
        ))
    }
}

pub(crate) fn whole(text: &str) -> Result<usize, &'static str> {
    text.parse().map_err(|_| "give a whole number")
}

pub(crate) fn fraction(text: &str) -> Result<f64, &'static str> {
    text.parse().map_err(|_| "give a number of seconds, such as 0.5")
}
