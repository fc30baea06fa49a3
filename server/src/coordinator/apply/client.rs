//! Clients come, keep their leases, and go.

use crate::coordinator::command::{Applied, ClientId, Outcome};
use crate::coordinator::history::Gone;
use crate::coordinator::rejection::Rejection;
use crate::coordinator::state::ClusterState;
use crate::limits::{CLIENTS_MAX, RENEWALS_MAX};

impl ClusterState {
    /// No node has to learn of a client: the first request of its tells.
    pub(super) fn open_client(&mut self) -> Applied {
        if self.clients.len() >= CLIENTS_MAX {
            return Err(Rejection::TooManyClients);
        }
        self.last_client += 1;
        let client = ClientId(self.last_client);
        self.clients.insert(client, 0);
        Ok(Outcome::ClientOpened { client })
    }

    /// Renewals are counted and not timed, since the state knows no time: the leader sees by the count that there was one. That a renewal has to be
    /// committed shows that whoever answers it is still the leader: nobody else has let the lease expire meanwhile.
    pub(super) fn renew_clients(&mut self, clients: &[ClientId]) -> Applied {
        if clients.len() > RENEWALS_MAX {
            return Err(Rejection::TooManyRenewals);
        }
        let mut expired = Vec::new();
        for client in clients {
            match self.clients.get_mut(client) {
                Some(renewals) => *renewals += 1,
                None => expired.push(*client),
            }
        }
        Ok(Outcome::Renewed { expired })
    }

    /// Every node learns of it, and forgets what it keeps for the client.
    pub(super) fn expire_client(&mut self, client: ClientId, renewals: u64) -> Applied {
        match self.clients.get(&client) {
            None => return Err(Rejection::ClientUnknown { client }),
            Some(current) if *current != renewals => {
                return Err(Rejection::ClientRenewed { client });
            }
            Some(_) => {}
        }
        self.clients.remove(&client);
        let version = self.next_version();
        self.history.record(version, Gone::Client(client));
        Ok(Outcome::Done)
    }
}
