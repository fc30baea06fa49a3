//! A worker's points, to be gone through as often as one likes, whether memory has room for them or not.

use crate::error::JobError;
use crate::spool::Spool;
use crate::worker::Worker;

/// Points, in the order in which they came: in half of the memory, and behind that in a file ([`WorkerConfig::spill_folder`](crate::WorkerConfig::spill_folder)).
#[derive(Debug)]
pub struct KeptPoints {
    dimensions: usize,
    count: u64,
    /// The numbers of all points, one point behind the other.
    values: Spool<f64>,
}

impl KeptPoints {
    /// None so far, of so many dimensions.
    pub(crate) fn new(worker: &Worker, dimensions: usize) -> KeptPoints {
        KeptPoints { dimensions, count: 0, values: Spool::new(worker.spilling().clone()) }
    }

    pub(crate) fn push(&mut self, point: &[f64]) -> Result<(), JobError> {
        debug_assert_eq!(point.len(), self.dimensions);
        self.count += 1;
        point.iter().try_for_each(|number| self.values.push(*number))
    }

    /// How many numbers a point has.
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// How many there are.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Calls `each` with all of them, in order.
    ///
    /// # Errors
    /// What lies in a file cannot be read, and what `each` fails with.
    pub fn each(
        &self,
        mut each: impl FnMut(&[f64]) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        // What the parts that numbers are kept in have cut through.
        let mut cut = Vec::with_capacity(self.dimensions);
        self.values.for_each_part(|mut part| {
            if !cut.is_empty() {
                let (rest, behind) = part.split_at(part.len().min(self.dimensions - cut.len()));
                cut.extend_from_slice(rest);
                part = behind;
                if cut.len() < self.dimensions {
                    return Ok(());
                }
                each(&cut)?;
                cut.clear();
            }
            let mut points = part.chunks_exact(self.dimensions);
            points.by_ref().try_for_each(&mut each)?;
            cut.extend_from_slice(points.remainder());
            Ok(())
        })
    }
}
