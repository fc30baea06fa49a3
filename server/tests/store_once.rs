//! What a partition promises to clients that ask twice, one promise a test.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use weft_protocol::{CompletionId, Eviction, TableId, Version};
use weft_server::limits::OUTCOMES_PER_CLIENT_MAX;
use weft_server::store::{
    Attempt, Compared, Deleted, OnceError, Partition, PartitionConfig, Quota, Refusal, StoreError,
    TableConfig,
};
use weft_transport::{Memory, MemoryConfig, Purpose};

const TABLE: TableId = TableId::DEFAULT;

fn memory(limit_bytes: u64) -> Memory {
    Memory::new(MemoryConfig { limit_bytes }).unwrap()
}

fn partition(memory: &Memory) -> Partition {
    let config = PartitionConfig { id: 3, epoch: 1, seed: 7, memory: memory.clone() };
    Partition::new(config).unwrap()
}

fn attempt(sequence: u64, first_incomplete: u64) -> Attempt {
    Attempt { id: CompletionId { client: 5, sequence }, first_incomplete }
}

#[test]
fn what_did_nothing_does_nothing_later() {
    let mut partition = partition(&memory(1 << 20));
    partition.put(TABLE, b"text", b"text", None, 0).unwrap();
    let conflict = |partition: &mut Partition| {
        partition.once(Some(attempt(1, 1)), |p| {
            p.compare_and_set(TABLE, b"key", Version(9), b"mine", None, 0)
        })
    };
    let delete = |partition: &mut Partition| {
        partition.once(Some(attempt(2, 1)), |p| p.delete(TABLE, b"key", 0))
    };
    let add = |partition: &mut Partition| {
        partition.once(Some(attempt(3, 1)), |p| p.increment(TABLE, b"text", 1, None, 0))
    };
    let first = conflict(&mut partition).unwrap();
    let deleted = delete(&mut partition).unwrap();
    let added = add(&mut partition).unwrap();
    assert!(matches!(first.answer, Ok(Compared::Absent(_))));
    assert!(matches!(deleted.answer, Ok(Deleted { existed: false, .. })));
    assert_eq!(added.answer.unwrap_err(), Refusal::NotANumber);
    assert_eq!(added.version, partition.version(), "to be committed before anybody is told");

    // The same requests, when they would do something.
    partition.put(TABLE, b"key", b"value", None, 0).unwrap();
    partition.put(TABLE, b"text", b"1", None, 0).unwrap();
    let before = partition.version();
    let again = conflict(&mut partition).unwrap();
    assert_eq!(
        (again.answer, again.version, again.is_repeated),
        (first.answer, first.version, true)
    );
    let again = delete(&mut partition).unwrap();
    assert_eq!((again.answer, again.version), (deleted.answer, deleted.version));
    let again = add(&mut partition).unwrap();
    assert_eq!((again.answer, again.version), (added.answer, added.version));
    assert_eq!(partition.version(), before);
    assert_eq!(partition.get(TABLE, b"text", 0).unwrap().value, b"1");
}

#[test]
fn what_found_no_room_may_be_tried_again_until_who_asks_gives_up() {
    let mut partition = partition(&memory(1 << 20));
    let (id, eviction) = (TableId(1), Eviction::None);
    let quota = std::sync::Arc::new(Quota::new(100));
    let config = TableConfig { id, ordered: false, quota: Some(quota.clone()), eviction };
    partition.create_table(config);
    let put = |partition: &mut Partition, sequence| {
        partition.once(Some(attempt(sequence, 1)), |p| p.put(id, b"key", &[0; 200], None, 0))
    };
    let before = partition.version();
    let refused = OnceError::Refused(StoreError::QuotaReached { limit: 100 });
    assert_eq!(put(&mut partition, 1).unwrap_err(), refused);
    assert_eq!(put(&mut partition, 2).unwrap_err(), refused);
    assert_eq!((partition.version(), partition.outcome_counts()), (before, (0, 0)));

    let given_up = partition.give_up(attempt(2, 1)).unwrap();
    assert_eq!(partition.give_up(attempt(2, 1)), Ok(given_up));
    quota.set_limit(10_000);
    assert!(!put(&mut partition, 1).unwrap().is_repeated);
    let barred = put(&mut partition, 2).unwrap();
    assert_eq!(barred.answer, Err(Refusal::GivenUp));
    assert_eq!((barred.version, barred.is_repeated), (given_up, true));
}

