//! What requests take of a node's memory while they are worked off, on a simulated network.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use weft_client::{Client, ClientError, RangeOptions, ScanOptions, TableOptions};
use weft_protocol::Catalog;
use weft_server::memory::NodeMemory;
use weft_sim::cluster::Nodes;
use weft_sim::world::World;
use weft_transport::{Purpose, SimConfig};

const TIMEOUT: Duration = Duration::from_secs(5);

/// What the connection of the client takes meanwhile: less than any of these requests is worked off in.
const SLACK_BYTES: u64 = 300 << 10;

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
fn requests_are_worked_off_though_no_memory_is_left_for_that() {
    let seed = 1;
    let delay = Duration::from_micros(5)..Duration::from_micros(200);
    let mut world = World::new(seed, SimConfig { seed, delay, loss: 0.0, partial: 0.3 });
    let made: RefCell<Option<NodeMemory>> = RefCell::new(None);
    let ordered = TableOptions { ordered: true, ..TableOptions::default() };
    let catalog = Catalog::default().with("scanned", ordered).unwrap();
    let nodes = Nodes::build(&mut world, 1, 2, seed, &mut || None, &|seat| {
        made.replace(Some(seat.options.memory.clone()));
        let handler = seat.handler()?;
        // There is no coordinator that would tell it.
        handler.learn_catalog(&catalog).unwrap();
        Ok(Arc::new(handler) as _)
    });
    let (nodes, memory) = (nodes.unwrap(), made.take().unwrap());
    let connector = nodes.client(&mut world, 0, TIMEOUT).unwrap();
    let is_done = Rc::new(Cell::new(false));
    world.spawn({
        let (is_done, memory) = (Rc::clone(&is_done), memory.clone());
        let network = memory.network.clone();
        async move {
            let client = connector.connect().await.unwrap();
            let client = client.table("scanned").await.unwrap();
            for number in 0..OBJECTS {
                client.put(format!("{number:05}"), "value").await.unwrap();
            }
            let kept_back = memory.allocated_for(Purpose::Scratch);
            assert!(kept_back > 0);
            // Nothing is left but for what connections need to go on.
            let free_bytes = network.account().free_bytes();
            let taken = network.charge(free_bytes - SLACK_BYTES, Purpose::Buffer).unwrap();
            for count in scanned(&client).await {
                assert_eq!(count.unwrap(), OBJECTS);
            }
            client.put_fields("record", &[("name", [7; 100_000])], None).await.unwrap();
            let found = client.multi_get(&["00007", "record"]).try_collect().await.unwrap();
            let lengths = found.into_iter().map(|found| found.into_object().unwrap().len());
            assert_eq!(lengths.collect::<Vec<_>>(), [5, 12 + 4 + 100_000]);
            client.delete("record").await.unwrap();
            let stats = client.stats().await.remove(0).stats.unwrap();
            // At least two pages each of scan and range, the record, and the objects.
            assert!(stats.value("requests.turns_taken").unwrap() >= 6);
            drop(taken);
            for count in scanned(&client).await {
                assert_eq!(count.unwrap(), OBJECTS);
            }
            assert_eq!(memory.allocated_for(Purpose::Scratch), kept_back);
            is_done.set(true);
        }
    });
    let end = world.clock().now() + Duration::from_secs(60);
    world.run_until(end).unwrap();
    assert!(is_done.get());
}
