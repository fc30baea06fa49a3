#[weft_object::service]
trait Names {
    fn get(&self) -> Vec<String>;
}

fn main() {}
