//! Fields one behind the other, of a struct or of a variant.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned as _;
use syn::{Error, Fields, Type};

use crate::attributes;

/// A field: what it is called, its type, and an expression of its offset.
pub(crate) struct Field<'a> {
    pub(crate) name: String,
    pub(crate) ty: &'a Type,
    pub(crate) offset: TokenStream,
    /// It stays home.
    pub(crate) is_transient: bool,
}

/// The fields, with the offset that `offset_of` says for the name or the place of each.
pub(crate) fn fields<'a>(
    fields: &'a Fields,
    offset_of: impl Fn(usize, &TokenStream) -> TokenStream,
) -> Result<Vec<Field<'a>>, Error> {
    let named = fields.iter().enumerate().map(|(at, field)| {
        let Some(ident) = &field.ident else {
            return Err(Error::new(
                field.span(),
                "a Wire type names its fields: the names are part of its fingerprint",
            ));
        };
        let offset = offset_of(at, &quote!(#ident));
        let is_transient = attributes::is_transient(field)?;
        Ok(Field { name: ident.to_string(), ty: &field.ty, offset, is_transient })
    });
    named.collect()
}

/// What `of_struct` and `of_enum` want to know of each.
pub(crate) fn described(fields: &[Field<'_>]) -> TokenStream {
    let described = fields.iter().map(|Field { name, ty, offset, is_transient }| {
        // Another field, as no field can be called: whoever sends it expects it to arrive.
        let name = if *is_transient { format!("transient {name}") } else { name.clone() };
        quote! { (#name, #offset, <#ty as ::weft_object::Wire>::FINGERPRINT) }
    });
    quote! { &[#(#described),*] }
}

/// Whether `constant` holds of any field.
pub(crate) fn any(fields: &[Field<'_>], constant: &TokenStream) -> TokenStream {
    let each =
        fields.iter().map(|Field { ty, .. }| quote! { || <#ty as ::weft_object::Wire>::#constant });
    quote! { false #(#each)* }
}

/// Whether `constant` holds of all fields.
pub(crate) fn all(fields: &[Field<'_>], constant: &TokenStream) -> TokenStream {
    let each =
        fields.iter().map(|Field { ty, .. }| quote! { && <#ty as ::weft_object::Wire>::#constant });
    quote! { true #(#each)* }
}

/// The sum of the fields' sizes.
pub(crate) fn sizes(fields: &[Field<'_>]) -> TokenStream {
    let each = fields.iter().map(|Field { ty, .. }| quote! { + ::core::mem::size_of::<#ty>() });
    quote! { 0 #(#each)* }
}

/// What the fields keep of the values before: the first's, and behind it that of the others, as far as they like.
pub(crate) fn hint(fields: &[Field<'_>]) -> TokenStream {
    fields.iter().rev().fold(quote! { () }, |others, Field { ty, .. }| {
        // What is wrong with a field is shown at its type.
        let hint = quote_spanned! { ty.span() => <#ty as ::weft_object::Wire>::Hint };
        quote! { (#hint, #others) }
    })
}

/// That of the field at a place.
fn hint_of(hint: &TokenStream, at: usize) -> TokenStream {
    let others = std::iter::repeat_n(quote! { .1 }, at);
    quote! { #hint #(#others)* .0 }
}

/// Checks each field of `bytes`, with the hint of them all.
pub(crate) fn checks(fields: &[Field<'_>], hint: &TokenStream) -> TokenStream {
    let each = fields.iter().enumerate().map(|(at, Field { ty, offset, is_transient, .. })| {
        if *is_transient {
            return quote! {
                if bytes[#offset..][..::core::mem::size_of::<#ty>()].iter().any(|byte| *byte != 0) {
                    return Err(::weft_object::Fault::Transient);
                }
            };
        }
        let hint = hint_of(hint, at);
        quote! {
            if !<#ty as ::weft_object::Wire>::ALWAYS_VALID {
                let field = &bytes[#offset..][..::core::mem::size_of::<#ty>()];
                <#ty as ::weft_object::Wire>::check(field, targets, &mut #hint)?;
            }
        }
    });
    quote! { #(#each)* }
}

/// Zero if each field of `bytes` is plainly valid: none that stays home.
pub(crate) fn doubts(fields: &[Field<'_>]) -> TokenStream {
    let each = fields.iter().enumerate().map(|(at, Field { ty, offset, is_transient, .. })| {
        if *is_transient {
            return quote! { | 1 };
        }
        let field = quote! { &bytes[#offset..][..::core::mem::size_of::<#ty>()] };
        let hint = hint_of(&quote!(hint), at);
        quote! { | <#ty as ::weft_object::Wire>::doubts(#field, #hint) }
    });
    quote! { 0 #(#each)* }
}

/// Zeroes what stays home of `bytes`.
pub(crate) fn clears(fields: &[Field<'_>]) -> TokenStream {
    let each = fields.iter().map(|Field { ty, offset, is_transient, .. }| {
        let field = quote! { bytes[#offset..][..::core::mem::size_of::<#ty>()] };
        if *is_transient {
            return quote! { #field.fill(0); };
        }
        quote! {
            if <#ty as ::weft_object::Wire>::HAS_TRANSIENT {
                <#ty as ::weft_object::Wire>::clear_transient(&mut #field);
            }
        }
    });
    quote! { #(#each)* }
}

/// Whether something stays home, of the fields or in one of them.
pub(crate) fn has_transient(fields: &[Field<'_>]) -> TokenStream {
    let own = fields.iter().any(|field| field.is_transient);
    let within = any(fields, &quote!(HAS_TRANSIENT));
    quote! { #own || #within }
}

/// That each field that stays home may be zero.
pub(crate) fn transient_asserts(fields: &[Field<'_>]) -> TokenStream {
    let each = fields.iter().filter(|field| field.is_transient).map(|Field { name, ty, .. }| {
        let text = format!(
            "{name} stays home, so that its receiver finds zeros, which are no value of its type: make it an Option<Link>, \
             a Seq, a number or a bool"
        );
        quote! { ::core::assert!(<#ty as ::weft_object::Wire>::ZERO_IS_VALID, #text); }
    });
    quote! { #(#each)* }
}

/// Has each field of `bytes` lead to where what it leads to is moved.
pub(crate) fn moves(fields: &[Field<'_>]) -> TokenStream {
    let each = fields.iter().map(|Field { ty, offset, .. }| {
        quote! {
            if <#ty as ::weft_object::Wire>::HAS_LINKS {
                let field = &mut bytes[#offset..][..::core::mem::size_of::<#ty>()];
                <#ty as ::weft_object::Wire>::move_links(field, mover);
            }
        }
    });
    quote! { #(#each)* }
}

/// Adds the types that each field leads to.
pub(crate) fn collects<'a>(types: impl Iterator<Item = &'a Type>) -> TokenStream {
    let each = types.map(|ty| quote! { let types = <#ty as ::weft_object::Wire>::collect(types); });
    quote! {
        fn collect(types: ::weft_object::Types) -> ::weft_object::Types {
            #(#each)*
            types
        }
    }
}
