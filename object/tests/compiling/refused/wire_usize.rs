#[derive(weft_object::Wire, Clone, Copy)]
#[repr(C)]
struct Count {
    count: usize,
}

fn main() {}
