//! A service whose methods take and give items of all kinds, and what is said when each is called as it should be.

use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use weft_object::service::{Blob, Client as _, GraphRef, Services};
use weft_object::{Frozen, service};
use weft_transport::{Batch, Handler, IncomingKind, Memory, NoHandler};

use crate::graphs::{Kind, Node, build, touch};
use crate::world::{World, memory};

#[service]
pub trait Echo {
    fn back(&self, number: u32) -> u32;
}

impl Echo for u32 {
    fn back(&self, number: u32) -> u32 {
        number ^ self
    }
}

/// All kinds of items, each read to its last bit. No method blocks: of a simulated endpoint no thread of the registry's own may reply.
#[service]
pub trait Target {
    fn plain(&self, number: u64, kind: Kind, flag: bool) -> Option<Kind>;
    fn text(&self, text: &str, other: Option<&str>) -> (String, Blob);
    fn slices(&self, bytes: &[u8], flags: &[bool]) -> Vec<bool>;
    fn graph(&self, graph: GraphRef<'_, Node>) -> Result<Frozen<Node>, String>;
    fn beside(&self, graph: GraphRef<'_, Node>, number: u64) -> u64;
    fn keep(&self, echo: Option<EchoClient>) -> u32;
    fn give(&self, really: bool) -> Option<Arc<dyn Echo>>;
}

/// Touches all that it is given.
pub struct Touches {
    memory: Memory,
    /// Services that were passed, to be called later.
    kept: Mutex<Vec<EchoClient>>,
}

impl Touches {
    pub fn new(memory: &Memory) -> Arc<Self> {
        Arc::new(Self { memory: memory.clone(), kept: Mutex::default() })
    }

    pub fn kept(&self) -> MutexGuard<'_, Vec<EchoClient>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Target for Touches {
    fn plain(&self, number: u64, kind: Kind, flag: bool) -> Option<Kind> {
        std::hint::black_box(format!("{number}{kind:?}"));
        flag.then_some(kind)
    }

    fn text(&self, text: &str, other: Option<&str>) -> (String, Blob) {
        let count = text.chars().chain(other.unwrap_or("").chars()).count();
        (text.to_uppercase(), Blob::from(vec![count as u8; count.min(100)]))
    }

    fn slices(&self, bytes: &[u8], flags: &[bool]) -> Vec<bool> {
        flags.iter().map(|flag| *flag ^ bytes.contains(&1)).collect()
    }

    fn graph(&self, graph: GraphRef<'_, Node>) -> Result<Frozen<Node>, String> {
        touch(graph.view());
        let root = graph.root();
        if root.next.is_some() { Ok(nodes(&self.memory, 2)) } else { Err("lonely".to_owned()) }
    }

    fn beside(&self, graph: GraphRef<'_, Node>, number: u64) -> u64 {
        touch(graph.view());
        number
    }

    fn keep(&self, echo: Option<EchoClient>) -> u32 {
        let mut kept = self.kept();
        kept.extend(echo);
        kept.len() as u32
    }

    fn give(&self, really: bool) -> Option<Arc<dyn Echo>> {
        really.then(|| Arc::new(3_u32) as _)
    }
}

/// A graph as methods take it.
pub fn nodes(memory: &Memory, count: u32) -> Frozen<Node> {
    build(memory, TargetClient::types(), count)
}

/// Requests that are as they should be, an import first, each of the other kinds behind it; and their replies.
pub struct Recorded {
    pub requests: Vec<Vec<u8>>,
    pub replies: Vec<Vec<u8>>,
}

/// Which of the requests passes a service.
pub const KEEP: usize = 9;

pub static RECORDED: LazyLock<Recorded> = LazyLock::new(record);

/// Keeps what comes, before it is handled.
struct Recording {
    services: Services,
    requests: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Handler for Recording {
    fn handle(&self, batch: &mut Batch<'_>) {
        let mut count = 0;
        while let Some(incoming) = batch.next() {
            count += 1;
            if matches!(incoming.kind, IncomingKind::Call(_)) {
                self.requests.lock().expect("nobody panics").push(incoming.body.to_vec());
            }
        }
        batch.give_back(count);
        self.services.handle(batch);
    }
}

fn record() -> Recorded {
    let requests = Arc::new(Mutex::default());
    let mut target = None;
    let recording = |memory: &Memory| {
        let services = Services::new();
        services.export::<dyn Target>("target", target.insert(Touches::new(memory)).clone());
        Arc::new(Recording { services, requests: Arc::clone(&requests) }) as _
    };
    let world = World::new(1, recording, Arc::new(NoHandler));
    let connection = world.connect();
    let services = Services::new();
    let memory = memory();
    world.run(async {
        let client = services.import::<dyn Target>(&connection, "target").await;
        let client = client.expect("it is exported");
        client.plain(7, Kind::Odd, true).await.expect("it is served");
        client.text("tëxt", Some("other")).await.expect("it is served");
        client.text("text of some length", None).await.expect("it is served");
        client.slices(&[1, 2, 3], &[true, false, true]).await.expect("it is served");
        for count in [0, 3, 30] {
            let graph = nodes(&memory, count);
            assert_eq!(client.graph(&graph).await.expect("it is served").is_ok(), count > 0);
        }
        client.beside(&nodes(&memory, 3), 9).await.expect("it is served");
        client.keep(Some(Arc::new(1))).await.expect("it is served");
        client.keep(None).await.expect("it is served");
        client.give(false).await.expect("it is served");
        client.give(true).await.expect("it is served");
    });
    let requests = std::mem::take(&mut *requests.lock().expect("nobody panics"));
    let replies = requests.iter().map(|request| {
        let deadline = world.after(std::time::Duration::from_secs(1));
        world.run(connection.call(&request[..], deadline)).expect("it is answered").to_vec()
    });
    let replies = replies.collect();
    // What is kept holds on to the connection, and so to the world.
    let kept = target.map(|target| std::mem::take(&mut *target.kept()));
    drop(kept);
    world.settle();
    Recorded { requests, replies }
}

/// A word of a request or a reply.
pub fn word_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}
