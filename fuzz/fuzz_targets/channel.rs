//! What a hostile sender of graphs says to who receives them: channels that are opened, and segments, calls and ends of valid graphs, damaged and
//! out of order. All that is received is touched. In the end every call is answered, an honest sender is served by the same connection, and no
//! memory stays counted.

#![no_main]

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use futures_util::FutureExt as _;
use libfuzzer_sys::fuzz_target;
use weft_fuzz::graphs::{TYPES, build, segments, touch};
use weft_fuzz::input::Input;
use weft_fuzz::world::{UnderWay, World, memory};
use weft_object::channel::{
    GraphLimits, GraphListener, GraphReceiver, GraphSender, ReceiveError, ReceivedBytes,
};
use weft_object::{Limits, View};
use weft_transport::{Connection, NoHandler};

/// Far from what a sender counts up from.
const CHANNELS: [u64; 4] = [1 << 40, 1 << 41, 0, u64::MAX];

const OPEN: u8 = 1;
const SEGMENT: u8 = 2;
const LAST: u8 = 3;
const HELD: u8 = 4;
const MORE: u8 = 5;
const CLOSE: u8 = 6;

/// Segments of a few graphs: of one, of several, and of one so large that it is kept where it was received.
static GRAPHS: LazyLock<[Vec<Vec<u8>>; 4]> = LazyLock::new(|| {
    let memory = memory();
    [1, 30, 400, 2_000].map(|count| segments(&build(&memory, &TYPES, count)))
});

const LIMITS: GraphLimits = GraphLimits {
    per_graph: Limits { bytes: 1 << 20, records: 1 << 20, pages: 1 << 12 },
    granted_bytes: 200_000,
};

struct Receiving {
    world: World,
    listener: Arc<GraphListener>,
    connection: Connection,
    under_way: UnderWay,
    /// Calls of what is no listener's, which nobody answers.
    unheard: UnderWay,
    receivers: Vec<GraphReceiver>,
    kept: Vec<View<ReceivedBytes>>,
    /// The number that a valid graph has next, by channel.
    next: [u64; CHANNELS.len()],
}

fn message(kind: u8, (channel, number, index): (u64, u64, u32), rest: &[u8]) -> Vec<u8> {
    let mut body = b"WCHN\x01".to_vec();
    body.extend([kind, 0, 0]);
    body.extend(channel.to_le_bytes());
    body.extend(number.to_le_bytes());
    body.extend(u64::from(index).to_le_bytes());
    body.extend(rest);
    body
}

/// Whether a listener takes it for its own.
fn is_heard(body: &[u8]) -> bool {
    let Some(header) = body.first_chunk::<32>() else { return false };
    header[..5] == *b"WCHN\x01"
        && (OPEN..=CLOSE).contains(&header[5])
        && header[6..8] == [0; 2]
        && header[28..] == [0; 4]
}

impl Receiving {
    fn new(seed: u8) -> Self {
        let mut listener = None;
        let handler = |memory: &_| {
            let new = GraphListener::new(&TYPES, LIMITS, memory);
            listener = Some(Arc::clone(&new));
            new as _
        };
        let world = World::new(seed, handler, Arc::new(NoHandler));
        let listener = listener.expect("the world has a server");
        let connection = world.connect();
        let (under_way, unheard) = (UnderWay::default(), UnderWay::default());
        let (receivers, kept, next) = (Vec::new(), Vec::new(), [0; CHANNELS.len()]);
        Self { world, listener, connection, under_way, unheard, receivers, kept, next }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let at = input.choice(CHANNELS.len());
        let channel = CHANNELS[at];
        match input.choice(16) {
            0 | 1 => {
                let mut told = TYPES.to_bytes();
                input.damage(&mut told);
                self.say(true, &message(OPEN, (channel, 0, 0), &told));
                self.next[at] = 0;
            }
            2..=5 => self.send_graph(at, input),
            6..=8 => self.send_one(at, input),
            9 => self.say(input.choice(2) == 0, input.raw()),
            10 => self.receivers.extend(self.listener.accept().now_or_never()),
            11 | 12 => self.receive(input),
            13 => {
                let at = input.choice(self.receivers.len());
                if at < self.receivers.len() {
                    drop(self.receivers.swap_remove(at));
                }
            }
            14 => match input.choice(4) {
                0 => self.under_way.forget_one(),
                1 => drop(self.kept.pop()),
                2 => self.listener.close(),
                _ => {
                    self.connection.close();
                    self.connection = self.world.connect();
                }
            },
            _ => self.world.settle(),
        }
    }

