//! One method: what it takes and gives, and what becomes of it on either side.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{
    Attribute, Error, FnArg, Ident, Pat, Receiver, ReceiverKind, ReturnType, Safety, TraitItemFn,
    Type, Visibility, parse_quote,
};

use super::spelling;

/// Items that a request has at most: as many as the library writes one behind the other.
const ARGUMENTS_MAX: usize = 8;

pub(super) struct Method {
    docs: Vec<Attribute>,
    name: Ident,
    is_blocking: bool,
    arguments: Vec<(Ident, Type)>,
    /// As it stands for what travels.
    result: Type,
}

impl Method {
    /// Reads a method, and takes from it what is meant for the macro.
    pub(super) fn parse(function: &mut TraitItemFn) -> Result<Self, Error> {
        refuse_conditions(&function.attrs)?;
        let before = function.attrs.len();
        function.attrs.retain(|attribute| !attribute.path().is_ident("blocking"));
        let is_blocking = function.attrs.len() < before;
        let signature = &function.sig;
        if let Some(word) = &signature.asyncness {
            return Err(Error::new_spanned(
                word,
                "a service's methods are plain functions: its proxy's are async; mark those that wait with #[blocking]",
            ));
        }
        if let Safety::Unsafe(word) = &signature.safety {
            return Err(Error::new_spanned(
                word,
                "a peer cannot keep what an unsafe method asks of its caller",
            ));
        }
        if let Some(parameter) = signature.generics.params.first() {
            return Err(Error::new_spanned(
                parameter,
                "a service's methods have no parameters: what they take is a part of the interface's fingerprint",
            ));
        }
        if let Some(clause) = &signature.generics.where_clause {
            return Err(Error::new_spanned(
                clause,
                "a service's methods have no conditions: each is called on whatever implements the trait",
            ));
        }
        let mut inputs = signature.inputs.iter();
        let by_reference =
            |receiver: &Receiver| matches!(receiver.kind, ReceiverKind::Reference(_, _, None));
        if !matches!(inputs.next(), Some(FnArg::Receiver(receiver)) if by_reference(receiver)) {
            return Err(Error::new_spanned(
                signature,
                "a service's methods take &self: calls of several peers are handled at the same time",
            ));
        }
        let arguments = inputs.map(argument).collect::<Result<Vec<_>, _>>()?;
        if arguments.len() > ARGUMENTS_MAX {
            return Err(Error::new_spanned(
                &signature.inputs,
                "a service's methods take at most 8 arguments: make a struct that derives Wire of several",
            ));
        }
        let result = match &signature.output {
            ReturnType::Default => parse_quote!(()),
            ReturnType::Type(_, result) => spelling::result(result)?,
        };
        let docs = function.attrs.iter().filter(|attribute| attribute.path().is_ident("doc"));
        let (docs, name) = (docs.cloned().collect(), signature.ident.clone());
        Ok(Self { docs, name, is_blocking, arguments, result })
    }

