//! The words of a gigabyte of text, counted by two workers, by Timely Dataflow and by Spark.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::{Spark, WORKERS, figure, input, program, report, seconds};
use crate::bench::Bench;

const SPARK_MEMORY: &str = "4g";

/// Our seconds and those of Timely and of Spark, as ratios, that are wanted at most.
const TIMELY_WANTED: f64 = 1.0;
const SPARK_WANTED: f64 = 0.2;

/// Counts the words of the same text with all, in turns.
pub(super) fn run(bench: &Bench<'_>, spark: Option<&Spark>) -> Result<Value> {
    let text = input(bench, "zipf-words-1GB", &["zipf-words", "--bytes", "1GB"])?;
    let (mut by_timely, mut by_spark) = (seconds(), seconds());
    let mut reports = Vec::new();
    for _ in bench.each_round() {
        let arguments = ["wordcount", "--json", "--workers", WORKERS];
        let ours = report(program(bench, "shuffle", &arguments, &text))?;
        let arguments = ["--workers", WORKERS, "--combine"];
        let timely = report(program(bench, "timely_wordcount", &arguments, &text))?;
        compare(&timely, &ours)?;
        by_timely.push(figure(&ours, "seconds")?, figure(&timely, "seconds")?);
        reports.push(json!({"shuffle": ours, "timely": timely}));
        let Some(spark) = spark else { continue };
        let spark = report(spark.program("wordcount", SPARK_MEMORY, &[&text]))?;
        compare(&spark, &ours)?;
        by_spark.push(figure(&ours, "seconds")?, figure(&spark, "seconds")?);
        reports.push(json!({"spark": spark}));
    }
    println!("\nwords of 1 GB of text, two workers");
    println!("{}", by_timely.line("Timely, sums", "s", Some(TIMELY_WANTED)));
    println!("{}", by_spark.line("Spark, a query", "s", Some(SPARK_WANTED)));
    Ok(json!({"timely": by_timely.json(), "spark": by_spark.json(), "reports": reports}))
}

/// Fails unless both have found the same words as often.
fn compare(peer: &Value, ours: &Value) -> Result<()> {
    for what in ["words", "distinct", "top"] {
        let (peer, ours) = (&peer[what], &ours[what]);
        ensure!(!ours.is_null() && peer == ours, "of {what}: {ours} here, {peer} there");
    }
    Ok(())
}
