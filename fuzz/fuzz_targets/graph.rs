//! Valid graphs, damaged at every level: header, page table, links, lengths, texts. What is accepted is touched to the last byte.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use weft_fuzz::graphs::{TYPES, build, segments, touch};
use weft_object::{AlignedBytes, Assembly, Limits};
use weft_transport::{Memory, MemoryConfig};

/// Segments of a few graphs.
static GRAPHS: LazyLock<Vec<Vec<Vec<u8>>>> = LazyLock::new(|| {
    let memory = Memory::new(MemoryConfig { limit_bytes: 16 << 20 }).expect("16 MiB can be had");
    [1, 20, 400, 2_000].map(|count| segments(&build(&memory, &TYPES, count))).into()
});

/// Ten bytes of the input are one damage: to which part of which segment, where, and what is written there.
fn damage(segments: &mut [Vec<u8>], bytes: &[u8; 10]) {
    let [part, segment, a, b, c, d, word @ ..] = *bytes;
    let count = segments.len();
    let segment = &mut segments[usize::from(segment) % count];
    let at = u32::from_le_bytes([a, b, c, d]) as usize;
    let head = 24
        + 8 * segment
            .get(8..10)
            .map_or(0, |pages| usize::from(pages[0]) + 256 * usize::from(pages[1]));
    let range = match part % 4 {
        0 => 0..24,
        1 => 24..head,
        2 => head..segment.len(),
        _ => return segment.truncate(segment.len() - at % 64.min(segment.len() + 1)),
    };
    let range = range.start.min(segment.len())..range.end.min(segment.len());
    if range.len() < 4 {
        return;
    }
    let at = range.start + at % (range.len() / 4) * 4;
    if part & 0x80 == 0 {
        segment[at..at + 4].copy_from_slice(&word);
    } else {
        segment[at + usize::from(word[0] % 4)] ^= word[1];
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&graph, damages)) = bytes.split_first() else { return };
    let mut segments = GRAPHS[usize::from(graph) % GRAPHS.len()].clone();
    let (damages, _) = damages.as_chunks::<10>();
    damages.iter().take(16).for_each(|bytes| damage(&mut segments, bytes));
    let mut assembly = Assembly::new(&TYPES, Limits::default());
    for segment in &segments {
        if assembly.add(AlignedBytes::copied(segment)).is_err() {
            return;
        }
    }
    let Ok(view) = assembly.finish() else { return };
    touch(&view);
    touch(&view.to_owned());
});
