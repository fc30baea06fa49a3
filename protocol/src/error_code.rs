//! The stable codes of everything that can go wrong between client and server.
//!
//! One space of numbers holds what a server answers and what a client finds out by itself, so that a
//! code in a log can be looked up without knowing which side wrote it. A number never changes its
//! meaning and is never given out again.

use std::fmt;
use std::str::FromStr;

macro_rules! error_codes {
    ($($code:ident = $number:literal, $name:literal, $description:literal, $remedy:literal;)*) => {
        /// What went wrong, as a stable number: `WEFT-1101`.
        ///
        /// | numbers | who says so |
        /// |---|---|
        /// | 1001–1099 | the server: the request is wrong |
        /// | 1101–1199 | the server: it cannot do it, or not now |
        /// | 1201–1299 | the client: no answer, or none that it understands |
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u16)]
        pub enum ErrorCode {
            $(#[doc = $description] $code = $number,)*
        }

        impl ErrorCode {
            const ALL: &[Self] = &[$(Self::$code,)*];

            /// The code with this number.
            pub const fn from_number(number: u16) -> Option<Self> {
                match number {
                    $($number => Some(Self::$code),)*
                    _ => None,
                }
            }

            /// The code in a few words, as messages begin with.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$code => $name,)*
                }
            }

            /// What happened, in sentences.
            pub const fn description(self) -> &'static str {
                match self {
                    $(Self::$code => $description,)*
                }
            }

            /// What to do about it, in sentences.
            pub const fn remedy(self) -> &'static str {
                match self {
                    $(Self::$code => $remedy,)*
                }
            }
        }
    };
}

