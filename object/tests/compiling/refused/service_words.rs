use weft_object::service;

#[service]
trait Names {
    fn put(&self, name: String);
}

#[service]
trait Lists {
    fn put(&self, list: Option<Vec<u32>>);
}

#[service]
trait Sizes {
    fn set(&self, sizes: &[usize]);
}

#[service]
trait Size {
    fn get(&self) -> Result<usize, u32>;
}

#[service]
trait Many {
    fn get(&self) -> Vec<isize>;
}

fn main() {}
