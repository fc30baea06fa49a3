//! What scans take of a node's memory, on a simulated network.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use weft_client::{Client, ClientError, ErrorCode, RangeOptions, ScanOptions, TableOptions};
use weft_server::handler::NodeHandler;
use weft_server::limits::SCAN_BYTES;
use weft_server::memory::NodeMemory;
use weft_sim::cluster::Nodes;
use weft_sim::world::World;
use weft_transport::{Purpose, SimConfig};

const TIMEOUT: Duration = Duration::from_secs(5);

/// What the connection of the client takes meanwhile.
const SLACK_BYTES: u64 = 1 << 20;

const OBJECTS: usize = 3_000;

/// How many objects a scan and a range have found, or why they have not.
async fn scanned(client: &Client) -> [Result<usize, ClientError>; 2] {
    let mut scan = client.scan(ScanOptions::default()).unwrap();
    let mut range = client.range(RangeOptions::default()).unwrap();
    [
        counted(async || scan.next().await.map(|found| found.map(drop))).await,
        counted(async || range.next().await.map(|found| found.map(drop))).await,
    ]
}

async fn counted(
    mut next: impl AsyncFnMut() -> Option<Result<(), ClientError>>,
) -> Result<usize, ClientError> {
    let mut count = 0;
    while let Some(found) = next().await {
        found?;
        count += 1;
    }
    Ok(count)
}

#[test]
fn scans_are_counted_against_the_limit_and_refused_beyond_it() {
    let seed = 1;
    let delay = Duration::from_micros(5)..Duration::from_micros(200);
    let mut world = World::new(seed, SimConfig { seed, delay, loss: 0.0, partial: 0.3 });
    let made: RefCell<Option<NodeMemory>> = RefCell::new(None);
    let nodes = Nodes::build(&mut world, 1, 2, seed, &|options| {
        made.replace(Some(options.memory.clone()));
        Ok(Arc::new(NodeHandler::new(options)?) as _)
    });
    let (nodes, memory) = (nodes.unwrap(), made.take().unwrap());
    let connector = nodes.client(&mut world, 0, TIMEOUT).unwrap();
    let is_done = Rc::new(Cell::new(false));
    world.spawn({
        let (is_done, network) = (Rc::clone(&is_done), memory.network.clone());
        async move {
            let client = connector.connect().await.unwrap();
            let ordered = TableOptions { ordered: true, ..TableOptions::default() };
            let client = client.create_table("scanned", ordered).await.unwrap();
            for number in 0..OBJECTS {
                client.put(format!("{number:05}"), "value").await.unwrap();
            }
            let free = || {
                let account = network.account();
                account.limit_bytes - account.allocated_bytes
            };
            let taken = network.charge(free() - SCAN_BYTES as u64 / 2, Purpose::Buffer).unwrap();
            for refused in scanned(&client).await {
                assert_eq!(refused.unwrap_err().code(), ErrorCode::MemoryLimitReached);
            }
            // Everything else goes on.
            assert_eq!(&*client.get("00007").await.unwrap().into_object().unwrap(), b"value");
            drop(taken);
            let taken = free() - SCAN_BYTES as u64 - SLACK_BYTES;
            let taken = network.charge(taken, Purpose::Buffer).unwrap();
            for count in scanned(&client).await {
                assert_eq!(count.unwrap(), OBJECTS);
            }
            drop(taken);
            assert_eq!(network.account().allocated_for(Purpose::Scan), 0);
            is_done.set(true);
        }
    });
    let end = world.clock().now() + Duration::from_secs(60);
    world.run_until(end).unwrap();
    assert!(is_done.get());
}
