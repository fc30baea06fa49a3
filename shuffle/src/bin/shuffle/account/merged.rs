//! What all workers have told, put together stage by stage.

use serde::Serialize;

use super::told::{Input, Told, ToldFile, ToldStage, ToldUnfinished};
use crate::event::Now;

/// What is known of the workers of an attempt.
pub(super) struct Known<'a> {
    pub(super) told: &'a [Option<Told>],
    /// What they were doing when they said so last.
    pub(super) looks: &'a [Option<Now>],
    /// The number of the stage that it has failed in, if it has.
    pub(super) failed: Option<u32>,
}

/// The stages of a job over all its workers.
#[derive(Clone, Debug, Default)]
pub(super) struct Merged {
    pub(super) stages: Vec<MergedStage>,
    pub(super) read: Vec<String>,
    pub(super) written: Vec<ToldFile>,
    /// Bytes from each worker to each.
    pub(super) bytes_between: Vec<Vec<u64>>,
    /// Exchanges that were counted with others, on the worker that has most of them.
    pub(super) exchanges_merged: u64,
}

/// How a stage ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StageEnd {
    /// On all workers.
    Done,
    /// The attempt has failed in it, or in what follows it.
    Failed,
    /// It was going on on a worker when the attempt failed elsewhere.
    Stopped,
}

/// A stage over all workers; what is `by_worker` is in their order, with nothing where a worker has not told of the stage.
#[derive(Clone, Debug, Serialize)]
pub(super) struct MergedStage {
    pub(super) number: u32,
    pub(super) verb: String,
    pub(super) end: StageEnd,
    pub(super) in_loop: Option<u32>,
    pub(super) times: u64,
    pub(super) inputs: Vec<Input>,
    /// Of the worker that took the longest, all times together.
    pub(super) seconds: f64,
    pub(super) seconds_shortest: f64,
    pub(super) seconds_longest: f64,
    pub(super) seconds_by_worker: Vec<f64>,
    pub(super) waiting_by_worker: Vec<f64>,
    /// Records that workers have made for it: for others and for themselves.
    pub(super) records_in: u64,
    pub(super) records_in_by_worker: Vec<u64>,
    /// Records that workers have of it: their own, and what has come.
    pub(super) records_out: u64,
    pub(super) records_out_by_worker: Vec<u64>,
    /// Records that went from one worker to another.
    pub(super) records_shuffled: u64,
    /// The most that a worker has of what comes out, by the mean.
    pub(super) skew: Option<f64>,
    pub(super) bytes_shuffled: u64,
    pub(super) bytes_sent_by_worker: Vec<u64>,
    pub(super) bytes_received_by_worker: Vec<u64>,
    pub(super) segments: u64,
    pub(super) bytes_spilled: u64,
    pub(super) bytes_spilled_by_worker: Vec<u64>,
}

impl Merged {
    pub(super) fn of(known: &Known<'_>) -> Merged {
        let (told, workers) = (known.told, known.told.len());
        let mut merged =
            Merged { bytes_between: vec![vec![0; workers]; workers], ..Self::default() };
        for (worker, told) in told.iter().enumerate() {
            let Some(told) = told else { continue };
            for stage in &told.stages {
                let sent = merged.bytes_between[worker].iter_mut().zip(&stage.bytes_sent);
                sent.for_each(|(all, bytes)| *all += bytes);
                merged
                    .stage((stage.number, &stage.verb, stage.in_loop), workers)
                    .add(worker, stage);
            }
            told.read.iter().for_each(|path| add_new(&mut merged.read, path));
            for file in &told.written {
                match merged.written.iter_mut().find(|known| known.path == file.path) {
                    None => merged.written.push(file.clone()),
                    Some(known) => {
                        file.inputs.iter().for_each(|input| add_new(&mut known.inputs, input));
                    }
                }
            }
            merged.exchanges_merged = merged.exchanges_merged.max(told.merged);
        }
        merged.add_unfinished(known);
        let is_known =
            |(told, look): (&Option<Told>, &Option<Now>)| told.is_some() || look.is_some();
        let has_told: Vec<bool> = told.iter().zip(known.looks).map(is_known).collect();
        merged.stages.iter_mut().for_each(|stage| stage.skew = stage.skew_of(&has_told));
        merged.stages.sort_by_key(|stage| stage.number);
        merged
    }

    /// What had begun when the attempt failed.
    fn add_unfinished(&mut self, known: &Known<'_>) {
        for (worker, (told, look)) in known.told.iter().zip(known.looks).enumerate() {
            let unfinished = match (told, look) {
                (Some(told), _) => told.unfinished.clone(),
                (None, Some(now)) if now.verb.is_some() => Some(ToldUnfinished::from(now.clone())),
                (None, _) => None,
            };
            let Some(unfinished) = unfinished else { continue };
            let ToldUnfinished { number, verb, in_loop, .. } = &unfinished;
            let stage = self.stage((*number, verb, *in_loop), known.told.len());
            stage.add_unfinished(worker, &unfinished);
        }
        for stage in &mut self.stages {
            if known.failed == Some(stage.number) {
                stage.end = StageEnd::Failed;
            }
            // Of one that has never ended.
            stage.seconds_shortest = stage.seconds_shortest.min(stage.seconds);
        }
    }

