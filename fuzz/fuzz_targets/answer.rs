//! What a hostile server answers who imports its services and calls them, and what it asks of the services that it was passed. All results are
//! touched. In the end nobody waits, no reference is held, and no memory stays counted.

#![no_main]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt as _;
use libfuzzer_sys::fuzz_target;
use weft_fuzz::graphs::{Kind, Node, touch};
use weft_fuzz::input::Input;
use weft_fuzz::interface::{EchoClient, RECORDED, Target, TargetClient, Touches, nodes, word_at};
use weft_fuzz::world::{UnderWay, World, patiently};
use weft_object::Frozen;
use weft_object::service::{Services, ServicesConfig};
use weft_transport::{Batch, Connection, Handler, IncomingKind, Memory};

enum Answer {
    Says(Vec<u8>),
    /// What is right, damaged by this.
    Damaged(Vec<u8>),
    Silent,
    /// None, and the caller is told.
    Unanswered,
    Hangs,
}

/// Answers as it is told, and then as it should.
#[derive(Default)]
struct Lies {
    next: Mutex<VecDeque<Answer>>,
    /// To who calls.
    back: Mutex<Option<Connection>>,
}

impl Handler for Lies {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(mut incoming) = batch.next() {
            let IncomingKind::Call(call) = incoming.kind else { continue };
            *self.back.lock().expect("nobody panics") = Some(batch.connection());
            match self.next.lock().expect("nobody panics").pop_front() {
                None => batch.reply(call, right(incoming.body)),
                Some(Answer::Says(answer)) => batch.reply(call, answer.as_slice()),
                Some(Answer::Damaged(damages)) => {
                    let mut answer = right(incoming.body).to_vec();
                    let mut damages = Input::new(&damages);
                    while !damages.is_empty() {
                        damages.damage(&mut answer);
                    }
                    batch.reply(call, answer.as_slice());
                }
                Some(Answer::Silent) => {}
                Some(Answer::Unanswered) => drop(incoming.responder()),
                Some(Answer::Hangs) => batch.connection().close(),
            }
        }
    }
}

/// What an honest server has answered to a request like this one.
fn right(request: &[u8]) -> &'static [u8] {
    let kind = |request: &[u8]| (word_at(request, 0) == Some(0), word_at(request, 8));
    let all = RECORDED.requests.iter().zip(&RECORDED.replies);
    let mut like = all.filter(|(known, _)| kind(known) == kind(request));
    // Of `echo.back` there is none.
    like.next().map_or(&[0; 16], |(_, reply)| reply)
}

/// A service of another version is given, which is to be agreed on when it is called.
fn another_version() -> Answer {
    let mut answer = RECORDED.replies.last().cloned().unwrap_or_default();
    answer.iter_mut().next_back().into_iter().for_each(|byte| *byte ^= 1);
    Answer::Says(answer)
}

struct Calling {
    world: World,
    services: Services,
    /// What the server may call.
    target: Arc<Touches>,
    lies: Arc<Lies>,
    connection: Connection,
    under_way: UnderWay,
    clients: Vec<TargetClient>,
    echoes: Vec<EchoClient>,
    graph: Frozen<Node>,
}

impl Calling {
    fn new(seed: u8) -> Self {
        let config = ServicesConfig {
            references_max: 10,
            timeout: Duration::from_millis(5),
            ..Default::default()
        };
        let services = Services::with_config(config);
        let lies = Arc::new(Lies::default());
        let world = World::new(seed, |_| Arc::clone(&lies) as _, services.handler());
        let memory: &Memory = world.client.memory();
        let target = Touches::new(memory);
        services.export::<dyn Target>("target", target.clone());
        let graph = nodes(memory, 3);
        let (connection, under_way) = (world.connect(), UnderWay::default());
        // It begins with what takes many steps: an import, and services that were given, one of them of another version.
        let client = world.run(services.import::<dyn Target>(&connection, "target"));
        let clients = vec![client.expect("the answer is right")];
        let give = || world.run(clients[0].give(true)).ok().flatten();
        let right = give();
        lies.next.lock().expect("nobody panics").push_back(another_version());
        let echoes = right.into_iter().chain(give()).collect();
        Self { world, services, target, lies, connection, under_way, clients, echoes, graph }
    }

