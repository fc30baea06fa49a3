//! Which processor each side runs on.
//!
//! Pinned is the default: left to the scheduler, the sides share a processor in one run and not in
//! the next, and the same binary reports 13 us and 52 us for one round trip.

use std::fmt;
use std::time::Duration;

use anyhow::Context as _;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

use crate::bounds::whole;

/// A processor's number in the kernel's count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cpu(pub(crate) usize);

/// Where the two sides run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Placement {
    Pinned { server: Cpu, client: Cpu },
    Unpinned,
}

#[derive(clap::Args)]
pub(crate) struct PlacementArgs {
    /// Processor of the server [default: the first this process may use, if there are two]
    #[arg(long, value_name = "CPU", value_parser = whole)]
    server_cpu: Option<usize>,
    /// Processor of the client [default: the last this process may use, if there are two]
    #[arg(long, value_name = "CPU", value_parser = whole)]
    client_cpu: Option<usize>,
}

impl PlacementArgs {
    pub(crate) fn into_placement(self) -> Result<Placement, String> {
        Placement::choose(self.server_cpu, self.client_cpu)
    }
}

/// How nodes are placed that are neither server nor client.
pub(crate) const EACH_IN_TURN: &str = "a processor each in turn";

impl Placement {
    /// Takes what was asked for; for a side that was not named, the server's default is the first
    /// and the client's the last processor that this process may use. With one processor nothing is
    /// left to pin.
    fn choose(server: Option<usize>, client: Option<usize>) -> Result<Self, String> {
        let usable = usable().map_err(|error| format!("cannot read the affinity: {error}"))?;
        Self::choose_from(&usable, server, client)
    }

    /// The processors that the sides of a benchmark have by default, for one whose threads may go to either.
    pub(crate) fn by_default() -> Result<Self, String> {
        Self::choose(None, None)
    }

    fn choose_from(
        usable: &[usize],
        server: Option<usize>,
        client: Option<usize>,
    ) -> Result<Self, String> {
        for (flag, cpu) in [("--server-cpu", server), ("--client-cpu", client)] {
            if let Some(cpu) = cpu
                && !usable.contains(&cpu)
            {
                return Err(format!("{flag} is {cpu}, but this process may use {usable:?}"));
            }
        }
        match (usable, server, client) {
            ([] | [_], None, None) => Ok(Placement::Unpinned),
            ([first, .., last] | [first @ last], server, client) => Ok(Placement::Pinned {
                server: Cpu(server.unwrap_or(*first)),
                client: Cpu(client.unwrap_or(*last)),
            }),
            ([], ..) => Ok(Placement::Unpinned),
        }
    }

    pub(crate) fn server(self) -> Option<Cpu> {
        match self {
            Placement::Pinned { server, .. } => Some(server),
            Placement::Unpinned => None,
        }
    }

    pub(crate) fn client(self) -> Option<Cpu> {
        match self {
            Placement::Pinned { client, .. } => Some(client),
            Placement::Unpinned => None,
        }
    }
}

impl Placement {
    /// How many threads of the client can spin at once: as many as it has processors. The transport
    /// lets no more.
    pub(crate) fn spinners_max(self) -> Result<usize, String> {
        match self {
            Placement::Pinned { .. } => Ok(1),
            Placement::Unpinned => usable()
                .map(|usable| usable.len().max(1))
                .map_err(|error| format!("cannot read the affinity: {error}")),
        }
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Placement::Pinned { server: Cpu(server), client: Cpu(client) } => {
                write!(f, "server on cpu {server}, client on cpu {client}")
            }
            Placement::Unpinned => write!(f, "unpinned (the figures are noise)"),
        }
    }
}

/// Confines the calling thread, and all threads it starts afterwards, to one processor.
pub(crate) fn pin(cpu: Option<Cpu>) -> anyhow::Result<()> {
    let Some(Cpu(number)) = cpu else { return Ok(()) };
    let mut set = CpuSet::new();
    set.set(number);
    sched_setaffinity(None, &set).with_context(|| format!("failed to pin to cpu {number}"))
}

/// Processor time that all threads of this process have used.
pub(crate) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// The processors that this process may use.
pub(crate) fn usable() -> rustix::io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pinned(server: usize, client: usize) -> Result<Placement, String> {
        Ok(Placement::Pinned { server: Cpu(server), client: Cpu(client) })
    }

    #[test]
    fn the_sides_are_apart_where_there_are_two_processors() {
        assert_eq!(Placement::choose_from(&[2, 3, 7], None, None), pinned(2, 7));
        assert_eq!(Placement::choose_from(&[2, 3, 7], Some(3), None), pinned(3, 7));
        assert_eq!(Placement::choose_from(&[2, 3, 7], None, Some(2)), pinned(2, 2));
    }

    #[test]
    fn one_processor_is_pinned_only_on_request() {
        assert_eq!(Placement::choose_from(&[4], None, None), Ok(Placement::Unpinned));
        assert_eq!(Placement::choose_from(&[4], Some(4), None), pinned(4, 4));
    }

    #[test]
    fn a_processor_outside_the_affinity_is_refused_by_name() {
        let refused = Placement::choose_from(&[0, 1], None, Some(2)).unwrap_err();
        assert_eq!(refused, "--client-cpu is 2, but this process may use [0, 1]");
    }
}
