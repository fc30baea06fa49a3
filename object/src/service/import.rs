//! Importing a service, on the side of who imports it: what is asked, and what the answer says.

use weft_transport::{Connection, Memory, Reply, Time};

use crate::error::TypesDiffer;
use crate::fingerprint::Fingerprint;
use crate::types::{TOLD_MAX, Types};

use super::error::{ImportError, Malformed};
use super::frame::{IMPORT, Outgoing, REGISTRY, REPLY_BYTES, Request, Status};
use super::interface::Contract;
use super::item::{Plain, Reader};
use super::remote::Agreed;
use super::told::{Lists, Untold};

/// What is wanted.
pub(super) enum Asked<'a> {
    /// What is exported under this name.
    Name(&'a str),
    /// A reference that was passed, of which nothing has been agreed on.
    Reference(u64),
}

/// Asks the other side's registry: for a reference, and which of its numbers the methods have that are known here. Returns the reply that grants it.
pub(super) async fn ask(
    connection: &Connection,
    asked: &Asked<'_>,
    contract: &'static Contract,
    deadline: Time,
) -> Result<Reply, ImportError> {
    let (id, name) = match asked {
        Asked::Name(name) => (0, *name),
        Asked::Reference(id) => (*id, ""),
    };
    let description = contract.description;
    let fingerprints: Vec<_> =
        description.methods.iter().map(|method| method.fingerprint.to_bytes()).collect();
    let names: Vec<_> = description.methods.iter().map(|method| method.name).collect();
    let names = names.join("\n");
    let items = (
        Plain(id),
        name,
        description.name,
        Plain(description.fingerprint.to_bytes()),
        fingerprints.as_slice(),
        names.as_str(),
        contract.told.as_slice(),
    );
    let request = Request { object: REGISTRY, method: IMPORT };
    let reply = connection.call(Outgoing { request, items, written: None }, deadline).await?;
    match Status::read(&reply) {
        Some(Status::Done) => Ok(reply),
        Some(status) => Err(read_refusal(status, &reply, asked, contract)?),
        None => Err(disagreed("a reply begins with none of the words that one may").into()),
    }
}

fn disagreed(what: &'static str) -> Malformed {
    Malformed::Disagreed { what }
}

/// The reference that has been granted. It is to be released, whatever else the reply says.
pub(super) fn granted(reply: &Reply) -> Result<u64, Malformed> {
    Reader::new(reply, REPLY_BYTES, &Types::new(), None).value()
}

/// What the sides have agreed on with that.
pub(super) fn agreed(
    reply: &Reply,
    contract: &'static Contract,
    memory: &Memory,
) -> Result<Agreed, ImportError> {
    let none = Types::new();
    let mut items = Reader::new(reply, REPLY_BYTES, &none, None);
    items.value::<u64>()?;
    let numbers = items.values::<u16>()?;
    let told = items.slice::<u8>()?;
    items.finish()?;
    if numbers.len() != contract.description.methods.len() {
        return Err(disagreed("a number for each method").into());
    }
    if told.len() > TOLD_MAX {
        return Err(disagreed("an interface's types take at most 64 KiB").into());
    }
    let is_alike = numbers.iter().enumerate().all(|(at, number)| at == usize::from(*number));
    let lists = Lists::agree(contract, told, memory, || None).map_err(|untold| match untold {
        Untold::Types(differ) => ImportError::Types(differ),
        Untold::Memory(error) => ImportError::Memory(error),
    })?;
    Ok(Agreed { numbers: (!is_alike).then(|| numbers.into()), lists })
}

/// What the other side has refused for.
fn read_refusal(
    status: Status,
    reply: &Reply,
    asked: &Asked<'_>,
    contract: &'static Contract,
) -> Result<ImportError, Malformed> {
    let none = Types::new();
    let mut items = Reader::new(reply, REPLY_BYTES, &none, None);
    let description = contract.description;
    let (interface, ours) = (description.name, description.fingerprint);
    let fingerprint =
        |items: &mut Reader<'_>| items.value::<[u8; 16]>().map(Fingerprint::from_bytes);
    let method = |items: &mut Reader<'_>| {
        let index = usize::try_from(items.value::<u64>()?).ok();
        let method = index.and_then(|index| description.methods.get(index));
        method.ok_or(disagreed("methods are named by their numbers"))
    };
    Ok(match (status, asked) {
        (Status::NoName, Asked::Name(name)) => ImportError::NoName { name: (*name).to_owned() },
        (Status::NoObject, _) => ImportError::NoObject,
        (Status::OtherInterface, _) => {
            let theirs_name = items.text()?.to_owned();
            let theirs = fingerprint(&mut items)?;
            ImportError::OtherInterface { ours_name: interface, ours, theirs_name, theirs }
        }
        (Status::MissingMethod, _) => {
            let method = method(&mut items)?.name;
            let theirs = fingerprint(&mut items)?;
            ImportError::MissingMethod { interface, method, ours, theirs }
        }
        (Status::OtherMethod, _) => {
            let method = method(&mut items)?;
            let theirs = fingerprint(&mut items)?;
            let (method, ours) = (method.name, method.fingerprint);
            ImportError::OtherMethod { interface, method, ours, theirs }
        }
        (Status::OtherTypes, _) => {
            let place = usize::try_from(items.value::<u64>()?).unwrap_or(usize::MAX);
            let (name, theirs_name) = (items.text()?.to_owned(), items.text()?.to_owned());
            let (ours, theirs) = (fingerprint(&mut items)?, fingerprint(&mut items)?);
            TypesDiffer::Layout { place, name, ours, theirs, theirs_name }.into()
        }
        (Status::TooManyReferences, _) => ImportError::TooManyReferences,
        _ => return Err(disagreed("an import is refused with none of the words for that")),
    })
}
