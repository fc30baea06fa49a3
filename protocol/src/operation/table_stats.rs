//! Table-stats: ask a node what its tables hold.
//!
//! ```text
//! request  prefix
//! reply    head: ok, count, length, 0 | tables
//! table    number u16 | 0 u48 | objects u64 | bytes u64
//! ```

use crate::bare::bare_request;
use crate::codec::{Reader, Writer};
use crate::error::{DecodeError, ReplyError};
use crate::limits::TABLES_MAX;
use crate::reply::{HEAD_LEN, ReplyHead, Status};
use crate::table::TableId;

/// Bytes of a table's entry.
const ENTRY_LEN: usize = 24;

bare_request!(
    /// Asks a node what its tables hold.
    TableStats
);

/// What a node, or a cluster, holds of a table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TableUse {
    /// The table.
    pub table: TableId,
    /// Its objects, expired ones that nobody met included.
    pub objects: u64,
    /// Bytes of their records in the log.
    pub bytes: u64,
}

/// The answer to [`TableStats`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableStatsReply {
    /// What the node holds, by table; the table that is always there is the first.
    pub tables: Vec<TableUse>,
}

impl TableStatsReply {
    /// Reads a reply.
    ///
    /// # Errors
    ///
    /// [`ReplyError`]: the server's refusal, or bytes that are no reply to this.
    pub fn decode(message: &[u8]) -> Result<Self, ReplyError<'_>> {
        let (head, body) = ReplyHead::decode(message)?;
        if head.status != Status::Ok {
            return Err(head.unexpected().into());
        }
        let count = usize::from(head.index);
        if count > TABLES_MAX + 1 {
            let error = DecodeError::ListTooLong { field: "tables", count, limit: TABLES_MAX + 1 };
            return Err(error.into());
        }
        let mut reader = Reader::new(body);
        let mut tables = Vec::with_capacity(count.min(body.len() / ENTRY_LEN));
        for _ in 0..count {
            let table = TableId(reader.u16()?);
            reader.take(6)?;
            tables.push(TableUse { table, objects: reader.u64()?, bytes: reader.u64()? });
        }
        reader.finish()?;
        Ok(Self { tables })
    }

    /// Bytes of the reply's message.
    pub fn encoded_len(&self) -> usize {
        HEAD_LEN + self.tables.len() * ENTRY_LEN
    }

    /// Writes the reply's message into `buffer`, which is [`encoded_len`](Self::encoded_len) bytes
    /// long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let mut writer = Writer::new(buffer);
        let head = ReplyHead {
            status: Status::Ok,
            index: self.tables.len() as u16,
            length: (self.tables.len() * ENTRY_LEN) as u32,
            version: 0,
        };
        writer.bytes(&head.to_bytes());
        for TableUse { table, objects, bytes } in &self.tables {
            writer.u16(table.0);
            writer.bytes(&[0; 6]);
            writer.u64(*objects);
            writer.u64(*bytes);
        }
        writer.finish();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::request::Request;
    use crate::round_trip::*;

    #[test]
    fn the_bytes_are_those_of_the_docs() {
        check_request(Request::TableStats(TableStats));
        let message = encode(TableStats.encoded_len(), |buffer| TableStats.encode(buffer));
        assert_eq!(message, documented("table-stats request"));
        let default = TableUse { table: TableId::DEFAULT, objects: 3, bytes: 168 };
        let reply = TableStatsReply {
            tables: vec![default, TableUse { table: TableId(2), ..TableUse::default() }],
        };
        let message = encode(reply.encoded_len(), |buffer| reply.encode(buffer));
        assert_eq!(message, documented("table-stats reply"));
    }

    proptest! {
        #[test]
        fn replies_are_read_as_written(uses in prop::collection::vec(any::<(u16, u64, u64)>(), 0..9)) {
            let entry = |(table, objects, bytes)| TableUse { table: TableId(table), objects, bytes };
            let reply = TableStatsReply { tables: uses.into_iter().map(entry).collect() };
            let message = encode(reply.encoded_len(), |buffer| reply.encode(buffer));
            prop_assert_eq!(TableStatsReply::decode(&message), Ok(reply));
            check_cut(&message, TableStatsReply::decode);
        }

        #[test]
        fn hostile_replies_are_survived(message in hostile(documented("table-stats reply"))) {
            let _ = TableStatsReply::decode(&message);
        }
    }
}
