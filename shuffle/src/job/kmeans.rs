//! k-means: so many centres that points lie near to them, by Lloyd's method (1982).
//!
//! Points stay where they were read, in memory as far as that has room for them, and behind that in a file. In each round a worker adds up which of its points are nearest to which centre, and all get the sums of all, in the same order, so that the
//! centres are the same on all of them to the last bit.

use std::cmp::Ordering;
use std::hash::BuildHasher as _;

use foldhash::fast::FixedState;
use weft_object::Types;

use crate::dataset::{Dataset, Round, records};
use crate::error::JobError;
use crate::kept_points::KeptPoints;
use crate::point_file::Points;
use crate::worker::Worker;

/// What to look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KMeans {
    /// How many centres, at least 1.
    pub clusters: usize,
    /// The most rounds; it ends before if no centre moves.
    pub iterations: usize,
    /// Which points are the first centres.
    pub seed: u64,
}

/// What was found: the same on all workers.
#[derive(Clone, Debug, PartialEq)]
pub struct Clusters {
    /// The centres.
    pub centres: Points,
    /// How many points are nearest to each.
    pub sizes: Vec<u64>,
    /// The squares of the distances of all points from the nearest, added up.
    pub cost: f64,
    /// Whether it ended because no centre moved.
    pub is_settled: bool,
}

/// What is added up of the points nearest to each centre.
struct Sums {
    dimensions: usize,
    /// For each centre, the sums of the points' numbers, and how many points there are; behind all, the cost.
    values: Vec<f64>,
}

impl KMeans {
    /// The types of records that [`run`](Self::run) exchanges.
    pub fn types(types: Types) -> Types {
        types.with::<u64>().with::<f64>()
    }

    /// Which of two points becomes a first centre before the other: the one with the lower number. It depends on the seed and the point alone, so
    /// the number of workers and the order of the points have no part in it.
    pub fn priority(&self, point: &[f64]) -> u64 {
        // Zero has two signs, and is one number.
        let bits: Vec<u64> = point.iter().map(|number| (number + 0.0).to_bits()).collect();
        FixedState::with_seed(self.seed).hash_one(bits)
    }

    /// Looks for the centres of all workers' points. `at_round` is called as each round begins.
    ///
    /// # Errors
    /// There are fewer distinct points than centres, or workers have points of other dimensions, or what an exchange fails with.
    pub fn run(
        &self,
        worker: &Worker,
        points: &KeptPoints,
        mut at_round: impl FnMut(usize),
    ) -> Result<Clusters, JobError> {
        let dimensions = points.dimensions();
        if worker.gather(dimensions as u64)?.iter().any(|other| *other != dimensions as u64) {
            return Err(JobError::Job("workers have points of different dimensions".to_owned()));
        }
        let first = self.first_centres(worker, points)?;
        let mut is_settled = false;
        let centres = records(first)
            .iterate_until(self.iterations, |worker, round, centres: Vec<f64>| {
                at_round(round);
                let sums = Sums::of(points, &centres)?.of_all(worker)?;
                let moved = sums.centres(&centres);
                is_settled = moved == centres;
                let moved = records(moved);
                Ok(if is_settled { Round::Last(moved) } else { Round::Next(moved) })
            })
            .to_vec(worker)?;
        let sums = Sums::of(points, &centres)?.of_all(worker)?;
        let sizes = sums.rows().map(|(_, count)| count as u64).collect();
        let centres = Points::new(dimensions, centres);
        Ok(Clusters { centres, sizes, cost: sums.cost(), is_settled })
    }

    /// The distinct points of all workers with the lowest priorities. Exchanges.
    fn first_centres(&self, worker: &Worker, points: &KeptPoints) -> Result<Vec<f64>, JobError> {
        let own = self.candidates(points)?;
        let priorities = records(own.iter().map(|(priority, _)| *priority));
        let values = records(own.iter().flat_map(|(_, point)| point).copied());
        let priorities = priorities.broadcast().to_vec(worker)?;
        let values = values.broadcast().to_vec(worker)?;
        let mut all: Vec<(u64, &[f64])> =
            priorities.into_iter().zip(values.chunks_exact(points.dimensions())).collect();
        self.choose(&mut all);
        if all.len() < self.clusters {
            return Err(JobError::Job(format!(
                "the points have {} distinct places, where {} centres are asked for",
                all.len(),
                self.clusters
            )));
        }
        Ok(all.into_iter().flat_map(|(_, point)| point).copied().collect())
    }

