//! How long things take, and how many there are in a second.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use weft_object::channel::Sent;
use weft_transport::{Replies, Reply};

/// What is under way together.
pub(crate) const TOGETHER: usize = 32;

/// Does something again and again, and says how long it took: percentiles, in microseconds. What is done first warms up.
pub(crate) fn latency(seconds: f64, mut once: impl FnMut() -> Result<()>) -> Result<Value> {
    const LEAST: usize = 12;
    let (whole, begun) = (Duration::from_secs_f64(seconds), Instant::now());
    let mut times = Vec::new();
    while begun.elapsed() < whole || times.len() < LEAST {
        let before = Instant::now();
        once()?;
        times.push(before.elapsed().as_nanos() as f64 / 1e3);
    }
    times.drain(..times.len() / 4);
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    Ok(json!({ "p5": at(0.05), "p50": at(0.5), "p95": at(0.95), "count": times.len() }))
}

/// A graph, or what stands for one, on its way.
pub(crate) enum Flight {
    Graph(Sent),
    Call(Replies),
}

impl Flight {
    pub(crate) async fn land(self) -> Result<()> {
        match self {
            Self::Graph(sent) => Ok(sent.wait().await?),
            Self::Call(mut replies) => {
                let reply = replies.next().await.transpose()?;
                ensure!(reply.is_some_and(|reply| is_fine(&reply)), "the receiver refuses it");
                Ok(())
            }
        }
    }
}

/// Sends one after the other, of which some are under way together. Returns how many there were in a second.
pub(crate) async fn rate(
    seconds: f64,
    mut start: impl AsyncFnMut() -> Result<Flight>,
) -> Result<f64> {
    let whole = Duration::from_secs_f64(seconds);
    let mut under_way = VecDeque::new();
    let (mut begun, mut count, mut is_warm) = (Instant::now(), 0_u64, false);
    loop {
        under_way.push_back(start().await?);
        if under_way.len() < TOGETHER {
            continue;
        }
        if let Some(first) = under_way.pop_front() {
            first.land().await?;
        }
        count += 1;
        let elapsed = begun.elapsed();
        if !is_warm && elapsed > whole / 4 {
            (begun, count, is_warm) = (Instant::now(), 0, true);
        } else if elapsed > whole && is_warm {
            break;
        }
    }
    let rate = count as f64 / begun.elapsed().as_secs_f64();
    for flight in under_way {
        flight.land().await?;
    }
    Ok(rate)
}

/// Whether a reply says that all went well.
pub(crate) fn is_fine(reply: &Reply) -> bool {
    reply.first() == Some(&1)
}

/// What a reply says something adds up to.
pub(crate) fn sum(reply: &Reply) -> Option<f64> {
    let sum = reply.get(8..16)?;
    is_fine(reply).then(|| f64::from_le_bytes(std::array::from_fn(|at| sum[at])))
}
