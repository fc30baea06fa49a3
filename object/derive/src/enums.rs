//! Enums: a tag, and behind it the fields of the variant that it names, as RFC 2195 lays them out.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{DataEnum, DeriveInput, Error, Fields, Index, Variant};

use crate::{attributes, layout};

/// What `Wire` has of an enum, but for its name.
pub(crate) fn body(input: &DeriveInput, data: &DataEnum) -> Result<TokenStream, Error> {
    const WANTED: &str = "#[repr(u8)], #[repr(u16)], #[repr(u32)] or #[repr(u64)]";
    let name = &input.ident;
    if data.variants.is_empty() {
        return Err(Error::new(name.span(), "a Wire enum has at least one variant"));
    }
    let tag = attributes::representation(input, WANTED)?;
    if !["u8", "u16", "u32", "u64"].iter().any(|width| tag == width) {
        return Err(Error::new(tag.span(), format!("a Wire enum is {WANTED} and nothing else")));
    }
    let (parameters, arguments, bounds) = input.generics.split_for_impl();
    let text = name.to_string();
    let (mut tags, mut shadows, mut described, mut cases, mut moves, mut clears) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut transient = vec![quote!(false)];
    let mut links = vec![quote!(false)];
    let mut asserts = Vec::new();
    // Names that no discriminant, array length or field would have: items of a macro are seen by the program's own expressions among them.
    for (at, Variant { ident, fields, discriminant, .. }) in data.variants.iter().enumerate() {
        if matches!(fields, Fields::Unnamed(_)) {
            return Err(Error::new(
                ident.span(),
                "a Wire type names its fields: the names are part of its fingerprint",
            ));
        }
        let (tag_of, shadow) =
            (format_ident!("__WEFT_WIRE_TAG_{at}"), format_ident!("__WeftWireVariant{at}"));
        let value = match (discriminant, at.checked_sub(1)) {
            (Some((_, value)), _) => quote!(#value),
            (None, None) => quote!(0),
            (None, Some(before)) => {
                let before = format_ident!("__WEFT_WIRE_TAG_{before}");
                quote!(#before + 1)
            }
        };
        tags.push(quote! { const #tag_of: #tag = #value; });
        let types: Vec<_> = fields.iter().map(|field| &field.ty).collect();
        shadows.push(quote! {
            #[repr(C)]
            struct #shadow #parameters (#tag #(, #types)*, ::core::marker::PhantomData<fn() -> #name #arguments>) #bounds;
        });
        let fields = layout::fields(fields, |at, _| {
            let at = Index::from(at + 1);
            quote! { ::core::mem::offset_of!(#shadow #arguments, #at) }
        })?;
        let variant = ident.to_string();
        let (sizes, fields_described) = (layout::sizes(&fields), layout::described(&fields));
        let uneven = format!(
            "{text}::{variant} is shorter than {text}, or has padding, whose bytes would carry whatever memory held \
             before: give all variants the same size, with fields that fill them"
        );
        asserts.push(quote! {
            ::core::assert!(
                ::core::mem::size_of::<Self>() == ::core::mem::size_of::<#tag>() + #sizes
                    && ::core::mem::size_of::<Self>() == ::core::mem::size_of::<#shadow #arguments>(),
                #uneven
            );
        });
        described.push(quote! { (#variant, #tag_of as u64, #fields_described) });
        let (check, move_links) = (layout::checks(&fields, &quote!(hint)), layout::moves(&fields));
        let hint = layout::hint(&fields);
        cases.push(quote! {
            if tag == #tag_of {
                let mut hint = <#hint as ::core::default::Default>::default();
                #check
                return Ok(());
            }
        });
        moves.push(quote! { if tag == #tag_of { #move_links } });
        links.push(layout::any(&fields, &quote!(HAS_LINKS)));
        let clear = layout::clears(&fields);
        clears.push(quote! { if tag == #tag_of { #clear } });
        transient.push(layout::has_transient(&fields));
        asserts.push(layout::transient_asserts(&fields));
    }
    let collect = layout::collects(
        data.variants.iter().flat_map(|variant| variant.fields.iter().map(|field| &field.ty)),
    );
    let read_tag = quote! {
        let Some(tag) = bytes.first_chunk::<{ ::core::mem::size_of::<#tag>() }>() else {
            return Err(::weft_object::Fault::Value);
        };
        let tag = #tag::from_le_bytes(*tag);
    };
    Ok(quote! {
        const FINGERPRINT: ::weft_object::Fingerprint = {
            #(#tags)*
            #(#shadows)*
            #(#asserts)*
            ::weft_object::Fingerprint::of_enum(<Self as ::weft_object::Wire>::IDENTITY, ::core::mem::size_of::<#tag>(), &[#(#described),*])
        };
        // There are tags that name no variant.
        const ALWAYS_VALID: bool = false;
        const HAS_LINKS: bool = #(#links)||*;
        const HAS_TRANSIENT: bool = #(#transient)||*;
        type Hint = ();

        #[inline]
        fn check(
            bytes: &[u8],
            targets: &::weft_object::Targets<'_>,
            (): &mut (),
        ) -> ::core::result::Result<(), ::weft_object::Fault> {
            #(#tags)*
            #(#shadows)*
            #read_tag
            #(#cases)*
            Err(::weft_object::Fault::Value)
        }

        #collect

        fn clear_transient(bytes: &mut [u8]) {
            #(#tags)*
            #(#shadows)*
            let tag = bytes.first_chunk::<{ ::core::mem::size_of::<#tag>() }>();
            let tag = #tag::from_le_bytes(*tag.expect("an enum has a tag"));
            #(#clears)*
        }

        fn move_links(bytes: &mut [u8], mover: &mut ::weft_object::Mover<'_>) {
            #(#tags)*
            #(#shadows)*
            let tag = bytes.first_chunk::<{ ::core::mem::size_of::<#tag>() }>();
            let tag = #tag::from_le_bytes(*tag.expect("an enum has a tag"));
            #(#moves)*
        }
    })
}