    /// What the next calls are answered.
    fn prepare(&self, input: &mut Input<'_>) {
        let mut next = self.lies.next.lock().expect("nobody panics");
        for _ in 0..input.choice(3) {
            next.push_back(match input.choice(16) {
                0..=7 => {
                    let len = input.choice(16);
                    Answer::Damaged(input.bytes(len).to_vec())
                }
                8 => another_version(),
                9 | 10 => {
                    let mut answer = input.of(&RECORDED.replies).cloned().unwrap_or_default();
                    input.damage(&mut answer);
                    Answer::Says(answer)
                }
                11 => {
                    // One of the refusals, with what may stand behind them.
                    let status = u64::from(input.byte()) % 12;
                    Answer::Says([&status.to_le_bytes()[..], input.raw()].concat())
                }
                12 => Answer::Says(input.raw().to_vec()),
                13 => Answer::Silent,
                14 => Answer::Unanswered,
                _ => Answer::Hangs,
            });
        }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        if !self.connection.is_open() {
            self.connection = self.world.connect();
        }
        self.prepare(input);
        match input.choice(8) {
            0 => {
                let importing = self.services.import::<dyn Target>(&self.connection, "target");
                let imported = self.world.run(importing);
                self.clients.extend(imported.map_err(|error| error.to_string()).ok());
            }
            1..=4 => self.call(input),
            5 => {
                let Some(echo) = input.of(&self.echoes) else { return };
                let called = self.world.run(echo.back(7));
                drop(called.map_err(|error| error.to_string()));
            }
            6 => self.be_called(input),
            _ => match input.choice(4) {
                0 => drop(self.clients.pop()),
                1 => drop(self.echoes.pop()),
                2 => self.connection.close(),
                _ => self.world.settle(),
            },
        }
    }

    fn call(&mut self, input: &mut Input<'_>) {
        let Some(client) = input.of(&self.clients) else { return };
        let (method, graph) = (input.byte(), &self.graph);
        let calling = async {
            match method % 8 {
                0 => drop(client.plain(1, Kind::Odd, true).await.map(|kind| format!("{kind:?}"))),
                1 => {
                    let text = client.text("a", None).await;
                    let touched = text.map(|(text, blob)| {
                        text.chars().count() + blob.iter().filter(|byte| **byte == 1).count()
                    });
                    std::hint::black_box(touched).map_err(|error| error.to_string()).ok();
                }
                2 => drop(client.slices(&[1], &[true]).await.map(|flags| format!("{flags:?}"))),
                3 => match client.graph(graph).await {
                    Ok(Ok(graph)) => {
                        touch(graph.view());
                        std::hint::black_box(format!("{:?}", graph.root()));
                    }
                    Ok(Err(words)) => drop(words.to_uppercase()),
                    Err(error) => drop(error.to_string()),
                },
                4 => drop(client.beside(graph, 1).await),
                5 => drop(client.keep(Some(Arc::new(1))).await),
                6 => drop(client.keep(None).await),
                _ => return client.give(true).await.ok().flatten(),
            }
            None
        };
        if method < 0xf0 {
            self.echoes.extend(self.world.run(calling));
        } else {
            // Given up.
            drop(calling.now_or_never());
        }
    }

    /// The server calls, or gives a reference back that it may have been passed.
    fn be_called(&mut self, input: &mut Input<'_>) {
        let Some(back) = self.lies.back.lock().expect("nobody panics").clone() else { return };
        let reference = input.number(1);
        let mut request = match input.choice(4) {
            0 => [reference, 0, 5].map(u64::to_le_bytes).concat(),
            1 => {
                let mut release = [0, 1, reference].map(u64::to_le_bytes).concat();
                input.damage(&mut release);
                return UnderWay::send(&back, &release);
            }
            _ => input.of(&RECORDED.requests).cloned().unwrap_or_default(),
        };
        input.damage(&mut request);
        self.under_way.call(&back, &request);
    }

    fn end(mut self) {
        self.lies.next.lock().expect("nobody panics").clear();
        self.clients.clear();
        self.echoes.clear();
        self.world.settle();
        let kept = std::mem::take(&mut *self.target.kept());
        drop(kept);
        self.world.settle();
        self.under_way.answered();
        self.under_way.check();
        self.connection.close();
        self.lies.back.lock().expect("nobody panics").take();
        self.world.settle();
        // A thread drops what they lead to.
        patiently("references are held for ever", || self.services.references() == 0);
        let Self { world, services, target, lies, connection, graph, .. } = self;
        drop((connection, graph));
        let left = world.end();
        drop((services, target, lies));
        left.check();
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    let mut calling = Calling::new(input.byte());
    for _ in 0..48 {
        if input.is_empty() {
            break;
        }
        calling.step(&mut input);
    }
    calling.end();
});
