//! Calls and messages that come to nothing before a byte of them is written: the connection's
//! credits are as they were before.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use weft_transport::limits::{CALLS_MAX, MESSAGE_MAX, WINDOW_MAX};
use weft_transport::{CallError, NoHandler, Purpose, SendError};

use crate::world::{Echo, World};

pub(crate) fn what_finds_no_memory_to_be_written_to_costs_no_credit(world: &World) {
    let server = world.node(1, Arc::new(Echo));
    let client = world.client_with_memory(16 << 20);
    world.run(async {
        let connection = client.connect(server.address, world.deadline()).await.unwrap();
        let mut taken = Vec::new();
        for len in [1 << 20, 4 << 10, 64] {
            while let Ok(block) = client.memory().allocate(len, Purpose::Send) {
                taken.push(block);
            }
        }
        let body = [7; 1000];
        let sent = connection.send(&body).await;
        assert!(matches!(sent, Err(SendError::Memory(_))), "{sent:?}");
        let called = connection.call(&body, world.deadline()).await.unwrap_err();
        assert!(matches!(called, CallError::Memory(_)), "{called:?}");
        drop(taken);
        connection.send(&body).await.unwrap();
        assert_eq!(*connection.call(&body, world.deadline()).await.unwrap(), body);
    });
}

pub(crate) fn calls_given_up_while_they_wait_for_a_slot_cost_no_credit(world: &World) {
    let server = world.node(1, Arc::new(NoHandler));
    let client = world.client();
    world.run(async {
        let connection = client.connect(server.address, world.deadline()).await.unwrap();
        let mut kept = Vec::new();
        for _ in 0..CALLS_MAX {
            kept.push(connection.call_streamed(&[], world.deadline()).await.unwrap());
        }
        let mut context = Context::from_waker(Waker::noop());
        let body = vec![7; MESSAGE_MAX];
        for _ in 0..=WINDOW_MAX / MESSAGE_MAX as u32 {
            let call = pin!(connection.call(&body[..], world.deadline()));
            assert!(call.poll(&mut context).is_pending(), "there is a slot for one more");
        }
        connection.send(&body[..]).await.unwrap();
    });
}