    /// The stage with a number, which some verb has made in some loop.
    fn stage(
        &mut self,
        (number, verb, in_loop): (u32, &str, Option<u32>),
        workers: usize,
    ) -> &mut MergedStage {
        let place = self.stages.iter().position(|stage| stage.number == number);
        let place = place.unwrap_or_else(|| {
            self.stages.push(MergedStage::new((number, verb, in_loop), workers));
            self.stages.len() - 1
        });
        &mut self.stages[place]
    }
}

impl MergedStage {
    fn new((number, verb, in_loop): (u32, &str, Option<u32>), workers: usize) -> MergedStage {
        MergedStage {
            number,
            verb: verb.to_owned(),
            end: StageEnd::Done,
            in_loop,
            times: 0,
            inputs: Vec::new(),
            seconds: 0.0,
            seconds_shortest: f64::INFINITY,
            seconds_longest: 0.0,
            seconds_by_worker: vec![0.0; workers],
            waiting_by_worker: vec![0.0; workers],
            records_in: 0,
            records_in_by_worker: vec![0; workers],
            records_out: 0,
            records_out_by_worker: vec![0; workers],
            records_shuffled: 0,
            skew: None,
            bytes_shuffled: 0,
            bytes_sent_by_worker: vec![0; workers],
            bytes_received_by_worker: vec![0; workers],
            segments: 0,
            bytes_spilled: 0,
            bytes_spilled_by_worker: vec![0; workers],
        }
    }

    fn add(&mut self, worker: usize, told: &ToldStage) {
        self.times = self.times.max(told.times);
        told.inputs.iter().for_each(|input| add_new(&mut self.inputs, input));
        self.seconds = self.seconds.max(told.seconds);
        self.seconds_shortest = self.seconds_shortest.min(told.shortest);
        self.seconds_longest = self.seconds_longest.max(told.longest);
        self.seconds_by_worker[worker] = told.seconds;
        self.waiting_by_worker[worker] = told.waiting;
        self.records_in += told.records_kept + told.records_sent;
        self.records_in_by_worker[worker] = told.records_kept + told.records_sent;
        self.records_out += told.records_kept + told.records_received;
        self.records_shuffled += told.records_sent;
        self.records_out_by_worker[worker] = told.records_kept + told.records_received;
        self.bytes_shuffled += told.bytes_sent.iter().sum::<u64>();
        self.bytes_sent_by_worker[worker] = told.bytes_sent.iter().sum();
        let received = self.bytes_received_by_worker.iter_mut().zip(&told.bytes_sent);
        received.for_each(|(all, bytes)| *all += bytes);
        self.segments += told.segments;
        self.bytes_spilled += told.bytes_spilled;
        self.bytes_spilled_by_worker[worker] = told.bytes_spilled;
    }

    /// What a worker has of it that did not come to its end.
    fn add_unfinished(&mut self, worker: usize, told: &ToldUnfinished) {
        self.end = StageEnd::Stopped;
        told.inputs.iter().for_each(|input| add_new(&mut self.inputs, input));
        self.seconds_by_worker[worker] += told.seconds;
        self.seconds = self.seconds.max(self.seconds_by_worker[worker]);
        self.waiting_by_worker[worker] += told.waiting;
        self.records_in += told.records_made;
        self.records_in_by_worker[worker] += told.records_made;
        self.records_out += told.records_held;
        self.records_out_by_worker[worker] += told.records_held;
        self.bytes_shuffled += told.bytes_sent;
        self.bytes_sent_by_worker[worker] += told.bytes_sent;
        self.bytes_spilled += told.bytes_spilled;
        self.bytes_spilled_by_worker[worker] += told.bytes_spilled;
    }

    /// Among the workers that have told of theirs; none where there are no records.
    fn skew_of(&self, has_told: &[bool]) -> Option<f64> {
        let records = self.records_out_by_worker.iter().zip(has_told).filter(|(_, told)| **told);
        let records: Vec<u64> = records.map(|(records, _)| *records).collect();
        skew(&records)
    }

    /// How much of the time of all workers they waited.
    pub(super) fn waiting_part(&self) -> f64 {
        let [waiting, seconds] = [&self.waiting_by_worker, &self.seconds_by_worker]
            .map(|by_worker| by_worker.iter().sum::<f64>());
        if seconds > 0.0 { (waiting / seconds).min(1.0) } else { 0.0 }
    }
}

/// The most by the mean: 1 where all have the same.
pub(crate) fn skew(counts: &[u64]) -> Option<f64> {
    let (most, all) = (counts.iter().max()?, counts.iter().sum::<u64>());
    (all > 0).then(|| *most as f64 * counts.len() as f64 / all as f64)
}

