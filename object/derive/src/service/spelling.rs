//! Types as a trait spells them, and what stands for them where they travel.

use proc_macro2::Span;
use syn::{
    Error, GenericArgument, Lifetime, PathArguments, PathSegment, Type, TypePath, parse_quote,
};

/// Elements of the longest tuple that the library gives.
const ELEMENTS_MAX: usize = 4;

/// What cannot be an argument whatever it leads to, with what to take instead.
pub(super) fn check_argument(ty: &Type) -> Result<(), Error> {
    match ty {
        Type::Reference(reference) => {
            if reference.mutability.is_some() {
                return Err(Error::new_spanned(
                    ty,
                    "an argument is the caller's, elsewhere: give what has changed as a result",
                ));
            }
            if let Some(lifetime) = &reference.lifetime
                && lifetime.ident != "_"
            {
                return Err(Error::new_spanned(
                    lifetime,
                    "an argument lives as long as its call: leave the lifetime out",
                ));
            }
            check_argument(&reference.elem)
        }
        Type::ImplTrait(_) => Err(Error::new_spanned(
            ty,
            "an argument has one type, which is a part of the fingerprint",
        )),
        Type::TraitObject(_) => Err(Error::new_spanned(ty, BY_CLIENT)),
        Type::Path(path) => {
            let Some(last) = path.path.segments.last() else { return Ok(()) };
            if ["Arc", "Box", "Rc"].iter().any(|name| last.ident == name) {
                return Err(Error::new_spanned(ty, BY_CLIENT));
            }
            each_argument(last).try_for_each(check_argument)
        }
        _ => Ok(()),
    }
}

const BY_CLIENT: &str = "a service goes by reference: take the proxy of its trait, `TraitClient` by value, and the caller passes an `Arc<dyn Trait>`";

/// What stands for an argument: `Option`s are named as such, and whatever borrows, borrows for `lifetime`.
pub(super) fn argument(ty: &Type, lifetime: &str) -> Type {
    if let Some([inner]) = parts(ty, "Option") {
        let inner = argument(inner, lifetime);
        return parse_quote!(::weft_object::service::Maybe<#inner>);
    }
    let mut ty = ty.clone();
    borrow_for(&mut ty, &Lifetime::new(lifetime, Span::call_site()));
    ty
}

/// What stands for a result.
pub(super) fn result(ty: &Type) -> Result<Type, Error> {
    if let Some([inner]) = parts(ty, "Option") {
        let inner = result(inner)?;
        return Ok(parse_quote!(::weft_object::service::Maybe<#inner>));
    }
    if let Some([inner, error]) = parts(ty, "Result") {
        let (inner, error) = (result(inner)?, result(error)?);
        return Ok(parse_quote!(::weft_object::service::Fallible<#inner, #error>));
    }
    if let Some([inner @ Type::TraitObject(_)]) = parts(ty, "Arc") {
        return Ok(parse_quote!(::weft_object::service::ByReference<#inner>));
    }
    match ty {
        Type::Tuple(tuple) if tuple.elems.len() > ELEMENTS_MAX => Err(Error::new_spanned(
            ty,
            "a tuple of at most 4 elements can be given: nest them, or make a struct that derives Wire of several",
        )),
        Type::Tuple(tuple) if !tuple.elems.is_empty() => {
            let elements = tuple.elems.iter().map(result).collect::<Result<Vec<_>, _>>()?;
            Ok(parse_quote!((#(#elements,)*)))
        }
        Type::Reference(_) => Err(Error::new_spanned(
            ty,
            "a result outlives its call: give a String, a Vec, a Blob or a Frozen",
        )),
        Type::ImplTrait(_) | Type::TraitObject(_) => {
            Err(Error::new_spanned(ty, "a result has one type, which is a part of the fingerprint"))
        }
        Type::Path(path)
            if path.path.segments.last().is_some_and(|last| last.ident == "Result") =>
        {
            Err(Error::new_spanned(
                ty,
                "a Result names both its types: what it is otherwise, an alias alone knows",
            ))
        }
        _ => Ok(ty.clone()),
    }
}

/// The type parameters of `ty`, if it is called so and has that many.
fn parts<'a, const N: usize>(ty: &'a Type, name: &str) -> Option<[&'a Type; N]> {
    let Type::Path(TypePath { qself: None, path, .. }) = ty else { return None };
    let last = path.segments.last().filter(|last| last.ident == name)?;
    let parts: Vec<_> = each_argument(last).collect();
    parts.try_into().ok()
}

fn each_argument(segment: &PathSegment) -> impl Iterator<Item = &Type> {
    let arguments = match &segment.arguments {
        PathArguments::AngleBracketed(arguments) => Some(arguments.args.iter()),
        PathArguments::None | PathArguments::Parenthesized(_) => None,
    };
    arguments.into_iter().flatten().filter_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}

/// Has all that is borrowed without a lifetime borrowed for this one.
fn borrow_for(ty: &mut Type, lifetime: &Lifetime) {
    match ty {
        Type::Reference(reference) => {
            reference.lifetime = Some(lifetime.clone());
            borrow_for(&mut reference.elem, lifetime);
        }
        Type::Slice(slice) => borrow_for(&mut slice.elem, lifetime),
        Type::Array(array) => borrow_for(&mut array.elem, lifetime),
        Type::Paren(paren) => borrow_for(&mut paren.elem, lifetime),
        Type::Group(group) => borrow_for(&mut group.elem, lifetime),
        Type::Tuple(tuple) => tuple.elems.iter_mut().for_each(|ty| borrow_for(ty, lifetime)),
        Type::Path(path) => {
            for segment in &mut path.path.segments {
                let PathArguments::AngleBracketed(arguments) = &mut segment.arguments else {
                    continue;
                };
                for argument in &mut arguments.args {
                    match argument {
                        GenericArgument::Lifetime(place) if place.ident == "_" => {
                            *place = lifetime.clone();
                        }
                        GenericArgument::Type(ty) => borrow_for(ty, lifetime),
                        _ => {}
                    }
                }
            }
        }
        _ => {}
    }
}
