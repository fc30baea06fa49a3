//! A node of its own for each test, and clients that speak to it in single requests.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use weft_protocol::limits::UPLOAD_PIECE_BYTES;
use weft_protocol::{
    Catalog, CompleteUpload, CreateTable, CreateTableReply, Delete, DeleteReply, DropTable,
    ErrorReply, Get, GetReply, Key, Map, MapReply, Put, PutReply, ReplyError, ReplyHead, Stats,
    StatsReply, TableChangedReply, TableId, TableOptions, Tables, TablesReply, Target,
    UploadEffect, UploadPiece, Value, Version,
};
use weft_server::config::{Config, Host, Settings};
use weft_server::node::Node;
use weft_transport::frame::{Class, HEADER_BYTES, Header, Kind, frame_len};
use weft_transport::handshake::{Hello, LARGE};
use weft_transport::{
    Body, Connection, Endpoint, EndpointConfig, Incarnation, Memory, MemoryConfig, NoHandler,
    NodeId, PollPolicy, Time, Windows,
};

use crate::ports::Port;

/// Long enough for any answer on a busy machine; only a test that fails waits for it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The settings of a node alone on free ports, as small as one can be.
pub(crate) fn settings() -> Settings {
    Settings {
        listen: Some("127.0.0.1:0".parse().unwrap()),
        http: Some("off".parse().unwrap()),
        control: Some("off".parse().unwrap()),
        memory: Some("64MiB".parse().unwrap()),
        reactors: Some(2.try_into().unwrap()),
        poll: Some(PollPolicy::Park),
        ..Settings::default()
    }
}

/// Starts a node with `settings`.
pub(crate) fn start(settings: Settings) -> Node {
    let config = Config::resolve(settings, Host::of_this_process()).unwrap();
    Node::start(&config).unwrap()
}

/// Starts nodes 1, 2, … of one cluster, which keep what they have to in `folder`, with more settings of theirs.
pub(crate) fn start_together(count: u16, folder: &Path, more: impl Fn(&mut Settings)) -> Vec<Node> {
    let ports: Vec<_> = (0..count).map(|_| Port::new()).collect();
    let addresses: Vec<_> = ports.iter().map(|port| port.address.to_string()).collect();
    let starting: Vec<_> = (1..)
        .zip(&addresses)
        .map(|(id, address)| {
            let mut settings = Settings {
                node_id: Some(id),
                join: Some(addresses.join(",").parse().unwrap()),
                listen: Some(address.parse().unwrap()),
                data_dir: Some(folder.join(format!("node-{id}"))),
                ..settings()
            };
            more(&mut settings);
            // Each waits for the others.
            thread::spawn(move || start(settings))
        })
        .collect();
    starting.into_iter().map(|node| node.join().unwrap()).collect()
}

/// The version of the map of a node that founded its cluster: it was founded, the node joined, partitions were placed.
pub(crate) const EPOCH: u32 = 3;

/// The table that exists.
pub(crate) const TABLE: TableId = TableId::DEFAULT;

pub(crate) fn get(key: &[u8]) -> Get<'_> {
    Get { table: TABLE, map_epoch: EPOCH, key: Key::new(key).unwrap() }
}

pub(crate) fn target(key: &[u8]) -> Target<'_> {
    Target { table: TABLE, map_epoch: EPOCH, completion: None, key: Key::new(key).unwrap() }
}

pub(crate) fn put<'a>(key: &'a [u8], value: &'a [u8]) -> Put<'a> {
    Put { target: target(key), expires_at_ms: None, value: Value::new(value).unwrap() }
}

pub(crate) fn delete(key: &[u8]) -> Delete<'_> {
    Delete { target: target(key) }
}

/// A client with a connection of its own.
pub(crate) struct Client {
    endpoint: Endpoint,
    connection: Connection,
}

impl Client {
    pub(crate) fn to(node: &Node) -> Client {
        Client::at(node.address())
    }

