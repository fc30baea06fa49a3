//! Structs.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{DataStruct, DeriveInput, Error, Fields};

use crate::{attributes, layout};

/// What `Wire` has of a struct, but for its name.
pub(crate) fn body(input: &DeriveInput, data: &DataStruct) -> Result<TokenStream, Error> {
    let name = &input.ident;
    if !matches!(&data.fields, Fields::Named(fields) if !fields.named.is_empty()) {
        return Err(Error::new(
            name.span(),
            "a Wire struct has at least one field, and names its fields",
        ));
    }
    let representation = attributes::representation(input, "#[repr(C)]")?;
    if representation != "C" {
        return Err(Error::new(
            representation.span(),
            "a Wire struct is #[repr(C)] and nothing else",
        ));
    }
    let fields =
        layout::fields(&data.fields, |_, field| quote! { ::core::mem::offset_of!(Self, #field) })?;
    let text = name.to_string();
    let padding = format!(
        "{text} has padding, whose bytes would carry whatever memory held before: order its fields \
         by size, or fill the holes with fields"
    );
    let (sizes, described) = (layout::sizes(&fields), layout::described(&fields));
    let is_whole = fields.iter().all(|field| !field.is_transient);
    let (always_valid, zero_is_valid) =
        (layout::all(&fields, &quote!(ALWAYS_VALID)), layout::all(&fields, &quote!(ZERO_IS_VALID)));
    let plain_at_times = layout::all(&fields, &quote!(IS_PLAIN_AT_TIMES));
    let (has_transient, asserts) =
        (layout::has_transient(&fields), layout::transient_asserts(&fields));
    let has_links = layout::any(&fields, &quote!(HAS_LINKS));
    let (checks, moves, clears) =
        (layout::checks(&fields, &quote!(hint)), layout::moves(&fields), layout::clears(&fields));
    let hint = layout::hint(&fields);
    let doubts = layout::doubts(&fields);
    let collect = layout::collects(fields.iter().map(|field| field.ty));
    Ok(quote! {
        const FINGERPRINT: ::weft_object::Fingerprint = {
            ::core::assert!(::core::mem::size_of::<Self>() == #sizes, #padding);
            #asserts
            ::weft_object::Fingerprint::of_struct(<Self as ::weft_object::Wire>::IDENTITY, #described)
        };
        const ALWAYS_VALID: bool = #is_whole && #always_valid;
        const IS_PLAIN_AT_TIMES: bool = #is_whole && #plain_at_times;
        const ZERO_IS_VALID: bool = #zero_is_valid;
        const HAS_TRANSIENT: bool = #has_transient;
        const HAS_LINKS: bool = #has_links;
        type Hint = #hint;

        #[inline]
        fn check(
            bytes: &[u8],
            targets: &::weft_object::Targets<'_>,
            hint: &mut #hint,
        ) -> ::core::result::Result<(), ::weft_object::Fault> {
            #checks
            Ok(())
        }

        #[inline]
        fn doubts(bytes: &[u8], hint: #hint) -> u64 {
            #doubts
        }

        #collect

        fn clear_transient(bytes: &mut [u8]) {
            #clears
        }

        fn move_links(bytes: &mut [u8], mover: &mut ::weft_object::Mover<'_>) {
            #moves
        }
    })
}
