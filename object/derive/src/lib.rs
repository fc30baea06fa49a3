//! `#[derive(Wire)]`: writes down a struct's layout, and refuses at compile time what has none that
//! can travel. What `Wire` promises, and why, is in `weft-object`.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned as _;
use syn::{Data, DeriveInput, Error, Fields, Ident, Type};

/// Implements `weft_object::Wire` for a `#[repr(C)]` struct of fields that implement it.
///
/// Refused when compiling: another representation, enums, unions, generic parameters, no fields at
/// all, padding between or behind fields, and every field that is not `Wire` (references, pointers,
/// `usize`, `String`, ...).
#[proc_macro_derive(Wire)]
pub fn derive_wire(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    expand(&input).unwrap_or_else(Error::into_compile_error).into()
}

fn expand(input: &DeriveInput) -> Result<TokenStream, Error> {
    let name = &input.ident;
    let fields = fields(input)?;
    if !has_representation_c(input)? {
        return Err(Error::new(
            name.span(),
            "a Wire struct is #[repr(C)]: Rust's own layout may change with the compiler",
        ));
    }
    if !input.generics.params.is_empty() {
        return Err(Error::new(
            input.generics.span(),
            "a Wire struct has no parameters: its fingerprint is that of one layout",
        ));
    }
    let types: Vec<&Type> = fields.iter().map(|(_, ty)| ty).collect();
    let names: Vec<String> = fields.iter().map(|(name, _)| name.to_string()).collect();
    let idents: Vec<&Ident> = fields.iter().map(|(name, _)| name).collect();
    let text = name.to_string();
    let asserted = format_ident!("assert_field_is_wire");
    let assertions = fields.iter().map(|(_, ty)| {
        quote_spanned! { ty.span() => #asserted::<#ty>(); }
    });
    let padding = format!(
        "{text} has padding, whose bytes would carry whatever memory held before: order its fields \
         by size, or fill the holes with fields"
    );
    Ok(quote! {
        const _: () = {
            const fn #asserted<T: ::weft_object::Wire>() {}
            const fn assert_fields() {
                #(#assertions)*
            }
            assert_fields();
            assert!(
                ::core::mem::size_of::<#name>() == 0 #(+ ::core::mem::size_of::<#types>())*,
                #padding
            );
        };

        // SAFETY: `#[repr(C)]`, every field is `Wire` and there is no padding, all checked above; a
        // value whose fields are valid is valid.
        #[automatically_derived]
        unsafe impl ::weft_object::Wire for #name {
            const NAME: &'static str = #text;
            const FINGERPRINT: ::weft_object::Fingerprint =
                ::weft_object::Fingerprint::of_struct(#text, &[
                    #((
                        #names,
                        ::core::mem::offset_of!(#name, #idents),
                        <#types as ::weft_object::Wire>::FINGERPRINT,
                    )),*
                ]);
            const ALWAYS_VALID: bool = true #(&& <#types as ::weft_object::Wire>::ALWAYS_VALID)*;

            fn is_valid(bytes: &[u8]) -> bool {
                true #(&& <#types as ::weft_object::Wire>::is_valid(
                    &bytes[::core::mem::offset_of!(#name, #idents)..]
                        [..::core::mem::size_of::<#types>()]
                ))*
            }
        }
    })
}

fn fields(input: &DeriveInput) -> Result<Vec<(Ident, Type)>, Error> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new(input.ident.span(), "Wire is for structs of plain fields"));
    };
    let Fields::Named(fields) = &data.fields else {
        return Err(Error::new(input.ident.span(), "a Wire struct names its fields"));
    };
    let named = |field: &syn::Field| Some((field.ident.clone()?, field.ty.clone()));
    let fields: Vec<_> = fields.named.iter().filter_map(named).collect();
    if fields.is_empty() {
        return Err(Error::new(input.ident.span(), "a Wire struct has at least one field"));
    }
    Ok(fields)
}

/// Whether there is `repr(C)` and nothing that changes it.
fn has_representation_c(input: &DeriveInput) -> Result<bool, Error> {
    let mut is_c = false;
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("repr")) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("C") {
                is_c = true;
                return Ok(());
            }
            Err(meta.error("a Wire struct is #[repr(C)] and nothing else"))
        })?;
    }
    Ok(is_c)
}
