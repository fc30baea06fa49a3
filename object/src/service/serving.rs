//! Handling what comes: calls by references, and what the registry itself is asked for.

use std::sync::Arc;

use weft_transport::{Batch, CallId, Handler, Incoming, IncomingKind, Purpose, Retained};

use crate::assembly::is_aligned;
use crate::bytes::{AlignedBytes, StableBytes as _};
use crate::channel::GraphListener;
use crate::types::Types;

use super::answer::{Answer, To};
use super::calls::Call;
use super::disposal::contained;
use super::error::Refusal;
use super::frame::{self, Answered, IMPORT, REGISTRY, RELEASE, REQUEST_BYTES, Request, Status};
use super::interface::Contract;
use super::item::{OtherEnd, Plain, Reader};
use super::negotiation::{Unlike, Wanted};
use super::references::{Held, Holder};
use super::services::Services;
use super::thread::receiving;
use super::told::{Lists, Untold};
use super::unsent::Beside;
use super::watch::Watch;
use super::workers::Slot;

/// Heap memory that a call takes while it waits for a thread, beside its body: its part of the window says less of the shortest.
const WAITING_BYTES: u64 = 512;

/// What one peer sends together is for one object mostly, which is looked for once.
type Last = Option<(u64, Arc<Held>)>;

impl Handler for Services {
    fn handle(&self, batch: &mut Batch<'_>) {
        receiving(&self.inner().workers, || {
            let mut last = None;
            while let Some(incoming) = batch.next() {
                self.take(batch, incoming, &mut last);
            }
        });
    }
}

/// Services, and channels of graphs, at one endpoint.
pub(super) struct WithGraphs {
    pub(super) services: Services,
    pub(super) listener: Arc<GraphListener>,
}

impl Handler for WithGraphs {
    fn handle(&self, batch: &mut Batch<'_>) {
        receiving(&self.services.inner().workers, || {
            let mut last = None;
            while let Some(incoming) = batch.next() {
                if let Some(incoming) = self.listener.take(batch, incoming) {
                    self.services.take(batch, incoming, &mut last);
                }
            }
        });
    }
}

impl Services {
    /// Works off one call or message.
    #[inline]
    fn take(&self, batch: &mut Batch<'_>, incoming: Incoming<'_>, last: &mut Last) {
        let request = Request::read(incoming.body);
        let IncomingKind::Call(call) = incoming.kind else {
            if let Some(Request { object: REGISTRY, method: RELEASE }) = request {
                *last = None;
                self.take_back(batch, incoming.body);
            }
            return;
        };
        let Some(request) = request else {
            let what =
                format!("a request has {REQUEST_BYTES} bytes at least, and a method's number");
            return To::Batch(batch, call).refuse(&Refusal::Arguments { what });
        };
        if request.object == REGISTRY {
            *last = None;
            return self.answer_for_itself(batch, call, request, incoming.body);
        }
        let held = match last {
            Some((object, held)) if *object == request.object => held,
            _ => {
                let holder = Holder::of(batch.peer());
                let found = self.inner().references.read().find(request.object, holder).cloned();
                match found {
                    Some(held) => &mut last.insert((request.object, held)).1,
                    None => return To::Batch(batch, call).refuse(&Refusal::NoObject),
                }
            }
        };
        self.serve(batch, call, request, incoming, held);
    }
}

impl Services {
    /// Handles one call, here or on another thread.
    #[inline]
    fn serve(
        &self,
        batch: &mut Batch<'_>,
        call: CallId,
        request: Request,
        incoming: Incoming<'_>,
        held: &Arc<Held>,
    ) {
        let contract = held.target.contract();
        let Some(method) = contract.description.methods.get(usize::from(request.method)) else {
            return To::Batch(batch, call).refuse(&Refusal::NoMethod);
        };
        if method.is_blocking {
            return self.serve_beside(batch, request, incoming, held);
        }
        let connection = method.has_services.then(|| batch.connection());
        let other_end = connection.as_ref();
        let other_end = other_end.map(|connection| OtherEnd { services: self, connection });
        let answer = Answer::new(To::Batch(batch, call), contract, other_end);
        if is_aligned(incoming.body) {
            let arguments = Reader::new(incoming.body, REQUEST_BYTES, &held.lists.types, other_end);
            return held.target.dispatch(request.method, arguments, answer);
        }
        // What had to wait for room for replies has been moved to wherever there was room.
        let aligned = AlignedBytes::copied(incoming.body);
        let arguments = Reader::new(aligned.bytes(), REQUEST_BYTES, &held.lists.types, other_end);
        held.target.dispatch(request.method, arguments, answer);
    }

