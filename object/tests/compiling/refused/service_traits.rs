use weft_object::service;

#[service]
trait Generic<T> {
    fn put(&self, value: T);
}

#[service]
trait Associated {
    type Item;
    fn get(&self) -> u64;
}

#[service(called = "names")]
trait Named {
    fn get(&self) -> u64;
}

#[service(name = "")]
trait Nameless {
    fn get(&self) -> u64;
}

fn main() {}
