//! Redis, or any server that speaks its protocol: one hash a record, `HGETALL` and `HSET`, as upstream; a single field is a
//! string, `GET` and `SET`.
//!
//! Blocking: each requester has a connection. Async: the requesters of a thread share one
//! multiplexed connection, which sends what they ask for together, as a service with one client
//! object would; that is the fastest way to many concurrent requests that the client crate has.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, Cmd, Connection, ConnectionAddr, ConnectionLike as _,
    IntoConnectionInfo as _, RedisConnectionInfo, RedisError,
};

use super::{Crew, Driver, Mode, OpenError, Session};
use crate::properties::Properties;
use crate::record::{Layout, Values};

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A server that answered.
pub(crate) struct Redis {
    client: Client,
    address: String,
    link: &'static str,
    /// `None`: an operation may take any time.
    timeout: Option<Duration>,
    /// Asks for the server's statistics.
    control: Connection,
}

impl Redis {
    pub(super) fn open(properties: &Properties) -> Result<Redis, OpenError> {
        if properties.flag("redis.cluster")? {
            return Err(OpenError::Usage(properties.wrong("redis.cluster", "false")));
        }
        let server = server(properties)?;
        let timeout = properties.number("redis.timeout")?;
        let address = server.to_string();
        let link = if matches!(server, ConnectionAddr::Unix(_)) { "unix" } else { "tcp" };
        let client = client(server, properties.text("redis.password"))
            .map_err(|error| unreachable(&address, &error))?;
        let control = client
            .get_connection_with_timeout(CONNECT_TIMEOUT)
            .map_err(|error| unreachable(&address, &error))?;
        let timeout = (timeout > 0).then(|| Duration::from_millis(timeout));
        Ok(Redis { client, address, link, timeout, control })
    }

    /// What its connections run over.
    pub(super) fn link(&self) -> &'static str {
        self.link
    }

    pub(super) fn crew(&self, mode: Mode, requesters: usize) -> Result<Crew, OpenError> {
        let crew = match mode {
            Mode::Blocking => self.blocking_crew(requesters),
            Mode::Async { .. } => self.shared_crew(requesters),
        };
        crew.map_err(|error| unreachable(&self.address, &error))
    }

    fn blocking_crew(&self, requesters: usize) -> Result<Crew, RedisError> {
        let session = || {
            let connection = connect(&self.client, self.timeout)?;
            let (client, timeout) = (self.client.clone(), self.timeout);
            let command = Cmd::new();
            let session = BlockingSession { client, timeout, connection, command };
            Ok(Session::RedisBlocking(Box::new(session)))
        };
        let sessions = (0..requesters).map(|_| session()).collect::<Result<_, RedisError>>()?;
        Ok(Crew { driver: Driver::Blocking, sessions })
    }

    fn shared_crew(&self, requesters: usize) -> Result<Crew, RedisError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        // The client's own buffer of 50 requests stays: with 100 requesters it makes two batches,
        // so that client and server work at the same time. Larger ones were measured: slower.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(self.timeout);
        let connect = self.client.get_multiplexed_async_connection_with_config(&config);
        let connection = runtime.block_on(connect)?;
        let session = || {
            let connection = connection.clone();
            Session::RedisShared(SharedSession { connection, command: Cmd::new() })
        };
        let sessions = (0..requesters).map(|_| session()).collect();
        Ok(Crew { driver: Driver::Tokio(runtime), sessions })
    }

    pub(super) fn server_cpu_seconds(&mut self) -> Result<f64, String> {
        let info: redis::InfoDict = redis::cmd("INFO")
            .arg("cpu")
            .query(&mut self.control)
            .map_err(|error| format!("INFO cpu failed: {error}"))?;
        let seconds = |name: &str| {
            info.get::<f64>(name).ok_or_else(|| format!("INFO cpu does not tell {name}"))
        };
        Ok(seconds("used_cpu_user")? + seconds("used_cpu_sys")?)
    }
}

/// Where the server is.
fn server(properties: &Properties) -> Result<ConnectionAddr, OpenError> {
    if let Some(socket) = properties.text("redis.socket") {
        return Ok(ConnectionAddr::Unix(socket.into()));
    }
    let host = properties.required("redis.host")?;
    let port: u64 = properties.number("redis.port")?;
    let port = u16::try_from(port).ok().filter(|&port| port > 0);
    let port = port.ok_or_else(|| properties.wrong("redis.port", "from 1 to 65535"))?;
    Ok(ConnectionAddr::Tcp(host.to_owned(), port))
}

fn client(server: ConnectionAddr, password: Option<&str>) -> Result<Client, RedisError> {
    let mut settings = RedisConnectionInfo::default();
    if let Some(password) = password {
        settings = settings.set_password(password);
    }
    let info = server
        .into_connection_info()?
        .set_tcp_settings(TcpSettings::default().set_nodelay(true))
        .set_redis_settings(settings);
    Client::open(info)
}

