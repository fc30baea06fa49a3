#[derive(weft_object::Wire, Clone, Copy)]
#[repr(C)]
struct Person {
    name: String,
}

fn main() {}
