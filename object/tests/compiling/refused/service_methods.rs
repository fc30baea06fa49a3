use weft_object::service;

#[service]
trait Counter {
    fn add(&mut self, amount: u64);
}

#[service]
trait Takes {
    fn take(self: Box<Self>);
}

#[service]
trait Static {
    fn make() -> u64;
}

#[service]
trait Names {
    async fn get(&self) -> String;
}

#[service]
trait Generic {
    fn put<T>(&self, value: T);
}

#[service]
trait Many {
    fn put(&self, a: u8, b: u8, c: u8, d: u8, e: u8, f: u8, g: u8, h: u8, i: u8);
}

#[service]
trait Pattern {
    fn put(&self, (a, b): (u8, u8));
}

fn main() {}
