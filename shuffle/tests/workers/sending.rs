//! What a worker sends, counted.

use weft_shuffle::{Dataset, WorkerId, records};

use crate::threads::run;

#[test]
fn records_leave_from_where_they_were_written() {
    let parts = run(2, |worker| {
        let other = WorkerId(1 - worker.id().0);
        records(0..1_000_000_u64).partition_by(|_| other).to_vec(worker).unwrap();
        let sent = (worker.bytes_sent(), worker.segments_gathered());
        // The counts are of open connections: nobody leaves before all have looked.
        worker.gather(0_u64).unwrap();
        sent
    });
    for (bytes, segments) in parts {
        assert_eq!(segments, 1_000_000_u64.div_ceil(8192), "each segment went from its block");
        assert!((8_000_000..8_100_000).contains(&bytes), "{bytes} bytes for 8,000,000 of records");
    }
}
