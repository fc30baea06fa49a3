//! The protocol of one connection, without I/O and without a clock.
//!
//! A session has two halves that different threads may drive at the same time, and a part that
//! both share with the callers:
//! - [`inbound`]: bytes that were received go in (`handle_bytes`); replies reach their calls,
//!   grants their windows, and messages and requests come out, where they lie.
//! - [`outbound`]: what callers have committed comes out, in gathered writes (`transmit`).
//! - [`departures`] and [`landings`]: bodies that are too long for one frame, out and in.
//! - [`outflow`] and [`inflow`]: where these meet those who write and read streamed bodies.
//! - [`overlap`]: how much is worth a send before a turn ends.
//! - [`receives`] and [`sends`]: posted buffers that messages go into and come from.
//! - [`Session`]: the lanes that callers write to, the windows in both directions, the calls that
//!   wait for replies.
//!
//! The same code runs over every link and in the simulator.

pub(crate) mod call;
pub(crate) mod credit;
pub(crate) mod departures;
pub(crate) mod inbound;
pub(crate) mod inflow;
pub(crate) mod landings;
#[cfg(test)]
pub(crate) mod ledger;
pub(crate) mod outbound;
pub(crate) mod outflow;
pub(crate) mod overlap;
pub(crate) mod posting;
pub(crate) mod receives;
pub(crate) mod record;
pub(crate) mod sends;
#[cfg(test)]
mod wired;

use std::task::Waker;

use crate::frame::{Class, Header};
use crate::handshake::Windows;
use crate::limits::SEND_AHEAD_MAX;
use crate::sync::Mutex;

use call::{CallTable, Sent};
use credit::{ReceiveCredit, SendCredit};
use departures::Departures;
use outbound::{Lanes, Outbound};
use overlap::Overlap;
use receives::{Messages, Receives};
use sends::Sends;

/// What the halves of a session share with its callers.
#[derive(Debug)]
pub(crate) struct Session {
    /// Records on their way out.
    pub(crate) lanes: Lanes,
    /// Large bodies on their way out.
    pub(crate) departures: Departures,
    /// Calls that wait for replies.
    pub(crate) calls: CallTable,
    /// What we may send.
    pub(crate) send_credit: SendCredit,
    /// What the peer may send.
    pub(crate) receive_credit: ReceiveCredit,
    /// Buffers that are posted for its messages.
    pub(crate) receives: Receives,
    /// Buffers that messages are sent from.
    pub(crate) sends: Sends,
    /// How much is sent before a turn ends.
    pub(crate) overlap: Overlap,
    /// The sending half. Whoever holds the lock has the sender role.
    pub(crate) outbound: Mutex<Outbound>,
}

impl Session {
    /// A session whose peer may send `windows`, and has not said hello.
    pub(crate) fn new(windows: &Windows, messages: Messages) -> Self {
        Self {
            lanes: Lanes::default(),
            departures: Departures::default(),
            calls: CallTable::new(),
            send_credit: SendCredit::new(),
            receive_credit: ReceiveCredit::new(windows),
            receives: Receives::new(messages),
            sends: Sends::default(),
            overlap: Overlap::new(),
            outbound: Mutex::default(),
        }
    }

    /// The peer has said hello, granted `windows` and has these `features`: frames may be sent.
    pub(crate) fn open(&self, windows: &Windows, features: u64) {
        self.departures.agree(features);
        self.outbound.lock().open = true;
        for class in Class::ALL {
            let window = u64::from(windows.of(class));
            // Nobody can wait for a window before the connection is handed out.
            self.grant(class, window, window, &mut Vec::new());
        }
    }

    /// Whether something is to be sent that the sender has not taken.
    #[inline]
    pub(crate) fn is_waiting(&self) -> bool {
        self.lanes.is_waiting() || self.departures.is_ready() || self.receive_credit.is_due()
    }

    /// Whether any byte of the request at `sent` has been taken; of a large one, all.
    pub(crate) fn has_left(&self, sent: Sent) -> bool {
        match sent.lane {
            Sent::LARGE => self.departures.has_left(sent.position),
            _ => self.lanes.has_left(sent),
        }
    }

    /// Whether it is certain that no byte of the request at `sent` has left or ever will.
    pub(crate) fn has_stayed(&self, sent: Sent) -> bool {
        self.lanes.has_ended() && !self.has_left(sent)
    }

    /// Lets go of the window of frames with these headers. Returns whether a grant is due.
    pub(crate) fn release_all(&self, headers: &[Header]) -> bool {
        let release =
            |header: &Header| self.receive_credit.release(header.class, header.frame_len() as u64);
        headers.iter().fold(false, |due, header| due | release(header))
    }

    /// The peer, whose window is `window`, has granted everything up to `position`.
    pub(crate) fn grant(&self, class: Class, position: u64, window: u64, wakers: &mut Vec<Waker>) {
        let excess = window.saturating_sub(SEND_AHEAD_MAX);
        self.send_credit.grant(class, position.saturating_sub(excess), wakers);
    }
}
