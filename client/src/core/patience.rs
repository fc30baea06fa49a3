//! How long an attempt is waited for: until the map says that who was asked does not serve the key any more.
//!
//! A node that has failed may leave its connections open, and a caller is not to learn that by its deadline. So after a quarter of a second
//! without an answer, and every quarter of a second from then on, the map is looked at. As long as it names the same node, the same call is waited for, and nothing is
//! sent to that node: it may just be slow, and a request that is sent again makes it slower. What that costs is one small request for the map in a tenth of a second at
//! most, for all calls of a client together, which any node answers.

use std::future::Future;
use std::pin::{Pin, pin};

use futures_util::future::{Either, select};
use weft_protocol::{Member, Slot};
use weft_transport::{Applied, Body, CallError, Calling, Connection, Reply, Time};

use super::Core;
use crate::limits::ATTEMPT_PATIENCE;
use crate::retry::MapNeed;
use crate::table::Table;

impl Core {
    /// Goes on waiting for a call that was not answered for as long as patience lasts.
    #[cold]
    pub(super) fn linger<'a, B: Body + 'a>(
        &'a self,
        call: Calling<'a, B>,
        connection: &'a Connection,
        table: Table,
        slot: Slot,
        deadline: Time,
    ) -> Pin<Box<dyn Future<Output = Result<Reply, CallError>> + Send + 'a>> {
        Box::pin(async move {
            let deposed = self.deposed(member_of(connection), table, slot, deadline);
            match select(call, pin!(deposed)).await {
                Either::Left((called, _)) => called,
                Either::Right(_) => Err(CallError::DeadlineExceeded { applied: Applied::Maybe }),
            }
        })
    }

    /// What comes of `attempt`, unless `member`, which it waits for, turns out not to serve `slot` any more.
    pub(crate) async fn unless_deposed<T>(
        &self,
        attempt: impl Future<Output = T>,
        member: Member,
        table: Table,
        slot: Slot,
        deadline: Time,
    ) -> Option<T> {
        let looked_after = async {
            self.be_patient().await;
            self.deposed(member, table, slot, deadline).await;
        };
        match select(pin!(attempt), pin!(looked_after)).await {
            Either::Left((done, _)) => Some(done),
            Either::Right(_) => None,
        }
    }

    /// Ends when the map says, which is fetched again and again, that `member` does not serve `slot`.
    async fn deposed(&self, member: Member, table: Table, slot: Slot, deadline: Time) {
        loop {
            self.keeper.provide(&self.endpoint, MapNeed::Recheck, deadline).await;
            if self.keeper.current().has_deposed(member, table, slot) {
                return;
            }
            self.be_patient().await;
        }
    }

    async fn be_patient(&self) {
        let until = self.endpoint.clock().now() + ATTEMPT_PATIENCE;
        self.endpoint.sleep_until(until).await;
    }
}

/// Who is at the other end.
pub(crate) fn member_of(connection: &Connection) -> Member {
    let peer = connection.peer();
    Member { node: peer.node, incarnation: peer.incarnation }
}
