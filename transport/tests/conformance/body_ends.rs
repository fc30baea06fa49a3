//! How streamed bodies end before their end, and how long they may take, on every link.

use std::sync::Arc;

use futures_util::future::{Either, join, select};
use weft_transport::limits::BODIES_MAX;
use weft_transport::{Applied, BodyError, BodyWriter, CloseReason, StopReason};

use super::SECOND;
use super::bodies::{Pair, read, write};
use super::large::{echoes, held, pattern, pause, until};
use super::world::World;

/// What a write ends with that goes on until it fails.
async fn write_until_it_fails(writer: &mut BodyWriter) -> BodyError {
    let bytes = pattern(100_000, 9);
    loop {
        if let Err(error) = writer.write(&bytes).await {
            return error;
        }
    }
}

pub(crate) fn a_reader_that_gives_up_says_why(world: &World) {
    let pair = Pair::new(world);
    let before = world.run(async { held(&pair.client) + held(&pair.server.endpoint) });
    world.run(async {
        let text = "enough of \u{fc}".repeat(20);
        for said in [true, false] {
            let (mut writer, mut body) = pair.open(world).await;
            let gives_up = async {
                let first = body.next().await.unwrap().unwrap();
                if said {
                    body.cancel(77, &text);
                } else {
                    drop(body);
                }
                drop(first);
            };
            let (error, ()) = join(write_until_it_fails(&mut writer), gives_up).await;
            let reason = match said {
                true => StopReason::Program { code: 77, text: text.clone() },
                false => StopReason::Dropped,
            };
            assert_eq!(error, BodyError::Refused(reason));
            assert_eq!(error.applied(), Applied::Maybe);
            assert_eq!(writer.write(b"more").await, Err(error.clone()));
            assert_eq!(writer.finish().await, Err(error));
        }
        // Nobody has taken it at all.
        let writer = pair.connection.send_body(b"head", world.deadline()).await.unwrap();
        drop(pair.came(world).await);
        let error = write(writer, &pattern(1 << 20, 1)).await.unwrap_err();
        assert_eq!(error, BodyError::Refused(StopReason::Dropped));
        echoes(&pair.connection, b"small", world.deadline()).await;
        let usual = 1 << 20;
        until(world, &pair.client, || {
            held(&pair.client) + held(&pair.server.endpoint) <= before + usual
        })
        .await;
    });
}

/// A handler that leaves the body alone, an endpoint whose messages are posted, a caller that has gone.
pub(crate) fn a_body_that_nobody_takes_is_refused(world: &World) {
    let silent = world.node(1, Arc::new(super::world::Silent));
    let posting = world.posting_node(2);
    let client = world.client();
    world.run(async {
        let refused = BodyError::Refused(StopReason::NotTaken);
        for node in [&silent, &posting] {
            let connection = client.connect(node.address, world.deadline()).await.unwrap();
            for _ in 0..2 * BODIES_MAX {
                let writer = connection.send_body(b"head", world.deadline()).await.unwrap();
                assert_eq!(write(writer, &pattern(1 << 20, 1)).await, Err(refused.clone()));
            }
            assert!(connection.is_open());
        }
    });
    let pair = Pair::new(world);
    world.run(async {
        let call = pair.connection.call_body(b"head", world.deadline());
        let (writer, replies) = call.await.unwrap();
        drop(replies);
        let mut reply = pair.came(world).await.reply.unwrap();
        let error = write_until_it_fails(&mut reply).await;
        assert_eq!(error, refused_by_caller());
        drop(writer);
        echoes(&pair.connection, b"small", world.deadline()).await;
    });
}

fn refused_by_caller() -> BodyError {
    BodyError::Refused(StopReason::NotTaken)
}

pub(crate) fn a_writer_that_gives_up_says_why_behind_what_it_sent(world: &World) {
    let pair = Pair::new(world);
    world.run(async {
        let bytes = pattern(200_000, 10);
        for said in [true, false] {
            let (mut writer, mut body) = pair.open(world).await;
            let gives_up = async {
                writer.write(&bytes).await.unwrap();
                // It goes without being read, since it is less than is granted ahead.
                writer.flush().await.unwrap();
                let read = async {
                    let mut at = 0;
                    while at < bytes.len() {
                        let piece = body.next().await.unwrap().unwrap();
                        assert!(*piece == bytes[at..at + piece.len()]);
                        at += piece.len();
                    }
                };
                read.await;
                writer.write(b"this never goes").await.unwrap();
                match said {
                    true => writer.abort(5, "the disk is gone"),
                    false => drop(writer),
                }
            };
            gives_up.await;
            let reason = match said {
                true => StopReason::Program { code: 5, text: "the disk is gone".into() },
                false => StopReason::Dropped,
            };
            let error = body.next().await.unwrap_err();
            assert_eq!(error, BodyError::Aborted(reason));
            assert_eq!(body.next().await.unwrap_err(), error);
        }
        // Before anything of it has gone, too.
        let writer = pair.connection.send_body(b"head", world.deadline()).await.unwrap();
        drop(writer);
        let error = pair.came(world).await.body.next().await.unwrap_err();
        assert_eq!(error, BodyError::Aborted(StopReason::Dropped));
    });
}

