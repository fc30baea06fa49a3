//! `#[derive(Wire)]`: writes down a struct's or an enum's layout, and refuses at compile time what has none that
//! can travel. What `Wire` promises, and why, is in `weft-object`. So is what `#[service]` makes of a trait.

mod attributes;
mod enums;
mod layout;
mod service;
mod structs;

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, GenericParam, Generics, parse_quote};

/// Implements `weft_object::Wire` for a `#[repr(C)]` struct of fields that implement it, or for an enum of a given width.
///
/// An enum is `#[repr(u8)]`, or of another unsigned integer. Its variants may have fields, if all variants are equally long.
/// Type and const parameters are allowed; type parameters are `Wire`, too.
///
/// `#[wire(reads = "<fingerprint>")]` says that values of a type with this fingerprint may be read as this one: an older one whose fields had other
/// names, say. Any number of these may be given.
///
/// `#[wire(transient)]` above a field has it stay home: it is zeroed when what it is in is about to leave.
///
/// Refused when compiling: another representation, unions, lifetimes, a struct without
/// fields, padding between or behind fields, and every field that is not `Wire` (references, pointers,
/// `usize`, `String`, ...). Of types with parameters, padding is refused where they are used.
#[proc_macro_derive(Wire, attributes(wire))]
pub fn derive_wire(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    expand(&input).unwrap_or_else(Error::into_compile_error).into()
}

/// Makes a service of a trait: what is in front of `dyn Trait` is then an interface, `TraitClient` its proxy, and `BlockingTraitClient` that of callers
/// that block.
///
/// Every method takes `&self` and what may be an argument, and gives what may be a result, which the traits `Argument` and `Returned` of
/// `weft_object::service` list. The trait is `Send`, `Sync` and `'static`, and is implemented as any.
///
/// - `#[service(name = "...")]`: what the interface is called, if not as the trait: two versions of one interface are called the same.
/// - `#[service(types(A, B))]`: types of which objects in its graphs may be behind an `AnyLink`, which names none.
/// - `#[blocking]` above a method: it may block, call others and wait for them. It is handled on a thread of the registry's own, all others on the
///   thread that has received the call, which serves other connections, too.
///
/// Refused when compiling: parameters, associated items, methods that take anything but `&self` by reference, are generic or `async`, or are there under a
/// condition (`#[cfg]`, `where`), arguments by `&mut`, results that borrow, and types that cannot travel.
#[proc_macro_attribute]
pub fn service(
    options: proc_macro::TokenStream,
    item: proc_macro::TokenStream,
) -> proc_macro::TokenStream {
    let item = syn::parse_macro_input!(item as syn::ItemTrait);
    service::expand(options.into(), item).unwrap_or_else(Error::into_compile_error).into()
}

fn expand(input: &DeriveInput) -> Result<TokenStream, Error> {
    let name = &input.ident;
    if let Some(lifetime) = input.generics.lifetimes().next() {
        return Err(Error::new(
            lifetime.lifetime.ident.span(),
            "a Wire type borrows nothing: use a Link",
        ));
    }
    let body = match &input.data {
        Data::Struct(data) => structs::body(input, data)?,
        Data::Enum(data) => enums::body(input, data)?,
        Data::Union(_) => {
            return Err(Error::new(
                name.span(),
                "a union does not say which of its fields is valid",
            ));
        }
    };
    let reads = attributes::reads(input)?;
    let generics = with_wire_bounds(input.generics.clone());
    let (parameters, arguments, bounds) = generics.split_for_impl();
    let text = name.to_string();
    let identities = generics.params.iter().filter_map(|parameter| match parameter {
        GenericParam::Type(parameter) => {
            let ident = &parameter.ident;
            Some(quote! { <#ident as ::weft_object::Wire>::IDENTITY })
        }
        GenericParam::Const(parameter) => {
            let ident = &parameter.ident;
            Some(quote! { ::weft_object::Fingerprint::of_number(#ident as u64) })
        }
        GenericParam::Lifetime(_) => None,
    });
    // What has parameters is laid out where it is used; what has none, here.
    let asserted = input.generics.params.is_empty().then(|| {
        quote! { const _: ::weft_object::Fingerprint = <#name as ::weft_object::Wire>::FINGERPRINT; }
    });
    Ok(quote! {
        #asserted

        // SAFETY: the representation is fixed, every field is `Wire` and there is no padding, all checked where the
        // fingerprint is computed; a value whose fields are valid is valid.
        #[automatically_derived]
        unsafe impl #parameters ::weft_object::Wire for #name #arguments #bounds {
            const NAME: &'static str = #text;
            const IDENTITY: ::weft_object::Fingerprint =
                ::weft_object::Fingerprint::of_name(#text, &[#(#identities),*]);
            const READS: &'static [::weft_object::Fingerprint] =
                &[#(::weft_object::Fingerprint::from_hex(#reads)),*];
            #body
        }
    })
}

fn with_wire_bounds(mut generics: Generics) -> Generics {
    for parameter in &mut generics.params {
        if let GenericParam::Type(parameter) = parameter {
            parameter.bounds.push(parse_quote!(::weft_object::Wire));
        }
    }
    generics
}
