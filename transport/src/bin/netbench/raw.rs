//! The limit of the machine: plain `std::net` sockets with NODELAY, and bare rings in shared memory;
//! nothing of Weft's in the path of a byte.

pub(crate) mod mesh_rings;
pub(crate) mod mesh_sockets;
pub(crate) mod pauses;
pub(crate) mod ping_pong;
pub(crate) mod ring;
pub(crate) mod stream;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use anyhow::Context as _;

/// What one write of a stream carries by tradition, and what buffers hold.
pub(crate) const WRITE_BYTES: usize = 64 << 10;

/// What one write carries where it is to be one segment of TCP over loopback, whose headers take up to 72
/// bytes of 64 KiB. It is the fastest there: a write of 64 KiB makes a second segment of some 50 bytes.
pub(crate) const SEGMENT_BYTES: usize = WRITE_BYTES - 128;

/// A side that hears nothing for so long gives up instead of hanging.
const SILENCE_MAX: Duration = Duration::from_secs(10);

pub(crate) fn connect(address: SocketAddr) -> anyhow::Result<TcpStream> {
    let stream =
        TcpStream::connect(address).with_context(|| format!("failed to connect to {address}"))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    stream.set_write_timeout(Some(SILENCE_MAX))?;
    Ok(stream)
}

fn listen() -> anyhow::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("failed to listen")?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// Serves each connection on a thread of its own. A connection that fails is the client's to
/// report.
fn serve_each(
    serve: impl Fn(TcpStream) -> io::Result<()> + Clone + Send + 'static,
) -> anyhow::Result<SocketAddr> {
    let (listener, address) = listen()?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            std::thread::spawn(move || stream.set_nodelay(true).and_then(|()| serve(stream)));
        }
    });
    Ok(address)
}
