//! Which links are ready: epoll for those with a descriptor, a look around for simulated ones.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};

use crate::link::{Link, Listener, VerbsPort};
use crate::sync;

/// A link's name towards the poller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token(pub(crate) u64);

/// Links reported at once; what does not fit is reported by the next wait.
const EVENTS_MAX: usize = 128;

/// The kick's own token.
const KICK: u64 = u64::MAX;

/// A link that something can be done with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ready {
    pub(crate) token: Token,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// The link's descriptor says so, and has something to say besides.
    pub(crate) told: bool,
}

/// Interrupts a poller that waits; cheap to call when it does not.
#[derive(Debug, Clone)]
pub(crate) struct Kick {
    descriptor: Option<Arc<OwnedFd>>,
}

impl Kick {
    /// Ends the wait of the poller that this belongs to.
    pub(crate) fn kick(&self) {
        if let Some(descriptor) = &self.descriptor {
            // The counter can only be full, and then the poller is awake already.
            let _ = rustix::io::write(descriptor, &1u64.to_le_bytes());
        }
    }
}

/// What waits for links to become ready.
#[derive(Debug)]
pub(crate) enum Poller {
    Epoll(Epoll),
    /// Simulated links are asked one by one, by the reactor that owns them.
    Sim,
}

#[derive(Debug)]
pub(crate) struct Epoll {
    epoll: OwnedFd,
    kick: Arc<OwnedFd>,
}

impl Poller {
    /// A poller for links with descriptors.
    pub(crate) fn epoll() -> io::Result<(Self, Kick)> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let kick = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        epoll::add(&epoll, &kick, EventData::new_u64(KICK), EventFlags::IN)?;
        let handle = Kick { descriptor: Some(Arc::clone(&kick)) };
        Ok((Self::Epoll(Epoll { epoll, kick }), handle))
    }

    /// A poller for simulated links.
    pub(crate) fn sim() -> (Self, Kick) {
        (Self::Sim, Kick { descriptor: None })
    }

    /// Begins to watch `link` for input, and for room if `writable`.
    pub(crate) fn add(&self, link: &Link, token: Token, writable: bool) -> io::Result<()> {
        match (self, link) {
            (Self::Epoll(poller), Link::Tcp(link)) => {
                poller.add(link.descriptor(), token, interest(writable))
            }
            // Room is told of by a bell, too.
            (Self::Epoll(poller), Link::Shm(link)) => {
                poller.add(link.descriptor(), token, EventFlags::IN)
            }
            (Self::Epoll(poller), Link::Verbs(link)) => {
                poller.add(link.descriptor(), token, interest(link.watches_room(writable)))
            }
            _ => Ok(()),
        }
    }

    /// Begins to watch what tells of a device: of what has come over it, and of itself.
    pub(crate) fn add_port(&self, port: &VerbsPort, tokens: [Token; 2]) -> io::Result<()> {
        let Self::Epoll(poller) = self else { return Ok(()) };
        poller.add(port.descriptor(), tokens[0], EventFlags::IN)?;
        poller.add(port.event_descriptor(), tokens[1], EventFlags::IN)
    }

    /// Begins to watch `listener`.
    pub(crate) fn add_listener(&self, listener: &Listener, token: Token) -> io::Result<()> {
        match (self, listener) {
            (Self::Epoll(poller), Listener::Tcp(listener)) => {
                poller.add(listener.descriptor(), token, EventFlags::IN)
            }
            (Self::Epoll(poller), Listener::Shm(listener)) => {
                poller.add(listener.descriptor(), token, EventFlags::IN)
            }
            _ => Ok(()),
        }
    }

    /// Ceases to watch `listener`.
    pub(crate) fn remove_listener(&self, listener: &Listener) {
        let Self::Epoll(poller) = self else { return };
        let descriptor = match listener {
            Listener::Tcp(listener) => listener.descriptor(),
            Listener::Shm(listener) => listener.descriptor(),
            Listener::Sim(_) => return,
        };
        // Fails only if the listener was never added.
        let _ = epoll::delete(&poller.epoll, descriptor);
    }

    /// Changes whether `link` is watched for room.
    pub(crate) fn set_writable(&self, link: &Link, token: Token, writable: bool) -> io::Result<()> {
        match (self, link) {
            (Self::Epoll(poller), Link::Tcp(link)) => {
                let data = EventData::new_u64(token.0);
                Ok(epoll::modify(&poller.epoll, link.descriptor(), data, interest(writable))?)
            }
            (Self::Epoll(poller), Link::Verbs(link)) => {
                let data = EventData::new_u64(token.0);
                let interest = interest(link.watches_room(writable));
                Ok(epoll::modify(&poller.epoll, link.descriptor(), data, interest)?)
            }
            _ => Ok(()),
        }
    }

    /// Ceases to watch `link`.
    pub(crate) fn remove(&self, link: &Link) {
        let Self::Epoll(poller) = self else { return };
        let descriptor = match link {
            Link::Tcp(link) => link.descriptor(),
            Link::Shm(link) => link.descriptor(),
            Link::Verbs(link) => link.descriptor(),
            Link::Sim(_) => return,
        };
        // Fails only if the link was never added.
        let _ = epoll::delete(&poller.epoll, descriptor);
    }

    /// Waits up to `timeout` (for ever without one) and appends what is ready.
    pub(crate) fn wait(&self, timeout: Option<Duration>, ready: &mut Vec<Ready>) -> io::Result<()> {
        match self {
            Self::Epoll(poller) => poller.wait(timeout, ready),
            Self::Sim => Ok(()),
        }
    }
}

