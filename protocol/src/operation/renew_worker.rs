//! Renew-worker: have a registration hold for longer.
//!
//! ```text
//! request  prefix | worker u64
//! reply    that of register-worker
//! ```

use crate::codec::{Reader, Writer};
use crate::error::DecodeError;
use crate::operation::Operation;
use crate::operation::register_worker::RegisterWorkerReply;
use crate::prefix::{PREFIX_LEN, Prefix};

/// Asks for a worker's registration to begin anew. [`WorkerUnknown`](crate::ErrorCode::WorkerUnknown) if there is none any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RenewWorker {
    /// The worker.
    pub worker: u64,
}

impl RenewWorker {
    pub(crate) fn decode(prefix: Prefix, mut reader: Reader<'_>) -> Result<Self, DecodeError> {
        prefix.takes_flags(0)?;
        prefix.takes_no_key()?;
        prefix.takes_no_argument()?;
        let worker = reader.u64()?;
        reader.finish()?;
        Ok(Self { worker })
    }

    /// Bytes of the request's message.
    pub const fn encoded_len(&self) -> usize {
        PREFIX_LEN + 8
    }

    /// Writes the request's message into `buffer`, which is [`encoded_len`](Self::encoded_len) bytes long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let mut writer = Writer::new(buffer);
        Prefix::bare(Operation::RenewWorker).encode(&mut writer);
        writer.u64(self.worker);
        writer.finish();
    }
}

/// The answer to a [`RenewWorker`]: that of [register-worker](crate::RegisterWorker), with the worker's own number.
pub type RenewWorkerReply = RegisterWorkerReply;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::request::Request;
    use crate::round_trip::*;

    #[test]
    fn the_bytes_are_those_of_the_docs() {
        let request = RenewWorker { worker: 3 };
        let message = encode(request.encoded_len(), |buffer| request.encode(buffer));
        assert_eq!(message, documented("renew-worker request"));
    }

    proptest! {
        #[test]
        fn requests_are_read_as_written(worker: u64) {
            check_request(Request::RenewWorker(RenewWorker { worker }));
        }
    }
}
