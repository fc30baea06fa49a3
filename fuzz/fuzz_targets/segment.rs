//! Segments from anywhere are refused or harmless: what a view accepts is read to the last byte.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_object::{AlignedBytes, Types, View, Wire};

#[derive(Wire, Clone, Copy)]
#[repr(C)]
struct Rank {
    vertex: u64,
    rank: f64,
}

#[derive(Wire, Clone, Copy)]
#[repr(C)]
struct Flagged {
    number: u32,
    flags: [bool; 4],
}

fuzz_target!(|bytes: &[u8]| {
    let types = Types::new().with::<Rank>().with::<Flagged>();
    let Ok(view) = View::validate(AlignedBytes::copied(bytes), &types) else { return };
    let mut sum = 0;
    for rank in view.records::<Rank>().flatten() {
        sum ^= rank.vertex ^ rank.rank.to_bits();
    }
    for flagged in view.records::<Flagged>().flatten() {
        sum ^= u64::from(flagged.number);
        for flag in flagged.flags {
            // Not a match on true and false: a bool that is neither has to reach the sanitizer.
            sum += u64::from(flag);
        }
    }
    std::hint::black_box(sum);
});
