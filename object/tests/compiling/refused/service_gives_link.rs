#[weft_object::service]
trait Links {
    fn get(&self) -> weft_object::Link<u64>;
}

fn main() {}
