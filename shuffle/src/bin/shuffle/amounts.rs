//! Amounts as people read them: three digits, and a unit.

const DECIMAL: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
const BINARY: [&str; 7] = [" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"];

/// A number of things, such as 12.3M.
pub(crate) fn count(number: u64) -> String {
    with_unit(number, 1_000, &DECIMAL)
}

/// A number of bytes, such as 12.3 MiB.
pub(crate) fn bytes(number: u64) -> String {
    with_unit(number, 1_024, &BINARY)
}

/// A time in whole seconds, such as 1m15s.
pub(crate) fn span(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3_600, seconds / 60 % 60),
    }
}

/// A time of any length, such as 12.3 ms.
pub(crate) fn time(seconds: f64) -> String {
    match seconds {
        0.0 => "0 s".to_owned(),
        _ if seconds >= 600.0 => span(seconds as u64),
        _ if seconds >= 1.0 => format!("{} s", digits(seconds)),
        _ if seconds >= 1e-3 => format!("{} ms", digits(seconds * 1e3)),
        _ => format!("{:.0} µs", seconds * 1e6),
    }
}

fn with_unit(number: u64, step: u64, units: &[&str]) -> String {
    let (mut whole, mut at) = (number as f64, 0);
    // What would be written as 1000 is written as 1.00 of the next.
    while whole >= step as f64 - 0.5 && at + 1 < units.len() {
        whole /= step as f64;
        at += 1;
    }
    if at == 0 {
        format!("{number}{}", units[0])
    } else {
        format!("{}{}", digits(whole), units[at])
    }
}

/// Three of them, where the number is not larger.
fn digits(number: f64) -> String {
    match number {
        _ if number < 9.995 => format!("{number:.2}"),
        _ if number < 99.95 => format!("{number:.1}"),
        _ => format!("{number:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        let counts = [
            (0, "0"),
            (999, "999"),
            (1_000, "1.00k"),
            (12_345, "12.3k"),
            (999_499, "999k"),
            (999_600, "1.00M"),
            (u64::MAX, "18.4E"),
        ];
        counts.iter().for_each(|(number, text)| assert_eq!(count(*number), *text));
        let sizes = [
            (0, "0 B"),
            (1_023, "1023 B"),
            (1_024, "1.00 KiB"),
            (5 << 30, "5.00 GiB"),
            (1_023 << 20, "1023 MiB"),
        ];
        sizes.iter().for_each(|(number, text)| assert_eq!(bytes(*number), *text));
    }

    #[test]
    fn times_are_as_long_as_they_need_to_be() {
        let spans = [(0, "0s"), (59, "59s"), (75, "1m15s"), (3_600, "1h00m"), (86_399, "23h59m")];
        spans.iter().for_each(|(seconds, text)| assert_eq!(span(*seconds), *text));
        let times = [
            (0.0, "0 s"),
            (0.000_042, "42 µs"),
            (0.012_34, "12.3 ms"),
            (1.5, "1.50 s"),
            (59.99, "60.0 s"),
            (3_725.0, "1h02m"),
        ];
        times.iter().for_each(|(seconds, text)| assert_eq!(time(*seconds), *text));
    }
}
