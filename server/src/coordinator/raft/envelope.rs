//! What is around a message between members, and who is heard at all.
//!
//! raft-rs takes messages late, twice and in any order, but believes what they say of who sent them. So each says which cluster it is of,
//! which member sent it, in which life, and whom it is for:
//!
//! ```text
//!  0  4  mark and version, "WRF1"
//!  4 16  cluster
//! 20  8  sender: raft id
//! 28  8  sender: node
//! 36  8  sender: life
//! 44  8  receiver: raft id
//! 52     eraftpb.Message (protobuf)
//! ```
//!
//! Who was removed hears of it from nobody: those that stay send nothing more to it. So whoever hears a former member says so to it, by the same header alone with
//! the mark "WRX1". An id is handed out once, so that it stays true.

use raft::eraftpb::Message;
use raft_codec::Message as _;
use weft_transport::NodeId;

use super::identity::{ClusterId, RaftId};
use super::inspection::Unfit;
use super::limits::MESSAGE_BYTES_MAX;

const MARK: [u8; 4] = *b"WRF1";
const REMOVAL_MARK: [u8; 4] = *b"WRX1";
const HEADER_BYTES: usize = 52;

/// Who says it to whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) cluster: ClusterId,
    pub(super) from: RaftId,
    pub(super) from_node: NodeId,
    pub(super) life: u64,
    pub(super) to: RaftId,
}

/// Why a message was not listened to. Nothing was changed by it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Dropped {
    /// It is no message of ours, or of another version.
    #[error("a raft message that cannot be read: {0}")]
    Malformed(String),
    /// It is of another cluster.
    #[error("a raft message of cluster {0}: two clusters share an address")]
    OtherCluster(ClusterId),
    /// It is for the member that was here before, or for another node.
    #[error("a raft message for {to}, and this is {own}")]
    OtherMember {
        /// Whom it is for.
        to: RaftId,
        /// Who is here.
        own: RaftId,
    },
    /// Its sender was removed: it may have lost its disk, and with it what it promised.
    #[error("a raft message of {0}, which was removed; it has to join anew")]
    FormerMember(RaftId),
    /// It is of an earlier life of its sender.
    #[error("a raft message of an earlier life of {0}")]
    EarlierLife(RaftId),
    /// No member that follows the rules sends it; raft-rs would panic at it, or believe it.
    #[error("a raft message of {from} that no member sends: {unfit}")]
    Unfit {
        /// Its sender.
        from: RaftId,
        /// What is wrong.
        unfit: Unfit,
    },
    /// raft-rs has no use for it; such as an answer of somebody who is no member.
    #[error("a raft message without use: {0}")]
    Unused(String),
    /// This node takes no part, since its disk failed.
    #[error("this member takes no part any more")]
    Failed,
}

/// The bytes of a message.
pub(super) fn encode(header: &Header, message: &Message) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + message.encoded_len());
    encode_header(MARK, header, &mut bytes);
    bytes.extend_from_slice(&message.encode_to_vec());
    bytes
}

/// The bytes that tell a member that it is none any more.
pub(super) fn encode_removal(header: &Header) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES);
    encode_header(REMOVAL_MARK, header, &mut bytes);
    bytes
}

fn encode_header(mark: [u8; 4], header: &Header, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&mark);
    bytes.extend_from_slice(&header.cluster.0.to_le_bytes());
    for field in [header.from.0, header.from_node.0, header.life, header.to.0] {
        bytes.extend_from_slice(&field.to_le_bytes());
    }
}

/// Header and message of bytes from a peer.
pub(super) fn decode(bytes: &[u8]) -> Result<(Header, Message), Dropped> {
    let malformed = |what: &str| Dropped::Malformed(what.to_owned());
    if bytes.len() > MESSAGE_BYTES_MAX {
        return Err(Dropped::Malformed(format!(
            "{} bytes, at most {MESSAGE_BYTES_MAX}",
            bytes.len()
        )));
    }
    let (header, rest) = decode_header(MARK, bytes)?;
    let message = Message::decode(rest).map_err(|error| Dropped::Malformed(error.to_string()))?;
    if message.from != header.from.0 || message.to != header.to.0 {
        return Err(malformed("sender or receiver differ from the header's"));
    }
    Ok((header, message))
}

/// Who tells whom that it was removed, if these bytes do.
pub(super) fn decode_removal(bytes: &[u8]) -> Option<Header> {
    let (header, rest) = decode_header(REMOVAL_MARK, bytes).ok()?;
    rest.is_empty().then_some(header)
}

fn decode_header(expected: [u8; 4], bytes: &[u8]) -> Result<(Header, &[u8]), Dropped> {
    let malformed = |what: &str| Dropped::Malformed(what.to_owned());
    let (mark, rest) = bytes.split_first_chunk::<4>().ok_or_else(|| malformed("cut short"))?;
    if *mark != expected {
        return Err(malformed("no mark of this version"));
    }
    let (cluster, rest) = rest.split_first_chunk::<16>().ok_or_else(|| malformed("cut short"))?;
    let (from, rest) = field(rest)?;
    let (from_node, rest) = field(rest)?;
    let (life, rest) = field(rest)?;
    let (to, rest) = field(rest)?;
    let header = Header {
        cluster: ClusterId(u128::from_le_bytes(*cluster)),
        from: RaftId(from),
        from_node: NodeId(from_node),
        life,
        to: RaftId(to),
    };
    Ok((header, rest))
}

fn field(bytes: &[u8]) -> Result<(u64, &[u8]), Dropped> {
    let split = bytes.split_first_chunk::<8>();
    let (field, rest) = split.ok_or_else(|| Dropped::Malformed("cut short".to_owned()))?;
    Ok((u64::from_le_bytes(*field), rest))
}