    pub(crate) fn at(address: SocketAddr) -> Client {
        let memory = Memory::new(MemoryConfig { limit_bytes: 64 << 20 }).unwrap();
        let mut config = EndpointConfig::new(new_node_id(), Incarnation(1), memory);
        config.poll = PollPolicy::Park;
        let endpoint = Endpoint::start(config, Arc::new(NoHandler)).unwrap();
        let by = endpoint.clock().now() + PATIENCE;
        let connection = endpoint.block_on(endpoint.connect(address, by)).unwrap();
        Client { endpoint, connection }
    }

    fn deadline(&self) -> Time {
        self.endpoint.clock().now() + PATIENCE
    }

    /// The one reply to a request.
    pub(crate) fn call(&self, body: impl Body) -> Vec<u8> {
        let reply = self.endpoint.block_on(self.connection.call(body, self.deadline()));
        reply.unwrap().to_vec()
    }

    /// The replies to many requests that are under way together, in the order of the requests.
    pub(crate) fn call_all<B: Body>(&self, bodies: impl IntoIterator<Item = B>) -> Vec<Vec<u8>> {
        let deadline = self.deadline();
        let calls = bodies.into_iter().map(|body| self.connection.call(body, deadline));
        let replies = self.endpoint.block_on(futures_util::future::join_all(calls));
        replies.into_iter().map(|reply| reply.unwrap().to_vec()).collect()
    }

    /// All parts of the reply to a request.
    pub(crate) fn call_streamed(&self, body: impl Body) -> Vec<Vec<u8>> {
        self.endpoint.block_on(async {
            let mut replies = self.connection.call_streamed(body, self.deadline()).await.unwrap();
            let mut parts = Vec::new();
            while let Some(part) = replies.next().await {
                parts.push(part.unwrap().to_vec());
            }
            parts
        })
    }

    /// The error that a request is answered with.
    pub(crate) fn refused(&self, body: impl Body) -> ErrorReply<'static> {
        let reply = self.call(body);
        match ReplyHead::decode(&reply) {
            Err(ReplyError::Refused(error)) => error.into_owned(),
            other => panic!("expected a refusal, not {other:?}"),
        }
    }

    pub(crate) fn put(&self, key: &[u8], value: &[u8]) -> Version {
        PutReply::decode(&self.call(put(key, value))).unwrap().version
    }

    /// Puts a value that is too long for one request.
    pub(crate) fn upload(&self, key: &[u8], value: &[u8]) {
        let target = target(key);
        let pieces =
            value.chunks(UPLOAD_PIECE_BYTES).enumerate().map(|(number, bytes)| UploadPiece {
                target,
                expires_at_ms: None,
                upload: 7,
                value_len: value.len() as u32,
                offset: (number * UPLOAD_PIECE_BYTES) as u64,
                copied_from: Version::NONE,
                keeps_expiry: false,
                copied_len: 0,
                bytes,
            });
        self.call_all(pieces);
        let effect = UploadEffect::Put;
        PutReply::decode(&self.call(CompleteUpload { target, upload: 7, effect })).unwrap();
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        GetReply::decode(&self.call(get(key))).unwrap().value().map(<[u8]>::to_vec)
    }

    pub(crate) fn delete(&self, key: &[u8]) -> DeleteReply {
        DeleteReply::decode(&self.call(delete(key))).unwrap()
    }

    /// Has the cluster make a table, and waits until the node has it.
    pub(crate) fn create_table(&self, name: &str, options: TableOptions) -> TableId {
        let before = self.map_epoch();
        let reply = self.call(CreateTable { completion: None, name, options });
        let reply = CreateTableReply::decode(&reply).unwrap();
        self.wait_for_tables(before, reply.catalog_version);
        reply.table
    }

    /// Has the cluster remove a table, and waits until the node has it no more.
    pub(crate) fn drop_table(&self, name: &str) {
        let before = self.map_epoch();
        let reply = self.call(DropTable { completion: None, name });
        let reply = TableChangedReply::decode(&reply).unwrap();
        self.wait_for_tables(before, reply.catalog_version);
    }

    /// A node that is alone learns of a change of tables with the map that comes after `before`.
    fn wait_for_tables(&self, before: u32, version: u64) {
        while self.catalog().version() < version || self.map_epoch() == before {
            std::thread::yield_now();
        }
    }

    /// The tables that the node knows.
    pub(crate) fn catalog(&self) -> Catalog {
        TablesReply::decode(&self.call(Tables)).unwrap().catalog
    }

    /// The version of the map that the node goes by.
    pub(crate) fn map_epoch(&self) -> u32 {
        let reply = self.call(Map { known_epoch: 0 });
        match MapReply::decode(&reply).unwrap() {
            MapReply::Map(map) => map.epoch() as u32,
            other => panic!("a whole map was asked for, not {other:?}"),
        }
    }

    pub(crate) fn stats(&self) -> StatsReply<'static> {
        StatsReply::decode(&self.call(Stats)).unwrap().into_owned()
    }

    pub(crate) fn stat(&self, name: &str) -> u64 {
        self.stats().value(name).unwrap_or_else(|| panic!("there is no counter {name}"))
    }

    /// Asks for a counter until it is as `done` says.
    pub(crate) fn wait_for(&self, name: &str, done: impl Fn(u64) -> bool) {
        while !done(self.stat(name)) {
            std::thread::yield_now();
        }
    }
}

