//! Fields that stay home: nothing of them leaves, and whoever receives finds zeros.

use std::sync::{Arc, Mutex};

use weft_object::service::{Client as _, GraphRef, Services};
use weft_object::{
    AlignedBytes, Assembly, Fault, Frozen, Graph, Invalid, Limits, Link, SegmentWriter, Seq, Text,
    Types, View, Wire, service,
};
use weft_transport::{Batch, Handler, IncomingKind, NodeId, Purpose};

use crate::world::{World, handled_by, memory, soon};

/// What must not be found in anything that leaves.
const SECRET: [u8; 8] = *b"PASSWORD";

#[derive(Wire, Clone, Copy, Debug, PartialEq)]
#[repr(C)]
struct Session {
    user: u64,
    #[wire(transient)]
    secret: [u8; 8],
    #[wire(transient)]
    is_known: bool,
    rest: [u8; 7],
}

#[derive(Wire, Clone, Copy, Debug)]
#[repr(C)]
struct Holder {
    name: Text,
    sessions: [Session; 2],
    others: Seq<Session>,
    /// Leads to what is in the graph all the same.
    #[wire(transient)]
    parent: Option<Link<Holder>>,
    access: Access,
}

#[derive(Wire, Clone, Copy, Debug)]
#[repr(u32)]
enum Access {
    Token {
        #[wire(transient)]
        token: [u8; 8],
    },
    Number {
        number: [u8; 8],
    },
}

fn session(user: u64) -> Session {
    Session { user, secret: SECRET, is_known: true, rest: [9; 7] }
}

fn cleared(user: u64) -> Session {
    Session { user, secret: [0; 8], is_known: false, rest: [9; 7] }
}

fn holds_secret(bytes: &[u8]) -> bool {
    bytes.windows(SECRET.len()).any(|window| window == SECRET)
}

fn holder(types: &Types) -> Frozen<Holder> {
    Graph::build(&memory(), Purpose::Send, types, |graph| {
        let name = graph.text("a text that is elsewhere")?;
        let others = graph.seq(&[session(3), session(4), session(5)])?;
        let sessions = [session(1), session(2)];
        let access = Access::Token { token: SECRET };
        let first = graph.alloc(Holder { name, sessions, others, parent: None, access })?;
        let access = Access::Number { number: *b"12345678" };
        let second = Holder { name, sessions, others, parent: Some(first.link()), access };
        let second = graph.alloc(second)?;
        // Until it is complete, a graph has all of it.
        assert_eq!(graph.get(first).sessions[0].secret, SECRET);
        graph.get_mut(first).parent = Some(second.link());
        graph.get_mut(second).sessions[1].secret = SECRET;
        Ok(first)
    })
    .unwrap()
}

fn check(view: &View<impl Sized>) {
    for holder in view.records::<Holder>().flatten() {
        assert_eq!(view.text(&holder.name), "a text that is elsewhere");
        assert_eq!(holder.sessions, [cleared(1), cleared(2)]);
        assert_eq!(view.seq(holder.others), [3, 4, 5].map(cleared));
        assert!(holder.parent.is_none());
        match holder.access {
            Access::Token { token } => assert_eq!(token, [0; 8]),
            Access::Number { number } => assert_eq!(number, *b"12345678"),
        }
    }
}

#[test]
fn nothing_that_stays_home_is_in_the_segments_of_a_graph() {
    let types = Types::new().with::<Holder>();
    let graph = holder(&types);
    let mut assembly = Assembly::new(&types, Limits::default());
    for segment in graph.segments() {
        let sent = [segment.head(), segment.pages()].concat();
        assert!(!holds_secret(&sent));
        assembly.add(AlignedBytes::copied(&sent)).unwrap();
    }
    let view = assembly.finish().unwrap();
    assert_eq!(view.records::<Holder>().flatten().count(), 2);
    check(&view);
    check(&graph.compact(&memory(), Purpose::Send).unwrap().view().unwrap());
}

