//! What stands above a type, its representation and what else it reads, and above a field: that it stays home.

use syn::{DeriveInput, Error, Field, Ident, LitStr, Meta};

/// The one thing that `#[repr]` says.
pub(crate) fn representation(input: &DeriveInput, wanted: &str) -> Result<Ident, Error> {
    let mut found = None;
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("repr")) {
        attribute.parse_nested_meta(|meta| {
            let name = meta.path.get_ident().cloned();
            let name = name.filter(|_| found.is_none() && !meta.input.peek(syn::token::Paren));
            found =
                Some(name.ok_or_else(|| {
                    meta.error(format!("a Wire type is {wanted} and nothing else"))
                })?);
            Ok(())
        })?;
    }
    found.ok_or_else(|| {
        let text =
            format!("a Wire type is {wanted}: Rust's own layout may change with the compiler");
        Error::new(input.ident.span(), text)
    })
}

/// The fingerprints that `#[wire(reads = "...")]` names.
pub(crate) fn reads(input: &DeriveInput) -> Result<Vec<LitStr>, Error> {
    let mut reads = Vec::new();
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("wire")) {
        let Meta::List(_) = &attribute.meta else {
            return Err(Error::new_spanned(
                attribute,
                "this is #[wire(reads = \"<fingerprint>\")]",
            ));
        };
        attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident("reads") {
                return Err(meta.error("this is #[wire(reads = \"<fingerprint>\")]"));
            }
            let text: LitStr = meta.value()?.parse()?;
            let digits = text.value();
            if digits.len() != 32 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return Err(Error::new(text.span(), "a fingerprint is 32 hexadecimal digits"));
            }
            reads.push(text);
            Ok(())
        })?;
    }
    Ok(reads)
}

/// Whether `#[wire(transient)]` stands above a field.
pub(crate) fn is_transient(field: &Field) -> Result<bool, Error> {
    let mut is_transient = false;
    for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("wire")) {
        const WANTED: &str = "of a field this is #[wire(transient)]";
        let Meta::List(_) = &attribute.meta else {
            return Err(Error::new_spanned(attribute, WANTED));
        };
        attribute.parse_nested_meta(|meta| {
            is_transient = meta.path.is_ident("transient");
            if is_transient { Ok(()) } else { Err(meta.error(WANTED)) }
        })?;
    }
    Ok(is_transient)
}
