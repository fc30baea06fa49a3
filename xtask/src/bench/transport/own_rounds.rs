//! What `netbench` measures in rounds of its own: several nodes, all sizes, quiet nodes, small calls beside large
//! transfers, both levels of buffers, streams, and peers.

mod lines;

use anyhow::Result;
use serde_json::{Map, Value};

use super::super::Bench;

/// One command of netbench, and how its report is printed for a person.
struct Part {
    /// With its arguments.
    command: &'static str,
    /// What `--link` says, run by run.
    links: &'static [&'static str],
    print: fn(&Value),
}

const EACH: &[&str] = &["tcp", "shm"];

/// Streams measure their links in one run, so that these take turns.
const IN_TURN: &[&str] = &["tcp,shm"];

/// What is drawn too.
const SIZES: &str = "sizes";

const PARTS: &[Part] = &[
    Part { command: "bidirectional --seconds 0.5", links: EACH, print: lines::both_ways },
    Part { command: "all-to-all --nodes 2,4 --seconds 0.5", links: EACH, print: lines::all_to_all },
    Part { command: SIZES, links: EACH, print: lines::sizes },
    Part { command: "beside", links: EACH, print: lines::beside },
    Part {
        command: "buffers --sizes 64,1024,4096,8192,16384,65536,1048576",
        links: EACH,
        print: lines::buffers,
    },
    Part {
        command: "streams --flush 0 --connections 1,4,16 --seconds 0.2",
        links: IN_TURN,
        print: lines::stream_round_trips,
    },
    Part {
        command: "streams --flush 64,16,4 --connections 1,4,16 --seconds 0.2",
        links: IN_TURN,
        print: lines::stream_messages,
    },
    Part { command: "idle", links: EACH, print: lines::idle },
    Part { command: "peers", links: EACH, print: lines::peers },
];

/// Runs all of it, and adds the reports to `figures`.
pub(super) fn run(bench: &Bench<'_>, figures: &mut Map<String, Value>) -> Result<()> {
    let rounds = bench.rounds.to_string();
    for part in PARTS {
        for link in part.links {
            let mut args: Vec<&str> = part.command.split(' ').collect();
            args.extend(["--link", link, "--runs", &rounds]);
            let drawn = bench.folder.join(format!("sizes-{link}.svg"));
            let drawn = (part.command == SIZES).then(|| drawn.to_string_lossy().into_owned());
            if let Some(drawn) = &drawn {
                args.extend(["--svg", drawn]);
            }
            let report = super::report(bench, args.iter().map(|argument| (*argument).to_owned()))?;
            (part.print)(&report);
            if let Some(drawn) = &drawn {
                println!("  drawn: {drawn}");
            }
            figures.insert(args.join(" "), report);
        }
    }
    Ok(())
}
