//! The operations: one file each, with what it asks and how it reads the answer.

pub(crate) mod delete;
pub(crate) mod exists;
pub(crate) mod get;
pub(crate) mod multi_delete;
pub(crate) mod multi_get;
pub(crate) mod multi_put;
pub(crate) mod put;
