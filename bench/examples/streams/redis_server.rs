//! A redis-server of our own, on a free port, that ends when it is dropped.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

const START_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) struct RedisServer {
    process: Child,
    address: SocketAddr,
}

impl RedisServer {
    pub(crate) fn start() -> anyhow::Result<Self> {
        // It cannot be told to choose a port itself.
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let process = Command::new("redis-server")
            .args(["--port", &address.port().to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no"])
            .stdout(Stdio::null())
            .spawn()
            .context("redis-server does not start; `cargo xtask setup` installs it")?;
        let mut server = Self { process, address };
        let deadline = Instant::now() + START_TIMEOUT;
        while let Err(error) = server.ping() {
            if let Some(status) = server.process.try_wait()? {
                bail!("redis-server ended at once, {status}");
            }
            if Instant::now() > deadline {
                return Err(error.context("redis-server does not answer"));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    fn ping(&self) -> anyhow::Result<()> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(START_TIMEOUT))?;
        stream.write_all(b"PING\r\n")?;
        let mut reply = [0; 7];
        stream.read_exact(&mut reply)?;
        anyhow::ensure!(&reply == b"+PONG\r\n", "redis-server does not know PING");
        Ok(())
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // It holds nothing worth saving, and both calls fail only if it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
