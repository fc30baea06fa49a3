use weft_object::{Fingerprint, Pair, Wire};

// As `Types::with` does, which only a build gets to see, not a check.
const _: Fingerprint = Pair::<u32, f64>::FINGERPRINT;

fn main() {}