    /// What it is compared by.
    pub(super) fn described(&self) -> TokenStream {
        let Self { name, is_blocking, result, .. } = self;
        let name = name.to_string();
        let arguments: Vec<_> = self.markers("'static").collect();
        quote! {
            ::weft_object::service::Method {
                name: #name,
                fingerprint: ::weft_object::Fingerprint::of_method(
                    #name,
                    &[#(<#arguments as ::weft_object::service::Argument<'static>>::FINGERPRINT),*],
                    <#result as ::weft_object::service::Returned>::FINGERPRINT,
                ),
                is_blocking: #is_blocking,
                has_services: <#result as ::weft_object::service::Returned>::HAS_SERVICES #(|| <#arguments as ::weft_object::service::Argument<'static>>::HAS_SERVICES)*,
            }
        }
    }

    /// Adds the types of its graphs to `types`.
    pub(super) fn collected(&self) -> TokenStream {
        let (arguments, result) = (self.markers("'static"), &self.result);
        quote! {
            #(let types = <#arguments as ::weft_object::service::Argument<'static>>::collect(types);)*
            let types = <#result as ::weft_object::service::Returned>::collect(types);
        }
    }

    /// Hands a call of it to the implementation.
    pub(super) fn arm(&self, trait_name: &Ident, number: u16) -> TokenStream {
        let Self { name, result, .. } = self;
        let arguments = self.markers("'_");
        let values: Vec<_> =
            (0..self.arguments.len()).map(|at| format_ident!("__weft_argument_{at}")).collect();
        quote! {
            #number => {
                #(let #values = match <#arguments as ::weft_object::service::Argument<'_>>::take(&mut __weft_arguments) {
                    Ok(value) => value,
                    Err(malformed) => return __weft_answer.malformed(malformed),
                };)*
                if let Err(malformed) = __weft_arguments.finish() {
                    return __weft_answer.malformed(malformed);
                }
                // A trait above it may have a method of the same name.
                __weft_answer.give::<#result>(<Self as #trait_name>::#name(self, #(#values),*))
            }
        }
    }

    /// The proxy's method.
    pub(super) fn call(&self, number: u16, visibility: &Visibility) -> TokenStream {
        let Self { name, result, .. } = self;
        let (docs, generics, parameters) = (self.docs(), self.generics(), self.parameters());
        let names = self.arguments.iter().map(|(name, _)| name);
        let markers = self.markers("'weft");
        quote! {
            #docs
            #visibility async fn #name #generics (
                &self, #parameters
            ) -> ::core::result::Result<
                <#result as ::weft_object::service::Returned>::Received,
                ::weft_object::service::ServiceError,
            > {
                #[allow(unused_mut, reason = "what has no references takes nothing along")]
                let mut __weft_passing = self.remote.passing();
                let __weft_items = (#(<#markers as ::weft_object::service::Argument<'weft>>::pass(#names, &mut __weft_passing)?,)*);
                self.remote.call::<#result>(#number, __weft_items, __weft_passing).await
            }
        }
    }

    /// The method of the proxy that blocks.
    pub(super) fn blocking_call(&self, visibility: &Visibility) -> TokenStream {
        let Self { name, result, .. } = self;
        let (docs, generics, parameters) = (self.docs(), self.generics(), self.parameters());
        let names = self.arguments.iter().map(|(name, _)| name);
        quote! {
            #docs
            #visibility fn #name #generics (
                &self, #parameters
            ) -> ::core::result::Result<
                <#result as ::weft_object::service::Returned>::Received,
                ::weft_object::service::ServiceError,
            > {
                self.client.remote.block_on(self.client.#name(#(#names),*))
            }
        }
    }

    /// Its own documentation, and what a call adds.
    fn docs(&self) -> TokenStream {
        let docs = &self.docs;
        let own = (docs.is_empty()).then(|| format!("Calls `{}`.", self.name)).into_iter();
        quote! {
            #(#docs)*
            #(#[doc = #own])*
            ///
            /// # Errors
            /// There is no result: see [`ServiceError`](::weft_object::service::ServiceError).
        }
    }

    fn generics(&self) -> Option<TokenStream> {
        (!self.arguments.is_empty()).then(|| quote! { <'weft> })
    }

    fn parameters(&self) -> TokenStream {
        let names = self.arguments.iter().map(|(name, _)| name);
        let markers = self.markers("'weft");
        quote! { #(#names: <#markers as ::weft_object::service::Argument<'weft>>::Given),* }
    }

    /// What stands for the arguments, which live as long as `lifetime`.
    fn markers<'a>(&'a self, lifetime: &'a str) -> impl Iterator<Item = Type> + 'a {
        self.arguments.iter().map(move |(_, ty)| spelling::argument(ty, lifetime))
    }
}

fn argument(input: &FnArg) -> Result<(Ident, Type), Error> {
    let FnArg::Typed(input) = input else {
        return Err(Error::new_spanned(input, "a method takes itself once"));
    };
    let Pat::Ident(name) = &*input.pat else {
        return Err(Error::new_spanned(
            &input.pat,
            "an argument has a name: the proxy's method takes it by that",
        ));
    };
    refuse_conditions(&input.attrs)?;
    spelling::check_argument(&input.ty)?;
    Ok((name.ident.clone(), (*input.ty).clone()))
}

/// What the compiler has yet to decide on cannot be numbered.
fn refuse_conditions(attributes: &[Attribute]) -> Result<(), Error> {
    let is_condition = |attribute: &&Attribute| {
        ["cfg", "cfg_attr"].iter().any(|name| attribute.path().is_ident(name))
    };
    match attributes.iter().find(is_condition) {
        Some(attribute) => Err(Error::new_spanned(
            attribute,
            "an interface has the same methods in every build: put #[cfg] above the whole trait",
        )),
        None => Ok(()),
    }
}
