//! The changes that trials are to notice.

/// One change, and the test that is to fail for it.
pub(super) struct Mutant {
    /// What is wrong then.
    pub(super) what: &'static str,
    pub(super) file: &'static str,
    /// Text that is there once.
    pub(super) before: &'static str,
    pub(super) after: &'static str,
    /// Its name, and where cargo finds it.
    pub(super) trial: Trial,
}

pub(super) type Trial = (&'static str, &'static str);

const CREDITS: Trial = ("trials::credits::windows_are_neither_overdrawn_nor_lost", "--lib");
const SLOTS: Trial = ("trials::refusals::who_waits_for_a_slot_in_vain_takes_no_window", "--lib");
const NO_MEMORY: Trial = ("trials::refusals::a_body_that_finds_no_memory_takes_no_window", "--lib");
const LENDING: Trial =
    ("trials::lending::a_reader_that_gives_all_its_blocks_back_is_sent_more_at_once", "--lib");
const NODES: Trial =
    ("trial::all_find_each_other_again_over_one_connection_each", "--test=manager");
const GONE: Trial =
    ("half_open::a_host_that_is_gone_is_found_out_by_what_it_does_not_take", "--test=faults");
const STOPPED: Trial =
    ("who_is_stopped_and_does_not_take_what_it_is_sent_is_given_up", "--test=stopped");
const CLOCK: Trial = ("trials::clock::a_clock_that_is_set_back_harms_nobody", "--lib");

const RING: Trial = ("trials::cycle::no_cycle_of_three_nodes_locks", "--lib");

const MAKING: Trial =
    ("trials::clock::a_connection_that_is_being_made_has_its_time_in_spite_of_a_jump", "--lib");
const ENDED: Trial =
    ("trials::endings::what_waits_to_be_sent_is_let_go_of_with_its_connection", "--lib");
const OVERDRAWN: Trial = (
    "trials::overdraw::who_sends_a_frame_beyond_its_window_is_ended_before_that_is_handled",
    "--lib",
);
const SHUT: Trial =
    ("session::credit::tests::while_it_is_shut_nothing_but_replies_is_reserved", "--lib");
const ORDER: Trial =
    ("trials::room::connections_make_room_in_the_order_of_their_last_use", "--lib");
const IN_USE: Trial =
    ("trials::room::who_is_in_use_makes_no_room_however_long_nothing_came", "--lib");
const TIME_TO_GO: Trial = ("trials::room::who_is_left_to_make_room_has_its_time_to_go", "--lib");
const KEPT: Trial = ("trials::room::memory_is_taken_from_who_has_kept_it_for_longest", "--lib");
const BEHIND: Trial = (
    "session::outbound::tests::what_goes_beside_a_lane_comes_behind_what_was_written_to_it_before",
    "--lib",
);

