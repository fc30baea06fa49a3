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
    pub(crate) fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        let kind = match header[0] {
            1 => Kind::Hello,
            2 => Kind::Watch,
            3 => Kind::Segment,
            4 => Kind::End,
            5 => Kind::Stop,
            _ => return None,
        };
        if header[1..4] != [0; 3] {
            return None;
        }
        let stage = u32::from_le_bytes([4, 5, 6, 7].map(|at| header[at]));
        let sequence = u64::from_le_bytes([8, 9, 10, 11, 12, 13, 14, 15].map(|at| header[at]));
        Some((Self { kind, stage, sequence }, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_comes_back_with_what_follows() {
        for kind in [Kind::Hello, Kind::Watch, Kind::Segment, Kind::End, Kind::Stop] {
            let header = Header { kind, stage: 7, sequence: 1 << 40 };
            let bytes = [&header.encode()[..], b"rest"].concat();
            assert_eq!(Header::decode(&bytes), Some((header, &b"rest"[..])));
        }
    }

    #[test]
    fn what_is_no_header_is_refused() {
        let good = Header { kind: Kind::End, stage: 0, sequence: 0 }.encode();
        assert_eq!(Header::decode(&good[..15]), None);
        for (at, byte) in [(0, 0), (0, 6), (1, 1), (3, 1)] {
            let mut bad = good;
            bad[at] = byte;
            assert_eq!(Header::decode(&bad), None, "{at} {byte}");
        }
    }
}
