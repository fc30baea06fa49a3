//! What makes exchanges.

use std::fmt;

/// What has made an exchange: a verb of datasets, or one of the worker's or of a graph's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verb {
    /// [`reduce_by_key`](crate::Dataset::reduce_by_key).
    ReduceByKey,
    /// [`reduce_by_index`](crate::Dataset::reduce_by_index).
    ReduceByIndex,
    /// [`group_by_key`](crate::Dataset::group_by_key).
    GroupByKey,
    /// [`sort_by_key`](crate::Dataset::sort_by_key).
    SortByKey,
    /// The samples by which a sort gives every worker its part, and those in which a join finds keys that are frequent.
    Sample,
    /// One of the two sides of a [`cogroup`](crate::Dataset::cogroup).
    Cogroup,
    /// One of the two sides of a [`join`](crate::Dataset::join), or what one has of keys that are frequent on the other.
    Join,
    /// [`join_small`](crate::Dataset::join_small).
    JoinSmall,
    /// [`broadcast`](crate::Dataset::broadcast).
    Broadcast,
    /// [`partition_by`](crate::Dataset::partition_by), and [`collect`](crate::Dataset::collect).
    PartitionBy,
    /// [`gather`](crate::Worker::gather), and [`sum`](crate::Worker::sum).
    Gather,
    /// A graph is spread over the workers.
    SpreadGraph,
    /// [`combine_incoming`](crate::job::graph::Graph::combine_incoming).
    CombineIncoming,
    /// [`exchange_graphs`](crate::Dataset::exchange_graphs).
    ExchangeGraphs,
    /// A job by itself.
    Exchange,
}

impl Verb {
    const ALL: [Verb; 15] = [
        Verb::ReduceByKey,
        Verb::ReduceByIndex,
        Verb::GroupByKey,
        Verb::SortByKey,
        Verb::Sample,
        Verb::Cogroup,
        Verb::Join,
        Verb::JoinSmall,
        Verb::Broadcast,
        Verb::PartitionBy,
        Verb::Gather,
        Verb::SpreadGraph,
        Verb::CombineIncoming,
        Verb::ExchangeGraphs,
        Verb::Exchange,
    ];

    /// Its name, as a program has it.
    pub fn name(self) -> &'static str {
        match self {
            Verb::ReduceByKey => "reduce_by_key",
            Verb::ReduceByIndex => "reduce_by_index",
            Verb::GroupByKey => "group_by_key",
            Verb::SortByKey => "sort_by_key",
            Verb::Sample => "sample",
            Verb::Cogroup => "cogroup",
            Verb::Join => "join",
            Verb::JoinSmall => "join_small",
            Verb::Broadcast => "broadcast",
            Verb::PartitionBy => "partition_by",
            Verb::Gather => "gather",
            Verb::SpreadGraph => "spread_graph",
            Verb::CombineIncoming => "combine_incoming",
            Verb::ExchangeGraphs => "exchange_graphs",
            Verb::Exchange => "exchange",
        }
    }

    /// The verb with a name.
    pub fn of_name(name: &str) -> Option<Verb> {
        Self::ALL.into_iter().find(|verb| verb.name() == name)
    }

    /// What stands for it, or for none, in a byte.
    pub(super) fn code(verb: Option<Verb>) -> u8 {
        let place = Self::ALL.iter().position(|other| Some(*other) == verb);
        place.map_or(0, |place| place as u8 + 1)
    }

    pub(super) fn of_code(code: u8) -> Option<Verb> {
        Self::ALL.get(usize::from(code).checked_sub(1)?).copied()
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verb_is_found_by_its_name_and_by_its_byte() {
        for verb in Verb::ALL {
            assert_eq!(Verb::of_name(verb.name()), Some(verb));
            assert_eq!(Verb::of_code(Verb::code(Some(verb))), Some(verb));
        }
        assert_eq!(Verb::of_name("shuffle"), None);
        assert_eq!(Verb::of_code(Verb::code(None)), None);
        assert_eq!(Verb::of_code(u8::MAX), None);
    }
}
