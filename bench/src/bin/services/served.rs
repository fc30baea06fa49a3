//! What is called: a service of each kind of argument, and beside it a handler of bare calls.

use std::io::Read as _;
use std::sync::Arc;

use anyhow::Result;
use weft_object::service::{GraphRef, Services};
use weft_object::{Link, Wire, service};
use weft_transport::{
    Batch, Endpoint, EndpointConfig, Handler, Incarnation, IncomingKind, LinkPolicy, Memory,
    MemoryConfig, NodeId, Purpose,
};

use crate::grpc;
use crate::store::{Maps, Store, VALUE_BYTES};

/// An element of a linked list.
#[derive(Wire, Clone, Copy)]
#[repr(C)]
pub(crate) struct Element {
    pub(crate) next: Option<Link<Element>>,
    pub(crate) number: u32,
}

/// What J-RPC was measured with.
#[service]
pub(crate) trait Measured {
    fn nothing(&self);
    fn four_words(&self, a: u64, b: u64, c: u64, d: u64);
    fn service(&self, callback: CallbackClient);
    fn bytes(&self, bytes: &[u8]);
    fn list(&self, list: GraphRef<'_, Element>);
    /// Goes through the list as well, in the order of its links.
    fn sum(&self, list: GraphRef<'_, Element>) -> u64;
    /// Gives a text back.
    fn echo(&self, text: &str) -> String;
    /// Memory that holds what was received: bytes now.
    fn receive_bytes(&self) -> u64;
}

#[service]
pub(crate) trait Callback {
    fn call(&self);
}

struct Takes {
    memory: Memory,
}

impl Measured for Takes {
    fn nothing(&self) {}

    fn four_words(&self, a: u64, b: u64, c: u64, d: u64) {
        std::hint::black_box([a, b, c, d]);
    }

    fn service(&self, callback: CallbackClient) {
        std::hint::black_box(callback);
    }

    fn bytes(&self, bytes: &[u8]) {
        std::hint::black_box(bytes);
    }

    fn list(&self, list: GraphRef<'_, Element>) {
        std::hint::black_box(list.root());
    }

    fn sum(&self, list: GraphRef<'_, Element>) -> u64 {
        let mut next = Some(list.root());
        let mut sum = 0;
        while let Some(element) = next {
            sum += u64::from(element.number);
            next = element.next.map(|next| list.view().get(next));
        }
        sum
    }

    fn echo(&self, text: &str) -> String {
        text.to_owned()
    }

    fn receive_bytes(&self) -> u64 {
        self.memory.account().allocated_for(Purpose::Receive)
    }
}

/// Answers every call with no bytes, with what it says if that begins with `=`, or with a value.
struct Bare;

impl Handler for Bare {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            let IncomingKind::Call(call) = incoming.kind else { continue };
            match incoming.body {
                [b'=', ..] => batch.reply(call, incoming.body),
                [b'+', ..] => batch.reply(call, &[1; VALUE_BYTES]),
                _ => batch.reply(call, &[][..]),
            }
        }
    }
}

pub(crate) fn endpoint(
    node: NodeId,
    link: LinkPolicy,
    handler: Arc<dyn Handler>,
) -> Result<Endpoint> {
    let memory = Memory::new(MemoryConfig { limit_bytes: 1 << 30 })?;
    let mut config = EndpointConfig::new(node, Incarnation(1), memory);
    config.links = link;
    Ok(Endpoint::start(config, handler)?)
}

/// Serves until the input ends. Prints the three addresses.
pub(crate) fn run(link: LinkPolicy) -> Result<()> {
    let services = Services::new();
    services.export::<dyn Store>("store", Arc::new(Maps::new()));
    let served = endpoint(NodeId(1), link, services.handler())?;
    let takes = Takes { memory: served.memory().clone() };
    services.export::<dyn Measured>("measured", Arc::new(takes));
    let bare = endpoint(NodeId(2), link, Arc::new(Bare))?;
    for endpoint in [&served, &bare] {
        println!("{}", endpoint.listen(([127, 0, 0, 1], 0).into())?);
    }
    println!("{}", grpc::serve()?);
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
