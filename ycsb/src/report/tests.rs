use std::time::Duration;

use super::*;
use crate::cpu::CpuSeconds;
use crate::measurement::{Interval, Measurements, Operation, Span, Status};

fn outcome(server: Result<f64, String>) -> Outcome {
    let mut measurements = Measurements::new(Interval::Operation);
    for microseconds in 1..=1_000_u64 {
        let span = Span { intended_ns: 0, start_ns: 0 };
        measurements.record(Operation::Read, Status::Ok, span, microseconds * 1_000);
        measurements.operations += 1;
    }
    let span = Span { intended_ns: 0, start_ns: 0 };
    measurements.record(Operation::Read, Status::NotFound, span, 7_000);
    measurements.operations += 1;
    let cpu = CpuSeconds { driver: 0.001_001, server };
    Outcome { runtime: Duration::from_millis(500), measurements, cpu }
}

fn report(outcome: &Outcome) -> Report<'_> {
    let link = Some("shm");
    Report { target: "weft", workload: "workloada", mode: "async", link, update: "put", outcome }
}

#[test]
fn the_text_is_upstreams_with_what_it_does_not_tell() {
    let outcome = outcome(Err("no server".to_owned()));
    let text = lines::text(&report(&outcome).lines(&[50.0, 95.0, 99.0, 99.9]));
    assert_eq!(
        text,
        "[OVERALL], RunTime(ms), 500\n\
         [OVERALL], Throughput(ops/sec), 2002.0\n\
         [CONFIG], Target, weft\n\
         [CONFIG], Workload, workloada\n\
         [CONFIG], Mode, async\n\
         [CONFIG], Link, shm\n\
         [CONFIG], Update, put\n\
         [CPU], Driver(s), 0.001\n\
         [CPU], Driver(s/million ops), 1.0\n\
         [CPU], Server(s), null\n\
         [CPU], Server(s/million ops), null\n\
         [READ], Operations, 1000\n\
         [READ], AverageLatency(us), 500.505\n\
         [READ], MinLatency(us), 1\n\
         [READ], MaxLatency(us), 1000\n\
         [READ], 50thPercentileLatency(us), 500\n\
         [READ], 95thPercentileLatency(us), 950\n\
         [READ], 99thPercentileLatency(us), 990\n\
         [READ], 99.9PercentileLatency(us), 1000\n\
         [READ], Return=OK, 1000\n\
         [READ], Return=NOT_FOUND, 1\n\
         [READ-FAILED], Operations, 1\n\
         [READ-FAILED], AverageLatency(us), 7.002\n\
         [READ-FAILED], MinLatency(us), 7\n\
         [READ-FAILED], MaxLatency(us), 7\n\
         [READ-FAILED], 50thPercentileLatency(us), 7\n\
         [READ-FAILED], 95thPercentileLatency(us), 7\n\
         [READ-FAILED], 99thPercentileLatency(us), 7\n\
         [READ-FAILED], 99.9PercentileLatency(us), 7\n"
    );
}

#[test]
fn the_object_has_the_shape_that_scripts_rely_on() {
    let outcome = outcome(Ok(0.25));
    let object: serde_json::Value = serde_json::from_str(&json::object(&report(&outcome))).unwrap();
    let operation = object["operations"]["READ"].clone();
    let expected = serde_json::json!({
        "target": "weft",
        "workload": "workloada",
        "mode": "async",
        "link": "shm",
        "overall": {"runtime_ms": 500, "throughput_ops_s": 2002.0},
        "cpu_seconds": {"driver": 0.001, "server": 0.25},
        "operations": {"READ": operation},
    });
    assert_eq!(object, expected);
    assert_eq!(operation["count"], 1_001);
    assert_eq!(operation["ok"], 1_000);
    assert_eq!(operation["errors"], 1);
    for (name, expected) in [
        ("avg_us", 500.5),
        ("p50_us", 500.0),
        ("p95_us", 950.0),
        ("p99_us", 990.0),
        ("p999_us", 999.0),
        ("max_us", 1_000.0),
    ] {
        let value = operation[name].as_f64().unwrap();
        assert!((value - expected).abs() < expected * 0.001 + 0.5, "{name}: {value}");
    }
}

#[test]
fn unknown_server_time_is_null() {
    let outcome = outcome(Err("no server".to_owned()));
    let object: serde_json::Value = serde_json::from_str(&json::object(&report(&outcome))).unwrap();
    assert!(object["cpu_seconds"]["server"].is_null());
}

#[test]
fn upstreams_json_exporters_carry_the_same_lines() {
    let outcome = outcome(Ok(0.25));
    let lines = report(&outcome).lines(&[50.0]);
    let array: Vec<serde_json::Value> = serde_json::from_str(&lines::json_array(&lines)).unwrap();
    assert_eq!(array.len(), lines.len());
    assert_eq!(
        array[0],
        serde_json::json!({"metric": "OVERALL", "measurement": "RunTime(ms)", "value": 500})
    );
    let each: Vec<serde_json::Value> =
        lines::json_lines(&lines).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(each, array);
}

#[test]
fn latencies_of_nothing_are_not_made_up() {
    let mut measurements = Measurements::new(Interval::Operation);
    let span = Span { intended_ns: 0, start_ns: 0 };
    measurements.record(Operation::Read, Status::NotFound, span, 7_000);
    measurements.operations += 1;
    let outcome = Outcome { measurements, ..outcome(Ok(0.25)) };
    let object: serde_json::Value = serde_json::from_str(&json::object(&report(&outcome))).unwrap();
    let read = &object["operations"]["READ"];
    assert_eq!((&read["count"], &read["ok"]), (&1.into(), &0.into()));
    for name in ["avg_us", "p50_us", "p95_us", "p99_us", "p999_us", "max_us"] {
        assert!(read.as_object().unwrap().contains_key(name), "{name} is missing");
        assert!(read[name].is_null(), "{name}: {}", read[name]);
    }
    let text = lines::text(&report(&outcome).lines(&[50.0]));
    assert!(text.contains("[READ], Operations, 0\n[READ], Return=NOT_FOUND, 1\n"), "{text}");
}
