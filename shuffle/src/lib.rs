//! Map-reduce over typed records, in memory.
//!
//! Every worker is a process that runs the same program; [`Worker`] is what the program sees of it.
//! A [`Dataset`] is a plan, which begins with records of the program's own, with the lines of a
//! [`TextFile`] or the records of a [`CsvFile`], with what a [`RecordFile`] has, or with the objects of a [`ClusterTable`]; an [`EdgeList`] gives edges of a graph to make records
//! of. Its exchanges write records straight into registered memory, as typed pages of `weft-object`, and
//! these are sent from there as they fill, checked on arrival, and used where they landed.
//!
//! The invariant: **no record is encoded**. Its bytes are written once, by the map that makes it.

#![forbid(unsafe_code)]

mod broadcast;
mod budget;
mod cache;
mod checkpoint;
mod chunk;
mod cluster_table;
mod csv_file;
mod dataset;
mod dispatch;
mod edge_list;
mod error;
mod exchange;
mod filling;
pub mod generate;
mod group;
mod inbox;
mod index_table;
pub mod job;
mod join;
mod json_lines;
mod kept_points;
mod message;
mod partition;
mod point_file;
mod program;
mod record_file;
mod reduce;
mod sort;
mod spill;
mod spool;
mod stages;
mod table_sink;
mod table_source;
mod text_file;
mod watcher;
mod worker;

pub use broadcast::Broadcast;
pub use cache::Cached;
pub use checkpoint::{
    CHECKPOINT_TABLE, CheckpointConfig, CheckpointPlace, forget_checkpoints, make_checkpoint_table,
};
pub use cluster_table::ClusterTable;
pub use csv_file::{CsvFile, CsvRecords};
pub use dataset::{
    Dataset, Filter, FlatMap, FlatMapInto, FromRecords, Iterate, KeyAlone, Map, Round, records,
};
pub use edge_list::{EdgeList, Edges, Summary};
pub use error::{JobError, ProgramsDiffer};
pub use group::{Cogroup, GroupByKey, Values};
pub use join::{Join, JoinSmall};
pub use json_lines::JsonLines;
pub use kept_points::KeptPoints;
pub use partition::PartitionBy;
pub use point_file::{PointFile, Points};
pub use program::build_of_this_program;
pub use record_file::{FileRecords, RecordFile};
pub use reduce::{ByHash, ByIndex, Ranges, ReduceByKey, worker_of};
pub use sort::SortByKey;
pub use spill::check_spill_folder;
pub use stages::{Live, Now, Origin, Span, Stage, Stages, Unfinished, Verb, Written};
pub use table_sink::TableWriter;
pub use table_source::{TableObject, TableObjects, TableShare};
pub use text_file::{BinaryProblem, InputError, Line, LineProblem, Lines, Share, TextFile, Words};
pub use weft_transport::{LinkKind, LinkPolicy, Secret};
pub use worker::{Listening, Worker, WorkerConfig, WorkerId};
