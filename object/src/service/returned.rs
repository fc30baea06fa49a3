//! What a method may give, and how the caller gets it.

use std::marker::PhantomData;

use weft_transport::Reply;

use crate::fingerprint::Fingerprint;
use crate::types::Types;
use crate::wire::Wire;

use super::argument::{Maybe, plain};
use super::error::{Malformed, Refusal};
use super::item::{Item, Plain, Reader};
use super::passing::Giving;

/// A type that a method of a service may give.
///
/// | the method gives | the proxy gets |
/// |---|---|
/// | `()`, `T: Wire` without links, `String`, `Vec<T>` | the same |
/// | [`Blob`](super::Blob) | a `Blob`, which lies where it was received |
/// | `Frozen<R>` | a [`GraphReply<R>`](super::GraphReply), checked once, which lies where it was received |
/// | `Arc<dyn Session>` | a `SessionClient`: the object stays where it is |
/// | `Option<T>`, `Result<T, E>`, tuples of up to four of these | the same of what is got |
#[diagnostic::on_unimplemented(
    message = "a method of a service cannot give `{Self}`",
    note = "it may give (), plain values that derive Wire, String, Vec<T>, Blob, Frozen<R>, Arc<dyn Trait> of another service, and Options, Results and tuples of up to four of these"
)]
pub trait Returned: Sized {
    /// As the implementation gives it.
    type Value;
    /// As the proxy gets it.
    type Received;
    /// As it travels. It may have to wait for room.
    type Item: Item + 'static;

    /// Its part of the method's fingerprint.
    const FINGERPRINT: Fingerprint;
    /// Whether there are references to services in it.
    const HAS_SERVICES: bool = false;

    /// Adds the types of which graphs in it are.
    fn collect(types: Types) -> Types {
        types
    }

    /// Readies it to be sent.
    ///
    /// # Errors
    /// It cannot be.
    fn give(value: Self::Value, giving: &mut Giving<'_>) -> Result<Self::Item, Refusal>;

    /// Reads it.
    ///
    /// # Errors
    /// It is none.
    fn receive(reply: &mut Replied<'_>) -> Result<Self::Received, Malformed>;
}

/// A reply that is being read.
#[derive(Debug)]
pub struct Replied<'a> {
    reply: &'a Reply,
    pub(super) items: Reader<'a>,
}

impl<'a> Replied<'a> {
    #[inline]
    pub(super) fn new(reply: &'a Reply, items: Reader<'a>) -> Self {
        Self { reply, items }
    }

    /// The next bytes, with their length ahead, as a part of the reply.
    pub(super) fn part(&mut self) -> Result<Reply, Malformed> {
        let len = self.items.slice::<u8>()?.len();
        let end = self.items.at();
        Ok(self.reply.clone().slice(end - len..end))
    }
}

impl Returned for () {
    type Value = ();
    type Received = ();
    type Item = ();

    const FINGERPRINT: Fingerprint = Fingerprint::of_plain("nothing", 0);

    #[inline]
    fn give((): (), _: &mut Giving<'_>) -> Result<(), Refusal> {
        Ok(())
    }

    #[inline]
    fn receive(_: &mut Replied<'_>) -> Result<(), Malformed> {
        Ok(())
    }
}

impl<T: Wire> Returned for T {
    type Value = T;
    type Received = T;
    type Item = Plain<T>;

    const FINGERPRINT: Fingerprint = plain::<T>();

    #[inline]
    fn give(value: T, _: &mut Giving<'_>) -> Result<Plain<T>, Refusal> {
        Ok(Plain(value))
    }

    #[inline]
    fn receive(reply: &mut Replied<'_>) -> Result<T, Malformed> {
        reply.items.value()
    }
}

impl Returned for String {
    type Value = String;
    type Received = String;
    type Item = String;

    const FINGERPRINT: Fingerprint = Fingerprint::of_plain("str", 0);

    fn give(value: String, _: &mut Giving<'_>) -> Result<String, Refusal> {
        Ok(value)
    }

