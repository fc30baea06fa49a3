//! `#[service]`: of a trait, an interface, its proxies, and what hands calls to an implementation.

mod method;
mod options;
mod spelling;

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Error, ItemTrait, TraitItem, TypeParamBound, parse_quote};

use method::Method;
use options::Options;

/// The trait, and all that is made of it.
pub(crate) fn expand(options: TokenStream, mut item: ItemTrait) -> Result<TokenStream, Error> {
    let options = Options::parse(options)?;
    if let Some(parameter) = item.generics.params.first() {
        return Err(Error::new_spanned(
            parameter,
            "a service has no parameters: two sides agree on one interface by its fingerprint",
        ));
    }
    if let Some(word) = &item.unsafety {
        return Err(Error::new_spanned(
            word,
            "nobody can keep an unsafe trait's promises for a peer",
        ));
    }
    let is_sized = |bound: &&TypeParamBound| matches!(bound, TypeParamBound::Trait(of) if of.path.is_ident("Sized"));
    if let Some(bound) = item.supertraits.iter().find(is_sized) {
        return Err(Error::new_spanned(
            bound,
            "a service is called as a `dyn Trait`, which is not Sized",
        ));
    }
    let mut methods = Vec::new();
    for part in &mut item.items {
        match part {
            TraitItem::Fn(function) => methods.push(Method::parse(function)?),
            other => {
                return Err(Error::new_spanned(
                    other,
                    "a service has methods alone: associated types and constants are not sent",
                ));
            }
        }
    }
    item.supertraits.push(parse_quote!(::core::marker::Send));
    item.supertraits.push(parse_quote!(::core::marker::Sync));
    item.supertraits.push(parse_quote!('static));
    let interface = interface(&item, &options, &methods);
    let proxies = proxies(&item, &options, &methods);
    Ok(quote! { #item #interface #proxies })
}

/// The interface's description, and the dispatcher.
fn interface(item: &ItemTrait, options: &Options, methods: &[Method]) -> TokenStream {
    let trait_name = &item.ident;
    let client = format_ident!("{trait_name}Client");
    let name = options.name_of(trait_name);
    let types = &options.types;
    let count = methods.len();
    let described = methods.iter().map(Method::described);
    let collected = methods.iter().map(Method::collected);
    let arms = (0..).zip(methods).map(|(number, method)| method.arm(trait_name, number));
    quote! {
        // What cannot travel is found here, not where it is called.
        const _: &::weft_object::service::Description =
            <dyn #trait_name as ::weft_object::service::Interface>::DESCRIPTION;

        #[automatically_derived]
        impl ::weft_object::service::Interface for dyn #trait_name {
            const NAME: &'static str = #name;

            const DESCRIPTION: &'static ::weft_object::service::Description = {
                const METHODS: &[::weft_object::service::Method; #count] = &[#(#described),*];
                &::weft_object::service::Description::new(#name, METHODS)
            };

            type Client = #client;

            fn contract() -> &'static ::weft_object::service::Contract {
                static CONTRACT: ::std::sync::LazyLock<::weft_object::service::Contract> =
                    ::std::sync::LazyLock::new(|| {
                        let types = ::weft_object::Types::new();
                        #(let types = types.with::<#types>();)*
                        #(#collected)*
                        ::weft_object::service::Contract::new(
                            <dyn #trait_name as ::weft_object::service::Interface>::DESCRIPTION,
                            types,
                        )
                    });
                &CONTRACT
            }

            #[inline]
            #[allow(deprecated, reason = "who calls it is elsewhere")]
            fn dispatch(
                &self,
                __weft_number: u16,
                mut __weft_arguments: ::weft_object::service::Reader<'_>,
                __weft_answer: ::weft_object::service::Answer<'_, '_>,
            ) {
                match __weft_number {
                    #(#arms)*
                    _ => __weft_answer.no_method(),
                }
            }
        }
    }
}

/// The proxies of who calls.
fn proxies(item: &ItemTrait, options: &Options, methods: &[Method]) -> TokenStream {
    let (trait_name, visibility) = (&item.ident, &item.vis);
    let client = format_ident!("{trait_name}Client");
    let blocking = format_ident!("Blocking{trait_name}Client");
    let name = options.name_of(trait_name);
    let calls = (0..).zip(methods).map(|(number, method)| method.call(number, visibility));
    let blocking_calls = methods.iter().map(|method| method.blocking_call(visibility));
    let client_doc = format!("Calls a [`{trait_name}`] elsewhere.");
    let blocking_doc =
        format!("Calls a [`{trait_name}`] elsewhere, and blocks until it has answered.");
    let unused = quote! { #[allow(dead_code, reason = "not every program calls every method, or does so in both ways")] };
    quote! {
        #[doc = #client_doc]
        #[derive(Clone, Debug)]
        #visibility struct #client {
            remote: ::weft_object::service::Remote<dyn #trait_name>,
        }

        #[doc = #blocking_doc]
        #[derive(Clone, Debug)]
        #unused
        #visibility struct #blocking {
            client: #client,
        }

        #unused
        impl #client {
            #(#calls)*
        }

        #unused
        impl #blocking {
            #(#blocking_calls)*
        }

        #[automatically_derived]
        impl ::weft_object::service::Client for #client {
            type Interface = dyn #trait_name;
            type Blocking = #blocking;

            fn remote(&self) -> &::weft_object::service::Remote<dyn #trait_name> {
                &self.remote
            }

            fn from_remote(remote: ::weft_object::service::Remote<dyn #trait_name>) -> Self {
                Self { remote }
            }
        }

        #[automatically_derived]
        impl ::core::convert::From<#client> for #blocking {
            fn from(client: #client) -> Self {
                Self { client }
            }
        }

        #[automatically_derived]
        impl<'weft> ::weft_object::service::Argument<'weft> for #client {
            type Value = Self;
            type Given = ::std::sync::Arc<dyn #trait_name>;
            type Item = ::weft_object::service::Reference;

            const FINGERPRINT: ::weft_object::Fingerprint =
                ::weft_object::service::Reference::fingerprint(#name);
            const HAS_SERVICES: bool = true;

            fn pass(
                given: Self::Given,
                passing: &mut ::weft_object::service::Passing<'_>,
            ) -> ::core::result::Result<Self::Item, ::weft_object::service::ServiceError> {
                passing.reference(given)
            }

            fn take(
                arguments: &mut ::weft_object::service::Reader<'weft>,
            ) -> ::core::result::Result<Self, ::weft_object::service::Malformed> {
                let remote = ::weft_object::service::Reference::take(arguments)?;
                Ok(::weft_object::service::Client::from_remote(remote))
            }
        }
    }
}

#[cfg(test)]
mod tests;
