//! Lists of types that peers have told of: what of them is kept, and who counts it.

use std::sync::Arc;

use weft_transport::{Charge, Memory, MemoryError, Purpose};

use crate::error::TypesDiffer;
use crate::types::{TOLD_COST, Types};

use super::interface::Contract;

/// The types of graphs for one interface, as the other side lists them.
#[derive(Clone, Debug)]
pub(super) struct Lists {
    pub(super) types: Types,
    /// Nothing if both sides have one list, which nobody has to keep then.
    pub(super) told: Option<Arc<Told>>,
}

/// What the other side has told of that.
#[derive(Debug)]
pub(super) struct Told {
    contract: &'static Contract,
    bytes: Box<[u8]>,
    types: Types,
    _charge: Charge,
}

/// Why a list is not taken.
#[derive(Debug)]
pub(super) enum Untold {
    Types(TypesDiffer),
    Memory(MemoryError),
}

impl Lists {
    /// Those of a side whose list is this one's.
    pub(super) fn alike(contract: &'static Contract) -> Self {
        Self { types: contract.types.clone(), told: None }
    }

    /// Those of a side that has told `bytes`. If it is `known` to have told them before, nothing more is kept.
    pub(super) fn agree(
        contract: &'static Contract,
        bytes: &[u8],
        memory: &Memory,
        known: impl FnOnce() -> Option<Arc<Told>>,
    ) -> Result<Self, Untold> {
        if bytes == contract.told {
            return Ok(Self::alike(contract));
        }
        let told = match known() {
            Some(told) => told,
            None => {
                let cost = TOLD_COST * bytes.len() as u64;
                let charge = memory.charge(cost, Purpose::Receive).map_err(Untold::Memory)?;
                let types = contract.types.agree(bytes).map_err(Untold::Types)?;
                Arc::new(Told { contract, bytes: bytes.into(), types, _charge: charge })
            }
        };
        Ok(Self { types: told.types.clone(), told: Some(told) })
    }
}

impl Told {
    pub(super) fn is(&self, contract: &'static Contract, bytes: &[u8]) -> bool {
        std::ptr::eq(self.contract, contract) && *self.bytes == *bytes
    }
}
