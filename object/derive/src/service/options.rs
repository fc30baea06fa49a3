//! What `#[service(...)]` says.

use proc_macro2::TokenStream;
use syn::parse::Parser as _;
use syn::punctuated::Punctuated;
use syn::{Error, Ident, LitStr, Token, Type};

/// What stands between the parentheses.
#[derive(Default)]
pub(super) struct Options {
    name: Option<LitStr>,
    pub(super) types: Vec<Type>,
}

impl Options {
    pub(super) fn parse(options: TokenStream) -> Result<Self, Error> {
        const WANTED: &str =
            "this is #[service], #[service(name = \"...\")] or #[service(types(A, B))]";
        let mut parsed = Self::default();
        let parser = syn::meta::parser(|meta| {
            if meta.path.is_ident("name") {
                let name: LitStr = meta.value()?.parse()?;
                if name.value().is_empty() {
                    return Err(Error::new(name.span(), "an interface is called something"));
                }
                parsed.name = Some(name);
            } else if meta.path.is_ident("types") {
                let content;
                syn::parenthesized!(content in meta.input);
                let types = Punctuated::<Type, Token![,]>::parse_terminated(&content)?;
                parsed.types.extend(types);
            } else {
                return Err(meta.error(WANTED));
            }
            Ok(())
        });
        parser.parse2(options)?;
        Ok(parsed)
    }

    /// What the interface of the trait with this name is called.
    pub(super) fn name_of(&self, trait_name: &Ident) -> String {
        self.name.as_ref().map_or_else(|| trait_name.to_string(), LitStr::value)
    }
}
