//! What SIGINT and SIGTERM do to a job on this machine: it ends as one that fails, so that nothing half-done is left of it, and then the command ends as the signal has it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;

use parking_lot::Mutex;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::launch::{Happening, Told};

pub(crate) struct Interrupt {
    /// The signal that has come first, or 0.
    signal: Arc<AtomicUsize>,
    /// Nothing is left to be done for which the command would have to stay.
    is_over: AtomicBool,
    /// Wakes who watches the workers of an attempt.
    wake: Mutex<Option<Sender<Told>>>,
}

impl Interrupt {
    /// From here on, the first signal waits for [`exit`](Self::exit), and another one ends the command at once.
    pub(crate) fn watch() -> io::Result<Arc<Interrupt>> {
        let signal = Arc::new(AtomicUsize::new(0));
        let (is_over, wake) = (AtomicBool::new(false), Mutex::new(None));
        let interrupt = Arc::new(Interrupt { signal, is_over, wake });
        let heeded: Vec<i32> =
            [SIGINT, SIGTERM].into_iter().filter(|signal| !is_ignored(*signal)).collect();
        for signal in &heeded {
            // At once: workers of the same terminal end by it, too, which is no loss.
            flag::register_usize(*signal, Arc::clone(&interrupt.signal), *signal as usize)?;
        }
        let mut signals = Signals::new(heeded)?;
        let watched = Arc::clone(&interrupt);
        std::thread::spawn(move || {
            for (before, signal) in signals.forever().enumerate() {
                if before > 0 || watched.is_over.load(Ordering::SeqCst) {
                    let _ = emulate_default_handler(signal);
                }
                watched.wake.lock().iter().for_each(cancel);
            }
        });
        Ok(interrupt)
    }

    /// Has whoever listens to an attempt's workers told of a signal, also if it has come already.
    pub(crate) fn wake(&self, tell: Sender<Told>) {
        let mut wake = self.wake.lock();
        if self.signal().is_some() {
            cancel(&tell);
        }
        *wake = Some(tell);
    }

    /// The signal that has come, if one has.
    pub(crate) fn signal(&self) -> Option<i32> {
        let signal = self.signal.load(Ordering::SeqCst);
        (signal != 0).then_some(signal as i32)
    }

    /// All is tidied up: a signal that comes from here on ends the command at once.
    pub(crate) fn let_go(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }

    /// All is tidied up: the signal that has come ends the command.
    pub(crate) fn exit(&self) {
        self.let_go();
        if let Some(signal) = self.signal() {
            let _ = emulate_default_handler(signal);
        }
    }
}

fn cancel(tell: &Sender<Told>) {
    // Nobody listens any more once the attempt has ended.
    let _ = tell.send(Told { worker: 0, what: Happening::Cancelled });
}

/// Whether whoever started the command wants it to pass a signal over, as `nohup` does and a script for what runs beside it.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
