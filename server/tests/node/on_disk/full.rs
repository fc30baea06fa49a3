//! A node whose data directory is on a disk that fills up, from its start to its end.

use rustix::process::Signal;
use weft_protocol::{GetReply, PutReply};

use crate::small_disk::SmallDisk;
use crate::support::{Client, Process, get, put, run};

const SMALL: [&str; 10] = [
    "--memory",
    "64MiB",
    "--poll",
    "park",
    "--reactors",
    "1",
    "--durability",
    "fsync",
    "--partitions",
    "1",
];

/// Writes that are sent together.
const TOGETHER: usize = 6;

/// Asks until it is served: a node that has just started may not hold the key's partition yet.
fn until_some<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    loop {
        match ask() {
            Some(answer) => return answer,
            None => std::thread::yield_now(),
        }
    }
}

#[test]
fn a_node_whose_disk_fills_up_ends_in_good_order_and_has_all_when_there_is_room() {
    for leave_kib in [0, 4, 64, 1 << 10] {
        let Some(disk) = SmallDisk::mount(40) else { return };
        let folder = disk.path().join("node");
        let arguments = [&SMALL[..], &["--data-dir", folder.to_str().unwrap()]].concat();
        let node = Process::start(&arguments, &[]);
        let client = Client::at(node.address);
        let key = |number: u32| number.to_le_bytes();
        let taken = |number: u32| {
            let value = vec![number as u8; 64 << 10];
            PutReply::decode(&client.call(put(&key(number), &value))).ok().map(drop)
        };
        (0..10).for_each(|number| until_some(|| taken(number)));
        disk.fill(leave_kib << 10);
        let (code, log) = node.signal(Signal::TERM);
        assert_eq!(code, Some(0), "{leave_kib} KiB: {log}");
        drop(client);

        let (code, told) = run(
            &[&arguments[..], &["--listen", "127.0.0.1:0", "--http", "off", "--control", "off"]]
                .concat(),
            &[],
        );
        assert_eq!(code, Some(1), "{leave_kib} KiB: {told}");
        let told = told.lines().last().unwrap_or_default();
        let says = |part| told.contains(part);
        assert!(says("No space left") || says("the disk is full"), "{leave_kib} KiB: {told}");

        disk.free();
        let node = Process::start(&arguments, &[]);
        let client = Client::at(node.address);
        for number in 0..10 {
            let key = key(number);
            let value = until_some(|| {
                let reply = client.call(get(&key));
                GetReply::decode(&reply).ok().map(|reply| reply.value().map(<[u8]>::to_vec))
            });
            assert_eq!(value, Some(vec![number as u8; 64 << 10]), "{leave_kib} KiB");
        }
        node.end();
    }
}

/// What an orderly stop keeps of such a table was acknowledged before it was on disk; the disk has room for it all the same.
#[test]
fn what_was_acknowledged_before_the_disk_was_full_is_there_after_an_orderly_stop() {
    let Some(disk) = SmallDisk::mount(40) else { return };
    let folder = disk.path().join("node");
    let mut arguments = [&SMALL[..], &["--data-dir", folder.to_str().unwrap()]].concat();
    let durability = arguments.iter_mut().find(|argument| **argument == "fsync").unwrap();
    *durability = "disk";
    let node = Process::start(&arguments, &[]);
    let client = Client::at(node.address);
    let value = vec![7; 256 << 10];
    let taken = |number: u32| {
        PutReply::decode(&client.call(put(&number.to_le_bytes(), &value))).ok().map(drop)
    };
    until_some(|| taken(0));
    disk.fill(0);
    // The file at hand is for the first of these, and has room for some more that are acknowledged before it is seen that there is no other.
    let mut acknowledged = vec![0];
    let mut is_room_left = true;
    while is_room_left {
        let before = acknowledged.len();
        let first = before as u32;
        let keys: Vec<_> = (first..first + TOGETHER as u32).map(u32::to_le_bytes).collect();
        let replies = client.call_all(keys.iter().map(|key| put(key, &value)));
        let taken = (first..).zip(&replies).filter(|(_, reply)| PutReply::decode(reply).is_ok());
        acknowledged.extend(taken.map(|(number, _)| number));
        is_room_left = acknowledged.len() == before + TOGETHER;
    }
    // How many there are depends on what of them has been written before the others come.
    assert!(acknowledged.len() > TOGETHER, "{}", acknowledged.len());
    drop(client);
    let (code, log) = node.signal(Signal::TERM);
    assert_eq!(code, Some(0), "{log}");

    disk.free();
    let node = Process::start(&arguments, &[]);
    let client = Client::at(node.address);
    for number in acknowledged {
        let found = until_some(|| {
            let reply = client.call(get(&number.to_le_bytes()));
            GetReply::decode(&reply).ok().map(|reply| reply.value().map(<[u8]>::to_vec))
        });
        assert_eq!(found.as_ref(), Some(&value), "{number}");
    }
    node.end();
}
