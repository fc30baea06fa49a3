#[derive(weft_object::Wire, Clone, Copy)]
#[repr(C)]
#[wire(reads = "1234")]
struct Count {
    count: u64,
}

#[derive(weft_object::Wire, Clone, Copy)]
#[repr(C)]
struct Cached {
    #[wire(skip)]
    count: u64,
}

fn main() {}
