//! Alter-table: have the coordinators change the quota or the eviction of a table.

use weft_protocol::{AlterTable, ErrorReply};

use crate::coordinator::Command;
use crate::table_changes::propose;
use crate::work::Work;

pub(crate) fn execute(
    work: &mut Work<'_, '_, '_>,
    alter: &AlterTable<'_>,
) -> Result<(), ErrorReply<'static>> {
    let AlterTable { completion, name, change } = *alter;
    propose(work, completion, Command::AlterTable { name: name.to_owned(), change });
    Ok(())
}
