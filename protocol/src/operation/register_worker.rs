//! Register-worker: have the cluster keep that a process is there which works for it.
//!
//! ```text
//! request  prefix | completion id? | former number u64 | worker
//! reply    head: ok, length, the worker's number | lifetime u32
//! ```

use crate::codec::{Reader, Writer};
use crate::completion::Completion;
use crate::error::{DecodeError, ReplyError};
use crate::operation::Operation;
use crate::prefix::{FLAG_COMPLETION, PREFIX_LEN, Prefix};
use crate::reply::{HEAD_LEN, ReplyHead, Status};
use crate::worker::WorkerDescription;

/// Registers a process. Any node has the coordinators do it. [`TooManyWorkers`](crate::ErrorCode::TooManyWorkers) if there are as many as there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegisterWorker<'a> {
    /// Which request it is: asked again, it is the same registration.
    pub completion: Option<Completion>,
    /// The number that the process had until its registration ran out, to have it again: who knows it by that still does. 0 for none.
    pub former: u64,
    /// What the process says of itself.
    pub worker: WorkerDescription<'a>,
}

impl<'a> RegisterWorker<'a> {
    pub(crate) fn decode(prefix: Prefix, mut reader: Reader<'a>) -> Result<Self, DecodeError> {
        prefix.takes_flags(FLAG_COMPLETION)?;
        prefix.takes_no_key()?;
        prefix.takes_no_argument()?;
        let completion = prefix.completion(1, &mut reader)?;
        let former = reader.u64()?;
        let worker = WorkerDescription::decode(&mut reader)?;
        reader.finish()?;
        Ok(Self { completion, former, worker })
    }

    /// Bytes of the request's message.
    pub fn encoded_len(&self) -> usize {
        let (_, completion_len) = Completion::flag_and_len(self.completion);
        PREFIX_LEN + completion_len + 8 + self.worker.encoded_len()
    }

    /// Writes the request's message into `buffer`, which is [`encoded_len`](Self::encoded_len) bytes long. The worker is
    /// [within limits](WorkerDescription::is_within_limits).
    pub fn encode(&self, buffer: &mut [u8]) {
        let mut writer = Writer::new(buffer);
        let (flags, _) = Completion::flag_and_len(self.completion);
        Prefix { flags, ..Prefix::bare(Operation::RegisterWorker) }.encode(&mut writer);
        if let Some(completion) = self.completion {
            completion.encode(&mut writer);
        }
        writer.u64(self.former);
        self.worker.encode(&mut writer);
        writer.finish();
    }
}

/// The answer to [`RegisterWorker`], and to [`RenewWorker`](crate::RenewWorker).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegisterWorkerReply {
    /// The worker's number: its former one, or one that is higher than all that were given out before, and that nobody else is given.
    pub worker: u64,
    /// For how many milliseconds the registration holds at least, from when it was asked for on, unless it is [renewed](crate::RenewWorker).
    pub lifetime_ms: u32,
}

impl RegisterWorkerReply {
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
        let mut reader = Reader::new(body);
        let lifetime_ms = reader.u32()?;
        reader.finish()?;
        Ok(Self { worker: head.version, lifetime_ms })
    }

    /// Bytes of the reply's message.
    pub const fn encoded_len(&self) -> usize {
        HEAD_LEN + 4
    }

    /// Writes the reply's message into `buffer`, which is [`encoded_len`](Self::encoded_len) bytes long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let mut writer = Writer::new(buffer);
        let head = ReplyHead { status: Status::Ok, index: 0, length: 4, version: self.worker };
        writer.bytes(&head.to_bytes());
        writer.u32(self.lifetime_ms);
        writer.finish();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::limits::{ADDRESS_MAX, WORKER_BUILD_MAX};
    use crate::request::Request;
    use crate::round_trip::*;

    #[test]
    fn the_bytes_are_those_of_the_docs() {
        let worker = WorkerDescription { address: "loom:9", slots: 4, build: "1f", process: 77 };
        let request = RegisterWorker { completion: None, former: 2, worker };
        check_request(Request::RegisterWorker(request));
        let message = encode(request.encoded_len(), |buffer| request.encode(buffer));
        assert_eq!(message, documented("register-worker request"));
        let reply = RegisterWorkerReply { worker: 3, lifetime_ms: 6_000 };
        let message = encode(reply.encoded_len(), |buffer| reply.encode(buffer));
        assert_eq!(message, documented("register-worker reply"));
    }

    #[test]
    fn a_description_that_is_empty_or_too_long_is_refused() {
        let read = |address: &str, build: &str| {
            let worker = WorkerDescription { address, slots: 1, build, process: 1 };
            let request = RegisterWorker { completion: None, former: 0, worker };
            let message = encode(request.encoded_len(), |buffer| request.encode(buffer));
            Request::decode(&message).map(|read| assert_eq!(read, Request::RegisterWorker(request)))
        };
        let (address, build) = ("a".repeat(ADDRESS_MAX + 1), "b".repeat(WORKER_BUILD_MAX + 1));
        assert_eq!(read(&address[1..], &build[1..]), Ok(()));
        assert_eq!(read("a", ""), Ok(()));
        for (address, build) in [("", "b"), (&*address, "b"), ("a", &*build)] {
            assert_eq!(read(address, build), Err(DecodeError::WorkerLength));
        }
    }

    proptest! {
        #[test]
        fn requests_are_read_as_written(
            completion in completions(),
            (address, build) in (".{1,40}", ".{0,16}"),
            (slots, process) in any::<(u32, u32)>(),
            former in any::<u64>(),
        ) {
            let worker = WorkerDescription { address: &address, slots, build: &build, process };
            check_request(Request::RegisterWorker(RegisterWorker { completion, former, worker }));
        }

        #[test]
        fn replies_are_read_as_written(worker: u64, lifetime_ms: u32) {
            let reply = RegisterWorkerReply { worker, lifetime_ms };
            let message = encode(reply.encoded_len(), |buffer| reply.encode(buffer));
            prop_assert_eq!(RegisterWorkerReply::decode(&message), Ok(reply));
            check_cut(&message, RegisterWorkerReply::decode);
        }

        #[test]
        fn hostile_requests_are_survived(message in hostile(documented("register-worker request"))) {
            if let Ok(Request::RegisterWorker(register)) = Request::decode(&message) {
                prop_assert!(register.worker.is_within_limits());
            }
        }
    }
}