#[test]
fn nothing_that_stays_home_is_in_a_segment_of_records() {
    let types = Types::new().with::<Session>();
    let mut writer = SegmentWriter::new(&memory(), Purpose::Send, &types, 4096).unwrap();
    (0..9).for_each(|user| writer.push(session(user)).unwrap());
    let segment = writer.freeze();
    let mut sent = [segment.head(), segment.pages()].concat();
    assert!(!holds_secret(&sent));
    let view = View::validate(AlignedBytes::copied(&sent), &types).unwrap();
    assert!(view.records::<Session>().flatten().copied().eq((0..9).map(cleared)));
    // Who sends it all the same is found out: the receiver relies on zeros.
    let (last, name) = (sent.len() - 10, "Session");
    sent[last] = 1;
    let invalid = View::validate(AlignedBytes::copied(&sent), &types).unwrap_err();
    assert_eq!(invalid, Invalid::Record { page: 0, record: 8, name, fault: Fault::Transient });
}

#[service]
trait Doors {
    fn open(&self, session: Session, others: &[Session], graph: GraphRef<'_, Holder>) -> bool;
    fn give(&self) -> (Session, Vec<Session>, Frozen<Holder>);
}

struct Checks;

impl Doors for Checks {
    fn open(&self, session: Session, others: &[Session], graph: GraphRef<'_, Holder>) -> bool {
        check(graph.view());
        session == cleared(7) && others == [cleared(8), cleared(9)]
    }

    fn give(&self) -> (Session, Vec<Session>, Frozen<Holder>) {
        (session(1), vec![session(2)], holder(DoorsClient::types()))
    }
}

/// Keeps what has left the caller, and what its services answer.
struct Overhears {
    services: Services,
    heard: Mutex<Vec<u8>>,
}

impl Handler for Overhears {
    fn handle(&self, batch: &mut Batch<'_>) {
        let mut count = 0;
        while let Some(incoming) = batch.next() {
            assert!(matches!(incoming.kind, IncomingKind::Call(_)));
            self.heard.lock().unwrap().extend_from_slice(incoming.body);
            count += 1;
        }
        batch.give_back(count);
        self.services.handle(batch);
    }
}

#[test]
fn nothing_that_stays_home_leaves_with_a_call_or_a_result() {
    let world = World::new(weft_transport::LinkPolicy::Tcp);
    let services = Services::new();
    services.export::<dyn Doors>("doors", Arc::new(Checks));
    let overhears = Arc::new(Overhears { services, heard: Mutex::default() });
    let server = handled_by(NodeId(2), Arc::clone(&overhears) as _);
    let address = server.listen(([127, 0, 0, 1], 0).into()).unwrap();
    let connection = world.client.connect(address, soon(&world.client));
    let connection = world.client.block_on(connection).unwrap();
    let doors = world.importer.import_blocking::<dyn Doors>(&connection, "doors").unwrap();
    let graph = holder(DoorsClient::types());
    assert!(doors.blocking().open(session(7), &[session(8), session(9)], &graph).unwrap());
    let heard = overhears.heard.lock().unwrap().clone();
    assert!(heard.len() > 500 && !holds_secret(&heard));
    let (session, sessions, graph) = doors.blocking().give().unwrap();
    assert_eq!((session, sessions), (cleared(1), vec![cleared(2)]));
    check(graph.view());
}

#[test]
fn who_does_not_know_that_a_field_stays_home_means_another_type() {
    mod plain {
        use weft_object::Wire;

        #[derive(Wire, Clone, Copy)]
        #[repr(C)]
        pub(super) struct Session {
            user: u64,
            secret: [u8; 8],
            is_known: bool,
            rest: [u8; 7],
        }
    }
    assert_eq!(Session::IDENTITY, plain::Session::IDENTITY);
    assert_ne!(Session::FINGERPRINT, plain::Session::FINGERPRINT);
}
