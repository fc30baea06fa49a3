//! What `netbench` measures in rounds of its own: several nodes, all sizes, quiet nodes, small calls beside large
//! transfers, both levels of buffers, streams, and peers.

mod lines;

use anyhow::Result;
use serde_json::{Map, Value};

use super::super::Bench;

/// One command of netbench, and how its report is printed for a person.
struct Part {
    command: &'static str,
    args: &'static [&'static str],
    /// Streams measure their links in one run, so that these take turns.
    links: &'static [&'static str],
    print: fn(&Value),
}

/// Up to where 8 MiB of locked memory are enough, which is what users may lock unless told otherwise.
const BUFFER_SIZES: &str = "64,1024,4096,8192,16384,65536,1048576";

const PARTS: &[Part] = &[
    Part {
        command: "bidirectional",
        args: &["--seconds", "0.5"],
        links: &["tcp", "shm"],
        print: lines::both_ways,
    },
    Part {
        command: "all-to-all",
        args: &["--nodes", "2,4", "--seconds", "0.5"],
        links: &["tcp", "shm"],
        print: lines::all_to_all,
    },
    Part { command: "sizes", args: &[], links: &["tcp", "shm"], print: lines::sizes },
    Part { command: "beside", args: &[], links: &["tcp", "shm"], print: lines::beside },
    Part {
        command: "buffers",
        args: &["--sizes", BUFFER_SIZES],
        links: &["tcp", "shm"],
        print: lines::buffers,
    },
    Part {
        command: "streams",
        args: &[
            "--flush",
            "0",
            "--sizes",
            "16,1024,65536",
            "--connections",
            "1,4,16",
            "--seconds",
            "0.2",
        ],
        links: &["tcp,shm"],
        print: lines::stream_round_trips,
    },
    Part {
        command: "streams",
        args: &["--flush", "64,16,4", "--connections", "1,4,16", "--seconds", "0.2"],
        links: &["tcp,shm"],
        print: lines::stream_messages,
    },
    Part { command: "idle", args: &[], links: &["tcp", "shm"], print: lines::idle },
    Part { command: "peers", args: &[], links: &["tcp", "shm"], print: lines::peers },
];

/// Runs all of it, and adds the reports to `figures`.
pub(super) fn run(bench: &Bench<'_>, figures: &mut Map<String, Value>) -> Result<()> {
    let rounds = bench.rounds.to_string();
    for part in PARTS {
        for link in part.links {
            let mut args = [&[part.command, "--link", link, "--runs", &rounds], part.args].concat();
            let figure = bench.folder.join(format!("sizes-{link}.svg"));
            let figure = figure.to_string_lossy();
            if part.command == "sizes" {
                args.extend(["--svg", &figure]);
            }
            let report = super::report(bench, args.iter().map(|argument| (*argument).to_owned()))?;
            (part.print)(&report);
            if part.command == "sizes" {
                println!("  drawn: {figure}");
            }
            figures.insert(args.join(" "), report);
        }
    }
    Ok(())
}
