//! Jobs as objects of a table of the cluster: what every agent sees, and what outlives all of them. Which agents there are is the coordinators' to know.
//!
//! | key | value | |
//! |---|---|---|
//! | `job/NUMBER` | a [`JobRecord`] | changed only by compare-and-set |
//! | `open/NUMBER` | nothing | the job has not ended, or its end was not tidied up yet |
//! | `progress/NUMBER` | [`Done`] | written by the job's driver |
//! | `waits/NUMBER` | why it waits, in words | written by the eldest agent |
//! | `next`, `secret` | a number; what agents and drivers know | |

use std::time::{Duration, SystemTime};

use anyhow::{Context as _, bail};
use serde::de::DeserializeOwned;
use weft_client::{
    BlockingClient, CatalogError, ClientConfig, ClientError, Compared, ErrorCode, PollPolicy,
    RangeOptions, Registration, TableOptions, WorkerDescription, WorkerEntry,
};
use weft_shuffle::{forget_checkpoints, make_checkpoint_table};

use super::record::{AgentId, JobRecord};
use crate::how_far::Done;

/// The table.
const TABLE: &str = "shuffle-jobs";

/// How many jobs that have ended are remembered.
const ENDED_MAX: usize = 1000;

/// What an agent says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AgentRow {
    /// Where drivers find it.
    pub(crate) address: String,
    /// The workers that it has room for.
    pub(crate) slots: usize,
    /// Which build of the program it is: only equal ones work together.
    pub(crate) build: String,
    pub(crate) process: u32,
}

/// The table, as this process uses it.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    table: BlockingClient,
    cluster: BlockingClient,
}

impl Store {
    /// Opens the table, and makes it if the cluster has none.
    pub(crate) fn open(cluster: &[String], timeout: Duration) -> anyhow::Result<Store> {
        let mut config = ClientConfig::new(cluster.iter().map(String::as_str));
        config.timeout = timeout;
        config.poll = PollPolicy::Park;
        let cluster = BlockingClient::connect(config)?;
        let table = match cluster.table(TABLE) {
            Err(ClientError::Catalog(CatalogError::Unknown { .. })) => {
                make_checkpoint_table(&cluster)?;
                let options = TableOptions { ordered: true, ..TableOptions::default() };
                match cluster.create_table(TABLE, options) {
                    Err(ClientError::Catalog(CatalogError::Exists { .. })) => {
                        cluster.table(TABLE)?
                    }
                    other => other?,
                }
            }
            other => other?,
        };
        Ok(Store { table, cluster })
    }

    /// Where the nodes of the cluster are, and those that this process began with: who begins later may not find these.
    pub(crate) fn nodes_and(&self, began_with: &[String]) -> Vec<String> {
        let map = self.cluster.client().map();
        let mut nodes: Vec<_> = map.nodes().iter().map(|node| node.address.clone()).collect();
        let more = began_with.iter().filter(|node| !nodes.contains(node)).cloned();
        nodes.extend(more.collect::<Vec<_>>());
        nodes
    }

    /// Has a job wait for its slots. Returns its number.
    pub(crate) fn submit(&self, job: &JobRecord) -> anyhow::Result<u64> {
        let value = self.table.increment("next", 1, None)?.number;
        let id = u64::try_from(value).context("the count of jobs is none")?;
        // Before the job: what is open and is no job is passed over.
        self.table.put(open_key(id), [])?;
        match self.table.put_if_absent(job_key(id), serde_json::to_vec(job)?, None)? {
            Compared::Written { .. } => Ok(id),
            _ => bail!("there is a job {id} already: its table's count was set back"),
        }
    }

    pub(crate) fn job(&self, id: u64) -> anyhow::Result<Option<JobRecord>> {
        let object = self.table.get(job_key(id))?.into_object();
        object.map(|object| read(&object, &job_key(id))).transpose()
    }

    /// Changes a job, over what it is now. `change` says whether it does, and may be asked again. Returns the job as it is then, and whether it was changed; nothing if there is none.
    pub(crate) fn change(
        &self,
        id: u64,
        mut change: impl FnMut(&mut JobRecord) -> bool,
    ) -> anyhow::Result<Option<(JobRecord, bool)>> {
        loop {
            let Some(object) = self.table.get(job_key(id))?.into_object() else {
                return Ok(None);
            };
            let mut job: JobRecord = read(&object, &job_key(id))?;
            if !change(&mut job) {
                return Ok(Some((job, false)));
            }
            let value = serde_json::to_vec(&job)?;
            let outcome = self.table.compare_and_set(job_key(id), object.version(), value, None)?;
            if let Compared::Written { .. } = outcome {
                return Ok(Some((job, true)));
            }
        }
    }

    /// All jobs that are remembered, in the order in which they were submitted.
    pub(crate) fn jobs(&self) -> anyhow::Result<Vec<(u64, JobRecord)>> {
        let mut jobs = Vec::new();
        for (key, value) in self.with_prefix("job/")? {
            jobs.push((number(&key)?, read(&value, &key)?));
        }
        Ok(jobs)
    }

    /// Those that are open, in the order in which they were submitted.
    pub(crate) fn open_jobs(&self) -> anyhow::Result<Vec<(u64, JobRecord)>> {
        let mut jobs = Vec::new();
        for object in self.table.range(RangeOptions::prefix("open/"))? {
            let id = number(&String::from_utf8_lossy(&object?.key))?;
            jobs.extend(self.job(id)?.map(|job| (id, job)));
        }
        Ok(jobs)
    }

