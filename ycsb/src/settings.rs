//! How a workload is driven, as YCSB's client reads it from properties.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use rustix::thread::sched_getaffinity;

use crate::measurement::Interval;
use crate::pace::Pace;
use crate::properties::{Properties, UsageError};
use crate::report::Format;
use crate::workload::{Phase, Workload};

/// Requesters of one process; each costs a thread in blocking mode.
pub(crate) const REQUESTERS_MAX: usize = 65_536;

/// How a workload is driven.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Concurrent requesters, never more than operations.
    pub(crate) requesters: usize,
    pub(crate) pace: Option<Pace>,
    /// `spin.sleep`, where there is a pace to keep.
    pub(crate) spin: bool,
    /// `maxexecutiontime`; `None`: until all operations are done.
    pub(crate) longest: Option<Duration>,
    /// `None`: another one every run.
    pub(crate) seed: Option<u64>,
    pub(crate) interval: Interval,
    pub(crate) status: Option<StatusSettings>,
    pub(crate) report: ReportSettings,
    /// `server.pids`.
    pub(crate) server_pids: Option<Vec<u32>>,
}

/// How progress is shown.
#[derive(Clone, Debug)]
pub(crate) struct StatusSettings {
    pub(crate) every: Duration,
    pub(crate) label: String,
}

/// What the report looks like and where it goes.
#[derive(Clone, Debug)]
pub(crate) struct ReportSettings {
    pub(crate) format: Format,
    /// Above 0, up to 100.
    pub(crate) percentiles: Vec<f64>,
    /// `None`: standard output.
    pub(crate) file: Option<PathBuf>,
}

impl ReportSettings {
    /// Opens what takes the report; done before the run, whose results must not be lost.
    #[expect(clippy::disallowed_methods, reason = "a report goes where the user wants it")]
    pub(crate) fn open(&self) -> Result<Box<dyn Write>, UsageError> {
        let Some(path) = &self.file else { return Ok(Box::new(io::stdout())) };
        let failed = |reason| UsageError::ExportFile { path: path.clone(), reason };
        Ok(Box::new(File::create(path).map_err(failed)?))
    }
}

impl Settings {
    pub(crate) fn new(
        properties: &Properties,
        workload: &Workload,
    ) -> Result<Settings, UsageError> {
        let requesters: usize = properties.number("threadcount")?;
        if requesters == 0 || requesters > REQUESTERS_MAX {
            return Err(properties.wrong("threadcount", "a whole number from 1 to 65536"));
        }
        let fewest = workload.operations.unwrap_or(u64::MAX);
        let requesters = requesters.min(usize::try_from(fewest).unwrap_or(usize::MAX));
        let target: u64 = properties.number("target")?;
        let longest: u64 = properties.number("maxexecutiontime")?;
        if workload.phase == Phase::Run && workload.operations.is_none() && longest == 0 {
            return Err(UsageError::Conflict {
                what: "the run would never end: operationcount and maxexecutiontime are both 0"
                    .to_owned(),
                advice: "set one of them by -p operationcount=N or -p maxexecutiontime=SECONDS",
            });
        }
        Ok(Settings {
            requesters,
            pace: (target > 0).then(|| Pace::new(target, requesters)),
            spin: properties.flag("spin.sleep")? && target > 0,
            longest: (longest > 0).then(|| Duration::from_secs(longest)),
            seed: properties.optional_number("seed")?,
            interval: interval(properties)?,
            status: status(properties)?,
            report: report(properties)?,
            server_pids: server_pids(properties)?,
        })
    }
}

/// A thread that spins while another has its core delays what the other would have done in that
/// time, so that neither is punctual.
pub(crate) fn check_spinning(threads: usize) -> Result<(), UsageError> {
    let cores = sched_getaffinity(None).map_or(1, |set| set.count() as usize).max(1);
    if threads <= cores {
        return Ok(());
    }
    Err(UsageError::Conflict {
        what: format!(
            "spin.sleep = true takes a core a thread: {threads} threads would spin, and this \
             process may run on {cores}"
        ),
        advice: "lower -threads, share fewer threads by ….mode=async, or leave spin.sleep out",
    })
}

fn interval(properties: &Properties) -> Result<Interval, UsageError> {
    properties.choice("measurementtype", &[("hdrhistogram", ())])?;
    let intervals =
        [("op", Interval::Operation), ("intended", Interval::Intended), ("both", Interval::Both)];
    properties.choice("measurement.interval", &intervals)
}

fn status(properties: &Properties) -> Result<Option<StatusSettings>, UsageError> {
    let every: u64 = properties.number("status.interval")?;
    if every == 0 {
        return Err(properties.wrong("status.interval", "a whole number above 0"));
    }
    let label = properties.text("label").unwrap_or_default().to_owned();
    let settings = StatusSettings { every: Duration::from_secs(every), label };
    Ok(properties.flag("status")?.then_some(settings))
}

fn report(properties: &Properties) -> Result<ReportSettings, UsageError> {
    let exporter = properties.required("exporter")?;
    let class = exporter.rsplit('.').next().unwrap_or(exporter);
    let format = match class {
        "TextMeasurementsExporter" => Format::Text,
        "JSONMeasurementsExporter" => Format::JsonLines,
        "JSONArrayMeasurementsExporter" => Format::JsonArray,
        _ => {
            let expected = "one of TextMeasurementsExporter, JSONMeasurementsExporter, \
                            JSONArrayMeasurementsExporter, with or without their package";
            return Err(properties.wrong("exporter", expected));
        }
    };
    let percentiles = properties.required("hdrhistogram.percentiles")?.split(',').map(|text| {
        let percentile = text.trim().parse().ok();
        percentile.filter(|percentile| (0.0..=100.0).contains(percentile))
    });
    let expected = "numbers from 0 to 100, divided by commas";
    let wrong = || properties.wrong("hdrhistogram.percentiles", expected);
    let percentiles = percentiles.collect::<Option<Vec<f64>>>().ok_or_else(wrong)?;
    Ok(ReportSettings { format, percentiles, file: properties.text("exportfile").map(Into::into) })
}

fn server_pids(properties: &Properties) -> Result<Option<Vec<u32>>, UsageError> {
    let Some(text) = properties.text("server.pids") else { return Ok(None) };
    let pids: Result<Vec<u32>, _> = text.split(',').map(|pid| pid.trim().parse()).collect();
    let wrong = |_| properties.wrong("server.pids", "process ids, divided by commas");
    pids.map(Some).map_err(wrong)
}
