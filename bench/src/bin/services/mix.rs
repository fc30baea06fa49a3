//! How much memory holds what is received while requests of all lengths come.

use anyhow::Result;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;

use crate::served::BlockingMeasuredClient;

/// Requests have ten bytes to a mebibyte, by powers of two as often.
const LENGTHS: std::ops::Range<f64> = 3.3..20.0;
const CALLS: u32 = 20_000;
/// How often the other side is asked.
const EVERY: u32 = 100;

/// Calls with arrays of bytes, and prints what the other side holds before, at most while, and after.
pub(crate) fn run(client: &BlockingMeasuredClient) -> Result<()> {
    let mut random = SmallRng::seed_from_u64(7);
    let before = client.receive_bytes()?;
    let (mut sent, mut most) = (0, before);
    for call in 0..CALLS {
        let bytes = vec![7; random.random_range(LENGTHS).exp2() as usize];
        sent += bytes.len();
        client.bytes(&bytes)?;
        if call % EVERY == 0 {
            most = most.max(client.receive_bytes()?);
        }
    }
    let after = client.receive_bytes()?;
    let receive_bytes = json!({ "before": before, "most": most, "after": after });
    println!(
        "{}",
        json!({ "case": "mix", "calls": CALLS, "sent_bytes": sent, "receive_bytes": receive_bytes })
    );
    Ok(())
}