/// The node takes a write and reads it back, over a connection that is new and over one that is not.
pub(crate) fn assert_serves(node: &Node, client: &Client) {
    assert_serves_at(node.address(), client);
}

/// As [`assert_serves`], of a node that is known by its address.
pub(crate) fn assert_serves_at(address: SocketAddr, client: &Client) {
    for client in [client, &Client::at(address)] {
        client.put(b"still", b"served");
        assert_eq!(client.get(b"still").as_deref(), Some(b"served".as_slice()));
    }
}

fn new_node_id() -> NodeId {
    static NEXT: AtomicU64 = AtomicU64::new(1 << 40);
    NodeId(NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A peer that writes its frames by hand, and reads only what it is told to.
pub(crate) struct RawPeer {
    pub(crate) stream: TcpStream,
}

impl RawPeer {
    /// Connected, and nothing said.
    pub(crate) fn silent(node: &Node) -> RawPeer {
        RawPeer::silent_at(node.address())
    }

    pub(crate) fn silent_at(address: SocketAddr) -> RawPeer {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        // What was written has arrived, as far as there is room.
        stream.set_nodelay(true).unwrap();
        RawPeer { stream }
    }

    /// Has said hello, granting `windows`, and heard the node's.
    pub(crate) fn greeted(node: &Node, windows: Windows) -> RawPeer {
        RawPeer::greeted_at(node.address(), windows)
    }

    pub(crate) fn greeted_at(address: SocketAddr, windows: Windows) -> RawPeer {
        RawPeer::try_greeted_at(address, windows).expect("the node says hello")
    }

    /// As [`greeted_at`](Self::greeted_at), or the code of the goodbye that refuses it, unless that
    /// was lost.
    pub(crate) fn try_greeted_at(
        address: SocketAddr,
        windows: Windows,
    ) -> Result<RawPeer, Option<u64>> {
        let mut peer = RawPeer::silent_at(address);
        let (node, incarnation) = (new_node_id(), Incarnation(1));
        peer.write_in_vain(
            &Hello { node, incarnation, features: LARGE, windows, secret: None }.encode(),
        );
        if !matches!(peer.stream.peek(&mut [0]), Ok(1)) {
            return Err(None);
        }
        let (header, _) = peer.read_frame().expect("its first byte is there");
        match header.kind {
            Kind::Hello => Ok(peer),
            Kind::Goodbye => Err(Some(header.id)),
            other => panic!("{other:?} is no way to begin a connection"),
        }
    }

    /// The code of the goodbye, if the connection has ended.
    pub(crate) fn goodbye_if_ended(&mut self) -> Option<u64> {
        self.stream.set_nonblocking(true).unwrap();
        let seen = self.stream.peek(&mut [0]);
        self.stream.set_nonblocking(false).unwrap();
        match seen {
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            _ => Some(self.goodbye().0),
        }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Writes as far as the node takes it: it may have closed already.
    pub(crate) fn write_in_vain(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Writes a request as the call `id`.
    pub(crate) fn request(&mut self, id: u64, body: impl Body) {
        assert!(self.try_request(id, body), "the node takes requests");
    }

    /// Writes a request as the call `id`, unless the connection has ended.
    pub(crate) fn try_request(&mut self, id: u64, body: impl Body) -> bool {
        let mut frame = vec![0; frame_len(body.len())];
        let len = body.len();
        frame[..HEADER_BYTES].copy_from_slice(&request_header(id, len as u32).encode());
        body.write(&mut frame[HEADER_BYTES..HEADER_BYTES + len]);
        self.stream.write_all(&frame).is_ok()
    }

    /// Gives back the credit for a reply of `len` bytes, on top of what was `released` before; says
    /// how much that is together.
    pub(crate) fn release_reply(&mut self, window: u32, released: u64, len: usize) -> u64 {
        let released = released + frame_len(len) as u64;
        let (kind, class) = (Kind::Credit, Class::Reply);
        let id = u64::from(window) + released;
        self.write(&Header { len: 0, kind, class, more: false, id }.encode());
        released
    }

    /// The next frame, or nothing at the end of the stream.
    pub(crate) fn read_frame(&mut self) -> Option<(Header, Vec<u8>)> {
        let mut header = [0; HEADER_BYTES];
        match self.stream.read_exact(&mut header[..1]) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return None,
            begun => begun.unwrap(),
        }
        self.stream.read_exact(&mut header[1..]).unwrap();
        let header = Header::decode(&header).unwrap();
        let mut body = vec![0; frame_len(header.len as usize) - HEADER_BYTES];
        self.stream.read_exact(&mut body).unwrap();
        body.truncate(header.len as usize);
        Some((header, body))
    }

    /// The code and the text of the goodbye that the node ends the connection with; nothing is said
    /// after it.
    pub(crate) fn goodbye(&mut self) -> (u64, String) {
        loop {
            let (header, body) = self.read_frame().expect("a goodbye before the end");
            match header.kind {
                Kind::Goodbye => {
                    assert!(self.read_frame().is_none(), "nothing follows a goodbye");
                    return (header.id, String::from_utf8(body).unwrap());
                }
                Kind::Hello | Kind::Credit => {}
                other => panic!("{other:?} is no way to end a connection"),
            }
        }
    }
}

/// Numbers without a pattern, the same in every run (an xorshift).
pub(crate) fn noise() -> impl Iterator<Item = u64> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    })
}

