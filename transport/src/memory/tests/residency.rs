//! What is resident, by the account and by the word of the system.

use proptest::prelude::*;

use super::super::*;
use super::{MIB, is_all, memory, resident, rounds, written};

#[test]
#[cfg_attr(miri, ignore = "there is no system to agree with")]
fn residency_is_counted_once_and_agrees_with_the_system() {
    let memory = memory(64 * MIB);
    assert_eq!(resident(&memory), 0, "nothing is prefaulted");
    for round in 0..3_usize {
        let mut blocks: Vec<Block> =
            (0..16).map(|_| memory.allocate(MIB, Purpose::Receive).unwrap()).collect();
        for block in &mut blocks {
            // A few pages more each time, so that old and new ones are counted together.
            let written = block.len() / 2 + round * 3 * PAGE_BYTES;
            block[..written].fill(9);
            block.mark_touched(written);
            block.mark_touched(100);
        }
    }
    let mut log = memory.allocate(24 * MIB, Purpose::Log).unwrap().append_only();
    for _ in 0..20 {
        log.append(&[&[9; MIB]]).unwrap();
    }
    let account = memory.account();
    assert_eq!(account.allocated_bytes, 24 * MIB as u64);
    let resident = resident(&memory);
    let tolerance = resident / 100;
    assert!(
        account.resident_bytes.abs_diff(resident) <= tolerance,
        "counted {} of {resident} resident bytes",
        account.resident_bytes
    );
}

/// Huge pages that stand ready are counted, are what is handed out next, read as zeroes, and go back when nothing grows.
#[test]
#[cfg_attr(miri, ignore = "there are no huge pages")]
fn huge_pages_are_ready_for_what_comes_next() {
    let memory = memory(512 * MIB);
    let check_resident = || {
        let account = memory.account();
        assert_eq!(account.resident_bytes, resident(&memory));
        account.resident_bytes
    };
    let first = written(&memory, MIB);
    assert!(!memory.get_ahead(), "a region in which there is little stays as it is");
    let second = written(&memory, 30 * MIB);
    assert!(memory.get_ahead(), "Linux gives huge pages to who asks for them, since 6.1");
    while memory.get_ahead() {}
    let ready = check_resident() - 31 * MIB as u64;
    assert!((2 * MIB as u64..8 * MIB as u64).contains(&ready), "{ready}");
    // A huge page begins where its address is a multiple of its length; the first of them is left for what comes meanwhile.
    let third = memory.allocate(5 * MIB, Purpose::Log).unwrap();
    // Not to its end, which may lie behind what is ready: who reads has the system back what is read.
    assert!(is_all(&third[3 * MIB..5 * MIB - 8 * PAGE_BYTES], 0));
    assert_eq!(check_resident(), 31 * MIB as u64 + ready, "nothing had to be touched");

    let given_back = |_: &usize| {
        memory.get_ahead() && memory.account().resident_bytes == 31 * MIB as u64 + ready
    };
    assert!((0..100).find(given_back).is_some(), "it goes back");
    assert!((0..100).all(|_| !memory.get_ahead()), "once");
    check_resident();
    drop((first, second, third));
}

/// The same beside threads that take and give memory, within the limit.
#[test]
#[cfg_attr(miri, ignore = "there are no huge pages")]
fn huge_pages_leave_room_for_others() {
    let memory = memory(256 * MIB);
    let overwrite = || {
        for _ in 0..3 {
            let blocks: Vec<Block> = (0..256).map(|_| written(&memory, MIB)).collect();
            assert_eq!(memory.account().resident_bytes, 256 * MIB as u64);
            // Less where pages were given back out of a huge one: the system unmaps the rest until it is touched again.
            assert!(resident(&memory) <= 256 * MIB as u64);
            drop(blocks);
        }
    };
    std::thread::scope(|scope| {
        let writer = scope.spawn(overwrite);
        while !writer.is_finished() {
            memory.get_ahead();
        }
        writer.join().expect("nothing is refused");
    });
}

#[test]
fn what_is_free_but_resident_makes_room_for_charges_and_reads_as_zero() {
    let memory = memory(8 * MIB);
    drop(written(&memory, 8 * MIB));
    assert_eq!(memory.account().resident_bytes, 8 * MIB as u64);
    let charge = memory.charge(5 * MIB as u64, Purpose::Session).unwrap();
    let account = memory.account();
    assert!(account.resident_bytes <= account.limit_bytes, "{account:?}");
    let left = account.resident_bytes - account.heap_bytes;
    assert_eq!(left, resident(&memory));
    assert!(left + 64 * PAGE_BYTES as u64 > 3 * MIB as u64, "{left} are left");

    let block = memory.allocate(3 * MIB, Purpose::Log).unwrap();
    assert!(is_all(&block[..left as usize], 9), "what is left resident is used first");
    drop((charge, block));
    let block = memory.allocate(8 * MIB, Purpose::Log).unwrap();
    assert!(is_all(&block[3 * MIB..], 0));
    drop(block);
    written(&memory, 8 * MIB);
}