fn add_new<T: Clone + PartialEq>(all: &mut Vec<T>, new: &T) {
    if !all.contains(new) {
        all.push(new.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(number: u32, kept: u64, received: u64, bytes_sent: &[u64]) -> ToldStage {
        ToldStage {
            number,
            verb: "join".to_owned(),
            in_loop: None,
            times: 1,
            inputs: vec![Input::Read("left".to_owned())],
            seconds: 1.0 + kept as f64,
            shortest: 1.0,
            longest: 2.0,
            waiting: 0.5,
            records_kept: kept,
            records_sent: 1,
            records_received: received,
            bytes_sent: bytes_sent.to_vec(),
            segments: 1,
            bytes_spilled: kept,
        }
    }

    fn told(stages: Vec<ToldStage>) -> Told {
        let written = ToldFile { path: "out".to_owned(), inputs: vec![Input::Stage(3)] };
        Told {
            seconds: 9.0,
            peak_memory_bytes: 1,
            bytes_spilled: 0,
            stages,
            unfinished: None,
            timeline: Vec::new(),
            read: vec!["left".to_owned()],
            written: vec![written],
            merged: 0,
        }
    }

    #[test]
    fn what_workers_tell_is_added_up_by_stage_and_by_worker() {
        let of_workers = [
            Some(told(vec![stage(3, 1, 1, &[0, 10, 5]), stage(4, 0, 0, &[0, 0, 0])])),
            Some(told(vec![stage(3, 4, 2, &[7, 0, 2])])),
            None,
        ];
        let looks = [None, None, None];
        let merged = Merged::of(&Known { told: &of_workers, looks: &looks, failed: None });
        let [first, second] = &merged.stages[..] else { panic!("{merged:?}") };
        assert_eq!((first.number, second.number), (3, 4));
        assert_eq!(first.records_out_by_worker, [2, 6, 0]);
        // Of the two workers that have told.
        assert_eq!((first.skew, second.skew), (Some(1.5), None));
        assert_eq!((first.records_in, first.records_out, first.records_shuffled), (7, 8, 2));
        assert_eq!(first.bytes_sent_by_worker, [15, 9, 0]);
        assert_eq!(first.bytes_received_by_worker, [7, 10, 7]);
        assert_eq!((first.bytes_shuffled, first.bytes_spilled), (24, 5));
        assert_eq!(
            (first.seconds, first.seconds_by_worker.as_slice()),
            (5.0, &[2.0, 5.0, 0.0][..])
        );
        assert_eq!(merged.bytes_between, [[0, 10, 5], [7, 0, 2], [0, 0, 0]]);
        assert_eq!((merged.read.len(), merged.written.len(), first.inputs.len()), (1, 1, 1));
    }

    #[test]
    fn a_stage_that_was_going_on_is_there_with_what_was_counted() {
        let unfinished = ToldUnfinished {
            number: 4,
            verb: "sort_by_key".to_owned(),
            in_loop: None,
            inputs: vec![Input::Stage(3)],
            seconds: 2.5,
            waiting: 0.5,
            records_made: 10,
            records_held: 7,
            bytes_sent: 80,
            bytes_spilled: 5,
        };
        let failed = told(vec![stage(3, 1, 1, &[0, 10, 5])]);
        let of_workers = [Some(Told { unfinished: Some(unfinished), ..failed }), None, None];
        let now = |of, verb: Option<&str>| {
            let verb = verb.map(str::to_owned);
            let (records_made, records_held, bytes_sent) = (1, 2, 3);
            Some(Now { stage: 9, of, verb, after: None, records_made, records_held, bytes_sent })
        };
        // One has lost its words, and one is between two stages.
        let looks = [now(3, Some("join")), now(3, Some("join")), now(5, None)];
        let merged = Merged::of(&Known { told: &of_workers, looks: &looks, failed: Some(4) });
        let [first, second] = &merged.stages[..] else { panic!("{merged:?}") };
        assert_eq!((first.end, first.times), (StageEnd::Stopped, 1));
        assert_eq!((first.records_in_by_worker[1], first.records_out_by_worker[1]), (1, 2));
        assert_eq!((second.end, second.times), (StageEnd::Failed, 0));
        assert_eq!((second.number, second.verb.as_str()), (4, "sort_by_key"));
        assert_eq!((second.records_in, second.records_out), (10, 7));
        assert_eq!((second.bytes_shuffled, second.bytes_spilled), (80, 5));
        assert_eq!((second.seconds, second.seconds_shortest), (2.5, 2.5));
        assert_eq!(second.inputs, [Input::Stage(3)]);
    }

    #[test]
    fn skew_is_the_most_by_the_mean() {
        assert_eq!(skew(&[5, 5]), Some(1.0));
        assert_eq!(skew(&[0, 0, 9]), Some(3.0));
        assert_eq!((skew(&[0, 0]), skew(&[])), (None, None));
    }
}