/// The header of a request with a body of `len` bytes.
pub(crate) fn request_header(id: u64, len: u32) -> Header {
    Header { len, kind: Kind::Request, class: Class::Request, more: false, id }
}

/// `weft-server` as a process of its own.
pub(crate) struct Process {
    child: Child,
    log: BufReader<ChildStderr>,
    serving: serde_json::Value,
    pub(crate) address: SocketAddr,
    pub(crate) http: Option<SocketAddr>,
}

impl Process {
    /// A small node of its own, with its HTTP port, for tests that look at the whole process.
    pub(crate) fn small() -> Process {
        Process::small_with(&[])
    }

    /// The same, with more arguments.
    pub(crate) fn small_with(more: &[&str]) -> Process {
        let arguments = ["--memory", "64MiB", "--poll", "park", "--reactors", "2"];
        Process::start(&[&arguments[..], &["--http", "127.0.0.1:0"], more].concat(), &[])
    }

    /// Started, on a free port unless `arguments` say otherwise, and serving.
    pub(crate) fn start(arguments: &[&str], variables: &[(&str, &str)]) -> Process {
        Process::start_by(command(variables), arguments)
    }

    /// As [`start`](Self::start), with no more than so many descriptors.
    pub(crate) fn start_with_descriptors(count: usize, arguments: &[&str]) -> Process {
        let mut limited = Command::new("sh");
        let script = format!("ulimit -n {count}; exec \"$0\" \"$@\"");
        limited.args(["-c", &script, env!("CARGO_BIN_EXE_weft-server")]);
        limited.env_clear().stderr(Stdio::piped()).stdout(Stdio::null());
        Process::start_by(limited, arguments)
    }