fn connect(client: &Client, timeout: Option<Duration>) -> Result<Connection, RedisError> {
    let connection = client.get_connection_with_timeout(CONNECT_TIMEOUT)?;
    connection.set_read_timeout(timeout)?;
    connection.set_write_timeout(timeout)?;
    Ok(connection)
}

fn unreachable(address: &str, error: &RedisError) -> OpenError {
    OpenError::Unreachable {
        target: "redis",
        address: address.to_owned(),
        reason: error.to_string(),
        advice: "start a server there, or correct -p redis.host=HOST -p redis.port=PORT, \
                 -p redis.socket=PATH or -p redis.password=PASSWORD",
    }
}

/// A requester with a connection of its own, made anew when it broke.
pub(crate) struct BlockingSession {
    client: Client,
    timeout: Option<Duration>,
    connection: Connection,
    /// Kept for its buffers.
    command: Cmd,
}

impl BlockingSession {
    pub(super) fn get(
        &mut self,
        key: &[u8],
        layout: &Layout,
    ) -> Result<Option<Fields>, RedisError> {
        self.reconnect_if_broken()?;
        let (command, connection) = (&mut self.command, &mut self.connection);
        if layout.is_single() {
            let value: Option<Vec<u8>> = fill(command, &[b"GET", key]).query(connection)?;
            return Ok(value.map(|value| vec![Some(value)]));
        }
        Ok(by_number(fill(command, &[b"HGETALL", key]).query(connection)?, layout))
    }

    pub(super) fn put(
        &mut self,
        key: &[u8],
        layout: &Layout,
        values: &Values,
    ) -> Result<(), RedisError> {
        self.reconnect_if_broken()?;
        fill_put(&mut self.command, key, layout, values).exec(&mut self.connection)
    }

    fn reconnect_if_broken(&mut self) -> Result<(), RedisError> {
        if !self.connection.is_open() {
            self.connection = connect(&self.client, self.timeout)?;
        }
        Ok(())
    }
}

/// A requester that shares its connection with the others of its thread.
pub(crate) struct SharedSession {
    connection: MultiplexedConnection,
    /// Kept for its buffers.
    command: Cmd,
}

impl SharedSession {
    pub(super) async fn get(
        &mut self,
        key: &[u8],
        layout: &Layout,
    ) -> Result<Option<Fields>, RedisError> {
        let (command, connection) = (&mut self.command, &mut self.connection);
        if layout.is_single() {
            let value: Option<Vec<u8>> =
                fill(command, &[b"GET", key]).query_async(connection).await?;
            return Ok(value.map(|value| vec![Some(value)]));
        }
        let hash = fill(command, &[b"HGETALL", key]).query_async(connection).await?;
        Ok(by_number(hash, layout))
    }

    pub(super) async fn put(
        &mut self,
        key: &[u8],
        layout: &Layout,
        values: &Values,
    ) -> Result<(), RedisError> {
        let command = fill_put(&mut self.command, key, layout, values);
        command.exec_async(&mut self.connection).await
    }
}

/// The values of a record's fields, by their numbers.
pub(super) type Fields = Vec<Option<Vec<u8>>>;

/// The fields of a hash; `None` if it has none, since then there is no such hash. What the workload has no name for is
/// one more that is missing.
fn by_number(hash: Vec<(Vec<u8>, Vec<u8>)>, layout: &Layout) -> Option<Fields> {
    if hash.is_empty() {
        return None;
    }
    let names = layout.names();
    let mut fields = vec![None; names.len().max(hash.len())];
    for (at, (name, value)) in hash.into_iter().enumerate() {
        // Small hashes keep the order in which they were written.
        let is_there = names.get(at).is_some_and(|expected| expected.as_bytes() == name);
        let index = if is_there {
            Some(at)
        } else {
            names.iter().position(|expected| expected.as_bytes() == name)
        };
        if let Some(index) = index {
            fields[index] = Some(value);
        }
    }
    Some(fields)
}

/// A command that writes fields of a record.
fn fill_put<'a>(command: &'a mut Cmd, key: &[u8], layout: &Layout, values: &Values) -> &'a mut Cmd {
    if layout.is_single() {
        fill(command, &[b"SET", key]);
    } else {
        fill(command, &[b"HSET", key]);
    }
    for (index, value) in values.iter() {
        if !layout.is_single() {
            command.arg(layout.names()[index].as_bytes());
        }
        command.arg(value);
    }
    command
}

fn fill<'a>(command: &'a mut Cmd, arguments: &[&[u8]]) -> &'a mut Cmd {
    command.clear();
    for argument in arguments {
        command.arg(*argument);
    }
    command
}
