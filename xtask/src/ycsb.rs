//! Drives the workspace's own `ycsb` and reads its report.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::command;
use crate::workspace::Workspace;

/// A store that can be driven, and how it is reached.
#[derive(Clone)]
pub(crate) enum Target {
    Weft { cluster: String },
    Redis { port: u16 },
}

/// How concurrent requests are driven: a blocking thread each, or all from few threads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Blocking,
    Async,
}

/// One invocation of `ycsb`.
pub(crate) struct Ycsb {
    command: Command,
}

/// What one invocation reported.
pub(crate) struct Report {
    value: Value,
}

impl Ycsb {
    /// `ycsb load`: fills the target with the workload's records.
    pub(crate) fn load(workspace: &Workspace, cpu: Option<u32>) -> Ycsb {
        Ycsb::new(workspace, cpu, "load")
    }

    /// `ycsb run`: the workload's operations.
    pub(crate) fn run(workspace: &Workspace, cpu: Option<u32>) -> Ycsb {
        Ycsb::new(workspace, cpu, "run")
    }

    fn new(workspace: &Workspace, cpu: Option<u32>, phase: &str) -> Ycsb {
        let mut command = command::on_cpu(&workspace.release_program("ycsb"), cpu);
        command.arg(phase);
        Ycsb { command }
    }

    /// The store to drive, and how. Comes first: YCSB takes its target before its options.
    pub(crate) fn target(mut self, target: &Target, mode: Mode, requesters: u32) -> Ycsb {
        self.command.arg(target.name());
        let name = target.name();
        self = match target {
            // Redis speaks TCP, and what is compared are the stores.
            Target::Weft { cluster } => {
                self.property("weft.cluster", cluster).property("weft.link", "tcp")
            }
            Target::Redis { port } => {
                self.property("redis.host", "127.0.0.1").property("redis.port", port)
            }
        };
        self = self.property(&format!("{name}.mode"), mode.name());
        self.command.args(["-threads", &requesters.to_string()]);
        self
    }

    /// No more than `rate` operations a second, evenly.
    pub(crate) fn rate(mut self, rate: u32) -> Ycsb {
        self.command.args(["-target", &rate.to_string()]);
        self
    }

    /// A workload file in YCSB's own format.
    pub(crate) fn workload(mut self, name: &str) -> Ycsb {
        self.command.arg("-P").arg(Path::new("ycsb/workloads").join(name));
        self
    }

    /// A property, which wins over the workload file's.
    pub(crate) fn property(mut self, name: &str, value: impl ToString) -> Ycsb {
        self.command.args(["-p", &format!("{name}={}", value.to_string())]);
        self
    }

    /// Runs it and keeps its report at `path`.
    pub(crate) fn report(mut self, path: &Path) -> Result<Report> {
        println!("$ {}", command::line(self.command.arg("--json")));
        let printed = command::output(&mut self.command)?;
        fs::write(path, &printed).with_context(|| format!("failed to write {}", path.display()))?;
        let value = serde_json::from_str(&printed)
            .with_context(|| format!("`ycsb --json` printed something else: {printed}"))?;
        Ok(Report { value })
    }
}

impl Target {
    /// Its name on ycsb's command line, and the first word of its properties.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Target::Weft { .. } => "weft",
            Target::Redis { .. } => "redis",
        }
    }
}

impl Mode {
    pub(crate) const ALL: [Mode; 2] = [Mode::Blocking, Mode::Async];

    /// Its name as the value of a property.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Mode::Blocking => "blocking",
            Mode::Async => "async",
        }
    }
}

impl Report {
    /// Operations a second over the whole run.
    pub(crate) fn throughput(&self) -> Result<f64> {
        self.value["overall"]["throughput_ops_s"].as_f64().context("the report has no throughput")
    }

    /// A figure of one kind of operation, such as `("READ", "p99_us")`, if it has that kind.
    pub(crate) fn figure(&self, operation: &str, figure: &str) -> Option<f64> {
        self.value["operations"][operation][figure].as_f64()
    }

    /// Operations that did not end well.
    pub(crate) fn errors(&self) -> u64 {
        self.operations().filter_map(|operation| operation["errors"].as_u64()).sum()
    }

    /// CPU seconds that `side` (`driver` or `server`) spent on a million operations, if known.
    pub(crate) fn cpu_seconds_a_million(&self, side: &str) -> Option<f64> {
        let count: u64 =
            self.operations().filter_map(|operation| operation["count"].as_u64()).sum();
        Some(self.value["cpu_seconds"][side].as_f64()? / (count as f64 / 1e6))
    }

    /// The whole report.
    pub(crate) fn json(&self) -> &Value {
        &self.value
    }

    fn operations(&self) -> impl Iterator<Item = &Value> {
        self.value["operations"].as_object().into_iter().flat_map(|operations| operations.values())
    }
}

/// Where the report of one invocation is kept under `folder`.
pub(crate) fn report_path(folder: &Path, target: &Target, mode: Mode, what: &str) -> PathBuf {
    folder.join(format!("{}-{}-{what}.json", target.name(), mode.name()))
}

#[cfg(test)]
mod tests {
    use super::Report;

    #[test]
    fn cpu_time_is_counted_over_all_operations() {
        let text = r#"{
            "overall": {"throughput_ops_s": 1000.0},
            "cpu_seconds": {"driver": 3.0, "server": null},
            "operations": {
                "READ": {"count": 1500000, "errors": 1, "p99_us": 7.5},
                "UPDATE": {"count": 500000, "errors": 2}
            }
        }"#;
        let report = Report { value: serde_json::from_str(text).unwrap() };
        assert_eq!(report.throughput().unwrap(), 1000.0);
        assert_eq!(report.figure("READ", "p99_us"), Some(7.5));
        assert_eq!(report.errors(), 3);
        assert_eq!(report.cpu_seconds_a_million("driver"), Some(1.5));
        assert_eq!(report.cpu_seconds_a_million("server"), None);
    }
}