    fn receive(reply: &mut Replied<'_>) -> Result<String, Malformed> {
        reply.items.text().map(str::to_owned)
    }
}

impl<T: Wire> Returned for Vec<T> {
    type Value = Vec<T>;
    type Received = Vec<T>;
    type Item = Vec<T>;

    const FINGERPRINT: Fingerprint = Fingerprint::of_name("slice", &[plain::<T>()]);

    fn give(value: Vec<T>, _: &mut Giving<'_>) -> Result<Vec<T>, Refusal> {
        Ok(value)
    }

    fn receive(reply: &mut Replied<'_>) -> Result<Vec<T>, Malformed> {
        reply.items.values()
    }
}

impl<T: Returned> Returned for Maybe<T> {
    type Value = Option<T::Value>;
    type Received = Option<T::Received>;
    type Item = Option<T::Item>;

    const FINGERPRINT: Fingerprint = Fingerprint::of_name("option", &[T::FINGERPRINT]);
    const HAS_SERVICES: bool = T::HAS_SERVICES;

    fn collect(types: Types) -> Types {
        T::collect(types)
    }

    #[inline]
    fn give(value: Self::Value, giving: &mut Giving<'_>) -> Result<Self::Item, Refusal> {
        value.map(|value| T::give(value, giving)).transpose()
    }

    #[inline]
    fn receive(reply: &mut Replied<'_>) -> Result<Self::Received, Malformed> {
        Ok(if reply.items.flag()? { Some(T::receive(reply)?) } else { None })
    }
}

/// How a `Result` travels. `#[service]` puts it in the place of `Result`.
#[derive(Debug)]
pub struct Fallible<T, E>(PhantomData<(T, E)>);

impl<T: Returned, E: Returned> Returned for Fallible<T, E> {
    type Value = Result<T::Value, E::Value>;
    type Received = Result<T::Received, E::Received>;
    type Item = Result<T::Item, E::Item>;

    const FINGERPRINT: Fingerprint =
        Fingerprint::of_name("result", &[T::FINGERPRINT, E::FINGERPRINT]);
    const HAS_SERVICES: bool = T::HAS_SERVICES || E::HAS_SERVICES;

    fn collect(types: Types) -> Types {
        E::collect(T::collect(types))
    }

    #[inline]
    fn give(value: Self::Value, giving: &mut Giving<'_>) -> Result<Self::Item, Refusal> {
        Ok(match value {
            Ok(value) => Ok(T::give(value, giving)?),
            Err(error) => Err(E::give(error, giving)?),
        })
    }

    #[inline]
    fn receive(reply: &mut Replied<'_>) -> Result<Self::Received, Malformed> {
        Ok(if reply.items.flag()? { Err(E::receive(reply)?) } else { Ok(T::receive(reply)?) })
    }
}

macro_rules! tuples {
    ($($name:ident)*) => {
        impl<$($name: Returned),*> Returned for ($($name,)*) {
            type Value = ($($name::Value,)*);
            type Received = ($($name::Received,)*);
            type Item = ($($name::Item,)*);

            const FINGERPRINT: Fingerprint = Fingerprint::of_name("tuple", &[$($name::FINGERPRINT),*]);
            const HAS_SERVICES: bool = false $(|| $name::HAS_SERVICES)*;

            fn collect(types: Types) -> Types {
                $(let types = $name::collect(types);)*
                types
            }

            #[expect(non_snake_case, reason = "a value is called as its type")]
            fn give(value: Self::Value, giving: &mut Giving<'_>) -> Result<Self::Item, Refusal> {
                let ($($name,)*) = value;
                Ok(($($name::give($name, giving)?,)*))
            }

            fn receive(reply: &mut Replied<'_>) -> Result<Self::Received, Malformed> {
                Ok(($($name::receive(reply)?,)*))
            }
        }
    };
}

tuples!(A);
tuples!(A B);
tuples!(A B C);
tuples!(A B C D);
