//! What tables are like, in the API's terms and in ours.

use tonic::{Code, Status};
use weft_protocol::control::v1;
use weft_protocol::{
    Catalog, CatalogError, Durability, ErrorCode, Eviction, TableAlteration, TableOptions,
};

use super::refusal::{invalid, status};

/// What a table is to be like. What is absent is as it is by default.
pub(super) fn options(message: Option<v1::TableOptions>) -> Result<TableOptions, Status> {
    let Some(message) = message else { return Ok(TableOptions::default()) };
    let default = TableOptions::default();
    let replicas = match message.replicas {
        0 => default.replicas,
        // More than a table can have are refused with the name.
        count => u8::try_from(count).unwrap_or(u8::MAX),
    };
    Ok(TableOptions {
        ordered: message.ordered,
        quota_bytes: message.quota_bytes.map(quota).transpose()?,
        eviction: eviction(message.eviction)?,
        replicas,
        durability: durability(message.durability, default.durability)?,
    })
}

/// What is to be other of a table.
pub(super) fn alteration(message: &v1::AlterTableRequest) -> Result<TableAlteration, Status> {
    use v1::alter_table_request::Quota;
    let quota_bytes = match message.quota {
        None | Some(Quota::NoQuota(false)) => None,
        Some(Quota::NoQuota(true)) => Some(None),
        Some(Quota::QuotaBytes(bytes)) => Some(Some(quota(bytes)?)),
    };
    Ok(TableAlteration { quota_bytes, eviction: message.eviction.map(eviction).transpose()? })
}

/// Refuses what no cluster could do, with the code that says why.
pub(super) fn check(name: &str, options: TableOptions) -> Result<(), Status> {
    match Catalog::default().with(name, options) {
        Ok(_) => Ok(()),
        Err(error @ CatalogError::Exists { .. }) => {
            Err(status(Code::AlreadyExists, ErrorCode::TableExists, error.to_string()))
        }
        Err(error @ CatalogError::Replicas { .. }) => {
            Err(status(Code::InvalidArgument, ErrorCode::UnsupportedReplicas, error.to_string()))
        }
        Err(error) => {
            Err(status(Code::InvalidArgument, ErrorCode::TableNameMalformed, error.to_string()))
        }
    }
}

/// What a table was created as.
pub(super) fn message(id: weft_protocol::TableId, name: &str, options: TableOptions) -> v1::Table {
    let options = v1::TableOptions {
        ordered: options.ordered,
        quota_bytes: options.quota_bytes,
        eviction: match options.eviction {
            Eviction::None => v1::Eviction::None,
            Eviction::LeastRecentlyUsed => v1::Eviction::LeastRecentlyUsed,
            Eviction::SoonestExpiry => v1::Eviction::SoonestExpiry,
        }
        .into(),
        replicas: options.replicas.into(),
        durability: match options.durability {
            Durability::Memory => v1::Durability::Memory,
            Durability::Disk => v1::Durability::Disk,
            Durability::Fsync => v1::Durability::Fsync,
        }
        .into(),
    };
    v1::Table { table: id.0.into(), name: name.to_owned(), options: Some(options) }
}

fn quota(bytes: u64) -> Result<u64, Status> {
    // No table could hold anything with it.
    if bytes == 0 { Err(invalid("a quota is above 0")) } else { Ok(bytes) }
}

fn eviction(number: i32) -> Result<Eviction, Status> {
    match v1::Eviction::try_from(number) {
        Ok(v1::Eviction::None) => Ok(Eviction::None),
        Ok(v1::Eviction::LeastRecentlyUsed) => Ok(Eviction::LeastRecentlyUsed),
        Ok(v1::Eviction::SoonestExpiry) => Ok(Eviction::SoonestExpiry),
        Err(_) => Err(invalid(format!("{number} is no eviction that this node knows"))),
    }
}

fn durability(number: i32, default: Durability) -> Result<Durability, Status> {
    match v1::Durability::try_from(number) {
        Ok(v1::Durability::Unspecified) => Ok(default),
        Ok(v1::Durability::Memory) => Ok(Durability::Memory),
        Ok(v1::Durability::Disk) => Ok(Durability::Disk),
        Ok(v1::Durability::Fsync) => Ok(Durability::Fsync),
        Err(_) => Err(invalid(format!("{number} is no durability that this node knows"))),
    }
}
