//! What is refused, and in which words.

use quote::quote;

use super::*;

/// What the macro says of a trait.
fn refusal(options: TokenStream, item: TokenStream) -> String {
    let item = syn::parse2(item).expect("it is a trait");
    match expand(options, item) {
        Ok(_) => "it is taken".to_owned(),
        Err(error) => error.to_string(),
    }
}

fn refuses(item: TokenStream, words: &str) {
    let said = refusal(TokenStream::new(), item);
    assert!(said.contains(words), "{said:?} does not say {words:?}");
}

#[test]
fn a_trait_of_plain_methods_is_taken() {
    let item = quote! {
        /// Counts.
        pub trait Counter {
            /// Adds.
            fn add(&self, amount: u64) -> u64;
            #[blocking]
            fn watch(&self, watcher: WatcherClient, names: Option<&[u8]>) -> Result<(), u32>;
            fn give(&self) -> Result<Option<Arc<dyn Watcher>>, u8>;
            fn both(&self, graph: GraphRef<'_, Node>) -> (String, Option<Frozen<Node>>) {
                let _ = graph;
                (String::new(), None)
            }
        }
    };
    assert_eq!(refusal(TokenStream::new(), item.clone()), "it is taken");
    assert_eq!(refusal(quote! { name = "Counter", types(Node, Leaf) }, item), "it is taken");
}

#[test]
fn what_is_no_interface_is_refused_with_what_to_do() {
    refuses(quote! { trait Of<T> { fn get(&self); } }, "has no parameters");
    // As text, or it would be what it names.
    refuses("unsafe trait Danger { fn get(&self); }".parse().unwrap(), "unsafe trait");
    refuses(quote! { trait Constant { const N: u32; } }, "methods alone");
    refuses(quote! { trait Typed { type Key; } }, "methods alone");
    refuses(quote! { trait Known: Sized { fn get(&self); } }, "not Sized");
}

#[test]
fn methods_that_no_peer_can_call_are_refused_with_what_to_do() {
    refuses(quote! { trait T { async fn get(&self); } }, "mark those that wait with #[blocking]");
    refuses("trait T { unsafe fn get(&self); }".parse().unwrap(), "unsafe method");
    refuses(quote! { trait T { fn get<K>(&self, key: K); } }, "no parameters");
    refuses(quote! { trait T { fn get(&mut self); } }, "take &self");
    refuses(quote! { trait T { fn get(self); } }, "take &self");
    refuses(quote! { trait T { fn get(self: Arc<Self>); } }, "take &self");
    refuses(quote! { trait T { fn get() -> u32; } }, "take &self");
    refuses(quote! { trait T { fn get(&self, (a, b): (u32, u32)); } }, "an argument has a name");
    refuses(quote! { trait T { fn get(&self) where Self: Sized; } }, "no conditions");
    let many = quote! { trait T { fn get(&self, a: u8, b: u8, c: u8, d: u8, e: u8, f: u8, g: u8, h: u8, i: u8); } };
    refuses(many, "at most 8 arguments");
}

#[test]
fn an_interface_that_depends_on_the_build_is_refused() {
    let words = "put #[cfg] above the whole trait";
    refuses(quote! { trait T { #[cfg(unix)] fn get(&self); } }, words);
    refuses(quote! { trait T { #[cfg_attr(unix, blocking)] fn get(&self); } }, words);
    refuses(quote! { trait T { fn get(&self, #[cfg(unix)] key: u8); } }, words);
}

#[test]
fn types_that_cannot_travel_are_refused_with_what_to_take() {
    refuses(
        quote! { trait T { fn get(&self, to: &mut [u8]); } },
        "give what has changed as a result",
    );
    refuses(quote! { trait T { fn get(&self, key: &'static str); } }, "leave the lifetime out");
    refuses(quote! { trait T { fn get(&self, key: impl Into<u32>); } }, "one type");
    refuses(quote! { trait T { fn get(&self, to: Arc<dyn Listener>); } }, "`TraitClient` by value");
    refuses(
        quote! { trait T { fn get(&self, to: Option<Box<dyn Listener>>); } },
        "`TraitClient` by value",
    );
    refuses(quote! { trait T { fn get(&self, to: &dyn Listener); } }, "`TraitClient` by value");
    refuses(quote! { trait T { fn get(&self) -> &str; } }, "outlives its call");
    refuses(quote! { trait T { fn get(&self) -> Option<&[u8]>; } }, "outlives its call");
    refuses(quote! { trait T { fn get(&self) -> dyn Listener; } }, "one type");
    refuses(quote! { trait T { fn get(&self) -> impl Iterator<Item = u8>; } }, "one type");
    refuses(quote! { trait T { fn get(&self) -> io::Result<u32>; } }, "names both its types");
    refuses(quote! { trait T { fn get(&self) -> (u8, u8, u8, u8, u8); } }, "at most 4 elements");
}

#[test]
fn options_are_known_ones() {
    let item = || quote! { trait T { fn get(&self); } };
    assert!(refusal(quote! { named = "T" }, item()).contains("#[service(name = \"...\")]"));
    assert!(refusal(quote! { name = "" }, item()).contains("called something"));
}
