#[derive(weft_object::Wire, Clone, Copy)]
#[repr(C)]
struct Weighted<T> {
    value: T,
    weight: f64,
}

fn main() {
    weft_object::Types::new().with::<Weighted<(u32, u32)>>();
}
