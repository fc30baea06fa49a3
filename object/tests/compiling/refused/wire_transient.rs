#[derive(weft_object::Wire, Clone, Copy)]
#[repr(C)]
struct Cached {
    key: u64,
    #[wire(transient)]
    found: weft_object::Text,
}

fn main() {}