error_codes! {
    MalformedRequest = 1001, "malformed request",
        "The server could not read the request: it ends early, goes on too long, or contradicts itself.",
        "The client library is faulty or the bytes were not written by one. Use a client of the server's release; if it is one, report a bug with the text of the error.";
    UnknownOperation = 1002, "unknown operation",
        "The server does not know the operation that was asked for.",
        "The client is newer than the server. Upgrade the servers first, then the clients.";
    UnsupportedVersion = 1003, "unsupported protocol version",
        "The request is of a version of the protocol that the server does not speak.",
        "Upgrade the older of the two. The error says which version the server speaks.";
    UnsupportedFlag = 1004, "unsupported flag",
        "The request asks for a variant of the operation that the server does not know.",
        "The client is newer than the server. Upgrade the servers first, then the clients.";
    KeyTooLong = 1005, "key too long",
        "A key is longer than 65535 bytes.",
        "Use a shorter key, or the hash of it.";
    ValueTooLarge = 1006, "value too large",
        "A value is larger than an object may be.",
        "Split the value over several keys; a hash tag such as {name}:0, {name}:1 keeps them on one node.";
    TooManyKeys = 1007, "too many keys",
        "A multi-request names more than 16384 keys.",
        "Send several requests. The client library does so by itself.";
    TableUnknown = 1008, "table unknown",
        "The cluster has no table of this name or number: it was never created, or it was dropped.",
        "`kv table list` shows the tables; `kv table create` makes one. The table named default, number 0, is always there.";
    TooManyFields = 1009, "too many fields",
        "A record would have, or a request names, more than 1024 fields.",
        "Spread the fields over several keys; a hash tag such as {name}:0, {name}:1 keeps them on one node.";
    TableNameMalformed = 1010, "malformed table name",
        "A table's name is empty, longer than 128 bytes, or has other characters than letters, digits, `_`, `-` and `.`.",
        "Give another name.";
    TooManyTables = 1011, "too many tables",
        "The cluster has 1024 tables, as many as it may have.",
        "Drop one, or keep several kinds of objects in one table, told apart by a prefix of their keys.";
    UnsupportedReplicas = 1012, "unsupported replicas",
        "A table cannot have so many replicas, or so few.",
        "Ask for 1 to 3.";

    WrongOwner = 1101, "wrong owner",
        "The node that was asked does not own the key's slot. The error carries the epoch of the node's map.",
        "The client fetches the map and asks the owner by itself. If the error persists, `kv cluster partitions --lacking` shows which partition nobody serves, and the log of its primary says why: it lacks the room, or has no --data-dir for a table on disk.";
    SlotUnowned = 1102, "slot without owner",
        "No node owns the key's slot by the cluster's map.",
        "A partition is lost or not yet assigned. Check that all nodes are up.";
    MemoryLimitReached = 1103, "memory limit reached",
        "The node has no memory left for the write within its limit. Nothing was written.",
        "Delete objects, raise the node's memory limit, or add nodes.";
    ShuttingDown = 1104, "shutting down",
        "The node is being stopped and takes no more requests. Nothing was done.",
        "Ask again when the node is back.";
    NotANumber = 1105, "not a number",
        "The value is no decimal number of 64 bits, so nothing can be added to it. It is as it was.",
        "Look what the key holds. A number is written as `-12` or `7`, without a plus, spaces or leading zeros.";
    NumberOverflow = 1106, "number overflow",
        "The sum does not fit a number of 64 bits with its sign. The value is as it was.",
        "Add less, or put the number anew.";
    CursorStale = 1107, "cursor stale",
        "The scan's cursor is of an earlier life of the partition, which keeps its objects in another order now.",
        "Begin the scan of the partition anew. The client library does so by itself; objects that it has returned come again.";
    NotARecord = 1108, "not a record",
        "The value is no record of fields, so none of them can be read or changed. It is as it was.",
        "Get the whole value, or put a record in its place.";
    QuotaReached = 1109, "table quota reached",
        "The table takes as many bytes on the node as its quota lets it. Nothing was written.",
        "Delete objects of the table, or make a table with a larger quota.";
    NotOrdered = 1110, "table not ordered",
        "The table does not keep its keys in order, so no range of them can be read.",
        "Scan the table with a prefix, or create a table that is ordered.";
    FellBehind = 1111, "fell behind",
        "More happened to what is watched than the node keeps for a client that does not ask for it, so changes were not told. Nothing was lost but the news of it.",
        "Watch again, then read anew what you follow. If it happens often, ask for a longer queue, watch less, or work faster between two events.";
    WatchUnknown = 1112, "watch unknown",
        "The node has no such watch: it was ended, or not asked for its events for too long, or the node was started anew, or another node has become the primary of what is watched. Changes since then were not told.",
        "Watch again, then read anew what you follow.";
    TooManyWatches = 1113, "too many watches",
        "The node has as many watches, or as much memory for their events, as it takes.",
        "End watches that are of no use, ask for shorter queues, watch a prefix in the place of many keys, or give the node more memory.";
    UploadUnknown = 1114, "upload unknown",
        "The node lacks an upload, pieces of it, or the object that pieces were to be copied from: it was started anew, nothing came of the upload for 30 s, or the object has changed.",
        "Upload the value again. The client library does so by itself.";
    OnlyByUpload = 1115, "only by upload",
        "The object's new value would be longer than one request carries, so that it is written by an upload.",
        "Use a client that uploads such values. The client library does so by itself.";
    TooFewReplicas = 1116, "too few replicas",
        "Fewer replicas of the key's partition are in sync than its writes need. Nothing was written.",
        "The client library asks again until the deadline. If the error persists, `kv cluster status` shows which nodes are missing: start them, or add others.";
    NotServing = 1117, "not serving",
        "The node has the key's partition, but does not serve it now: it has just become its primary and waits for the one before it, or has lost touch with the others. Nothing was done.",
        "The client library looks for a newer map and asks again until the deadline. If the error persists, check that most of the nodes are up and reach one another.";
    PartitionLost = 1118, "partition lost",
        "All nodes that had the key's partition have lost it. Nothing was done, and nothing is before an operator has accepted the loss.",
        "If one of the nodes still has its data, start it. Otherwise `kv cluster accept-loss` makes the partition anew, empty.";
    RequestForgotten = 1119, "request forgotten",
        "The node remembers no requests of this client that are as old, or none of it at all since its lease has run out, so it did not execute this one. When it was asked before, it may have been applied.",
        "Read the key to see what is there before you repeat a mutation that does not bear repeating. If it happens often, the client is stopped for longer than its lease, or cut off from the cluster.";
    CompletionsFull = 1120, "too many requests remembered",
        "The node remembers as many mutations for clients that still wait for others as it has room for. Nothing was done.",
        "The client library asks again until the deadline. If the error persists, have fewer clients, or fewer mutations under way in each.";
    ClientUnknown = 1121, "client unknown",
        "The client has no lease: it has run out, or is of another cluster. What was asked was not done.",
        "The client library opens another one by itself.";
    Deposed = 1122, "deposed",
        "The node ceased to be the primary of the key's partition while the request waited for the other replicas. It may have been applied.",
        "The client library asks the new primary again, under the same number, and is told what came of it.";
    CoordinatorsUnavailable = 1123, "coordinators unavailable",
        "No quorum of the cluster's coordinators was found in time. A change that was asked for may have been applied, or may still be, unless the error says that they were not asked.",
        "Ask again, or another node. If the error persists, check that most of the coordinators are up and reach one another.";
    NodeUnknown = 1124, "node unknown",
        "The cluster has no node of this id.",
        "`kv cluster nodes` lists the nodes.";
    PartitionUnknown = 1125, "partition unknown",
        "The cluster has no partition of this number.",
        "`kv cluster partitions` lists the partitions.";
    NotPossible = 1126, "not possible",
        "As the cluster is, what was asked cannot be done. The error says why. Nothing was changed.",
        "Look at `kv cluster status`.";
    NotYet = 1127, "not yet",
        "What was asked cannot be done now, but will be possible soon. Nothing was changed.",
        "Ask again in some seconds.";
    ChangedMeanwhile = 1128, "changed meanwhile",
        "Somebody else has changed the same. What was asked goes by what is not so any more, and was not done.",
        "Look how it is now, and ask again.";
    DiskBehind = 1129, "disk behind",
        "The node's disk is full, or too slow for what is written to tables that are kept on it: too much waits already. Nothing was written.",
        "The client library asks again until the deadline. If the error persists, make room on the node's disk before it is stopped (the node goes on by itself), or write less.";
    DiskFailed = 1130, "disk failed",
        "A write or a sync of the node's disk has failed, so the node takes no writes any more to tables that are kept on it. Nothing was written.",
        "The client library asks again until the deadline: another node may take over. Otherwise check the disk and restart the node; its log names what failed.";
    DiskFailedMeanwhile = 1131, "disk failed meanwhile",
        "A write or a sync of the node's disk failed while the request waited until what it did was on it. It may have been applied.",
        "Read the key to see what is there before you repeat a mutation that does not bear repeating. Check the disk and restart the node; its log names what failed.";
    WorkerUnknown = 1132, "worker unknown",
        "The cluster has no worker of this number: its registration was not renewed in time, or it left.",
        "Register it again. An agent of `shuffle` does so by itself.";
    TooManyWorkers = 1133, "too many workers",
        "The cluster has as many workers registered as it may have, 1024. Nothing was registered.",
        "Have some leave; those that are gone are forgotten within seconds.";
    Internal = 1199, "internal error",
        "The server met a condition that its authors thought impossible. A mutation may have been applied.",
        "See the server's log and report a bug.";

    NotReachable = 1201, "node not reachable",
        "No connection to the node could be made. The request was not applied.",
        "Check the address, that the node runs, and that no firewall is in between. With --link shm (weft.link in ycsb), only a node on this host counts that runs as the same user, not with --link tcp, and with memory left to share: use auto.";
    DeadlineNotApplied = 1202, "deadline exceeded, not applied",
        "The deadline passed before the request was sent. It was not applied.",
        "Ask again. If it happens often, the node is overloaded or the deadline is too short.";
    DeadlineMaybeApplied = 1203, "deadline exceeded, may have been applied",
        "The deadline passed between sending the request and its reply. The request may have been applied, or may still be.",
        "Read the key to see what is there before you repeat a mutation that does not bear repeating.";
    DisconnectedNotApplied = 1204, "disconnected, not applied",
        "The connection was lost before the request was sent. It was not applied.",
        "Ask again.";
    DisconnectedMaybeApplied = 1205, "disconnected, may have been applied",
        "The connection was lost between sending the request and its reply. The request may have been applied.",
        "Read the key to see what is there before you repeat a mutation that does not bear repeating.";
    HandshakeRefused = 1206, "handshake refused",
        "The peer answered, but it is not the node that was meant, or none that this client can talk to: a node with another id, another program, another wire version, or an earlier life of the node.",
        "If the error names another node that answers there, compare the --node-id, --listen and --advertise that the two were started with: the map gives one the address of the other. Otherwise check that the address is a node's data port, and that client and node are of matching releases.";
    MalformedReply = 1207, "malformed reply",
        "The client could not read the server's reply. A mutation may have been applied.",
        "Use a client of the server's release; if it is one, report a bug with the text of the error.";
    ClusterNotReachable = 1208, "cluster not reachable",
        "None of the addresses given for the cluster answered with a map. The request was not applied.",
        "Check the addresses, and that at least one of the nodes runs. With --link shm (weft.link in ycsb), only nodes on this host count that run as the same user, not with --link tcp, and with memory left to share: use auto.";
    MapUnsettled = 1209, "cluster map unsettled",
        "One node after the other said that it does not own the key's slot. The request was not applied.",
        "Ask again once the cluster's map has settled. If the error persists, `kv cluster partitions --lacking` shows which partition nobody serves, and the log of its primary says why: it lacks the room, or has no --data-dir for a table on disk.";
    ClientClosed = 1210, "client closed",
        "The client was closed while the request waited to be sent. It was not applied.",
        "Keep the client until all of its requests are answered.";
    ClientMemory = 1211, "client's memory limit reached",
        "The client has no memory left for messages within its limit. The request was not applied.",
        "Have fewer or smaller requests outstanding, or raise the client's memory limit.";
    ClientStart = 1212, "client cannot start",
        "The client's own endpoint could not be started: the error says what it lacks. Nothing was sent.",
        "With --link verbs (weft.link in ycsb), this needs a build with the cargo feature verbs, an RDMA device, and leave to lock memory (ulimit -l); --link auto does with what there is. Otherwise raise the limit on threads or open files (ulimit -u, ulimit -n).";
    TableExists = 1213, "table exists",
        "There is a table of this name already.",
        "Use it, or give another name; any but default can be dropped.";
    TablesUnsettled = 1214, "tables unsettled",
        "No node told in time which tables there are by now, though this client knows that they have changed. A change that it was part of may have been applied.",
        "Look at `kv cluster status`, and ask again.";
    PartlyApplied = 1215, "applied on some nodes",
        "Some nodes have done it, and one has not: the error says which, and why. The request may have been applied, on some nodes or on all.",
        "Ask again when all nodes answer; what was created or dropped in part is told by `kv table list`.";
    ReplyMemory = 1216, "no memory for the reply",
        "The client can never have the memory for a reply of this length. The request may have been applied.",
        "Raise the client's memory limit to nine times the length of the value, or read the value by ranges (`kv get --offset --length`).";
    Unrecognized = 1299, "unrecognized error",
        "The server answered with an error that this client does not know. A mutation may have been applied.",
        "The server is newer than the client. Look the number up with the newer release, or upgrade the client.";
}

