//! The node's work for each operation: a file each, named as in `weft_protocol::operation`.

pub(crate) mod append;
pub(crate) mod compare_and_set;
pub(crate) mod delete;
pub(crate) mod exists;
pub(crate) mod expire;
pub(crate) mod get;
pub(crate) mod get_and_delete;
pub(crate) mod get_and_put;
pub(crate) mod get_fields;
pub(crate) mod get_range;
pub(crate) mod hot_keys;
pub(crate) mod increment;
pub(crate) mod map;
pub(crate) mod multi_delete;
pub(crate) mod multi_get;
pub(crate) mod multi_put;
pub(crate) mod put;
pub(crate) mod put_fields;
pub(crate) mod put_tables;
pub(crate) mod range;
pub(crate) mod scan;
pub(crate) mod stats;
pub(crate) mod table_stats;
pub(crate) mod tables;
pub(crate) mod truncate;
