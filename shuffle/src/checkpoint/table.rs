//! States in objects of a cluster's table.
//!
//! The pieces of a state are segments as they are sent, an object each, and what makes them a state is one more object that says how many there are. So who sees that
//! one finds all of them, however often nodes change roles meanwhile.

use std::time::Duration;

use weft_client::{
    BlockingClient, CatalogError, ClientConfig, ClientError, PollPolicy, RangeOptions, TableOptions,
};
use weft_object::{AlignedBytes, Record, Segment, Types, View};
use weft_transport::Memory;

use super::CHECKPOINT_TABLE;
use crate::error::JobError;
use crate::filling::{Fill as _, Filling, records_of};
use crate::spill::Spilling;

/// Bytes of the records of a piece: small beside what a request carries.
const PIECE_BYTES: usize = 256 << 10;

/// Pieces that are written with one operation.
const PIECES_AT_ONCE: usize = 16;

/// How long an operation may take: nodes may have to change roles meanwhile, more than once.
const TIMEOUT: Duration = Duration::from_secs(30);

/// How many pieces a state has, and how many records: each eight bytes, little-endian.
const MARK_BYTES: usize = 16;

/// What a job has of the table.
pub(super) struct Table {
    client: BlockingClient,
    job: String,
    memory: Memory,
    types: Types,
}

impl Table {
    pub(super) fn open(
        cluster: Vec<String>,
        job: String,
        spilling: &Spilling,
    ) -> Result<Table, JobError> {
        let mut config = ClientConfig::new(cluster);
        config.timeout = TIMEOUT;
        // The processor is the job's.
        config.poll = PollPolicy::Park;
        let client = BlockingClient::connect(config).map_err(failed)?;
        let client = client.table(CHECKPOINT_TABLE).map_err(failed)?;
        let (memory, types) = spilling.memory_and_types();
        Ok(Table { client, job, memory, types })
    }

    /// The names of what is there.
    pub(super) fn names(&self) -> Result<Vec<String>, JobError> {
        let prefix = marks_of(&self.job);
        let marks = self.client.range(RangeOptions::prefix(prefix.clone())).map_err(failed)?;
        let mut names = Vec::new();
        for mark in marks {
            let key = mark.map_err(failed)?.key;
            names.extend(String::from_utf8(key[prefix.len()..].to_vec()).ok());
        }
        Ok(names)
    }

    pub(super) fn write<R: Record>(&self, name: &str, records: &[R]) -> Result<(), JobError> {
        let mut pieces = Pieces { table: self, name, written: 0, waiting: Vec::new() };
        let mut filling = Filling::new();
        for record in records {
            if filling.push(record) {
                continue;
            }
            pieces.push(filling.take())?;
            filling.begin(record, &self.memory, &self.types, PIECE_BYTES)?;
        }
        pieces.push(filling.take())?;
        let count = pieces.finish()?;
        let mark = [count.to_le_bytes(), (records.len() as u64).to_le_bytes()].concat();
        self.client.put(marks_of(&self.job) + name, mark).map(drop).map_err(failed)
    }

    pub(super) fn read<R: Record>(&self, name: &str) -> Result<Vec<R>, JobError> {
        let mark = self.get(&(marks_of(&self.job) + name))?;
        let mark: [u8; MARK_BYTES] = mark.try_into().map_err(|_| damaged(name))?;
        let (pieces, count) = mark.split_at(MARK_BYTES / 2);
        let number = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).unwrap_or(u64::MAX);
        let mut records = Vec::new();
        for piece in 0..number(pieces) {
            let bytes = self.get(&self.piece(name, piece))?;
            let view = View::validate(AlignedBytes::copied(&bytes), &self.types);
            records.extend(records_of::<R, _>(&view.map_err(|_| damaged(name))?));
        }
        if records.len() as u64 == number(count) { Ok(records) } else { Err(damaged(name)) }
    }

    /// The mark first: without it, the pieces are nothing.
    pub(super) fn remove(&self, name: &str) {
        if self.client.delete(marks_of(&self.job) + name).is_ok() {
            let _ = remove_all(&self.client, &self.pieces_of(name));
        }
    }

    fn get(&self, key: &str) -> Result<Vec<u8>, JobError> {
        let object = self.client.get(key).map_err(failed)?.into_object();
        object.map(|object| object.to_vec()).ok_or_else(|| damaged(key))
    }

    fn pieces_of(&self, name: &str) -> String {
        format!("{}{name}/", pieces_of(&self.job))
    }

    fn piece(&self, name: &str, number: u64) -> String {
        format!("{}{number}", self.pieces_of(name))
    }
}

/// The pieces of a state on their way.
struct Pieces<'t> {
    table: &'t Table,
    name: &'t str,
    written: u64,
    waiting: Vec<(String, Vec<u8>)>,
}

impl Pieces<'_> {
    fn push(&mut self, segment: Option<Segment>) -> Result<(), JobError> {
        let Some(segment) = segment else { return Ok(()) };
        let number = self.written + self.waiting.len() as u64;
        let bytes = [segment.head(), segment.pages()].concat();
        self.waiting.push((self.table.piece(self.name, number), bytes));
        if self.waiting.len() == PIECES_AT_ONCE { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), JobError> {
        let pieces = std::mem::take(&mut self.waiting);
        self.written += pieces.len() as u64;
        let written = self.table.client.multi_put(&pieces).try_collect_in_order();
        written.map(drop).map_err(failed)
    }

    /// How many there are, all of them written.
    fn finish(mut self) -> Result<u64, JobError> {
        self.write()?;
        Ok(self.written)
    }
}

/// Makes [`CHECKPOINT_TABLE`] in a cluster, if it is not there: in memory, with as many replicas as a table has by default.
///
/// # Errors
/// See [`Client::create_table`](weft_client::Client::create_table).
pub fn make_checkpoint_table(client: &BlockingClient) -> Result<(), ClientError> {
    let options = TableOptions { ordered: true, ..TableOptions::default() };
    match client.create_table(CHECKPOINT_TABLE, options) {
        Ok(_) | Err(ClientError::Catalog(CatalogError::Exists { .. })) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Removes all that a job has kept in [`CHECKPOINT_TABLE`].
///
/// # Errors
/// See [`ClientError`].
pub fn forget_checkpoints(client: &BlockingClient, job: &str) -> Result<(), ClientError> {
    let table = client.table(CHECKPOINT_TABLE)?;
    remove_all(&table, &marks_of(job))?;
    remove_all(&table, &pieces_of(job))
}

fn marks_of(job: &str) -> String {
    format!("mark/{job}/")
}

fn pieces_of(job: &str) -> String {
    format!("piece/{job}/")
}

/// Removes all objects whose keys have a prefix.
fn remove_all(table: &BlockingClient, prefix: &str) -> Result<(), ClientError> {
    let objects = table.range(RangeOptions::prefix(prefix))?;
    let keys = objects.map(|object| Ok(object?.key)).collect::<Result<Vec<_>, ClientError>>()?;
    for keys in keys.chunks(1024) {
        table.multi_delete(keys).try_collect_in_order()?;
    }
    Ok(())
}

fn failed(reason: ClientError) -> JobError {
    JobError::CheckpointTable { reason: Box::new(reason) }
}

fn damaged(name: &str) -> JobError {
    JobError::Job(format!("the state {name} in the table {CHECKPOINT_TABLE} is not what was kept"))
}
