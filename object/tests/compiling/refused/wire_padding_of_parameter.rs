use weft_object::{Fingerprint, Wire};

#[derive(Wire, Clone, Copy)]
#[repr(C)]
struct Weighted<T> {
    value: T,
    weight: f64,
}

// As `Types::with` does, which only a build gets to see, not a check.
const _: Fingerprint = Weighted::<u32>::FINGERPRINT;

fn main() {}