impl ErrorCode {
    /// All codes, by number.
    pub const fn all() -> &'static [Self] {
        Self::ALL
    }

    /// The number: what the wire carries and `Display` shows.
    #[inline]
    pub const fn number(self) -> u16 {
        self as u16
    }

    /// Whether a mutation that ended with this error may have been applied nevertheless. Where this
    /// is false it certainly was not, and may be repeated.
    pub const fn may_have_been_applied(self) -> bool {
        matches!(
            self,
            Self::RequestForgotten
                | Self::Deposed
                | Self::CoordinatorsUnavailable
                | Self::DiskFailedMeanwhile
                | Self::Internal
                | Self::DeadlineMaybeApplied
                | Self::DisconnectedMaybeApplied
                | Self::MalformedReply
                | Self::TablesUnsettled
                | Self::PartlyApplied
                | Self::ReplyMemory
                | Self::Unrecognized
        )
    }
}

/// `WEFT-1101`
impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WEFT-{}", self.number())
    }
}

/// A text that names no code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no error code: they look like WEFT-1101")]
pub struct UnknownErrorCode {
    text: String,
}

/// Takes `WEFT-1101`, `weft-1101` and `1101`.
impl FromStr for ErrorCode {
    type Err = UnknownErrorCode;

    fn from_str(text: &str) -> Result<Self, UnknownErrorCode> {
        let number = match text.split_at_checked(5) {
            Some((prefix, number)) if prefix.eq_ignore_ascii_case("WEFT-") => number,
            _ => text,
        };
        let code = number.parse().ok().and_then(Self::from_number);
        code.ok_or_else(|| UnknownErrorCode { text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_unique_and_ascending() {
        assert!(ErrorCode::all().is_sorted_by(|a, b| a.number() < b.number()));
        for &code in ErrorCode::all() {
            assert_eq!(ErrorCode::from_number(code.number()), Some(code));
            assert!((1001..1300).contains(&code.number()));
        }
    }

    #[test]
    fn a_code_is_read_as_it_is_shown() {
        for &code in ErrorCode::all() {
            assert_eq!(code.to_string().parse(), Ok(code));
        }
        assert_eq!("weft-1101".parse(), Ok(ErrorCode::WrongOwner));
        assert_eq!("1101".parse(), Ok(ErrorCode::WrongOwner));
        for text in ["", "WEFT-", "WEFT-1", "WEFT-11011", "WEFT-99999", "wéft-1101", "1101 "] {
            assert!(text.parse::<ErrorCode>().is_err(), "{text}");
        }
    }

    #[test]
    fn texts_are_sentences_and_names_are_fragments() {
        for &code in ErrorCode::all() {
            assert!(code.description().ends_with('.') && code.remedy().ends_with('.'), "{code}");
            assert!(!code.name().ends_with('.') && code.name().is_ascii(), "{code}");
            assert!(code.name().starts_with(|first: char| first.is_ascii_lowercase()), "{code}");
        }
    }

    #[test]
    fn the_documentation_lists_every_code() {
        let page = include_str!("../../docs/protocol.md");
        let rows: Vec<_> = page.lines().filter(|line| line.starts_with("| WEFT-")).collect();
        assert_eq!(rows.len(), ErrorCode::all().len());
        for (row, code) in rows.iter().zip(ErrorCode::all()) {
            let cells: Vec<_> = row.split('|').map(str::trim).collect();
            let applied = if code.may_have_been_applied() { "yes" } else { "no" };
            assert_eq!([cells[1], cells[2], cells[4]], [&code.to_string(), code.name(), applied]);
        }
    }

    /// The texts promise what `may_have_been_applied` tells the retry logic.
    #[test]
    fn texts_agree_with_what_may_have_been_applied() {
        for &code in ErrorCode::all() {
            let says_maybe = code.description().contains("may have been applied");
            assert_eq!(says_maybe, code.may_have_been_applied(), "{code}");
        }
    }
}
