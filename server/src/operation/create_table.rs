//! Create-table: have the coordinators make one more table.

use weft_protocol::{Catalog, CreateTable, ErrorReply};

use crate::coordinator::Command;
use crate::table_changes::{propose, refusal};
use crate::work::Work;

pub(crate) fn execute(
    work: &mut Work<'_, '_, '_>,
    create: &CreateTable<'_>,
) -> Result<(), ErrorReply<'static>> {
    let CreateTable { completion, name, options } = *create;
    // What no cluster could do needs nobody to decide it.
    Catalog::default().with(name, options).map_err(|error| refusal(&error))?;
    propose(work, completion, Command::CreateTable { name: name.to_owned(), options });
    Ok(())
}