impl Epoll {
    fn add(&self, descriptor: BorrowedFd<'_>, token: Token, flags: EventFlags) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, descriptor, EventData::new_u64(token.0), flags)?)
    }

    fn wait(&self, timeout: Option<Duration>, ready: &mut Vec<Ready>) -> io::Result<()> {
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(timeout.subsec_nanos()),
        });
        if timeout.is_none_or(|timeout| timeout.tv_sec > 0 || timeout.tv_nsec > 0) {
            sync::before_sleep(self.epoll.as_fd());
        }
        let mut events = [const { MaybeUninit::uninit() }; EVENTS_MAX];
        let events: &[epoll::Event] =
            match epoll::wait(&self.epoll, &mut events[..], timeout.as_ref()) {
                Ok((events, _)) => events,
                // As when the process was stopped. What has come meanwhile is found all the same: whoever looks at
                // timers after this has looked at links.
                Err(rustix::io::Errno::INTR) => return self.wait(Some(Duration::ZERO), ready),
                Err(error) => return Err(error.into()),
            };
        for event in events {
            let token = event.data.u64();
            if token == KICK {
                let mut count = [0; 8];
                // Empty only if another wait took it; nothing is lost either way.
                let _ = rustix::io::read(self.kick.as_fd(), &mut count);
                continue;
            }
            let failed = EventFlags::ERR | EventFlags::HUP;
            let flags = event.flags;
            ready.push(Ready {
                token: Token(token),
                readable: flags.intersects(EventFlags::IN | failed),
                writable: flags.intersects(EventFlags::OUT | failed),
                told: true,
            });
        }
        Ok(())
    }
}

fn interest(writable: bool) -> EventFlags {
    if writable { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::process::{Command, Stdio};

    use super::*;
    use crate::link::TcpLink;

    /// The system ends the wait of who was stopped, and does not say what has come.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test is who writes, and stops itself")]
    fn who_is_stopped_while_it_waits_finds_what_has_come_meanwhile() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let link = Link::Tcp(TcpLink::connect(listener.local_addr().unwrap()).unwrap());
        let (peer, _) = listener.accept().unwrap();
        let (poller, _kick) = Poller::epoll().unwrap();
        poller.add(&link, Token(7), false).unwrap();
        let script = "sleep 0.2; kill -STOP $PPID; sleep 0.2; printf x; kill -CONT $PPID";
        let mut stopping = Command::new("sh");
        stopping.args(["-c", script]).stdout(Stdio::from(std::os::fd::OwnedFd::from(peer)));
        let mut stopping = stopping.spawn().unwrap();
        let mut ready = Vec::new();
        poller.wait(Some(Duration::from_secs(60)), &mut ready).unwrap();
        assert!(ready.iter().any(|ready| ready.token == Token(7) && ready.readable), "{ready:?}");
        assert!(stopping.wait().unwrap().success());
    }
}
