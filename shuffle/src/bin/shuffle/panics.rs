//! What a worker's process tells when its job panics: where in the job, on which worker, and why.
//!
//! A panic is a fault of the program, such as of a function that a job gives to a verb. It would come again, so it ends the job and is not tried again, and the process ends at once,
//! whichever of its threads it was: what the thread was about to do for others is never done.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::PanicHookInfo;
use std::sync::Arc;

use weft_shuffle::{Live, Worker, WorkerId};

use crate::event::{Event, Failure, Now, tell};

/// From here on, a panic of this process is told as the failure of this worker.
pub(crate) fn tell_of(worker: &Worker) {
    let (id, live) = (worker.id(), worker.live());
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if Backtrace::capture().status() == BacktraceStatus::Captured {
            // It was asked for.
            default(panic);
        }
        let (text, now) = (text(id, &live, panic), live.now());
        let stage = now.verb.map(|verb| (now.stage, verb)).or(now.ended);
        let failure = Failure {
            is_consequence: false,
            is_loss: false,
            about: None,
            stage: stage.map(|(stage, verb)| (stage, verb.name().to_owned())),
            text,
        };
        // Nobody is there to be told if this fails.
        let _ = tell(&Event::Now(Now::of(&live)));
        let _ = tell(&Event::Failed(failure));
        std::process::exit(1);
    }));
}

fn text(id: WorkerId, live: &Arc<Live>, panic: &PanicHookInfo<'_>) -> String {
    let why = panic.payload_as_str().unwrap_or("it does not say why");
    let place = panic.location().map(|place| format!(" at {place}")).unwrap_or_default();
    // Partition w of whatever is shuffled is worker w's.
    format!("a panic in {}, on partition {}: {why}{place}", live.now(), id.0)
}
