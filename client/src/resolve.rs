//! From `host:port` to addresses that can be connected to.
//!
//! Addresses in numbers cost nothing. A name is looked up by the system's resolver, which blocks for
//! as long as it likes, so a thread of its own asks it and the caller waits no longer than its
//! deadline. Nothing is remembered: names are resolved anew for every connection that is made, since
//! the node behind a name may have moved.

use std::net::{SocketAddr, ToSocketAddrs};
use std::{io, thread};

use futures_channel::oneshot;
use futures_util::future::{Either, select};
use weft_transport::{Endpoint, Time};

use crate::address::Address;
use crate::error::AddressError;

/// The addresses that `address` stands for; at least one.
pub(crate) async fn resolve(
    endpoint: &Endpoint,
    address: &str,
    deadline: Time,
) -> Result<Vec<SocketAddr>, AddressError> {
    if let Ok(literal) = address.parse() {
        return Ok(vec![literal]);
    }
    check_form(address)?;
    let (sender, receiver) = oneshot::channel();
    let asked = address.to_owned();
    thread::Builder::new()
        .name("weft-resolve".to_owned())
        .spawn(move || {
            // The caller may have gone; then nobody wants to know.
            let _ = sender.send(look_up(&asked));
        })
        .map_err(unresolved)?;
    match select(receiver, endpoint.sleep_until(deadline)).await {
        Either::Left((Ok(Ok(found)), _)) if !found.is_empty() => Ok(found),
        Either::Left((Ok(Err(error)), _)) => Err(unresolved(error)),
        Either::Left(_) => Err(AddressError::Unresolved { reason: "it has no address".into() }),
        Either::Right(_) => Err(AddressError::TimedOut),
    }
}

#[expect(clippy::disallowed_methods, reason = "it has a thread of its own, which ends with it")]
fn look_up(address: &str) -> io::Result<Vec<SocketAddr>> {
    address.to_socket_addrs().map(Vec::from_iter)
}

fn check_form(address: &str) -> Result<(), AddressError> {
    address.parse::<Address>().map(drop).map_err(|_| AddressError::Malformed)
}

fn unresolved(error: std::io::Error) -> AddressError {
    AddressError::Unresolved { reason: error.to_string().into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_host_and_port() {
        for good in ["localhost:7400", "node-1.weft.svc:1", "[::1]:7400"] {
            assert_eq!(check_form(good), Ok(()), "{good}");
        }
        for bad in ["", "localhost", ":7400", "localhost:", "localhost:http", "localhost:0"] {
            assert_eq!(check_form(bad), Err(AddressError::Malformed), "{bad}");
        }
    }
}