#[test]
fn what_the_client_has_the_answer_to_is_forgotten_and_never_done_again() {
    let memory = memory(1 << 20);
    let mut partition = partition(&memory);
    for sequence in 1..=1_000 {
        partition
            .once(Some(attempt(sequence, 1)), |p| p.put(TABLE, b"key", b"value", None, 0))
            .unwrap();
    }
    assert_eq!(partition.outcome_counts(), (1_000, 1));
    let charged = memory.account().allocated_for(Purpose::Partition);
    assert!(charged > 64_000, "{charged}");

    let late = |partition: &mut Partition, sequence| {
        partition.once(Some(attempt(sequence, 900)), |p| p.delete(TABLE, b"key", 0))
    };
    let forgotten = OnceError::Forgotten { first_incomplete: 900 };
    assert_eq!(late(&mut partition, 899).unwrap_err(), forgotten);
    assert_eq!(partition.outcome_counts(), (1_000, 1), "nothing is forgotten but by an entry");
    assert_eq!(late(&mut partition, 900).unwrap_err(), OnceError::AnswerLost, "it was a put");
    late(&mut partition, 1_001).unwrap();
    assert_eq!(partition.outcome_counts(), (102, 1));
    assert!(memory.account().allocated_for(Purpose::Partition) < charged / 2);
    assert_eq!(
        partition.once(Some(attempt(899, 1)), |p| p.delete(TABLE, b"key", 0)).unwrap_err(),
        forgotten,
        "whatever the copy says"
    );

    let before = partition.version();
    partition.end_client(5).unwrap();
    assert_eq!(partition.version().sequence(), before.sequence() + 1);
    partition.end_client(5).unwrap();
    partition.end_client(6).unwrap();
    assert_eq!(partition.version().sequence(), before.sequence() + 1);
    assert_eq!(partition.outcome_counts(), (0, 0));
    assert_eq!(memory.account().allocated_for(Purpose::Partition), 0);
}

#[test]
fn a_client_that_never_says_what_it_has_is_stopped_in_time() {
    let mut partition = partition(&memory(256 << 20));
    let put = |partition: &mut Partition, attempt| {
        partition.once(Some(attempt), |p| p.put(TABLE, b"key", b"value", None, 0))
    };
    let full = OUTCOMES_PER_CLIENT_MAX as u64;
    for sequence in 1..=full {
        put(&mut partition, attempt(sequence, 1)).unwrap();
    }
    let before = partition.version();
    let refused = OnceError::TooManyOutcomes { limit: OUTCOMES_PER_CLIENT_MAX };
    assert_eq!(put(&mut partition, attempt(full + 1, 1)).unwrap_err(), refused);
    assert_eq!(partition.version(), before);
    put(&mut partition, attempt(full + 1, 2)).unwrap();
    let other = Attempt { id: CompletionId { client: 6, sequence: 1 }, first_incomplete: 1 };
    put(&mut partition, other).unwrap();
}

#[test]
fn outcomes_count_against_the_limit_and_are_refused_before_anything_is_done() {
    let memory = memory(1 << 20);
    let mut partition = partition(&memory);
    partition.put(TABLE, b"key", b"value", None, 0).unwrap();
    // All but a little is gone.
    let mut held = Vec::new();
    while let Ok(charge) = memory.charge(4_096, Purpose::Scratch) {
        held.push(charge);
    }
    held.pop();
    let mut done = 0;
    let error = loop {
        let before = partition.version();
        let tried = partition.once(Some(attempt(done + 1, 1)), |p| p.delete(TABLE, b"no key", 0));
        match tried {
            Ok(_) => done += 1,
            Err(error) => {
                assert_eq!(partition.version(), before);
                break error;
            }
        }
    };
    assert!(matches!(error, OnceError::Refused(StoreError::MemoryLimit(_))), "{error}");
    assert!((1..200).contains(&done), "{done}");
    // What makes room needs none.
    partition.once(Some(attempt(done + 1, done)), |p| p.delete(TABLE, b"key", 0)).unwrap();
    let account = memory.account();
    assert!(account.allocated_bytes <= account.limit_bytes);
}

#[test]
fn the_value_that_was_there_is_returned_again_and_short_ones_keep_no_segment() {
    for len in [0, 100, 60_000, 200_000] {
        let memory = memory(8 << 20);
        let mut partition = partition(&memory);
        let value = vec![7; len];
        let put = partition.put(TABLE, b"key", &value, None, 0).unwrap();
        let delete = |partition: &mut Partition| {
            let once = partition.once(Some(attempt(1, 1)), |p| p.get_and_delete(TABLE, b"key", 0));
            let (version, value) = once.unwrap().answer.unwrap().previous.unwrap();
            (version, value.to_vec())
        };
        assert_eq!(delete(&mut partition), (put, value.clone()));
        let log_bytes = memory.account().allocated_for(Purpose::Log);
        assert_eq!(log_bytes > 0, len > 100_000, "a long one stays where it is");
        partition.put(TABLE, b"key", b"another", None, 0).unwrap();
        assert_eq!(delete(&mut partition), (put, value.clone()));
        assert_eq!(delete(&mut partition), (put, value));
    }
}

#[test]
fn an_epoch_that_ran_out_of_versions_does_nothing() {
    let mut partition = partition(&memory(1 << 20));
    let last = Version::new(1, Version::SEQUENCE_MAX);
    partition.begin_snapshot(last, &[]).unwrap();
    partition.end_snapshot();
    let refused = OnceError::Refused(StoreError::VersionsExhausted { last });
    let put = partition.once(Some(attempt(1, 1)), |p| p.put(TABLE, b"key", b"value", None, 0));
    assert_eq!(put.unwrap_err(), refused);
    assert_eq!(partition.give_up(attempt(1, 1)), Err(refused));
    partition.set_recording(true);
    let (id, eviction) = (TableId(1), Eviction::None);
    partition.create_table(TableConfig { id, ordered: false, quota: None, eviction });
    assert!(!partition.has_table(id));
    assert!(partition.take_entry().is_none());
}
