//! Drop-table: have the coordinators remove a table.

use weft_protocol::{CatalogError, DropTable, ErrorReply, TableId};

use crate::coordinator::Command;
use crate::table_changes::{propose, refusal};
use crate::work::Work;

pub(crate) fn execute(
    work: &mut Work<'_, '_, '_>,
    dropped: &DropTable<'_>,
) -> Result<(), ErrorReply<'static>> {
    let DropTable { completion, name } = *dropped;
    if name == TableId::DEFAULT_NAME {
        return Err(refusal(&CatalogError::Default));
    }
    propose(work, completion, Command::DropTable { name: name.to_owned() });
    Ok(())
}
