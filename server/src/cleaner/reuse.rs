//! Why segments are emptied although memory is left: a page that the log has not had before costs the system a fault and
//! a clearing, and the cache and the translations of addresses each one more place. Where half of the log is dead, moving what is live
//! of a few segments costs less, and the node stays small.
//!
//! Writers do it, as much as they write; what is left over waits for the next batch.

use std::sync::atomic::{AtomicI64, Ordering};

use crate::partitions::Partitions;
use crate::store::LogUse;

use super::{Cleaner, STEP_BYTES};

/// What may be live of the log when this begins.
const LIVE_MAX: f64 = 0.5;
/// What may be live of a segment that is emptied then, if its records are long: about a byte is moved for each that is gained.
const USE_MAX: f64 = 0.5;
/// What a record costs beside its bytes, in bytes: shorter ones have to be fewer.
const RECORD_BYTES: f64 = 128.0;
/// Bytes that are written before the log is looked at again when there was nothing to do …
const UNSEEN_MIN: u64 = 4 << 20;
/// … or this part of it: about so much has to die before there is.
const UNSEEN_SHARE: u64 = 16;

/// How far writers are with what they owe.
#[derive(Debug, Default)]
pub(super) struct Reuse {
    /// Bytes that were written and not gained back; negative while nobody is to look.
    debt_bytes: AtomicI64,
}

impl Cleaner {
    /// Takes steps for `written_bytes` of log that a batch has written, if enough of the log is dead. The caller may hold no
    /// partition's lock.
    #[inline]
    pub(super) fn reuse(&self, partitions: &Partitions, written_bytes: u64, now_ms: u64) {
        let owed_bytes = written_bytes.cast_signed();
        let debt_bytes = self.reuse.debt_bytes.fetch_add(owed_bytes, Ordering::Relaxed);
        if debt_bytes + owed_bytes > 0 {
            self.empty_for(partitions, written_bytes, now_ms);
        }
    }

    #[cold]
    fn empty_for(&self, partitions: &Partitions, written_bytes: u64, now_ms: u64) {
        // Whoever cleans already pays for all.
        let Some(mut queue) = self.queue.try_lock() else { return };
        queue.drop_fuller_than(USE_MAX);
        let debt = &self.reuse.debt_bytes;
        // Twice as much as was written, so that it comes to an end, and a little at a time: nothing is short.
        for _ in 0..=2 * written_bytes / STEP_BYTES as u64 {
            let step = if queue.is_empty() {
                let log = partitions.log_use();
                let step = use_max(&log)
                    .and_then(|use_max| self.step_with(&mut queue, partitions, use_max, now_ms));
                if step.is_none() {
                    let unseen_bytes = (log.bytes / UNSEEN_SHARE).max(UNSEEN_MIN);
                    debt.store(-unseen_bytes.cast_signed(), Ordering::Relaxed);
                }
                step
            } else {
                self.step_with(&mut queue, partitions, USE_MAX, now_ms)
            };
            let Some(done) = step else { return };
            // What was moved takes room elsewhere.
            let gained_bytes = done.freed_bytes.cast_signed() - done.moved_bytes.cast_signed();
            if debt.fetch_sub(gained_bytes, Ordering::Relaxed) <= gained_bytes {
                return;
            }
        }
    }
}

/// What may be live of a segment that is emptied, by what the log holds; nothing while too much of it is live.
fn use_max(log: &LogUse) -> Option<f64> {
    let live_bytes = log.live_bytes as f64;
    let record_bytes = live_bytes / log.objects.max(1) as f64;
    let use_max = USE_MAX * record_bytes / (record_bytes + RECORD_BYTES);
    (live_bytes <= LIVE_MAX * log.bytes as f64).then_some(use_max)
}
