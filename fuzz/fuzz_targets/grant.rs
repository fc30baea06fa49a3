//! What a hostile receiver of graphs answers to who sends them: statuses, numbers and words that are lies, none at all, or the end of the
//! connection. Every send comes to an end, and no memory stays counted.

#![no_main]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt as _;
use libfuzzer_sys::fuzz_target;
use weft_fuzz::graphs::{Node, TYPES, build};
use weft_fuzz::input::Input;
use weft_fuzz::world::World;
use weft_object::channel::{GraphSender, SendGraphError, Sent};
use weft_object::{Frozen, Types};
use weft_transport::{Batch, Connection, Handler, IncomingKind, NoHandler, Time};

/// What an answer may say, and more.
const STATUSES: u64 = 6;

#[derive(Clone)]
enum Answer {
    Says(Vec<u8>),
    /// None, and the caller is not told.
    Silent,
    /// None, and the caller is told.
    Unanswered,
    Hangs,
}

/// Answers as it is told, and then as a listener does that grants whatever is asked for.
#[derive(Default)]
struct Grants {
    next: Mutex<VecDeque<Answer>>,
    /// The last of these is given again and again.
    is_stubborn: AtomicBool,
    /// Calls that have come, but for those whose caller was told that nobody answers.
    answered: AtomicUsize,
}

impl Grants {
    fn take(&self) -> Option<Answer> {
        let mut next = self.next.lock().expect("nobody panics");
        let is_last = next.len() == 1 && self.is_stubborn.load(Ordering::Relaxed);
        let taken = if is_last { next.front().cloned() } else { next.pop_front() };
        let is_answered = !matches!(taken, Some(Answer::Unanswered));
        self.answered.fetch_add(is_answered.into(), Ordering::Relaxed);
        taken
    }
}

impl Handler for Grants {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(mut incoming) = batch.next() {
            let IncomingKind::Call(call) = incoming.kind else { continue };
            match self.take() {
                Some(Answer::Says(answer)) => batch.reply(call, answer.as_slice()),
                Some(Answer::Silent) => {}
                Some(Answer::Unanswered) => drop(incoming.responder()),
                Some(Answer::Hangs) => batch.connection().close(),
                None => {
                    let number = incoming.body.get(16..24).unwrap_or(&[0; 8]);
                    batch.reply(call, [&[0; 8][..], number]);
                }
            }
        }
    }
}

struct Sending {
    world: World,
    grants: Arc<Grants>,
    connection: Connection,
    senders: Vec<GraphSender>,
    under_way: Vec<Sent>,
    graphs: [Frozen<Node>; 3],
}

impl Sending {
    fn new(seed: u8) -> Self {
        let grants = Arc::new(Grants::default());
        let world = World::new(seed, |_| Arc::clone(&grants) as _, Arc::new(NoHandler));
        let connection = world.connect();
        let graphs = [1, 30, 400].map(|count| build(world.client.memory(), &TYPES, count));
        Self { world, grants, connection, senders: Vec::new(), under_way: Vec::new(), graphs }
    }

    /// Short, since a receiver that says nothing useful is asked again until then.
    fn deadline(&self) -> Time {
        self.world.after(Duration::from_millis(20))
    }

    /// What the next calls are answered.
    fn prepare(&self, input: &mut Input<'_>) {
        let mut answers = self.grants.next.lock().expect("nobody panics");
        if self.grants.is_stubborn.load(Ordering::Relaxed) {
            answers.clear();
        }
        self.grants.is_stubborn.store(input.choice(4) == 0, Ordering::Relaxed);
        self.grants.answered.store(0, Ordering::Relaxed);
        for _ in 0..input.choice(4) {
            answers.push_back(match input.choice(8) {
                0..=3 => {
                    let status = (u64::from(input.byte()) % STATUSES) as u32;
                    let granted = input.number(10_000);
                    let words = if status == 0 { &[] } else { input.raw() };
                    let status = u64::from(status).to_le_bytes();
                    Answer::Says([&status[..], &granted.to_le_bytes(), words].concat())
                }
                4 => Answer::Says(input.raw().to_vec()),
                5 => Answer::Silent,
                6 => Answer::Unanswered,
                _ => Answer::Hangs,
            });
        }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        if !self.connection.is_open() {
            self.connection = self.world.connect();
        }
        self.prepare(input);
        let deadline = self.deadline();
        match input.choice(12) {
            0 | 1 => {
                let opening = GraphSender::open(&self.connection, &TYPES, deadline);
                self.senders.extend(look(self.world.run(opening)));
            }
            2 | 3 => {
                let graph = &self.graphs[input.choice(self.graphs.len())];
                let Some(sender) = pick(&mut self.senders, input) else { return };
                look(self.world.run(sender.send(graph, deadline)));
            }
            4 | 5 => {
                let graph = &self.graphs[input.choice(self.graphs.len())];
                let Some(sender) = pick(&mut self.senders, input) else { return };
                let sent = self.world.run(sender.send_async(graph, deadline));
                self.under_way.extend(look(sent));
            }
            6 => {
                let Some(sender) = pick(&mut self.senders, input) else { return };
                look(self.world.run(sender.send_all(&self.graphs, deadline)));
            }
            7 => {
                let count = u32::from(input.byte() % 64);
                let types = Types::new().with::<u32>();
                let memory = (self.world.client.memory(), &types);
                let Some(sender) = pick(&mut self.senders, input) else { return };
                look(self.world.run(sender.send_records(0..count, 16, memory, deadline)));
            }
            8 => {
                let Some(sent) = self.under_way.pop() else { return };
                look(self.world.run(sent.wait()));
            }
            9 => {
                let Some(sent) = pick(&mut self.under_way, input) else { return };
                sent.test().and_then(look);
            }
            // Given up in the middle.
            10 => {
                let Some(sender) = pick(&mut self.senders, input) else { return };
                drop(sender.send(&self.graphs[2], deadline).now_or_never());
            }
            _ => {
                let Some(sender) = self.senders.pop() else { return };
                if input.choice(2) == 0 {
                    look(self.world.run(sender.close()));
                }
            }
        }
    }

    /// One step is a few graphs, and so a few calls each. Only an answer for which there was no room is asked for again, until the deadline.
    fn check(&self) {
        let answered = self.grants.answered.load(Ordering::Relaxed);
        assert!(answered < 32, "{answered} calls for a few graphs");
    }

    fn end(self) {
        let Self { world, grants, connection, senders, mut under_way, graphs } = self;
        grants.next.lock().expect("nobody panics").clear();
        drop(senders);
        world.settle();
        under_way.iter_mut().for_each(|sent| drop(sent.test()));
        drop((under_way, graphs));
        connection.close();
        drop(connection);
        world.settle();
        let left = world.end();
        drop(grants);
        left.check();
    }
}

fn pick<'a, T>(all: &'a mut [T], input: &mut Input<'_>) -> Option<&'a mut T> {
    let at = input.choice(all.len());
    all.get_mut(at)
}

/// What has gone wrong has words.
fn look<T>(result: Result<T, SendGraphError>) -> Option<T> {
    result.map_err(|error| drop(error.to_string())).ok()
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    let mut sending = Sending::new(input.byte());
    for _ in 0..48 {
        if input.is_empty() {
            break;
        }
        sending.step(&mut input);
        sending.check();
    }
    sending.end();
});
