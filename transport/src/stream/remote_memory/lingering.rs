//! What becomes of a stream that nobody has any more: the device sends what it was given, as the kernel does for a socket.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::{Line, ended};
use crate::link::RingLink;

/// How long the device is given where there is no executor, or none any more.
const LINGER: Duration = Duration::from_millis(500);

/// A line that is kept until its device has sent everything.
struct Lingering {
    line: Arc<Line>,
}

/// Keeps `line` until its device has sent everything.
pub(super) fn linger(line: Arc<Line>) {
    if line.link.get_ref().is_settled() {
        return;
    }
    let lingering = Lingering { line };
    if let Ok(executor) = Handle::try_current() {
        executor.spawn(async move {
            // An error is an end, too.
            let _ = poll_fn(|cx| lingering.line.poll_until(cx, RingLink::is_settled)).await;
        });
    }
}

impl Drop for Lingering {
    #[expect(clippy::disallowed_methods, reason = "nobody else is left to wait for the device")]
    fn drop(&mut self) {
        let began = std::time::Instant::now();
        let link = self.line.link.get_ref();
        while !link.is_settled() && began.elapsed() < LINGER {
            self.line.poll();
            if ended(self.line.socket.get_ref()).is_ok() {
                link.end();
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}
