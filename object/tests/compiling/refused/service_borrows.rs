use weft_object::service;

#[service]
trait Names {
    fn get(&self) -> &str;
}

#[service]
trait Fills {
    fn fill(&self, bytes: &mut [u8]);
}

fn main() {}
