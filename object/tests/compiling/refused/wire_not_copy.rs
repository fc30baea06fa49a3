#[derive(weft_object::Wire)]
#[repr(C)]
struct Count {
    count: u64,
}

fn main() {}
