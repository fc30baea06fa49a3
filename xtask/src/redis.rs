//! A redis server of our own: the peer that Weft is measured beside.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::command;

const START_TIMEOUT: Duration = Duration::from_secs(10);

/// A redis-server on a free loopback port and a Unix socket, without persistence; dropping it stops it.
pub(crate) struct Redis {
    process: Child,
    port: u16,
    socket: PathBuf,
}

impl Redis {
    /// Starts one, on `cpu` alone if one is given, with its log in `folder`; `None` if the search
    /// path has no redis-server.
    pub(crate) fn start(folder: &Path, cpu: Option<u32>) -> Result<Option<Redis>> {
        let Some(program) = command::find("redis-server") else { return Ok(None) };
        fs::create_dir_all(folder)?;
        let log = File::create(folder.join("redis.log"))?;
        let port = free_port()?;
        // In a short folder: the path of a Unix socket has at most 107 bytes.
        let socket = std::env::temp_dir().join(format!("weft-redis-{port}.sock"));
        let process = command::on_cpu(&program, cpu)
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .arg("--unixsocket")
            .arg(&socket)
            .args(["--save", "", "--appendonly", "no", "--dir"])
            .arg(folder)
            .stderr(log.try_clone()?)
            .stdout(log)
            .spawn()
            .context("failed to start redis-server")?;
        let mut redis = Redis { process, port, socket };
        redis.wait_until_it_answers()?;
        Ok(Some(redis))
    }

    /// The port that it listens on, at 127.0.0.1.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The Unix socket that it listens on.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    fn wait_until_it_answers(&mut self) -> Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        while let Err(error) = self.ping() {
            if let Some(status) = self.process.try_wait()? {
                bail!("redis-server ended at once, {status}");
            }
            if Instant::now() > deadline {
                return Err(error.context("redis-server does not answer"));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn ping(&self) -> Result<()> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        stream.set_read_timeout(Some(START_TIMEOUT))?;
        stream.write_all(b"PING\r\n")?;
        let mut reply = [0; 7];
        stream.read_exact(&mut reply)?;
        if &reply != b"+PONG\r\n" {
            bail!("redis-server answers PING with {:?}", String::from_utf8_lossy(&reply));
        }
        Ok(())
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // It holds nothing worth saving, and both calls fail only if it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_file(&self.socket);
    }
}

/// A port that was free a moment ago: redis cannot be told to choose one itself.
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redis_answers_while_it_lives_and_not_after() {
        let folder = std::env::temp_dir().join(format!("weft-xtask-redis-{}", std::process::id()));
        let redis = Redis::start(&folder, None).unwrap().expect("`cargo xtask setup` installs it");
        let port = redis.port();
        redis.ping().unwrap();
        let socket = redis.socket().to_owned();
        assert!(socket.exists());
        drop(redis);
        assert!(!socket.exists());
        assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err());
        fs::remove_dir_all(folder).unwrap();
    }
}
