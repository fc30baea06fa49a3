#[derive(weft_object::Wire, Clone, Copy)]
struct Point {
    x: f64,
    y: f64,
}

#[derive(weft_object::Wire, Clone, Copy)]
#[repr(C, packed)]
struct Packed {
    x: u8,
    y: f64,
}

#[derive(weft_object::Wire, Clone, Copy)]
enum Color {
    Red,
    Green,
}

#[derive(weft_object::Wire, Clone, Copy)]
#[repr(i8)]
enum Signed {
    Red,
    Green,
}

fn main() {}
