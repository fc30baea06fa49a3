//! Workers: ask which processes are registered as those that work for the cluster.
//!
//! ```text
//! request  prefix
//! reply    head: ok, length | count u32 | each: number u64 | worker
//! ```

use crate::bare::bare_request;
use crate::codec::{Reader, Writer};
use crate::error::{DecodeError, ReplyError};
use crate::limits::WORKERS_MAX;
use crate::reply::{HEAD_LEN, ReplyHead, Status};
use crate::worker::{WorkerDescription, WorkerEntry};

bare_request!(
    /// Asks for the workers of the cluster. Any node has the coordinators say it, as of what a quorum of them confirms.
    Workers
);

/// The answer to [`Workers`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkersReply {
    /// The workers that are registered, in the order in which they registered; at most [`WORKERS_MAX`].
    pub workers: Vec<WorkerEntry>,
}

impl WorkersReply {
    /// Reads a reply.
    ///
    /// # Errors
    ///
    /// [`ReplyError`]: the server's refusal, or bytes that are no list of workers.
    pub fn decode(message: &[u8]) -> Result<Self, ReplyError<'_>> {
        let (head, body) = ReplyHead::decode(message)?;
        match head.status {
            Status::Ok => Ok(Self { workers: decode_entries(Reader::new(body))? }),
            _ => Err(head.unexpected().into()),
        }
    }

    /// Bytes of the reply's message.
    pub fn encoded_len(&self) -> usize {
        HEAD_LEN + self.body_len()
    }

    fn body_len(&self) -> usize {
        let len = |entry: &WorkerEntry| 8 + entry.description().encoded_len();
        4 + self.workers.iter().map(len).sum::<usize>()
    }

    /// Writes the reply's message into `buffer`, which is [`encoded_len`](Self::encoded_len) bytes long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let mut writer = Writer::new(buffer);
        let length = self.body_len() as u32;
        let head = ReplyHead { status: Status::Ok, index: 0, length, version: 0 };
        writer.bytes(&head.to_bytes());
        writer.u32(self.workers.len() as u32);
        for entry in &self.workers {
            writer.u64(entry.worker);
            entry.description().encode(&mut writer);
        }
        writer.finish();
    }
}

fn decode_entries(mut reader: Reader<'_>) -> Result<Vec<WorkerEntry>, DecodeError> {
    let count = reader.u32()? as usize;
    if count > WORKERS_MAX {
        return Err(DecodeError::ListTooLong { field: "workers", count, limit: WORKERS_MAX });
    }
    let fits = reader.rest().len() / (8 + WorkerDescription::LEN_MIN);
    let mut workers = Vec::with_capacity(count.min(fits));
    let mut last = 0;
    for _ in 0..count {
        let worker = reader.u64()?;
        let WorkerDescription { address, slots, build, process } =
            WorkerDescription::decode(&mut reader)?;
        if worker <= last {
            return Err(DecodeError::WorkersUnordered { worker });
        }
        last = worker;
        let (address, build) = (address.to_owned(), build.to_owned());
        workers.push(WorkerEntry { worker, address, slots, build, process });
    }
    reader.finish()?;
    Ok(workers)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::request::Request;
    use crate::round_trip::*;

    fn entry(worker: u64, address: &str) -> WorkerEntry {
        let (address, build) = (address.to_owned(), "1f".to_owned());
        WorkerEntry { worker, address, slots: 4, build, process: 77 }
    }

    #[test]
    fn the_bytes_are_those_of_the_docs() {
        check_request(Request::Workers(Workers));
        let message = encode(Workers.encoded_len(), |buffer| Workers.encode(buffer));
        assert_eq!(message, documented("workers request"));
        let reply = WorkersReply { workers: vec![entry(3, "loom:9"), entry(5, "loom:8")] };
        let message = encode(reply.encoded_len(), |buffer| reply.encode(buffer));
        assert_eq!(message, documented("workers reply"));
        assert_eq!(WorkersReply::decode(&message), Ok(reply));
        check_cut(&message, WorkersReply::decode);
    }

    /// What a list announces is nothing to make room for.
    #[test]
    fn a_list_that_is_too_long_or_out_of_order_is_refused() {
        let read = |workers: Vec<WorkerEntry>| {
            let reply = WorkersReply { workers };
            let message = encode(reply.encoded_len(), |buffer| reply.encode(buffer));
            WorkersReply::decode(&message).map(drop).is_ok()
        };
        let many = |count: u64| (1..=count).map(|worker| entry(worker, "a")).collect();
        assert!(read(many(WORKERS_MAX as u64)));
        assert!(!read(many(WORKERS_MAX as u64 + 1)));
        assert!(!read(vec![entry(2, "a"), entry(1, "a")]));
        assert!(!read(vec![entry(2, "a"), entry(2, "b")]));
        assert!(!read(vec![entry(0, "a")]), "nobody has number 0");
    }

    proptest! {
        #[test]
        fn hostile_replies_are_survived(message in hostile(documented("workers reply"))) {
            if let Ok(reply) = WorkersReply::decode(&message) {
                let again = encode(reply.encoded_len(), |buffer| reply.encode(buffer));
                prop_assert_eq!(WorkersReply::decode(&again), Ok(reply));
            }
        }
    }
}
