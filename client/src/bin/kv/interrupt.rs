//! Ctrl-C, for commands that go on until somebody has seen enough: it ends the command and not the program.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};

use futures_channel::oneshot;
use signal_hook::consts::SIGINT;
use signal_hook::flag;
use signal_hook::iterator::{Handle, Signals};

/// While it lives, Ctrl-C only tells it. Afterwards it ends the program again, as a command on a terminal that knows nothing of it expects.
pub(crate) struct Interrupt {
    pressed: oneshot::Receiver<()>,
    ends_program: Arc<AtomicBool>,
    handle: Handle,
    waiting: Option<JoinHandle<()>>,
}

impl Interrupt {
    /// # Errors
    /// When the system refuses a handler or a thread.
    pub(crate) fn heed() -> io::Result<Self> {
        let ends_program = ends_program()?;
        ends_program.store(false, Ordering::SeqCst);
        let mut signals = Signals::new([SIGINT])?;
        let handle = signals.handle();
        let (press, pressed) = oneshot::channel();
        let waiting = thread::Builder::new().name("interrupt".to_owned()).spawn(move || {
            if signals.forever().next().is_some() {
                // Nobody may want to know any more.
                let _ = press.send(());
            }
        })?;
        Ok(Self { pressed, ends_program, handle, waiting: Some(waiting) })
    }

    /// Until it is pressed.
    pub(crate) fn pressed(&mut self) -> &mut oneshot::Receiver<()> {
        &mut self.pressed
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        self.handle.close();
        if let Some(waiting) = self.waiting.take() {
            waiting.join().expect("it waits for a signal and does nothing else");
        }
        self.ends_program.store(true, Ordering::SeqCst);
    }
}

/// Whether Ctrl-C ends the program. What handles a signal once does so for as long as the program runs, so what it did by default has to be
/// done again.
fn ends_program() -> io::Result<Arc<AtomicBool>> {
    static ENDS_PROGRAM: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    if let Some(ends_program) = ENDS_PROGRAM.get() {
        return Ok(Arc::clone(ends_program));
    }
    let ends_program = Arc::new(AtomicBool::new(false));
    flag::register_conditional_default(SIGINT, Arc::clone(&ends_program))?;
    Ok(Arc::clone(ENDS_PROGRAM.get_or_init(|| ends_program)))
}