    /// Those of a worker's points that may be among them. No more points are kept meanwhile than twice as many.
    fn candidates(&self, points: &KeptPoints) -> Result<Vec<(u64, Vec<f64>)>, JobError> {
        let mut candidates: Vec<(u64, Vec<f64>)> = Vec::new();
        let mut highest = u64::MAX;
        points.each(|point| {
            let priority = self.priority(point);
            if priority > highest {
                return Ok(());
            }
            candidates.push((priority, point.to_vec()));
            if candidates.len() > 2 * self.clusters {
                self.choose(&mut candidates);
                // What comes behind so many has no part in it.
                if let Some((last, _)) = candidates.get(self.clusters - 1) {
                    highest = *last;
                }
            }
            Ok(())
        })?;
        self.choose(&mut candidates);
        Ok(candidates)
    }

    /// Leaves of distinct points those with the lowest priorities, as many as there are centres.
    fn choose<P: AsRef<[f64]>>(&self, points: &mut Vec<(u64, P)>) {
        let by_place = |(one, a): &(u64, P), (other, b): &(u64, P)| {
            let places = || a.as_ref().partial_cmp(b.as_ref()).unwrap_or(Ordering::Equal);
            one.cmp(other).then_with(places)
        };
        points.sort_unstable_by(by_place);
        points.dedup_by(|one, other| one.1.as_ref() == other.1.as_ref());
        points.truncate(self.clusters);
    }
}

impl Sums {
    /// Of a worker's points, by the nearest of the centres; of those equally near, the first.
    fn of(points: &KeptPoints, centres: &[f64]) -> Result<Sums, JobError> {
        let dimensions = points.dimensions();
        let clusters = centres.len() / dimensions;
        let mut values = vec![0.0; clusters * (dimensions + 1) + 1];
        let mut cost = 0.0;
        points.each(|point| {
            let distances = centres.chunks_exact(dimensions).map(|centre| distance(point, centre));
            let nearest = (0..).zip(distances).min_by(|one, other| one.1.total_cmp(&other.1));
            let Some((cluster, least)) = nearest else { return Ok(()) };
            cost += least;
            let begin = cluster * (dimensions + 1);
            let row = &mut values[begin..=begin + dimensions];
            row.iter_mut().zip(point).for_each(|(sum, number)| *sum += number);
            row[dimensions] += 1.0;
            Ok(())
        })?;
        values[clusters * (dimensions + 1)] = cost;
        Ok(Sums { dimensions, values })
    }

    /// Those of all workers, added up in the same order on all of them. An exchange.
    fn of_all(self, worker: &Worker) -> Result<Sums, JobError> {
        let len = self.values.len();
        let all = records(self.values).broadcast().to_vec(worker)?;
        if all.len() != len * worker.workers() {
            return Err(JobError::Job(
                "workers have sums of different numbers of centres".to_owned(),
            ));
        }
        let mut values = vec![0.0; len];
        for of_worker in all.chunks_exact(len) {
            values.iter_mut().zip(of_worker).for_each(|(sum, value)| *sum += value);
        }
        if values.iter().any(|sum| !sum.is_finite()) {
            let text = "the points lie too far apart: what is added up of them is beyond numbers of 64 bits; scale them";
            return Err(JobError::Job(text.to_owned()));
        }
        Ok(Sums { values, ..self })
    }

    /// For each centre, the sums and the count.
    fn rows(&self) -> impl Iterator<Item = (&[f64], f64)> {
        // Behind them is the cost alone, which is no row.
        let rows = self.values.chunks_exact(self.dimensions + 1);
        rows.map(|row| (&row[..self.dimensions], row[self.dimensions]))
    }

    fn cost(&self) -> f64 {
        self.values.last().copied().unwrap_or(0.0)
    }

    /// The middle of the points of each; one that has none stays where it is.
    fn centres(&self, before: &[f64]) -> Vec<f64> {
        let before = before.chunks_exact(self.dimensions);
        let moved = self.rows().zip(before).flat_map(|((sums, count), before)| {
            sums.iter()
                .zip(before)
                .map(move |(sum, before)| if count > 0.0 { sum / count } else { *before })
        });
        moved.collect()
    }
}

/// The square of the distance.
fn distance(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(one, other)| (one - other) * (one - other)).sum()
}
