//! Services and channels of graphs at one endpoint.

use std::sync::Arc;

use weft_object::channel::{GraphLimits, GraphListener, GraphSender};
use weft_object::service::Services;
use weft_object::{Graph, Seq, Types, service};
use weft_transport::{NodeId, Purpose};

use crate::world::{handled_by, memory, next_client, soon};

#[service]
trait Doubling {
    fn double(&self, number: u64) -> u64;
}

struct Doubles;

impl Doubling for Doubles {
    fn double(&self, number: u64) -> u64 {
        2 * number
    }
}

#[test]
fn an_endpoint_serves_and_receives_graphs() {
    let types = Types::new().with::<Seq<u32>>();
    let services = Services::new();
    let exported = services.export::<dyn Doubling>("doubling", Arc::new(Doubles));
    let listener = GraphListener::new(&types, GraphLimits::default(), &memory());
    let server = handled_by(NodeId(1), services.handler_with_graphs(&listener));
    let address = server.listen(([127, 0, 0, 1], 0).into()).unwrap();

    let caller = Services::new();
    let client = handled_by(next_client(), caller.handler());
    client.block_on(async {
        let connection = client.connect(address, soon(&client)).await.unwrap();
        let doubling = caller.import::<dyn Doubling>(&connection, "doubling").await.unwrap();
        let mut sender = GraphSender::open(&connection, &types, soon(&client)).await.unwrap();
        let mut receiver = listener.accept().await;
        for round in 1..10_u32 {
            let graph = Graph::build(&memory(), Purpose::Send, &types, |graph| {
                let numbers = graph.seq_from((0..1000 * round).collect::<Vec<_>>())?;
                graph.alloc(numbers)
            });
            sender.send(&graph.unwrap(), soon(&client)).await.unwrap();
            assert_eq!(doubling.double(round.into()).await.unwrap(), 2 * u64::from(round));
            let graph = receiver.receive().await.unwrap();
            assert_eq!(graph.root::<Seq<u32>>().unwrap().len(), 1000 * round as usize);
        }
    });
    drop(exported);
}