    fn start_by(mut command: Command, arguments: &[&str]) -> Process {
        if !arguments.contains(&"--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        for flag in ["--http", "--control"] {
            if !arguments.contains(&flag) {
                command.args([flag, "off"]);
            }
        }
        let mut child = command.args(["--log-format", "json"]).args(arguments).spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        // It may have to wait for others, and says so.
        let serving = loop {
            let mut line = String::new();
            log.read_line(&mut line).unwrap();
            let said: serde_json::Value =
                serde_json::from_str(&line).unwrap_or_else(|_| panic!("no log line: {line}"));
            if said["message"] == "serving" {
                break said;
            }
        };
        let address = |field: &str| Some(serving.get(field)?.as_str()?.parse().unwrap());
        let http = address("http");
        let address: SocketAddr = address("address").expect("it says where it serves");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, address.port()));
        Process { child, log, serving, address, http }
    }

    /// A field of the line with which it said that it serves.
    pub(crate) fn log_field(&self, name: &str) -> String {
        match &self.serving[name] {
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }

    /// What the process takes of the machine's memory, in bytes.
    pub(crate) fn resident_bytes(&self) -> u64 {
        self.mapped_bytes("Rss:")
    }

    /// What of that it has written, and shares with nobody: not the pages of its program, of which
    /// there are more whenever it does something for the first time.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.mapped_bytes("Pss_Anon:") + self.mapped_bytes("Pss_Shmem:")
    }

    fn mapped_bytes(&self, kind: &str) -> u64 {
        // What `status` says is counted for each processor by itself, and may be wrong by some hundred pages.
        let path = format!("/proc/{}/smaps_rollup", self.child.id());
        let rollup = std::fs::read_to_string(path).unwrap();
        let line = rollup.lines().find_map(|line| line.strip_prefix(kind)).unwrap();
        line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap() << 10
    }

    /// A figure of `/metrics`, which needs no data connection.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let metrics = ask(self.http.expect("it has an HTTP port"), "/metrics");
        let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {name} in {metrics}")).parse().unwrap()
    }

    /// Sends `signal`, which does not end it.
    pub(crate) fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Sends `signal` and waits for the end. The exit code, and what was logged meanwhile.
    pub(crate) fn signal(mut self, signal: Signal) -> (Option<i32>, String) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        let mut log = String::new();
        self.log.read_to_string(&mut log).unwrap();
        (self.child.wait().unwrap().code(), log)
    }

    /// Ends it as an operator would.
    pub(crate) fn end(self) {
        let (code, log) = self.signal(Signal::TERM);
        assert_eq!(code, Some(0), "{log}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Left over by a test that failed.
        if let Ok(None) = self.child.try_wait() {
            self.child.kill().unwrap();
            self.child.wait().unwrap();
        }
    }
}

/// Runs `weft-server` to its end. The exit code, and what it said.
pub(crate) fn run(arguments: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let output = command(variables).args(arguments).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

fn command(variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weft-server"));
    command
        .env_clear()
        .envs(variables.iter().copied())
        .stderr(Stdio::piped())
        .stdout(Stdio::null());
    command
}

/// The answer of an HTTP port.
pub(crate) fn ask(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}
