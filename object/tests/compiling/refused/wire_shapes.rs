#[derive(weft_object::Wire, Clone, Copy)]
#[repr(C)]
struct Nothing {}

#[derive(weft_object::Wire, Clone, Copy)]
#[repr(C)]
struct Unnamed(u32, u32);

#[derive(weft_object::Wire, Clone, Copy)]
#[repr(C)]
union Either {
    whole: u32,
    real: f32,
}

#[derive(weft_object::Wire, Clone, Copy)]
#[repr(u32)]
enum Shape {
    Circle(f32),
}

fn main() {}
