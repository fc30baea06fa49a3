//! Traits that are spelled in unusual ways.

use std::sync::Arc;

use weft_object::service;
use weft_object::service::Client as _;
use weft_transport::LinkPolicy;

use crate::world::World;

trait Base {
    fn get(&self) -> u32;
}

/// Names that its proxies, or what it is made into, have themselves.
#[service]
trait Odd: Base {
    fn get(&self) -> u32;
    fn clone(&self) -> u64;
    fn remote(&self) -> (u64,);
    fn from(&self, buffer: u8, items: u8, answer: u8) -> u8;
    fn r#type(&self, r#fn: u8) -> u8;
    fn dispatch(&self, passing: u8) -> u8;
    fn contract(&self);
    #[deprecated]
    fn old(&self) -> (String, (u8,));
}

struct Number(u32);

impl Base for Number {
    fn get(&self) -> u32 {
        self.0
    }
}

impl Odd for Number {
    fn get(&self) -> u32 {
        2 * self.0
    }

    fn clone(&self) -> u64 {
        3
    }

    fn remote(&self) -> (u64,) {
        (4,)
    }

    fn from(&self, buffer: u8, items: u8, answer: u8) -> u8 {
        buffer + items + answer
    }

    fn r#type(&self, r#fn: u8) -> u8 {
        r#fn
    }

    fn dispatch(&self, passing: u8) -> u8 {
        passing
    }

    fn contract(&self) {}

    fn old(&self) -> (String, (u8,)) {
        ("old".to_owned(), (5,))
    }
}

#[test]
fn a_trait_may_use_whatever_names_it_likes() {
    let world = World::new(LinkPolicy::Auto);
    assert_eq!(Base::get(&Number(1)), 1);
    world.exporter.export::<dyn Odd>("odd", Arc::new(Number(1)));
    let odd = world.importer.import_blocking::<dyn Odd>(&world.connection, "odd").unwrap();
    let odd = odd.blocking();
    assert_eq!(odd.get(), Ok(2));
    assert_eq!(odd.remote(), Ok((4,)));
    assert_eq!(odd.from(1, 2, 3), Ok(6));
    assert_eq!((odd.r#type(7), odd.dispatch(8), odd.contract()), (Ok(7), Ok(8), Ok(())));
    assert_eq!(odd.old(), Ok(("old".to_owned(), (5,))));
}