#[test]
fn heap_of_sessions_that_have_ended_counts_until_it_is_used_again_or_trimmed() {
    let memory = memory(8 * MIB);
    let sessions = |count: usize| -> Vec<Charge> {
        let session = || memory.charge(PAGE_BYTES as u64, Purpose::Session).unwrap();
        (0..count).map(|_| session()).collect()
    };
    let mut old = sessions(1024);
    drop(old.split_off(256));
    let account = memory.account();
    assert_eq!((account.allocated_bytes, account.heap_bytes), (MIB as u64, 4 * MIB as u64));
    // The next ones take the place of those.
    let new = sessions(512);
    assert_eq!(memory.account().heap_bytes, 4 * MIB as u64);
    drop(new);

    // Pages press for room: what is not taken to lie among those that live goes.
    let block = written(&memory, 6 * MIB);
    let account = memory.account();
    assert_eq!((account.heap_bytes, account.resident_bytes), (2 * MIB as u64, 8 * MIB as u64));
    assert!(memory.allocate(PAGE_BYTES, Purpose::Log).is_err());
    drop(old);
    let more = written(&memory, 2 * MIB);
    assert_eq!(memory.account().heap_bytes, 0);
    drop((block, more));
    assert_eq!(memory.account().allocated_bytes, 0);
}

#[test]
fn a_region_that_is_registered_keeps_its_pages_and_refuses_instead() {
    let memory = memory(8 * MIB);
    memory.pool.region.keep_all();
    drop(written(&memory, 6 * MIB));
    let charge = memory.charge(2 * MIB as u64, Purpose::Session).unwrap();
    let error = memory.charge(1, Purpose::Session).unwrap_err();
    assert!(matches!(error, MemoryError::LimitReached { .. }), "{error}");
    assert!(memory.allocate(7 * MIB, Purpose::Log).is_err());
    assert_eq!(memory.account().allocated_bytes, charge.bytes(), "nothing is lost on error");
    assert_eq!(resident(&memory), 6 * MIB as u64);
    written(&memory, 6 * MIB);
}

#[derive(Clone, Debug)]
enum Step {
    /// Allocates pages and writes a part of them, in percent.
    Allocate(usize, usize),
    Free(prop::sample::Index),
    Charge(u64),
    Uncharge(prop::sample::Index),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (1_usize..400, 0..101_usize).prop_map(|(pages, part)| Step::Allocate(pages, part)),
        2 => any::<prop::sample::Index>().prop_map(Step::Free),
        2 => (1..2_000_000_u64).prop_map(Step::Charge),
        1 => any::<prop::sample::Index>().prop_map(Step::Uncharge),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(rounds(64, 2) as u32))]
    #[test]
    fn what_is_resident_never_passes_the_limit(steps in prop::collection::vec(step(), 1..150)) {
        let memory = memory(4 * MIB);
        let (mut blocks, mut charges) = (Vec::new(), Vec::new());
        let mut allocated = 0_u64;
        for step in steps {
            match step {
                Step::Allocate(pages, part) => {
                    match memory.allocate(pages * PAGE_BYTES, Purpose::Log) {
                        Ok(mut block) => {
                            let part = block.len() * part / 100;
                            block[..part].fill(1);
                            block.mark_touched(part);
                            allocated += block.len() as u64;
                            blocks.push(block);
                        }
                        Err(MemoryError::LimitReached { .. }) => {
                            let room = (4 * MIB as u64).saturating_sub(allocated);
                            prop_assert!((pages * PAGE_BYTES) as u64 > room, "room was refused");
                        }
                        Err(_) => {}
                    }
                }
                Step::Free(index) if !blocks.is_empty() => {
                    allocated -= blocks.swap_remove(index.index(blocks.len())).len() as u64;
                }
                Step::Charge(bytes) => match memory.charge(bytes, Purpose::Index) {
                    Ok(charge) => {
                        allocated += bytes;
                        charges.push(charge);
                    }
                    Err(_) => prop_assert!(allocated + bytes > 4 * MIB as u64, "room was refused"),
                },
                Step::Uncharge(index) if !charges.is_empty() => {
                    allocated -= charges.swap_remove(index.index(charges.len())).bytes();
                }
                Step::Free(_) | Step::Uncharge(_) => {}
            }
            let account = memory.account();
            prop_assert_eq!(account.allocated_bytes, allocated);
            prop_assert!(account.resident_bytes <= account.limit_bytes, "{:?}", account);
        }
        // By the system's word too.
        let account = memory.account();
        prop_assert_eq!(resident(&memory), account.resident_bytes - account.heap_bytes);
        drop((blocks, charges));
        prop_assert_eq!(memory.account().allocated_bytes, 0);
        prop_assert_eq!(memory.allocate(4 * MIB, Purpose::Log).map(|block| block.len()), Ok(4 * MIB));
    }
}
