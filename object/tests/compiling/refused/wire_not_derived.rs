#[derive(Clone, Copy)]
#[repr(C)]
struct Point {
    x: f64,
    y: f64,
}

fn main() {
    weft_object::Types::new().with::<Point>();
}
