//! Hello and goodbye: the first and the last frame in each direction.
//!
//! A hello says who speaks, in which versions, and how much may be sent to them. Both sides send
//! one; the accepting side sends its own after it has read the other's, so a stranger learns
//! nothing. A goodbye says why a connection ends; it is a courtesy and may be lost.

use crate::error::{CloseReason, Goodbye, STALE_INCARNATION};
use crate::frame::{Class, Header, Kind, frame_len};
use crate::identity::{Incarnation, NodeId};
use crate::limits::{GREETING_MAX, MESSAGE_MAX, WINDOW_MAX, WINDOW_MIN};
use crate::secret::Secret;

/// The version of the wire format that this code writes, and the newest it reads.
pub const VERSION: u16 = 1;

/// The oldest version of the wire format that this code reads.
pub const VERSION_MIN: u16 = 1;

/// "WEFT", read as a little-endian number.
const MAGIC: u32 = u32::from_le_bytes(*b"WEFT");

/// Bytes of a hello's body in version 1. Later versions may append; readers ignore what follows.
const HELLO_BYTES: usize = 56;

/// The feature bit that says that a secret follows the other fields.
const SHOWS_SECRET: u64 = 1;

/// The feature bit of those who announce bodies that are too long for a frame, and take such ones.
pub const LARGE: u64 = 2;

/// The feature bit of those who send and take streamed bodies; they have [`LARGE`] too.
pub const BODIES: u64 = 4;

/// The feature bit of those who want to know of a call that it gets no reply.
pub const UNANSWERED: u64 = 8;

/// Bytes of window granted at the start, by class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    /// For replies to our calls.
    pub reply: u32,
    /// For replication.
    pub replication: u32,
    /// For requests and messages.
    pub request: u32,
}

impl Windows {
    /// The window of `class`.
    pub const fn of(&self, class: Class) -> u32 {
        match class {
            Class::Reply => self.reply,
            Class::Replication => self.replication,
            Class::Request => self.request,
        }
    }
}

impl Default for Windows {
    /// 4 MiB each: twice what loopback and a 100 Gbit/s link hold in flight in 100 us, and small
    /// enough that a peer that reads nothing ties up little.
    fn default() -> Self {
        Self { reply: 4 << 20, replication: 4 << 20, request: 4 << 20 }
    }
}

/// The first frame in each direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// Who speaks.
    pub node: NodeId,
    /// Which life of that node.
    pub incarnation: Incarnation,
    /// Bits of optional abilities, such as [`LARGE`], without the one that says whether there is a
    /// secret. Both sides use what both have.
    pub features: u64,
    /// How much may be sent to the speaker before it grants more.
    pub windows: Windows,
    /// What shows that the speaker belongs to the listener's group.
    pub secret: Option<Secret>,
}

impl Hello {
    /// The whole frame.
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(HELLO_BYTES + Secret::BYTES);
        body.extend_from_slice(&MAGIC.to_le_bytes());
        body.extend_from_slice(&VERSION_MIN.to_le_bytes());
        body.extend_from_slice(&VERSION.to_le_bytes());
        body.extend_from_slice(&self.node.0.to_le_bytes());
        body.extend_from_slice(&self.incarnation.0.to_le_bytes());
        let shows_secret = if self.secret.is_some() { SHOWS_SECRET } else { 0 };
        let features = self.features & !SHOWS_SECRET | shows_secret;
        body.extend_from_slice(&features.to_le_bytes());
        for class in Class::ALL {
            body.extend_from_slice(&self.windows.of(class).to_le_bytes());
        }
        body.extend_from_slice(&(MESSAGE_MAX as u32).to_le_bytes());
        body.resize(HELLO_BYTES, 0);
        if let Some(secret) = self.secret {
            body.extend_from_slice(&secret.to_bytes());
        }
        frame(Kind::Hello, 0, &body)
    }

    /// Reads the body of a hello.
    ///
    /// # Errors
    /// [`CloseReason::BadMagic`], [`CloseReason::Version`], or a violation for windows that are
    /// out of bounds.
    pub fn decode(body: &[u8]) -> Result<Self, CloseReason> {
        let mut rest = body;
        if u32::from_le_bytes(take(&mut rest)?) != MAGIC {
            return Err(CloseReason::BadMagic);
        }
        let minimum = u16::from_le_bytes(take(&mut rest)?);
        let maximum = u16::from_le_bytes(take(&mut rest)?);
        if minimum > VERSION || maximum < VERSION_MIN {
            return Err(CloseReason::Version { minimum, maximum });
        }
        let node = NodeId(u64::from_le_bytes(take(&mut rest)?));
        let incarnation = Incarnation(u64::from_le_bytes(take(&mut rest)?));
        let features = u64::from_le_bytes(take(&mut rest)?);
        let [reply, replication, request] = [
            u32::from_le_bytes(take(&mut rest)?),
            u32::from_le_bytes(take(&mut rest)?),
            u32::from_le_bytes(take(&mut rest)?),
        ];
        if [reply, replication, request].iter().any(|w| !(WINDOW_MIN..=WINDOW_MAX).contains(w)) {
            return Err(CloseReason::Violation("a window out of bounds"));
        }
        let message_max = u32::from_le_bytes(take(&mut rest)?);
        if (message_max as usize) < MESSAGE_MAX {
            return Err(CloseReason::Violation("messages of the full size are not taken"));
        }
        let secret = if features & SHOWS_SECRET == 0 {
            None
        } else {
            let mut rest = body.get(HELLO_BYTES..).unwrap_or_default();
            Some(Secret::from_bytes(take(&mut rest)?))
        };
        let features = features & !SHOWS_SECRET;
        let windows = Windows { reply, replication, request };
        Ok(Self { node, incarnation, features, windows, secret })
    }
}