    /// Tidies up behind a job that has ended: what it kept, what was told of it, and jobs that are not remembered any more.
    pub(crate) fn close(&self, id: u64) -> anyhow::Result<()> {
        forget_checkpoints(&self.cluster, &id.to_string())?;
        self.table.delete(progress_key(id))?;
        self.table.delete(waits_key(id))?;
        self.table.delete(open_key(id))?;
        let keys = self.table.range(RangeOptions::prefix("job/"))?;
        let keys = keys.map(|object| Ok(object?.key)).collect::<Result<Vec<_>, ClientError>>()?;
        let too_many = keys.len().saturating_sub(ENDED_MAX);
        for key in &keys[..too_many] {
            let id = number(&String::from_utf8_lossy(key))?;
            if self.job(id)?.is_some_and(|job| job.is_ended()) {
                self.table.delete(key)?;
            }
        }
        Ok(())
    }

    /// The agents that are registered with the coordinators, the eldest first.
    pub(crate) fn agents(&self) -> anyhow::Result<Vec<(AgentId, AgentRow)>> {
        let agent = |entry: WorkerEntry| {
            let WorkerEntry { worker, address, slots, build, process } = entry;
            (AgentId(worker), AgentRow { address, slots: slots as usize, build, process })
        };
        Ok(self.cluster.workers()?.into_iter().map(agent).collect())
    }

    /// Registers an agent, which may have been registered before. Returns its number, and for how long it is.
    pub(crate) fn register(
        &self,
        row: &AgentRow,
        former: Option<AgentId>,
    ) -> anyhow::Result<(AgentId, Duration)> {
        let worker = WorkerDescription {
            address: &row.address,
            slots: row.slots as u32,
            build: &row.build,
            process: row.process,
        };
        let former = former.map(|AgentId(worker)| worker);
        let Registration { worker, lifetime } = self.cluster.register_worker(worker, former)?;
        Ok((AgentId(worker), lifetime))
    }

    /// Says that an agent is still there. One that the coordinators have forgotten registers again.
    pub(crate) fn renew(&self, id: AgentId, row: &AgentRow) -> anyhow::Result<()> {
        match self.cluster.renew_worker(id.0) {
            Err(error) if error.code() == ErrorCode::WorkerUnknown => {
                self.register(row, Some(id)).map(drop)
            }
            renewed => Ok(renewed.map(drop)?),
        }
    }

    /// Says that an agent is not there any more.
    pub(crate) fn leave(&self, AgentId(worker): AgentId) -> anyhow::Result<()> {
        Ok(self.cluster.unregister_worker(worker)?)
    }

    /// What agents and drivers show one another: whoever may read the table may run jobs. If there is none, as when the table is new or has lost all, it becomes `known`, or a new one.
    pub(crate) fn secret(&self, known: Option<u128>) -> anyhow::Result<u128> {
        let mut secret = self.table.get("secret")?.into_object();
        if secret.is_none() {
            let made = known.unwrap_or_else(rand::random);
            // What was made first stays.
            let _ = self.table.put_if_absent("secret", made.to_le_bytes(), None)?;
            secret = self.table.get("secret")?.into_object();
        }
        let secret = secret.context("there is no secret")?;
        Ok(u128::from_le_bytes(secret[..].try_into().context("the agents' secret is none")?))
    }

    pub(crate) fn tell_progress(&self, id: u64, done: &Done) -> anyhow::Result<()> {
        self.table.put(progress_key(id), serde_json::to_vec(done)?)?;
        Ok(())
    }

    pub(crate) fn progress(&self, id: u64) -> anyhow::Result<Option<Done>> {
        let object = self.table.get(progress_key(id))?.into_object();
        object.map(|object| read(&object, &progress_key(id))).transpose()
    }

    /// Says why a job waits.
    pub(crate) fn tell_waits(&self, id: u64, why: &str) -> anyhow::Result<()> {
        self.table.put(waits_key(id), why)?;
        Ok(())
    }

    /// Why a job waited when the eldest agent looked last, if it found that it does.
    pub(crate) fn waits(&self, id: u64) -> anyhow::Result<Option<String>> {
        let object = self.table.get(waits_key(id))?.into_object();
        Ok(object.map(|why| String::from_utf8_lossy(&why).into_owned()))
    }

    fn with_prefix(&self, prefix: &str) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
        let options = RangeOptions { with_values: true, ..RangeOptions::prefix(prefix) };
        let mut found = Vec::new();
        for object in self.table.range(options)? {
            let object = object?;
            // One that has gone since is none.
            let Some(value) = object.value else { continue };
            found.push((String::from_utf8_lossy(&object.key).into_owned(), value.to_vec()));
        }
        Ok(found)
    }
}

/// Milliseconds of Unix time.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

fn job_key(id: u64) -> String {
    format!("job/{id:020}")
}

fn open_key(id: u64) -> String {
    format!("open/{id:020}")
}

fn progress_key(id: u64) -> String {
    format!("progress/{id:020}")
}

fn waits_key(id: u64) -> String {
    format!("waits/{id:020}")
}

fn number(key: &str) -> anyhow::Result<u64> {
    let number = key.split_once('/').and_then(|(_, number)| number.parse().ok());
    number.with_context(|| format!("the table {TABLE} has a key that is none of its own: {key}"))
}

fn read<T: DeserializeOwned>(value: &[u8], key: &str) -> anyhow::Result<T> {
    serde_json::from_slice(value).with_context(|| {
        format!("{key} in the table {TABLE} was written by another version of this program")
    })
}
