trait Plain {}

#[weft_object::service]
trait Gives {
    fn get(&self) -> std::sync::Arc<dyn Plain>;
}

fn main() {}