/// The last frame in a direction, for `reason`.
pub fn encode_goodbye(reason: &CloseReason) -> Vec<u8> {
    // To the peer, it is the peer that is.
    let told = if *reason == CloseReason::ShutDown { &CloseReason::ShuttingDown } else { reason };
    let mut text = told.to_string();
    let mut end = text.len().min(GREETING_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    frame(Kind::Goodbye, u64::from(code(reason)), text.as_bytes())
}

/// What a peer's goodbye means to us.
pub fn decode_goodbye(header: &Header, body: &[u8]) -> CloseReason {
    let code = u16::try_from(header.id).unwrap_or(u16::MAX);
    match code {
        1 => CloseReason::PeerGone,
        2 => CloseReason::ShuttingDown,
        10 => CloseReason::Duplicate,
        11 => CloseReason::TooManyConnections,
        12 => CloseReason::Evicted,
        _ => {
            let text: String =
                String::from_utf8_lossy(body).chars().filter(|c| !c.is_control()).collect();
            CloseReason::Goodbye(Goodbye { code, text })
        }
    }
}

/// The stable number of a reason.
fn code(reason: &CloseReason) -> u16 {
    match reason {
        CloseReason::Closed | CloseReason::PeerGone | CloseReason::Link { .. } => 1,
        CloseReason::ShutDown | CloseReason::ShuttingDown => 2,
        CloseReason::BadMagic => 3,
        CloseReason::Version { .. } => 4,
        CloseReason::Frame(_) => 5,
        CloseReason::Violation(_) => 6,
        CloseReason::WindowExceeded => 7,
        CloseReason::HandshakeTimeout => 8,
        CloseReason::StaleIncarnation { .. } => STALE_INCARNATION,
        CloseReason::Duplicate => 10,
        CloseReason::TooManyConnections => 11,
        CloseReason::Evicted => 12,
        CloseReason::Stalled => 13,
        CloseReason::Memory => 14,
        CloseReason::Unfinished => 15,
        CloseReason::Secret => 16,
        CloseReason::Goodbye(goodbye) => goodbye.code,
    }
}

/// A frame whose body is `body`.
fn frame(kind: Kind, id: u64, body: &[u8]) -> Vec<u8> {
    let header = Header { len: body.len() as u32, kind, class: Class::Reply, more: false, id };
    let mut bytes = Vec::with_capacity(frame_len(body.len()));
    bytes.extend_from_slice(&header.encode());
    bytes.extend_from_slice(body);
    bytes.resize(frame_len(body.len()), 0);
    bytes
}

/// Takes `N` bytes off the front of a hello.
fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], CloseReason> {
    let (head, tail) =
        rest.split_first_chunk::<N>().ok_or(CloseReason::Violation("a hello cut short"))?;
    *rest = tail;
    Ok(*head)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::frame::HEADER_BYTES;

    fn hello() -> Hello {
        Hello {
            node: NodeId(3),
            incarnation: Incarnation(9),
            features: 0,
            windows: Windows::default(),
            secret: None,
        }
    }

    #[test]
    fn a_hello_survives_a_round_trip() {
        for secret in [None, Some(Secret::new(0)), Some(Secret::new(u128::MAX - 7))] {
            let hello = Hello { secret, ..hello() };
            let bytes = hello.encode();
            assert_eq!(bytes.len() % 8, 0);
            assert_eq!(Hello::decode(&bytes[HEADER_BYTES..]), Ok(hello));
        }
    }

    #[test]
    fn half_a_secret_is_none() {
        let bytes = Hello { secret: Some(Secret::new(1)), ..hello() }.encode();
        for len in HELLO_BYTES - 8..HELLO_BYTES + Secret::BYTES {
            let decoded = Hello::decode(&bytes[HEADER_BYTES..][..len]);
            assert_eq!(decoded, Err(CloseReason::Violation("a hello cut short")));
        }
    }

    #[test]
    fn a_newer_speaker_with_our_version_in_range_is_understood() {
        let mut bytes = hello().encode();
        bytes[HEADER_BYTES + 6..HEADER_BYTES + 8].copy_from_slice(&9u16.to_le_bytes());
        bytes.extend_from_slice(&[7; 16]);
        assert_eq!(Hello::decode(&bytes[HEADER_BYTES..]), Ok(hello()));
    }

    #[test]
    fn a_speaker_of_other_versions_only_is_refused() {
        let mut bytes = hello().encode();
        bytes[HEADER_BYTES + 4..HEADER_BYTES + 6].copy_from_slice(&2u16.to_le_bytes());
        bytes[HEADER_BYTES + 6..HEADER_BYTES + 8].copy_from_slice(&3u16.to_le_bytes());
        assert_eq!(
            Hello::decode(&bytes[HEADER_BYTES..]),
            Err(CloseReason::Version { minimum: 2, maximum: 3 })
        );
    }

    #[test]
    fn a_goodbye_carries_its_code_and_words() {
        let bytes = encode_goodbye(&CloseReason::WindowExceeded);
        let header = Header::decode(bytes[..HEADER_BYTES].try_into().expect("a header")).unwrap();
        let reason = decode_goodbye(&header, &bytes[HEADER_BYTES..][..header.len as usize]);
        let expected = Goodbye { code: 7, text: "window exceeded".into() };
        assert_eq!(reason, CloseReason::Goodbye(expected));
    }

    proptest! {
        #[test]
        fn hostile_hellos_never_panic(body: Vec<u8>) {
            let _ = Hello::decode(&body);
        }
    }
}