/// All of them.
pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        what: "requests leave no places for bodies to replication",
        file: "transport/src/session/departures/places.rs",
        before: "bounded < share * (Class::ALL.len() - class as usize)",
        after: "bounded < max",
        trial: RING,
    },
    Mutant {
        what: "what a responder holds of a window is never released",
        file: "transport/src/handler/responder.rs",
        before: "session.receive_credit.release(self.class, RESPONDER_COST)",
        after: "session.receive_credit.release(self.class, 0)",
        trial: CREDITS,
    },
    Mutant {
        what: "window is reserved without a look at what is granted",
        file: "transport/src/session/credit.rs",
        before: "            if end > window.granted.load(Ordering::Acquire) {",
        after: "            if end == 0 {",
        trial: CREDITS,
    },
    Mutant {
        what: "a little more window is reserved than is granted",
        file: "transport/src/session/credit.rs",
        before: "            if end > window.granted.load(Ordering::Acquire) {",
        after: "            if end > window.granted.load(Ordering::Acquire) + 4096 {",
        trial: CREDITS,
    },
    Mutant {
        what: "window of a body that was kept is released twice",
        file: "transport/src/handler.rs",
        before: "receive_credit.release(self.class, self.cost)",
        after: "receive_credit.release(self.class, 2 * self.cost)",
        trial: CREDITS,
    },
    Mutant {
        what: "window of a body that is kept is released when its handler is done",
        file: "transport/src/reactor/conversation/dispatch.rs",
        before: "released[index] - held.retained[index].get();",
        after: "released[index];",
        trial: CREDITS,
    },
    Mutant {
        what: "window of a body that was kept is never released",
        file: "transport/src/handler.rs",
        before: "receive_credit.release(self.class, self.cost)",
        after: "receive_credit.release(self.class, 0)",
        trial: CREDITS,
    },
    Mutant {
        what: "more window is announced than has become free",
        file: "transport/src/session/credit.rs",
        before: "        let released = window.released.load(Ordering::Acquire);\n        let least",
        after: "        let released = window.released.load(Ordering::Acquire) + 8;\n        let least",
        trial: CREDITS,
    },
    Mutant {
        what: "more window is granted than has been announced",
        file: "transport/src/session/credit.rs",
        before: "        Some(released + window.size)",
        after: "        Some(released + window.size + 8)",
        trial: CREDITS,
    },
    Mutant {
        what: "window that was reserved and is not used is not given back",
        file: "transport/src/session/credit.rs",
        before: "        window.reserved.fetch_sub(bytes as u64, Ordering::Relaxed);\n        fence",
        after: "        fence",
        trial: CREDITS,
    },
    Mutant {
        what: "window of a large request that is given up is not given back",
        file: "transport/src/connection/large.rs",
        before: "            if window > 0 {",
        after: "            if window == usize::MAX {",
        trial: CREDITS,
    },
    Mutant {
        what: "window that was reserved for a call that never got a slot is not given back",
        file: "transport/src/connection/wait.rs",
        before: "        self.core.give_back(self.class, self.len);",
        after: "        let _ = (self.core, self.class, self.len);",
        trial: SLOTS,
    },
    Mutant {
        what: "window of a large reply is never released",
        file: "transport/src/session/landings/chunks.rs",
        before: "            to.wakers.extend(woken);\n            released(to);",
        after: "            to.wakers.extend(woken);",
        trial: CREDITS,
    },
    Mutant {
        what: "window of a reply that a body follows is never released",
        file: "transport/src/reactor/conversation/dispatch.rs",
        before: "                    self.flush_due |= receive_credit.release(frame.class, frame.cost());",
        after: "                    let _ = receive_credit;",
        trial: CREDITS,
    },
    Mutant {
        what: "window of what a body follows that nobody takes is never released",
        file: "transport/src/session/landings/bodies.rs",
        before: "            *to.grant_due |= to.session.receive_credit.release(class, frame.cost());",
        after: "",
        trial: CREDITS,
    },
    Mutant {
        what: "window of a body that could not begin for want of memory is not given back",
        file: "transport/src/connection/opening.rs",
        before: "                self.session.send_credit.cancel(class, frame_len(len));",
        after: "                let _ = (class, frame_len(len));",
        trial: NO_MEMORY,
    },
    Mutant {
        what: "more of a body is granted than there is memory for",
        file: "transport/src/session/landings/bodies.rs",
        before: "        self.granted += CHUNK_BYTES as u64;",
        after: "        self.granted += CHUNK_BYTES as u64 + 8;",
        trial: CREDITS,
    },
    Mutant {
        what: "a chunk of a body goes that has not been granted",
        file: "transport/src/session/outflow.rs",
        before: "        (len > 0 && len as u64 <= granted).then_some(len)",
        after: "        (len > 0 && len as u64 <= granted + 8).then_some(len)",
        trial: CREDITS,
    },
    Mutant {
        what: "blocks of a body that were lent are not counted back",
        file: "transport/src/session/inflow.rs",
        before: "        flow.blocks.fetch_sub(1, Ordering::SeqCst);",
        after: "",
        trial: CREDITS,
    },
    Mutant {
        what: "blocks that a reader gives back are granted again only when somebody looks",
        file: "transport/src/session/inflow.rs",
        before: "            flow.ask_again();",
        after: "",
        trial: LENDING,
    },
    Mutant {
        what: "who drops a writer tells nobody",
        file: "transport/src/connection/body_writer.rs",
        before: "            self.give_up(StopReason::Dropped);",
        after: "",
        trial: CREDITS,
    },
    Mutant {
        what: "who drops a reader tells nobody",
        file: "transport/src/connection/body_reader.rs",
        before: "        self.flow.stop(StopReason::Dropped);",
        after: "",
        trial: CREDITS,
    },
    Mutant {
        what: "a body that was given up is said to be whole",
        file: "transport/src/session/outflow.rs",
        before: "            return Some(Step::Cancel(reason.clone()));",
        after: "            let _ = reason;\n            return Some(Step::End);",
        trial: CREDITS,
    },
    Mutant {
        what: "what waits of replies with bodies is not counted back",
        file: "transport/src/session/departures.rs",
        before: "            queued.fetch_sub(REPLY_QUEUED_COST, Ordering::Relaxed);",
        after: "            let _ = queued;",
        trial: CREDITS,
    },
    Mutant {
        what: "a reader is told one end of a body for another",
        file: "transport/src/connection/body_reader.rs",
        before: "            Err(End::Aborted(reason)) => Err(BodyError::Aborted(reason)),",
        after: "            Err(End::Aborted(_)) => Ok(()),",
        trial: CREDITS,
    },
    Mutant {
        what: "what a body's writer has written last goes missing",
        file: "transport/src/connection/body_writer.rs",
        before: "            self.hand_on();\n            self.filling = None;\n            self.flow.finish();",
        after: "            self.filling = None;\n            self.flow.finish();",
        trial: CREDITS,
    },
    Mutant {
        what: "a slow reader holds up everything on its connection",
        file: "transport/src/session/landings/bodies.rs",
        before: "            while body.has_room() && body.grow(memory) {}",
        after: "            while body.grow(memory) {}",
        trial: CREDITS,
    },
    Mutant {
        what: "of two connections between two nodes neither goes",
        file: "transport/src/reactor/conversation/ends.rs",
        before: "            core.retired.store(true, Ordering::SeqCst);",
        after: "",
        trial: NODES,
    },
    Mutant {
        what: "the system waits for as long as it likes for who is gone",
        file: "transport/src/reactor/membership.rs",
        before: "        let watched = core.link.give_up_after(handle.common.stall_timeout);",
        after: "        let watched = std::io::Result::Ok(());",
        trial: GONE,
    },
    Mutant {
        what: "the system waits for as long as it likes for who is stopped",
        file: "transport/src/reactor/membership.rs",
        before: "        let watched = core.link.give_up_after(handle.common.stall_timeout);",
        after: "        let watched = std::io::Result::Ok(());",
        trial: STOPPED,
    },
    Mutant {
        what: "a time before another is subtracted from it",
        file: "transport/src/time.rs",
        before: "self.0.saturating_sub(earlier.0)",
        after: "self.0 - earlier.0",
        trial: CLOCK,
    },
    Mutant {
        what: "memory is taken from who has kept it for the shortest time",
        file: "transport/src/reactor/membership/accepting.rs",
        before: "keeping.min_by_key(",
        after: "keeping.max_by_key(",
        trial: KEPT,
    },
    Mutant {
        what: "who is left to make room has hardly any time to go",
        file: "transport/src/connection/core/ending.rs",
        before: "self.clock.now() + LEAVE_TIMEOUT;",
        after: "self.clock.now() + LEAVE_TIMEOUT / 100;",
        trial: TIME_TO_GO,
    },
    Mutant {
        what: "a peer may send more than its window",
        file: "transport/src/session/inbound/frames.rs",
        before: "if *received > credit.announced(header.class) {",
        after: "if *received > credit.announced(header.class) + 8 {",
        trial: OVERDRAWN,
    },
    Mutant {
        what: "a connection that is being made has no time left after a jump of the clock",
        file: "transport/src/reactor/conversation/patience.rs",
        before: "            *by = *by + time;",
        after: "            *by = *by + time * 0;",
        trial: MAKING,
    },
    Mutant {
        what: "window is reserved on a connection that is being left",
        file: "transport/src/session/credit.rs",
        before: "Ok(_) if window.shut.load(Ordering::SeqCst) => {",
        after: "Ok(_) if end == 0 => {",
        trial: SHUT,
    },
    Mutant {
        what: "what waits to be sent is kept beyond the end of its connection",
        file: "transport/src/reactor/conversation/ends.rs",
        before: "        let discarded = self.core.session.outbound.lock().discard(&self.core.session);\n        drop(discarded);",
        after: "",
        trial: ENDED,
    },
    Mutant {
        what: "who is in use is asked to make room in place of who is not",
        file: "transport/src/reactor/membership/accepting.rs",
        before: "core.is_idle() && now.since",
        after: "now.since",
        trial: IN_USE,
    },
    Mutant {
        what: "the connection that was used last makes room",
        file: "transport/src/reactor/membership/accepting.rs",
        before: "filter(is_idle).min_by_key(",
        after: "filter(is_idle).max_by_key(",
        trial: ORDER,
    },
    Mutant {
        what: "what goes beside a lane overtakes what its sender has written to it before",
        file: "transport/src/session/departures/departure.rs",
        before: "self.behind.as_ref().is_some_and(|mark| !mark.is_reached())",
        after: "false",
        trial: BEHIND,
    },
];
