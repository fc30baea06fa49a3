//! The commands: one file each, with its arguments and what it does.

pub(crate) mod append;
pub(crate) mod bench;
pub(crate) mod bigkeys;
pub(crate) mod completions;
pub(crate) mod del;
pub(crate) mod exists;
pub(crate) mod expire;
pub(crate) mod explain;
pub(crate) mod export;
pub(crate) mod fields;
pub(crate) mod get;
pub(crate) mod getput;
pub(crate) mod import;
pub(crate) mod incr;
pub(crate) mod launch;
pub(crate) mod mdel;
pub(crate) mod mget;
pub(crate) mod mput;
pub(crate) mod ping;
pub(crate) mod playground;
pub(crate) mod put;
pub(crate) mod scan;
pub(crate) mod stat;
pub(crate) mod top;
