//! Entries that changes have made go to the log and to the other members.

use weft_protocol::ErrorReply;
use weft_protocol::replication::Entry;

use super::hosted::Hosted;
use crate::store::Partition;

/// What has become of the entries that changes have made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recorded {
    /// There were none.
    Nothing,
    /// All who are to have them have them.
    Done,
    /// The partition is to be [settled](Hosted::settle).
    Due,
}

impl Hosted {
    /// Hands the entries over that changes have made.
    #[inline]
    pub(crate) fn record(&mut self) -> Recorded {
        if self.partition.is_recording() { self.record_entries() } else { Recorded::Nothing }
    }

    fn record_entries(&mut self) -> Recorded {
        let Hosted { partition, replica, logged, scratch, is_alone, owes_log, .. } = self;
        let mut recorded = Recorded::Nothing;
        while let Some(entry) = partition.take_entry() {
            let (version, copied) = (entry.version, entry.bytes);
            // Of a partition that nobody else holds, its log is all that is to have it: then it is not put in a queue, to be looked after later.
            if *is_alone
                && recorded != Recorded::Due
                && let Some(logged) = logged.as_mut()
                && logged.hand_over(version, &copied)
            {
                recorded = if logged.refuses() { Recorded::Due } else { Recorded::Done };
                continue;
            }
            recorded = Recorded::Due;
            *owes_log |= *is_alone;
            let bytes = match logged {
                Some(logged) => logged.entry(version, |bytes| copied.copy_to(bytes)),
                None => {
                    scratch.clear();
                    copied.copy_to(scratch);
                    &*scratch
                }
            };
            if !*is_alone {
                let recorded = replica.record(Entry { version, bytes });
                recorded.expect("only who serves makes entries, one after the other");
            }
        }
        if let Some(logged) = logged {
            logged.give_back_room();
        }
        recorded
    }

    /// Sees to it that there is room on the disk for an entry that is about to be made and may have as many bytes as `len` says, if it is answered
    /// when it is made. The room is kept until changes are [recorded](Self::record).
    ///
    /// # Errors
    /// What to answer if there is none.
    #[inline]
    pub(crate) fn keep_room_for(
        &mut self,
        len: impl FnOnce(&mut Partition) -> usize,
    ) -> Result<(), ErrorReply<'static>> {
        let Hosted { partition, logged, asks_for_room, .. } = self;
        if !*asks_for_room {
            return Ok(());
        }
        let logged = logged.as_mut().expect("it is asked for room");
        if logged.keeps_room_for(len(partition)) { Ok(()) } else { Err(logged.refusal()) }
    }
}