    /// Leaves one call to another thread.
    fn serve_beside(
        &self,
        batch: &mut Batch<'_>,
        request: Request,
        mut incoming: Incoming<'_>,
        held: &Arc<Held>,
    ) {
        let connection = batch.connection();
        let caller = (Holder::of(batch.peer()), connection.id());
        let charge = connection.memory().charge(WAITING_BYTES, Purpose::Receive);
        let (responder, retained) = (incoming.responder(), incoming.retain());
        let Some(responder) = responder else { return };
        let (Ok(retained), Ok(charge)) = (retained, charge) else {
            // Applied it is not then, and the caller takes back what it has passed.
            return responder.reply_with(batch, frame::refusal(&Refusal::Memory));
        };
        let (services, held) = (self.clone(), Arc::clone(held));
        let job = move |slot: &mut Option<Slot>| {
            let beside = Beside { responder, services: &services, connection: &connection, slot };
            contained(|| serve_blocking(&held, request, &retained, beside));
            drop((retained, charge));
            // Not while a panic of the method goes on: the object may panic, too.
            contained(|| drop(held));
        };
        if self.inner().workers.call(Call { caller, job: Box::new(job) }) {
            Watch::begin(self.inner(), &batch.connection());
        }
    }

    /// Whoever sends it releases a reference.
    fn take_back(&self, batch: &Batch<'_>, body: &[u8]) {
        let none = Types::new();
        let mut items = Reader::new(body, REQUEST_BYTES, &none, None);
        if let (Ok(id), Ok(())) = (items.value::<u64>(), items.finish()) {
            drop(self.release(batch.peer(), id));
        }
    }

    /// Answers what the registry itself is asked.
    #[cold]
    fn answer_for_itself(
        &self,
        batch: &mut Batch<'_>,
        call: CallId,
        request: Request,
        body: &[u8],
    ) {
        if request.method != IMPORT {
            return To::Batch(batch, call).refuse(&Refusal::NoMethod);
        }
        let none = Types::new();
        let wanted = match Wanted::read(body, &none) {
            Ok(wanted) => wanted,
            Err(malformed) => {
                let what = malformed.to_string();
                return To::Batch(batch, call).refuse(&Refusal::Arguments { what });
            }
        };
        let items = match self.import_for(batch, &wanted) {
            Ok(items) => items,
            Err(Refused::Plainly(status)) => {
                return batch.reply(call, Answered { status, items: () });
            }
            Err(Refused::Unlike(unlike)) => {
                return batch.reply(call, Answered { status: unlike.status(), items: unlike });
            }
        };
        let Plain(id) = items.0;
        let is_taken = batch.try_reply(call, Answered { status: Status::Done, items });
        // Nobody learns of it then.
        if !is_taken && wanted.reference == REGISTRY {
            drop(self.release(batch.peer(), id));
        }
    }

    /// The reference that is wanted, if what it leads to serves who wants it.
    fn import_for(&self, batch: &Batch<'_>, wanted: &Wanted<'_>) -> Result<Import, Refused> {
        let (id, holder) = (wanted.reference, Holder::of(batch.peer()));
        if id != REGISTRY {
            let found = self.inner().references.read().find(id, holder).cloned();
            let held = found.ok_or(Refused::Plainly(Status::NoObject))?;
            let contract = held.target.contract();
            let numbers = wanted.agree(contract).map_err(Refused::Unlike)?;
            let lists = self.lists(batch, wanted, contract)?;
            // It may have been released meanwhile.
            let agreed = self.inner().references.write().agree(id, holder, lists);
            drop(agreed.map_err(Refused::Plainly)?);
            return Ok((Plain(id), numbers, &contract.told));
        }
        let target = self.named(wanted.name).ok_or(Refused::Plainly(Status::NoName))?;
        let contract = target.contract();
        let numbers = wanted.agree(contract).map_err(Refused::Unlike)?;
        let lists = self.lists(batch, wanted, contract)?;
        let id = self.give(&batch.connection(), Held { target, lists });
        let id = id.ok_or(Refused::Plainly(Status::TooManyReferences))?;
        Ok((Plain(id), numbers, &contract.told))
    }

    /// The types as who imports lists them.
    fn lists(
        &self,
        batch: &Batch<'_>,
        wanted: &Wanted<'_>,
        contract: &'static Contract,
    ) -> Result<Lists, Refused> {
        let holder = Holder::of(batch.peer());
        let known = || self.inner().references.read().told(holder, contract, wanted.told);
        let memory = batch.connection().memory().clone();
        Lists::agree(contract, wanted.told, &memory, known).map_err(|untold| match untold {
            Untold::Types(differ) => Refused::Unlike(Unlike::Types(differ)),
            Untold::Memory(_) => Refused::Plainly(Status::TooManyReferences),
        })
    }
}

/// What who imports a service is told: the reference, the numbers of the methods, and this side's types.
type Import = (Plain<u64>, Vec<u16>, &'static [u8]);

/// Why a service is not given.
enum Refused {
    Plainly(Status),
    Unlike(Unlike),
}

/// Handles one call on a thread that may wait.
fn serve_blocking(held: &Held, request: Request, body: &Retained, beside: Beside<'_>) {
    let Beside { services, connection, .. } = beside;
    let other_end = Some(OtherEnd { services, connection });
    let copy = (!is_aligned(body)).then(|| AlignedBytes::copied(body));
    let body = copy.as_ref().map_or(&**body, |copy| copy.bytes());
    let arguments = Reader::new(body, REQUEST_BYTES, &held.lists.types, other_end);
    let answer = Answer::new(To::Beside(beside), held.target.contract(), other_end);
    held.target.dispatch(request.method, arguments, answer);
}
