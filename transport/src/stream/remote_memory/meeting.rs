//! How the two sides of a stream over verbs meet: they invite each other over a socket, and the connecting side sends a message
//! to see whether the devices can reach each other.

use std::future::poll_fn;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::{Line, RemoteMemory, unsupported};
use crate::limits::HANDSHAKE_TIMEOUT;
use crate::link::{INVITATION_BYTES, RingDevice, RingLink, TcpLink, Transfer as _, VerbsOptions};
use crate::stream::alarm::Alarm;
use crate::stream::carrier::Addresses;
use crate::stream::readiness::watch;

const BOTH: Interest = Interest::READABLE.add(Interest::WRITABLE);

/// Asks the listener at `address` for a stream.
///
/// # Errors
/// `Unsupported` without a device, `ConnectionRefused` by a listener that has none or is no listener of streams, and
/// `TimedOut` by one that says nothing.
pub(super) async fn ask(address: SocketAddr, options: &VerbsOptions) -> io::Result<RemoteMemory> {
    let device = RingDevice::open(options).map_err(unsupported)?;
    let socket = watch(TcpLink::connect(address)?, BOTH)?;
    // The socket becomes writable when the attempt has ended, either way.
    socket.writable().await?.retain_ready();
    socket.get_ref().finish_connect()?;
    in_time(async {
        let addresses = addresses(&socket)?;
        let line = Line::new(RingLink::new(&device)?, socket)?;
        let link = line.link.get_ref();
        say(&line.socket, &link.invitation()).await?;
        let invitation = hear(&line.socket).await?;
        link.meet(&invitation).map_err(refused)?;
        link.probe()?;
        poll_fn(|cx| line.poll_until(cx, RingLink::is_reached)).await?;
        Ok(RemoteMemory::new(line, addresses))
    })
    .await
}

/// Answers whoever has connected by `socket`. Nothing is made for them before they have said what they want.
///
/// # Errors
/// Why there is no stream, which nobody has to know.
pub(super) async fn answer(device: Arc<RingDevice>, socket: TcpLink) -> io::Result<RemoteMemory> {
    let socket = watch(socket, BOTH)?;
    in_time(async {
        let addresses = addresses(&socket)?;
        let invitation = hear(&socket).await?;
        let line = Line::new(RingLink::invited(&device, &invitation)?, socket)?;
        let link = line.link.get_ref();
        say(&line.socket, &link.invitation()).await?;
        // Only now does the peer's device take what is sent to it.
        poll_fn(|cx| line.poll_until(cx, RingLink::is_heard)).await?;
        Ok(RemoteMemory::new(line, addresses))
    })
    .await
}

impl RemoteMemory {
    fn new(line: Line, addresses: Addresses) -> Self {
        line.link.get_ref().set_writer_waits(false);
        Self { line: Arc::new(line), addresses }
    }
}

async fn in_time<T>(meeting: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let alarm = Alarm::set(HANDSHAKE_TIMEOUT)?;
    let meeting = pin!(meeting);
    tokio::select! {
        met = meeting => met,
        () = alarm.rings() => Err(io::ErrorKind::TimedOut.into()),
    }
}

fn addresses(socket: &AsyncFd<TcpLink>) -> io::Result<Addresses> {
    let (local, peer) = socket.get_ref().addresses()?;
    Ok(Addresses { local, peer })
}

/// Whoever answers with something else is no listener of streams over verbs.
fn refused(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::InvalidData => io::ErrorKind::ConnectionRefused.into(),
        _ => error,
    }
}

async fn say(socket: &AsyncFd<TcpLink>, invitation: &[u8; INVITATION_BYTES]) -> io::Result<()> {
    let mut rest = &invitation[..];
    while !rest.is_empty() {
        let send = |socket: &TcpLink| socket.send(&[IoSlice::new(rest)]);
        let sent = socket.async_io(Interest::WRITABLE, send).await?;
        rest = &rest[sent..];
    }
    Ok(())
}

/// Takes no byte more than an invitation has.
async fn hear(socket: &AsyncFd<TcpLink>) -> io::Result<[u8; INVITATION_BYTES]> {
    let mut bytes = [0; INVITATION_BYTES];
    let mut heard = 0;
    while heard < bytes.len() {
        let rest = &mut bytes[heard..];
        let receive = |socket: &TcpLink| socket.receive(&mut [IoSliceMut::new(rest)]);
        match socket.async_io(Interest::READABLE, receive).await? {
            0 => return Err(io::ErrorKind::ConnectionRefused.into()),
            count => heard += count,
        }
    }
    Ok(bytes)
}
