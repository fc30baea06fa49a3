//! Ranks the graph that ships, by worker processes, and shows what came out.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::command;
use crate::workspace::Workspace;

const GRAPH: &str = "shuffle/graphs/wiki-Vote.txt.zst";
const WORKERS: u32 = 2;
const ITERATIONS: u32 = 20;
const TOP: u32 = 10;

/// Ranks the graph, writes all ranks into `folder`, and returns a table of the highest.
pub(super) fn run(workspace: &Workspace, folder: &Path) -> Result<String> {
    let mut rank = Command::new(workspace.release_program("shuffle"));
    rank.args(["pagerank", "--input", GRAPH, "--workers", &WORKERS.to_string()]);
    rank.args(["--iterations", &ITERATIONS.to_string(), "--top", &TOP.to_string(), "--json"]);
    rank.arg("--output").arg(folder.join("ranks.tsv"));
    println!("$ {}", command::line(&rank));
    let printed = command::output(&mut rank)?;
    table(&printed).with_context(|| {
        format!("`shuffle pagerank --json` printed something unexpected: {printed}")
    })
}

fn table(printed: &str) -> Result<String> {
    let report: Value = serde_json::from_str(printed)?;
    let count = |member: &str| report[member].as_u64().with_context(|| member.to_owned());
    let seconds = report["seconds_per_iteration"].as_f64().context("seconds_per_iteration")?;
    let mut table = format!(
        "PageRank of {GRAPH}, {} vertices and {} edges, by {} workers:\n\
         {seconds:.6} s an iteration (median of {}), {} bytes shuffled in each\n\n\
         {:>10}  rank\n",
        count("vertices")?,
        count("edges")?,
        count("workers")?,
        count("iterations")?,
        count("bytes_shuffled_per_iteration")?,
        "vertex",
    );
    for top in report["top"].as_array().context("top")? {
        let vertex = top["vertex"].as_u64().context("vertex")?;
        let rank = top["rank"].as_f64().context("rank")?;
        table += &format!("{vertex:>10}  {rank:.10}\n");
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::table;

    #[test]
    fn the_highest_ranks_are_shown_with_the_time_of_an_iteration() {
        let printed = r#"{
            "vertices": 7115, "edges": 103689, "workers": 2, "iterations": 20,
            "seconds_per_iteration": 0.0006, "bytes_shuffled_per_iteration": 37585,
            "top": [{"vertex": 4037, "rank": 0.0046}, {"vertex": 15, "rank": 0.0037}]
        }"#;
        let shown = table(printed).unwrap();
        assert!(shown.contains("0.000600 s an iteration (median of 20)"), "{shown}");
        assert!(shown.ends_with("4037  0.0046000000\n        15  0.0037000000\n"), "{shown}");
        assert!(table("{}").is_err());
    }
}
