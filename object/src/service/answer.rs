//! Giving the result of a call, in the handler or beyond it.

use weft_transport::limits::LARGE_MAX;
use weft_transport::{Batch, Body, CallId};

use super::error::{Malformed, Refusal};
use super::frame::{self, Answered, Status};
use super::interface::Contract;
use super::item::{Item as _, OtherEnd};
use super::passing::Giving;
use super::returned::Returned;
use super::unsent::Beside;

/// Answers one call. What `#[service]` writes of a trait uses it.
#[derive(Debug)]
pub struct Answer<'b, 'm> {
    to: To<'b, 'm>,
    contract: &'static Contract,
    /// Where the method gives services.
    other_end: Option<OtherEnd<'b>>,
}

#[derive(Debug)]
pub(super) enum To<'b, 'm> {
    /// With the others of its batch.
    Batch(&'b mut Batch<'m>, CallId),
    /// From a thread of the registry's own.
    Beside(Beside<'b>),
}

impl<'b, 'm> Answer<'b, 'm> {
    #[inline]
    pub(super) fn new(
        to: To<'b, 'm>,
        contract: &'static Contract,
        other_end: Option<OtherEnd<'b>>,
    ) -> Self {
        Self { to, contract, other_end }
    }

    /// With the result.
    #[inline]
    pub fn give<R: Returned>(self, value: R::Value) {
        let mut giving = Giving::new(self.contract, self.other_end);
        let items = match R::give(value, &mut giving) {
            Ok(items) => items,
            Err(refusal) => {
                giving.withdraw();
                return self.to.refuse(&refusal);
            }
        };
        let (len, limit) = (items.end(frame::REPLY_BYTES), self.to.limit());
        if len > limit {
            giving.withdraw();
            let what = format!("it has {len} bytes, where at most {limit} can be sent");
            return self.to.refuse(&Refusal::Result { what });
        }
        self.to.reply(Answered { status: Status::Done, items }, giving);
    }

    /// That the arguments cannot be read.
    #[cold]
    pub fn malformed(self, malformed: Malformed) {
        self.to.refuse(&match malformed {
            Malformed::TooManyReferences { .. } => Refusal::TooManyReferences,
            _ => Refusal::Arguments { what: malformed.to_string() },
        });
    }

    /// That there is no such method.
    #[cold]
    pub fn no_method(self) {
        self.to.refuse(&Refusal::NoMethod);
    }
}

impl To<'_, '_> {
    #[inline]
    fn limit(&self) -> usize {
        match self {
            Self::Batch(batch, _) => batch.reply_max(),
            Self::Beside(_) => LARGE_MAX,
        }
    }

    /// Gives the result. If it cannot be sent, the references in it are taken back.
    #[inline]
    fn reply(self, body: impl Body + 'static, giving: Giving<'_>) {
        match self {
            Self::Batch(batch, call) => {
                if !batch.try_reply(call, body) {
                    giving.withdraw();
                }
            }
            Self::Beside(beside) => beside.reply(body, giving.into_given()),
        }
    }

    #[cold]
    pub(super) fn refuse(self, refusal: &Refusal) {
        let refusal = frame::refusal(refusal);
        match self {
            Self::Batch(batch, call) => batch.reply(call, refusal),
            Self::Beside(beside) => beside.reply(refusal, Vec::new()),
        }
    }
}
