//! The shuffle's jobs, each beside what people would use in its place.

mod pagerank;
mod sort;

use anyhow::Result;
use serde_json::{Value, json};

use super::Bench;

/// One job after the other.
pub(super) fn run(bench: &Bench<'_>) -> Result<Value> {
    Ok(json!({"pagerank": pagerank::run(bench)?, "sort": sort::run(bench)?}))
}
