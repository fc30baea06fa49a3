#[derive(weft_object::Wire, Clone, Copy)]
#[repr(C)]
struct Name<'a> {
    text: &'a u8,
}

fn main() {}
