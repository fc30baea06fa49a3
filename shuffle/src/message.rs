//! What workers say to one another. `docs/shuffle.md` draws it.

/// Bytes ahead of what a message carries.
pub(crate) const HEADER_BYTES: usize = 16;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// A call: which program this is. Answered with nothing if it is the same here, or with how it differs.
    Hello = 1,
    /// A call that is answered only by the end of the connection: its failure is the peer's.
    Watch = 2,
    /// A segment of records for a stage.
    Segment = 3,
    /// The sender has no more for a stage; the sequence says how many segments it sent.
    End = 4,
    /// The sender stops the job: the reason follows as text.
    Stop = 5,
    /// A call that is answered at once, with nothing: whoever answers still runs.
    Heartbeat = 6,
}

/// The header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    /// Counts the exchanges of a job from 0.
    pub(crate) stage: u32,
    /// Counts the segments from one worker to another in a stage from 0.
    pub(crate) sequence: u64,
}

impl Header {
    pub(crate) fn encode(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0] = self.kind as u8;
        bytes[4..8].copy_from_slice(&self.stage.to_le_bytes());
        bytes[8..].copy_from_slice(&self.sequence.to_le_bytes());
        bytes
    }

    /// The header, and what follows it.
    ///
    /// # Errors
    /// What of it breaks the protocol.
    pub(crate) fn decode(bytes: &[u8]) -> Result<(Self, &[u8]), &'static str> {
        let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return Err("a message without a header");
        };
        let kind = match header[0] {
            1 => Kind::Hello,
            2 => Kind::Watch,
            3 => Kind::Segment,
            4 => Kind::End,
            5 => Kind::Stop,
            6 => Kind::Heartbeat,
            _ => return Err("a message of no known kind"),
        };
        let stage = u32::from_le_bytes([4, 5, 6, 7].map(|at| header[at]));
        let sequence = u64::from_le_bytes([8, 9, 10, 11, 12, 13, 14, 15].map(|at| header[at]));
        let has_place = matches!(kind, Kind::Segment | Kind::End);
        if header[1..4] != [0; 3] || !has_place && (stage, sequence) != (0, 0) {
            return Err("a header with something in a field that its kind does not use");
        }
        if matches!(kind, Kind::Watch | Kind::End | Kind::Heartbeat) && !rest.is_empty() {
            return Err("a message with something behind its header that its kind does not have");
        }
        Ok((Self { kind, stage, sequence }, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_comes_back_with_what_follows() {
        for (kind, stage, sequence, rest) in [
            (Kind::Hello, 0, 0, &b"rest"[..]),
            (Kind::Watch, 0, 0, b""),
            (Kind::Segment, 7, 1 << 40, b"rest"),
            (Kind::End, 7, 1 << 40, b""),
            (Kind::Stop, 0, 0, b"rest"),
            (Kind::Heartbeat, 0, 0, b""),
        ] {
            let header = Header { kind, stage, sequence };
            let bytes = [&header.encode()[..], rest].concat();
            assert_eq!(Header::decode(&bytes), Ok((header, rest)));
        }
    }

    #[test]
    fn what_is_no_header_is_refused() {
        let good = Header { kind: Kind::End, stage: 0, sequence: 0 }.encode();
        assert!(Header::decode(&good[..15]).is_err());
        for (at, byte) in [(0, 0), (0, 7), (1, 1), (3, 1)] {
            let mut bad = good;
            bad[at] = byte;
            assert!(Header::decode(&bad).is_err(), "{at} {byte}");
        }
    }

    #[test]
    fn what_a_kind_does_not_use_is_empty() {
        for kind in [Kind::Hello, Kind::Watch, Kind::Stop, Kind::Heartbeat] {
            for (stage, sequence) in [(1, 0), (0, 1)] {
                let bytes = Header { kind, stage, sequence }.encode();
                assert!(Header::decode(&bytes).is_err(), "{kind:?} {stage} {sequence}");
            }
        }
        for kind in [Kind::Watch, Kind::End, Kind::Heartbeat] {
            let bytes = [&Header { kind, stage: 0, sequence: 0 }.encode()[..], b"rest"].concat();
            assert!(Header::decode(&bytes).is_err(), "{kind:?}");
        }
    }
}
