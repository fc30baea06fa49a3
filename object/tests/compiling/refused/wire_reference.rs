#[derive(weft_object::Wire, Clone, Copy)]
#[repr(C)]
struct Name {
    text: &'static str,
}

fn main() {}
