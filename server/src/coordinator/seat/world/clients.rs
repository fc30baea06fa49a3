//! Who asks for tables, leases and the state of things, each until it knows.

use std::collections::BTreeSet;

use super::*;
use crate::coordinator::{Command, Leader, Outcome, Proposal, ProposalId, WorkerDescription};

#[derive(Default)]
pub(super) struct Client {
    open: Option<Ask>,
    attempt: u64,
    asked_at: Time,
    leader: Option<Leader>,
    is_quiet: bool,
    /// Tables that it was told are there.
    pub(super) tables: BTreeSet<String>,
    /// The highest version that it was told of: later answers have no lower one.
    version: u64,
    pub(super) answered: u64,
}

impl World {
    pub(super) fn add_clients(&mut self, count: usize) {
        for client in 0..count {
            self.clients.push(Client::default());
            self.at(Duration::from_secs(1), Event::Client { client });
        }
    }

    /// Nobody begins anything any more.
    pub(super) fn quiet_clients(&mut self) {
        self.clients.iter_mut().for_each(|client| client.is_quiet = true);
    }

    pub(super) fn are_clients_done(&self) -> bool {
        self.clients.iter().all(|client| client.open.is_none())
    }

    pub(super) fn client(&mut self, index: usize) {
        let pause = Duration::from_millis(5 + self.random.below(80));
        self.at(pause, Event::Client { client: index });
        if self.clients[index].open.is_none() {
            if self.clients[index].is_quiet {
                return;
            }
            let id = self.next_id();
            self.clients[index].open = Some(self.something(index, id));
            self.clients[index].asked_at = Time::ZERO;
        }
        let client = &mut self.clients[index];
        if self.now.since(client.asked_at) < Duration::from_millis(400) {
            return;
        }
        client.asked_at = self.now;
        client.attempt += 1;
        let attempt = client.attempt;
        let leader = client.leader.clone();
        let Some(bytes) = client.open.as_ref().map(codec::encode_ask) else { return };
        let to = self.whom_to_ask(leader);
        if self.is_troubled && self.random.one_in(10) {
            return;
        }
        let delay = Duration::from_micros(100 + self.random.below(3_000));
        let asker = Asker::Client { client: index };
        self.at(delay, Event::Ask { host: to, asker, attempt, bytes });
    }

    fn something(&mut self, index: usize, id: u128) -> Ask {
        let command = match self.random.below(6) {
            0 => return Ask::Status,
            1 => return Ask::Tables,
            2 | 3 => {
                let name = format!("table{index}-{id}");
                let options = TableOptions { replicas: 3, ..TableOptions::default() };
                Command::CreateTable { name, options }
            }
            4 if !self.clients[index].tables.is_empty() => {
                let name = self.clients[index].tables.first().cloned().unwrap();
                Command::DropTable { name }
            }
            _ if id.is_multiple_of(2) => Command::RegisterWorker {
                former: None,
                description: WorkerDescription {
                    address: format!("client{index}"),
                    slots: 1,
                    build: String::new(),
                    process: 1,
                },
            },
            _ => Command::OpenClient,
        };
        Ask::Propose(Proposal { id: ProposalId(id), command })
    }

    pub(super) fn client_answered(&mut self, index: usize, attempt: u64, answer: Answer) {
        // The answer is lost.
        if self.is_troubled && self.random.one_in(10) {
            return;
        }
        let client = &mut self.clients[index];
        if let (Some(Ask::Propose(proposal)), Answer::Decided(Ok(outcome))) =
            (&client.open, &answer)
            && attempt == client.attempt
        {
            self.checker.decided(proposal.id, outcome);
        }
        if attempt != client.attempt {
            return;
        }
        match (client.open.clone(), answer) {
            (Some(ask), Answer::Decided(decided)) => {
                client.take(&ask, decided.map_err(|denial| denial.message));
            }
            (Some(Ask::Status), Answer::Status(status)) => {
                assert!(status.map_version >= client.version, "a read is of before another one");
                client.version = status.map_version;
                client.done();
            }
            (Some(Ask::Tables), Answer::Tables(tables)) => {
                let names: BTreeSet<&str> =
                    tables.tables.iter().map(|table| table.name.as_str()).collect();
                let missing = client.tables.iter().find(|name| !names.contains(name.as_str()));
                assert_eq!(missing, None, "a table that was acknowledged is not there");
                client.done();
            }
            (Some(_), Answer::NotLeader { leader }) => {
                client.leader = leader;
                client.asked_at = Time::ZERO;
            }
            (Some(_), Answer::Unavailable) => client.asked_at = Time::ZERO,
            (ask, answer) => panic!("{ask:?} was answered by {answer:?}"),
        }
    }
}

impl Client {
    fn done(&mut self) {
        self.open = None;
        self.answered += 1;
    }

    fn take(&mut self, ask: &Ask, decided: Result<Outcome, String>) {
        let Ask::Propose(proposal) = ask else { panic!("{ask:?} was decided: {decided:?}") };
        let outcome = decided.unwrap_or_else(|reason| panic!("{ask:?} was denied: {reason}"));
        match &proposal.command {
            Command::CreateTable { name, .. } => {
                assert!(matches!(outcome, Outcome::TableCreated { .. }));
                self.tables.insert(name.clone());
            }
            Command::DropTable { name } => {
                self.tables.remove(name);
            }
            _ => {}
        }
        self.done();
    }
}
