//! What a hostile caller asks of services: imports, calls and releases, damaged and out of order, and what it answers when services call it back.
//! All that methods are given is touched. In the end every call is answered, an honest caller is served by the same connection, no reference is
//! held and no memory stays counted.

#![no_main]

use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use weft_fuzz::graphs::{Kind, touch};
use weft_fuzz::input::Input;
use weft_fuzz::interface::{KEEP, RECORDED, Target, Touches, nodes, word_at};
use weft_fuzz::world::{UnderWay, World, patiently};
use weft_object::service::{Client as _, ImportError, Services, ServicesConfig};
use weft_transport::{Batch, Connection, Handler, IncomingKind};

/// Words that a reply may begin with.
const STATUSES: u64 = 11;
/// References that are remembered.
const KNOWN_MAX: usize = 32;

/// Answers whatever is called back.
struct Answers(Mutex<Vec<u8>>);

impl Handler for Answers {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            if let IncomingKind::Call(call) = incoming.kind {
                let answer = self.0.lock().expect("nobody panics");
                // Nothing at all is one more answer.
                if !answer.is_empty() {
                    batch.reply(call, answer.as_slice());
                }
            }
        }
    }
}

struct Serving {
    world: World,
    services: Services,
    target: Arc<Touches>,
    answers: Arc<Answers>,
    connection: Connection,
    under_way: UnderWay,
    /// References that were given, and what was taken for one.
    known: Vec<u64>,
}

impl Serving {
    fn new(seed: u8) -> Self {
        let config = ServicesConfig { references_max: 20, ..Default::default() };
        let services = Services::with_config(config);
        let mut target = None;
        let handler = |memory: &_| {
            let touches = target.insert(Touches::new(memory));
            services.export::<dyn Target>("target", touches.clone());
            services.handler()
        };
        let right = [0, 5].map(u64::to_le_bytes).concat();
        let answers = Arc::new(Answers(Mutex::new(right)));
        let world = World::new(seed, handler, Arc::clone(&answers) as _);
        let target = target.expect("the world has a server");
        let connection = world.connect();
        let (mut under_way, known) = (UnderWay::default(), vec![1]);
        // It begins with a service that is imported and one that was passed, or few would get that far.
        for which in [0, KEEP] {
            under_way.call(&connection, &RECORDED.requests[which]);
        }
        world.settle();
        Self { world, services, target, answers, connection, under_way, known }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.choice(16) {
            0 | 1 => {
                let mut request = RECORDED.requests[0].clone();
                if input.choice(4) == 0 {
                    let reference = self.reference(input);
                    request[16..24].copy_from_slice(&reference.to_le_bytes());
                }
                input.damage(&mut request);
                self.under_way.call(&self.connection, &request);
            }
            2..=5 => self.call(input, 1..RECORDED.requests.len()),
            // What is passed is called back.
            6 | 7 => self.call(input, KEEP..KEEP + 1),
            8 => self.under_way.call(&self.connection, input.raw()),
            9 => UnderWay::send(&self.connection, input.raw()),
            10 => {
                let mut release = [0, 1, self.reference(input)].map(u64::to_le_bytes).concat();
                input.damage(&mut release);
                UnderWay::send(&self.connection, &release);
            }
            11 => self.call_back(input),
            12 => {
                let dropped = self.target.kept().pop();
                drop(dropped);
            }
            13 => {
                let status = input.number(0);
                let mut answer = [status, 5].map(u64::to_le_bytes).concat();
                input.damage(&mut answer);
                *self.answers.0.lock().expect("nobody panics") = answer;
            }
            14 if input.choice(4) == 0 => {
                self.connection.close();
                self.connection = self.world.connect();
            }
            14 => self.under_way.forget_one(),
            _ => {
                self.world.settle();
                self.look();
            }
        }
    }

    fn reference(&self, input: &mut Input<'_>) -> u64 {
        let known = input.of(&self.known).copied().unwrap_or(1);
        input.number(known)
    }

    fn call(&mut self, input: &mut Input<'_>, which: Range<usize>) {
        let Some(request) = input.of(&RECORDED.requests[which]) else { return };
        let mut request = request.clone();
        let reference = self.reference(input);
        request[..8].copy_from_slice(&reference.to_le_bytes());
        input.damage(&mut request);
        self.under_way.call(&self.connection, &request);
    }

    fn call_back(&self, input: &mut Input<'_>) {
        let Some(echo) = input.of(&self.target.kept()).cloned() else { return };
        let called = self.world.run(echo.within(Duration::from_millis(1)).back(7));
        drop(called.map_err(|error| error.to_string()));
    }

    /// Looks at what has been answered.
    fn look(&mut self) {
        for reply in self.under_way.answered().into_iter().flatten() {
            let status = word_at(&reply, 0).expect("a reply has a word at least");
            assert!(status < STATUSES, "{status}");
            if status == 0
                && self.known.len() < KNOWN_MAX
                && let Some(reference) = word_at(&reply, 8)
            {
                self.known.push(reference);
            }
        }
    }

    /// Sees that nothing is left of it.
    fn end(mut self) {
        self.world.settle();
        self.look();
        self.under_way.check();
        self.honest();
        let kept = std::mem::take(&mut *self.target.kept());
        drop(kept);
        self.connection.close();
        self.world.settle();
        // A thread drops what they lead to.
        patiently("references are held for ever", || self.services.references() == 0);
        let Self { world, services, target, connection, .. } = self;
        drop(connection);
        let left = world.end();
        drop((services, target));
        left.check();
    }

    /// Whatever has come before, who keeps to the rules is served, if its node may hold one reference more.
    fn honest(&self) {
        let Self { world, connection, .. } = self;
        if !connection.is_open() {
            return;
        }
        let services = Services::new();
        let graph = nodes(world.client.memory(), 3);
        world.run(async {
            let client = match services.import::<dyn Target>(connection, "target").await {
                Ok(client) => client,
                Err(ImportError::TooManyReferences) => return,
                Err(error) => panic!("it is exported: {error}"),
            };
            let plain = client.plain(1, Kind::Odd, true).await.expect("it is served");
            assert!(matches!(plain, Some(Kind::Odd)));
            let graph = client.graph(&graph).await.expect("it is served");
            touch(graph.expect("it leads somewhere").view());
        });
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    let mut serving = Serving::new(input.byte());
    for _ in 0..64 {
        if input.is_empty() {
            break;
        }
        serving.step(&mut input);
    }
    serving.end();
});
