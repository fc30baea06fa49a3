//! Which record an operation asks for: YCSB's request distributions, each a pure function of
//! random numbers drawn by its caller, so that every requester draws from its own source and
//! nothing is shared but the counters of inserted records.

mod counter;
mod latest;
mod scrambled;
mod uniform;
mod zipfian;

#[cfg(test)]
mod tests;

pub(crate) use counter::{AcknowledgedCounter, Counter};
pub(crate) use latest::Latest;
pub(crate) use scrambled::Scrambled;
pub(crate) use uniform::Uniform;
pub(crate) use zipfian::Zipfian;

use rand::rngs::Xoshiro256PlusPlus;

/// The source of random numbers of one requester: 256 bits of state, about a nanosecond a draw.
pub(crate) type Random = Xoshiro256PlusPlus;

/// Draws the numbers of the records to read or to change.
#[derive(Clone, Debug)]
pub(crate) enum KeyChooser {
    /// Every record alike.
    Uniform(Uniform),
    /// A few records, scattered over the key space, take most requests.
    Zipfian(Scrambled),
    /// The records inserted last take most requests.
    Latest(Latest),
}

impl KeyChooser {
    /// The next record among those whose insertion was acknowledged. A draw beyond them is drawn
    /// again: the scrambled key space is made larger than what is loaded, so that records inserted
    /// during the run do not change which ones are popular.
    pub(crate) fn next(&mut self, random: &mut Random, inserted: &AcknowledgedCounter) -> u64 {
        let last = inserted.last();
        loop {
            let record = match self {
                KeyChooser::Uniform(uniform) => uniform.sample(random),
                KeyChooser::Zipfian(scrambled) => scrambled.sample(random),
                KeyChooser::Latest(latest) => latest.sample(random, last),
            };
            if record <= last {
                return record;
            }
        }
    }
}
