//! Alter-table: have the cluster change the quota or the eviction of a table.
//!
//! ```text
//! request  prefix: length of the name | completion id? | what u8 | eviction u8 | six zeroes | quota u64 | name
//! reply    that of drop-table
//! ```

use crate::codec::{Reader, Writer};
use crate::completion::Completion;
use crate::error::DecodeError;
use crate::operation::Operation;
use crate::prefix::{FLAG_COMPLETION, PREFIX_LEN, Prefix};
use crate::table::{Eviction, TableAlteration};

/// Bytes of what is to be other.
const CHANGE_LEN: usize = 16;
/// The bit that says that the quota is to be another one.
const QUOTA: u8 = 1 << 0;
/// The same of the eviction.
const EVICTION: u8 = 1 << 1;

/// Changes a table, which may be the one that is always there. Any node has the coordinators do it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AlterTable<'a> {
    /// Which request it is: asked again, it changes nothing that was changed since.
    pub completion: Option<Completion>,
    /// Its name.
    pub name: &'a str,
    /// What is to be other.
    pub change: TableAlteration,
}

impl<'a> AlterTable<'a> {
    pub(crate) fn decode(prefix: Prefix, mut reader: Reader<'a>) -> Result<Self, DecodeError> {
        prefix.takes_flags(FLAG_COMPLETION)?;
        prefix.takes_no_key()?;
        let completion = prefix.completion(1, &mut reader)?;
        let (what, reserved) = (reader.u16()?, (reader.u16()?, reader.u32()?));
        let (eviction, what) = ((what >> 8) as u8, what as u8);
        let quota = reader.u64()?;
        let name = reader.take(prefix.argument as usize)?;
        let name = crate::catalog::decode_name(&mut Reader::new(name))?;
        reader.finish()?;
        if reserved != (0, 0) {
            return Err(DecodeError::ReservedField { field: "table reserved" });
        }
        if what & QUOTA == 0 && quota != 0 {
            return Err(DecodeError::ReservedField { field: "quota" });
        }
        let eviction = match (what & EVICTION, Eviction::from_number(eviction)) {
            (0, _) if eviction != 0 => {
                return Err(DecodeError::ReservedField { field: "eviction" });
            }
            (0, _) => None,
            (_, Some(eviction)) => Some(eviction),
            (_, None) => return Err(DecodeError::UnsupportedTableFlags { flags: eviction.into() }),
        };
        if what & !(QUOTA | EVICTION) != 0 {
            return Err(DecodeError::UnsupportedTableFlags { flags: what.into() });
        }
        // As in the catalog, no quota is one of 0.
        let quota_bytes = (what & QUOTA != 0).then_some(Some(quota).filter(|quota| *quota != 0));
        Ok(Self { completion, name, change: TableAlteration { quota_bytes, eviction } })
    }

    /// Bytes of the request's message.
    pub fn encoded_len(&self) -> usize {
        let (_, completion_len) = Completion::flag_and_len(self.completion);
        PREFIX_LEN + completion_len + CHANGE_LEN + self.name.len()
    }

    /// Writes the request's message into `buffer`, which is [`encoded_len`](Self::encoded_len) bytes long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let mut writer = Writer::new(buffer);
        let (flags, _) = Completion::flag_and_len(self.completion);
        let argument = self.name.len() as u32;
        Prefix { flags, argument, ..Prefix::bare(Operation::AlterTable) }.encode(&mut writer);
        if let Some(completion) = self.completion {
            completion.encode(&mut writer);
        }
        let TableAlteration { quota_bytes, eviction } = self.change;
        let what = if quota_bytes.is_some() { QUOTA } else { 0 }
            | if eviction.is_some() { EVICTION } else { 0 };
        let eviction = eviction.unwrap_or_default().number();
        writer.u16(u16::from(what) | u16::from(eviction) << 8);
        writer.u16(0);
        writer.u32(0);
        writer.u64(quota_bytes.flatten().unwrap_or(0));
        writer.bytes(self.name.as_bytes());
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
        let change = TableAlteration {
            quota_bytes: Some(Some(2 << 30)),
            eviction: Some(Eviction::SoonestExpiry),
        };
        let request = AlterTable { completion: None, name: "times", change };
        check_request(Request::AlterTable(request));
        let message = encode(request.encoded_len(), |buffer| request.encode(buffer));
        assert_eq!(message, documented("alter-table request"));
    }

    proptest! {
        #[test]
        fn requests_are_read_as_written(
            completion in completions(),
            quota: Option<Option<std::num::NonZeroU64>>,
            eviction in 0_u8..4,
        ) {
            let quota_bytes = quota.map(|quota| quota.map(std::num::NonZeroU64::get));
            let change = TableAlteration { quota_bytes, eviction: Eviction::from_number(eviction) };
            check_request(Request::AlterTable(AlterTable { completion, name: "yarn", change }));
        }

        #[test]
        fn hostile_requests_are_survived(message in hostile(documented("alter-table request"))) {
            if let Ok(Request::AlterTable(alter)) = Request::decode(&message) {
                prop_assert!(!alter.name.is_empty());
            }
        }
    }
}