pub(crate) fn a_side_that_does_not_go_on_is_given_up_by_the_other(world: &World) {
    let pair = Pair::new(world);
    let patience = SECOND / 10;
    world.run(async {
        let silent = BodyError::Silent { patience };
        let (mut writer, mut body) = pair.open(world).await;
        body.set_patience(patience);
        writer.write(b"something").await.unwrap();
        writer.send_now();
        assert_eq!(&*body.next().await.unwrap().unwrap(), b"something");
        let began = world.now();
        assert_eq!(body.next().await.unwrap_err(), silent);
        assert!(world.now().since(began) >= patience);
        let told = write_until_it_fails(&mut writer).await;
        assert_eq!(told, BodyError::Refused(StopReason::Silent));

        let (mut writer, mut body) = pair.open(world).await;
        writer.set_patience(patience);
        assert_eq!(write_until_it_fails(&mut writer).await, silent);
        let mut came = 0;
        let told = loop {
            match body.next().await {
                Ok(piece) => came += piece.unwrap().len(),
                Err(error) => break error,
            }
        };
        assert_eq!(told, BodyError::Aborted(StopReason::Silent));
        assert!(came > 0 && came < writer.written() as usize);
        echoes(&pair.connection, b"small", world.deadline()).await;
    });
}

pub(crate) fn the_end_of_a_connection_ends_its_bodies(world: &World) {
    let pair = Pair::new(world);
    world.run(async {
        let (mut writer, mut body) = pair.open(world).await;
        let bytes = pattern(100_000, 11);
        writer.write(&bytes).await.unwrap();
        writer.send_now();
        let mut at = 0;
        while at < bytes.len() {
            at += body.next().await.unwrap().unwrap().len();
        }
        // One has come whole, and is read when the connection is gone.
        let (whole, mut whole_body) = pair.open(world).await;
        write(whole, &bytes[..5000]).await.unwrap();
        assert_eq!(whole_body.next().await.unwrap().unwrap().len(), 5000);
        echoes(&pair.connection, b"small", world.deadline()).await;
        world.stop(&pair.server);
        let error = write_until_it_fails(&mut writer).await;
        assert!(
            matches!(error, BodyError::Disconnected { applied: Applied::Maybe, .. }),
            "{error:?}"
        );
        let error = body.next().await.unwrap_err();
        assert!(matches!(error, BodyError::Disconnected { .. }), "{error:?}");
        assert!(matches!(whole_body.next().await, Ok(None)));
        // Nothing begins on it any more.
        until(world, &pair.client, || !pair.connection.is_open()).await;
        let error = pair.connection.send_body(b"", world.deadline()).await.unwrap_err();
        assert_eq!(error.applied(), Applied::No);
        let error = pair.connection.call_body(b"", world.deadline()).await.unwrap_err();
        assert_eq!(error.applied(), Applied::No);
    });
}

/// Whoever waits when the connection ends is told at once, and not because somebody else in the task is.
pub(crate) fn who_waits_for_a_body_hears_of_the_end(world: &World) {
    for writes in [true, false] {
        let pair = Pair::new(world);
        world.run(async {
            let (mut writer, mut body) = pair.open(world).await;
            let waits = async {
                if writes {
                    write_until_it_fails(&mut writer).await
                } else {
                    body.next().await.unwrap_err()
                }
            };
            let closes = async {
                pause(&pair.client, SECOND / 20).await;
                pair.connection.close();
            };
            let began = world.now();
            let (error, ()) = join(waits, closes).await;
            assert!(matches!(error, BodyError::Disconnected { .. }), "{error:?}");
            // Not when there is no more patience.
            assert!(world.now().since(began) < 10 * SECOND);
        });
    }
}

/// How long a body stands still is up to its two sides: the connection does not end for that.
pub(crate) fn a_body_may_stand_still_for_longer_than_a_peer_may_stall(world: &World) {
    let pair = Pair::new(world);
    let bytes = pattern(1 << 20, 13);
    world.run(async {
        let (mut writer, mut body) = pair.open(world).await;
        writer.set_patience(100 * SECOND);
        body.set_patience(100 * SECOND);
        let stands_still = if world.is_simulated() { 70 * SECOND } else { SECOND / 20 };
        // Neither the one that writes nothing nor the one that reads nothing.
        pause(&pair.client, stands_still).await;
        let reads = async {
            pause(&pair.client, stands_still).await;
            read(&mut body, &bytes).await
        };
        let both = join(write(writer, &bytes), reads).await;
        assert_eq!(both, (Ok(bytes.len() as u64), Ok(bytes.len() as u64)));
        assert!(pair.connection.is_open());
    });
}

/// What never left because the connection ended first says so.
pub(crate) fn a_body_that_never_began_was_not_applied(world: &World) {
    let pair = Pair::new(world);
    world.run(async {
        // As many as may be under way of what is no reply nor sent on behalf of another request, and one that waits.
        let mut open = Vec::new();
        for _ in 0..BODIES_MAX / 3 {
            open.push(pair.open(world).await);
        }
        let call = pair.connection.call_body(b"waits", world.deadline());
        let (mut writer, mut replies) = call.await.unwrap();
        {
            let waits = std::pin::pin!(writer.write(b"not before it has begun"));
            let waited = std::pin::pin!(pause(&pair.client, SECOND / 10));
            assert!(matches!(select(waits, waited).await, Either::Right(_)));
        }
        assert!(pair.bodies.came.lock().unwrap().is_empty());
        // Small calls, and bodies the other way, have not had to wait for it.
        echoes(&pair.connection, b"small", world.deadline()).await;
        pair.connection.close();
        let error = writer.write(b"never").await.unwrap_err();
        let reason = CloseReason::Closed;
        assert_eq!(error, BodyError::Disconnected { applied: Applied::No, reason });
        assert_eq!(replies.next().await.unwrap().unwrap_err().applied(), Applied::No);
        for (mut writer, _) in open {
            let error = write_until_it_fails(&mut writer).await;
            assert_eq!(error.applied(), Applied::Maybe);
        }
    });
}
