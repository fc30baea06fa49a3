#[derive(weft_object::Wire, Clone, Copy)]
#[repr(u32)]
enum Shape {
    Circle { radius: f32 },
    Square { side: f32, angle: f32 },
}

#[derive(weft_object::Wire, Clone, Copy)]
#[repr(u32)]
enum Padded {
    Far { distance: f64 },
}

fn main() {}
