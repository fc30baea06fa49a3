//! The device that the streams of a process use: opened by the first, closed by the last.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::super::choice::Choice;
use super::super::ffi::AsyncEvent;
use super::{PIECES_MAX, SENDS_MAX};
use crate::link::verbs_options::{VerbsError, VerbsOptions};
use crate::link::verbs_rules::flow::RECEIVES;

/// Those that are open, and by which options.
static OPEN: Mutex<Vec<(VerbsOptions, Weak<RingDevice>)>> = Mutex::new(Vec::new());

/// An open device, as streams use it.
#[derive(Debug)]
pub(crate) struct RingDevice {
    pub(super) choice: Choice,
}

impl RingDevice {
    /// Opens the device that `options` choose, or finds it open.
    ///
    /// # Errors
    /// Why there is none that streams could use.
    pub(crate) fn open(options: &VerbsOptions) -> Result<Arc<Self>, VerbsError> {
        let mut open = OPEN.lock();
        open.retain(|(_, device)| device.strong_count() > 0);
        let found = open.iter().find(|(by, _)| by == options);
        if let Some(device) = found.and_then(|(_, device)| device.upgrade()) {
            device.hear_events();
            return Ok(device);
        }
        let choice = Choice::make(options)?;
        let can = choice.context.attributes();
        let can = can
            .map_err(|source| VerbsError::System { what: "ask what the device can do", source })?;
        let is_fit = can.max_sge >= PIECES_MAX as i32
            && can.max_qp_wr >= SENDS_MAX as i32
            && can.max_cqe >= SENDS_MAX as i32 + RECEIVES as i32;
        if !is_fit {
            return Err(VerbsError::Unfit { device: choice.context.name().to_owned() });
        }
        let device = Arc::new(Self { choice });
        open.push((options.clone(), Arc::downgrade(&device)));
        Ok(device)
    }

    /// Takes in what the device reports by itself. What fails is told to its stream by completions too.
    fn hear_events(&self) {
        while let Some(event) = self.choice.context.async_event() {
            let device = self.choice.context.name();
            match event {
                AsyncEvent::Pair(number) => tracing::debug!(device, number, "a stream has failed"),
                AsyncEvent::Device(what) => tracing::error!(device, ?what, "a device has failed"),
                AsyncEvent::Other(what) => tracing::debug!(device, ?what, "a device reports"),
            }
        }
    }
}
