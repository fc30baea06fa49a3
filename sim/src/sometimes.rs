//! Situations that have to come about sometimes: what never happened in a run was not tried by it.
//!
//! A run counts what its clients met and what the counters of its nodes tell. Over many seeds every
//! situation that a scenario names has to have come about, or the seeds have shown less than they
//! seem to: a fence that never refused anybody may as well not be there. After the properties of
//! that name that Antithesis has programs state.

use std::collections::BTreeMap;
use std::fmt;

/// How often each situation came about.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Sometimes(BTreeMap<&'static str, u64>);

impl Sometimes {
    /// No situation.
    pub fn new() -> Self {
        Self::default()
    }

    /// A situation came about so often; not at all is worth a line of the table too.
    pub fn note(&mut self, situation: &'static str, times: u64) {
        *self.0.entry(situation).or_default() += times;
    }

    /// Adds what another run met.
    pub fn add(&mut self, other: &Sometimes) {
        other.0.iter().for_each(|(situation, times)| self.note(situation, *times));
    }

    /// How often a situation came about.
    pub fn times(&self, situation: &str) -> u64 {
        self.0.get(situation).copied().unwrap_or(0)
    }

    /// Those of the situations that are required which never came about.
    pub fn missing(&self, required: &[&'static str]) -> Vec<&'static str> {
        required.iter().filter(|situation| self.times(situation) == 0).copied().collect()
    }
}

impl fmt::Display for Sometimes {
    /// A table.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (situation, times)) in self.0.iter().enumerate() {
            let end = if index + 1 < self.0.len() { "\n" } else { "" };
            write!(f, "{times:>10}  {situation}{end}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_came_about_is_missing_whether_or_not_it_was_counted() {
        let (mut all, mut run) = (Sometimes::new(), Sometimes::new());
        run.note("a conflict", 2);
        run.note("a fence", 0);
        all.add(&run);
        all.add(&run);
        assert_eq!(all.times("a conflict"), 4);
        assert_eq!(
            all.missing(&["a conflict", "a fence", "a snapshot"]),
            ["a fence", "a snapshot"]
        );
        assert_eq!(all.to_string(), "         4  a conflict\n         0  a fence");
    }
}
