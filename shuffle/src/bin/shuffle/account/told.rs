//! What a worker tells of its stages, in its last words.

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weft_shuffle::{Origin, Span, Stage, Stages, Unfinished, Worker, Written};

use crate::event::Now;

/// What a worker has done: times in seconds from when it had met the others.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Told {
    pub(crate) seconds: f64,
    pub(crate) peak_memory_bytes: u64,
    pub(crate) bytes_spilled: u64,
    pub(crate) stages: Vec<ToldStage>,
    pub(crate) unfinished: Option<ToldUnfinished>,
    pub(crate) timeline: Vec<ToldSpan>,
    pub(crate) read: Vec<String>,
    pub(crate) written: Vec<ToldFile>,
    pub(crate) merged: u64,
}

/// See [`Stage`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ToldStage {
    pub(crate) number: u32,
    pub(crate) verb: String,
    pub(crate) in_loop: Option<u32>,
    pub(crate) times: u64,
    pub(crate) inputs: Vec<Input>,
    pub(crate) seconds: f64,
    pub(crate) shortest: f64,
    pub(crate) longest: f64,
    pub(crate) waiting: f64,
    pub(crate) records_kept: u64,
    pub(crate) records_sent: u64,
    pub(crate) records_received: u64,
    pub(crate) bytes_sent: Vec<u64>,
    pub(crate) segments: u64,
    pub(crate) bytes_spilled: u64,
}

/// See [`Unfinished`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ToldUnfinished {
    pub(crate) number: u32,
    pub(crate) verb: String,
    pub(crate) in_loop: Option<u32>,
    pub(crate) inputs: Vec<Input>,
    pub(crate) seconds: f64,
    pub(crate) waiting: f64,
    pub(crate) records_made: u64,
    pub(crate) records_held: u64,
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_spilled: u64,
}

/// See [`Span`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ToldSpan {
    pub(crate) stage: u32,
    pub(crate) began: f64,
    pub(crate) ended: f64,
    pub(crate) times: u64,
    pub(crate) seconds: f64,
    pub(crate) waiting: f64,
}

/// A file that was written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ToldFile {
    pub(crate) path: String,
    pub(crate) inputs: Vec<Input>,
}

/// What something was made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Input {
    Stage(u32),
    Read(String),
}

impl Told {
    /// What a worker has done so far.
    pub(crate) fn of(worker: &Worker) -> Told {
        let Stages { elapsed, stages, unfinished, timeline, read, written, merged } =
            worker.stages();
        Told {
            seconds: elapsed.as_secs_f64(),
            peak_memory_bytes: worker.peak_memory_bytes().unwrap_or(0),
            bytes_spilled: worker.bytes_spilled(),
            stages: stages.into_iter().map(ToldStage::from).collect(),
            unfinished: unfinished.map(ToldUnfinished::from),
            timeline: timeline.into_iter().map(ToldSpan::from).collect(),
            read: read.iter().map(|path| text(path)).collect(),
            written: written.into_iter().map(ToldFile::from).collect(),
            merged,
        }
    }
}

impl From<Stage> for ToldStage {
    fn from(stage: Stage) -> ToldStage {
        let [seconds, shortest, longest, waiting] =
            [stage.time, stage.shortest, stage.longest, stage.waiting].map(seconds);
        ToldStage {
            number: stage.number,
            verb: stage.verb.name().to_owned(),
            in_loop: stage.in_loop,
            times: stage.times,
            inputs: inputs(stage.inputs),
            seconds,
            shortest,
            longest,
            waiting,
            records_kept: stage.records_kept,
            records_sent: stage.records_sent,
            records_received: stage.records_received,
            bytes_sent: stage.bytes_sent,
            segments: stage.segments,
            bytes_spilled: stage.bytes_spilled,
        }
    }
}

impl From<Unfinished> for ToldUnfinished {
    fn from(stage: Unfinished) -> ToldUnfinished {
        let [seconds, waiting] = [stage.time, stage.waiting].map(seconds);
        ToldUnfinished {
            number: stage.number,
            verb: stage.verb.name().to_owned(),
            in_loop: stage.in_loop,
            inputs: inputs(stage.inputs),
            seconds,
            waiting,
            records_made: stage.records_made,
            records_held: stage.records_held,
            bytes_sent: stage.bytes_sent,
            bytes_spilled: stage.bytes_spilled,
        }
    }
}

impl From<Now> for ToldUnfinished {
    /// What a worker was doing that had no time to tell more.
    fn from(now: Now) -> ToldUnfinished {
        ToldUnfinished {
            number: now.of,
            verb: now.verb.unwrap_or_default(),
            in_loop: None,
            inputs: Vec::new(),
            seconds: 0.0,
            waiting: 0.0,
            records_made: now.records_made,
            records_held: now.records_held,
            bytes_sent: now.bytes_sent,
            bytes_spilled: 0,
        }
    }
}

impl From<Span> for ToldSpan {
    fn from(Span { number, began, ended, times, time, waiting }: Span) -> ToldSpan {
        let [began, ended, seconds, waiting] = [began, ended, time, waiting].map(seconds);
        ToldSpan { stage: number, began, ended, times, seconds, waiting }
    }
}

impl From<Written> for ToldFile {
    fn from(written: Written) -> ToldFile {
        ToldFile { path: text(&written.path), inputs: inputs(written.inputs) }
    }
}

fn inputs(origins: Vec<Origin>) -> Vec<Input> {
    let origins = origins.into_iter().map(|origin| match origin {
        Origin::Stage(number) => Input::Stage(number),
        Origin::Read(path) => Input::Read(text(&path)),
    });
    origins.collect()
}

/// To the microsecond: more digits say nothing.
fn seconds(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e6
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