    /// All segments of a graph, of which some may be damaged, missing or sent twice.
    fn send_graph(&mut self, at: usize, input: &mut Input<'_>) {
        let graph = &GRAPHS[input.choice(GRAPHS.len())];
        let (number, is_held) = (self.next[at], input.choice(2) == 0);
        self.next[at] += 1;
        for (index, segment) in (0..).zip(graph) {
            let is_last = index as usize + 1 == graph.len();
            let kind = if is_last && !is_held { LAST } else { SEGMENT };
            let mut body = message(kind, (CHANNELS[at], number, index), segment);
            let times = match input.byte() {
                0..=199 => 1,
                200..=239 => {
                    input.damage(&mut body);
                    1
                }
                240..=249 => 0,
                _ => 2,
            };
            (0..times).for_each(|_| self.say(kind == LAST, &body));
        }
        if is_held {
            self.say(true, &message(HELD, (CHANNELS[at], number, 0), &[]));
        }
    }

    /// One message of any kind.
    fn send_one(&mut self, at: usize, input: &mut Input<'_>) {
        let kind = [SEGMENT, LAST, HELD, MORE, CLOSE, OPEN][input.choice(6)];
        let near = match kind {
            // So many bytes are to be granted.
            MORE => LIMITS.granted_bytes + 4_000 * u64::from(input.byte()),
            _ => self.next[at],
        };
        let number = input.number(near);
        let index = input.number(0) as u32;
        let graph = &GRAPHS[input.choice(GRAPHS.len())];
        let rest = match kind {
            SEGMENT | LAST => input.of(graph).map_or(&[][..], |segment| segment),
            _ => &[],
        };
        let mut body = message(kind, (CHANNELS[at], number, index), rest);
        input.damage(&mut body);
        self.say(matches!(kind, LAST | HELD | MORE | OPEN) ^ (input.byte() > 240), &body);
    }

    fn say(&mut self, is_call: bool, body: &[u8]) {
        match (is_call, is_heard(body)) {
            (true, true) => self.under_way.call(&self.connection, body),
            (true, false) => self.unheard.call(&self.connection, body),
            (false, _) => UnderWay::send(&self.connection, body),
        }
    }

    fn receive(&mut self, input: &mut Input<'_>) {
        let at = input.choice(self.receivers.len());
        let Some(receiver) = self.receivers.get_mut(at) else { return };
        match receiver.receive().now_or_never() {
            Some(Ok(graph)) => {
                touch(&graph);
                if input.choice(2) == 0 {
                    touch(&graph.to_owned());
                } else {
                    self.kept.push(graph);
                }
            }
            Some(Err(error)) => drop(error.to_string()),
            None => {}
        }
    }

    /// Receives all that can be, and sees that nothing is left of it.
    fn end(mut self) {
        self.world.settle();
        let receivers = std::mem::take(&mut self.receivers);
        let accept = || self.listener.accept().now_or_never();
        for mut receiver in receivers.into_iter().chain(std::iter::from_fn(accept)) {
            while let Some(received) = receiver.receive().now_or_never() {
                match received {
                    Ok(graph) => touch(&graph),
                    Err(_) => break,
                }
            }
        }
        self.world.settle();
        self.under_way.answered();
        self.under_way.check();
        self.kept.iter().for_each(touch);
        self.kept.clear();
        self.honest();
        self.connection.close();
        self.world.settle();
        let Self { world, listener, connection, unheard, .. } = self;
        drop((connection, unheard));
        let memories = world.end();
        assert_eq!(Arc::strong_count(&listener), 1, "something keeps the listener");
        drop(listener);
        memories.check();
    }

    /// Whatever has come before, who keeps to the rules is served.
    fn honest(&self) {
        let Self { world, listener, connection, .. } = self;
        if !connection.is_open() {
            return;
        }
        let deadline = world.after(Duration::from_secs(5));
        world.run(async {
            let sender = GraphSender::open(connection, &TYPES, deadline).await;
            let mut sender = sender.expect("there is room for a channel");
            let mut receiver = listener.accept().await;
            let graph = build(world.client.memory(), &TYPES, 30);
            sender.send(&graph, deadline).await.expect("it is a graph");
            let received = receiver.receive().await.expect("it has come");
            touch(&received);
            sender.close().await.expect("there is room for that");
            assert_eq!(receiver.receive().await.err(), Some(ReceiveError::Closed));
        });
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    let mut receiving = Receiving::new(input.byte());
    for _ in 0..64 {
        if input.is_empty() {
            break;
        }
        receiving.step(&mut input);
    }
    receiving.end();
});
