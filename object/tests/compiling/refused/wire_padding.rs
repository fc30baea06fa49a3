#[derive(weft_object::Wire, Clone, Copy)]
#[repr(C)]
struct Edge {
    to: u64,
    weight: u32,
}

fn main() {}
