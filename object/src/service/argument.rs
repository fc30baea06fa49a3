//! What a method may take, and how it is given and received.

use std::marker::PhantomData;

use crate::fingerprint::Fingerprint;
use crate::types::Types;
use crate::wire::Wire;

use super::error::{Malformed, ServiceError};
use super::item::{Item, Plain, Reader};
use super::passing::Passing;

/// A type that a method of a service may take. The trait's text says what the implementation receives; what the proxy is given may be another type.
///
/// | the method takes | the proxy is given | |
/// |---|---|---|
/// | `T: Wire` without links | `T` | copied |
/// | `&str`, `&[T]` | the same | used where it was received |
/// | [`GraphRef<'_, R>`](super::GraphRef) | `&Frozen<R>` | checked once, used where it was received |
/// | `ListenerClient` | `Arc<dyn Listener>` | stays where it is: a reference goes |
/// | `Option` of one of these | `Option` of what is given | |
#[diagnostic::on_unimplemented(
    message = "a method of a service cannot take `{Self}`",
    note = "it may take plain values that derive Wire, &str, &[T], GraphRef<'_, R>, the Client of another service, and Options of these; \
            in place of a String or a Vec take &str or &[T]"
)]
pub trait Argument<'a>: Sized {
    /// As the implementation receives it.
    type Value;
    /// As the proxy is given it.
    type Given;
    /// As it travels.
    type Item: Item;

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
    /// It cannot be sent.
    fn pass(given: Self::Given, passing: &mut Passing<'_>) -> Result<Self::Item, ServiceError>;

    /// Reads it.
    ///
    /// # Errors
    /// It is none.
    fn take(arguments: &mut Reader<'a>) -> Result<Self::Value, Malformed>;
}

/// The fingerprint of a type that travels by itself.
pub(super) const fn plain<T: Wire>() -> Fingerprint {
    assert!(
        !T::HAS_LINKS,
        "a value with links, texts or sequences goes as a graph: take a GraphRef, give a Frozen"
    );
    assert!(size_of::<T>() > 0, "a value that goes somewhere has at least one byte");
    T::FINGERPRINT
}

impl<'a, T: Wire> Argument<'a> for T {
    type Value = T;
    type Given = T;
    type Item = Plain<T>;

    const FINGERPRINT: Fingerprint = plain::<T>();

    #[inline]
    fn pass(given: T, _: &mut Passing<'_>) -> Result<Plain<T>, ServiceError> {
        Ok(Plain(given))
    }

    #[inline]
    fn take(arguments: &mut Reader<'a>) -> Result<T, Malformed> {
        arguments.value()
    }
}

impl<'a, T: Wire> Argument<'a> for &'a [T] {
    type Value = Self;
    type Given = Self;
    type Item = Self;

    const FINGERPRINT: Fingerprint = Fingerprint::of_name("slice", &[plain::<T>()]);

    #[inline]
    fn pass(given: Self, _: &mut Passing<'_>) -> Result<Self, ServiceError> {
        Ok(given)
    }

    #[inline]
    fn take(arguments: &mut Reader<'a>) -> Result<Self, Malformed> {
        arguments.slice()
    }
}

impl<'a> Argument<'a> for &'a str {
    type Value = Self;
    type Given = Self;
    type Item = Self;

    const FINGERPRINT: Fingerprint = Fingerprint::of_plain("str", 0);

    #[inline]
    fn pass(given: Self, _: &mut Passing<'_>) -> Result<Self, ServiceError> {
        Ok(given)
    }

    #[inline]
    fn take(arguments: &mut Reader<'a>) -> Result<Self, Malformed> {
        arguments.text()
    }
}

/// How an `Option` travels. `#[service]` puts it in the place of `Option`, which a plain type may be as well: an `Option<Link<T>>`, say.
#[derive(Debug)]
pub struct Maybe<T>(PhantomData<T>);

impl<'a, T: Argument<'a>> Argument<'a> for Maybe<T> {
    type Value = Option<T::Value>;
    type Given = Option<T::Given>;
    type Item = Option<T::Item>;

    const FINGERPRINT: Fingerprint = Fingerprint::of_name("option", &[T::FINGERPRINT]);
    const HAS_SERVICES: bool = T::HAS_SERVICES;

    fn collect(types: Types) -> Types {
        T::collect(types)
    }

    #[inline]
    fn pass(given: Self::Given, passing: &mut Passing<'_>) -> Result<Self::Item, ServiceError> {
        given.map(|given| T::pass(given, passing)).transpose()
    }

    #[inline]
    fn take(arguments: &mut Reader<'a>) -> Result<Self::Value, Malformed> {
        Ok(if arguments.flag()? { Some(T::take(arguments)?) } else { None })
    }
}
