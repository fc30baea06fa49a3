//! Redis, or any server that speaks its protocol: one string a record, `GET` and `SET`.
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

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A server that answered.
pub(crate) struct Redis {
    client: Client,
    address: String,
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
        let host = properties.required("redis.host")?;
        let port: u64 = properties.number("redis.port")?;
        let port = u16::try_from(port).ok().filter(|&port| port > 0);
        let port = port.ok_or_else(|| properties.wrong("redis.port", "from 1 to 65535"))?;
        let timeout = properties.number("redis.timeout")?;
        let address = format!("{host}:{port}");
        let client = client(host, port, properties.text("redis.password"))
            .map_err(|error| unreachable(&address, &error))?;
        let control = client
            .get_connection_with_timeout(CONNECT_TIMEOUT)
            .map_err(|error| unreachable(&address, &error))?;
        let timeout = (timeout > 0).then(|| Duration::from_millis(timeout));
        Ok(Redis { client, address, timeout, control })
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

fn client(host: &str, port: u16, password: Option<&str>) -> Result<Client, RedisError> {
    let mut settings = RedisConnectionInfo::default();
    if let Some(password) = password {
        settings = settings.set_password(password);
    }
    let info = ConnectionAddr::Tcp(host.to_owned(), port)
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
        advice: "start a server there, or correct -p redis.host=HOST -p redis.port=PORT \
                 -p redis.password=PASSWORD",
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
    pub(super) fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, RedisError> {
        self.reconnect_if_broken()?;
        fill(&mut self.command, &[b"GET", key]).query(&mut self.connection)
    }

    pub(super) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), RedisError> {
        self.reconnect_if_broken()?;
        fill(&mut self.command, &[b"SET", key, value]).exec(&mut self.connection)
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
    pub(super) async fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, RedisError> {
        fill(&mut self.command, &[b"GET", key]).query_async(&mut self.connection).await
    }

    pub(super) async fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), RedisError> {
        fill(&mut self.command, &[b"SET", key, value]).exec_async(&mut self.connection).await
    }
}

fn fill<'a>(command: &'a mut Cmd, arguments: &[&[u8]]) -> &'a mut Cmd {
    command.clear();
    for argument in arguments {
        command.arg(*argument);
    }
    command
}
