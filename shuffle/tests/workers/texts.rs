//! Words of a text, over several workers.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::atomic::AtomicU64;

use tempfile::NamedTempFile;
use weft_object::Pair;
use weft_shuffle::{Dataset as _, InputError, JobError, Share, TextFile, Worker, records};

use crate::threads::{run, share};

/// How often words of each length occur in this worker's share of the text.
fn lengths(worker: &Worker, text: &TextFile) -> Result<Vec<Pair<u64, u64>>, JobError> {
    let share = Share::new(worker.id().0, worker.workers()).unwrap();
    text.lines(share, &AtomicU64::new(0))
        .flat_map_into(|line, emit| {
            for word in line.split_ascii_whitespace() {
                emit(word.len() as u64)?;
            }
            Ok(())
        })
        .map(|length| Pair { key: length, value: 1_u64 })
        .reduce_by_key(|one, other| one + other)
        .to_vec(worker)
}

/// A text of a few chunks, with lines that are no text before those of the numbers `malformed`.
fn text(malformed: &[usize]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in 0..200_000_usize {
        if malformed.contains(&number) {
            bytes.extend(b"\xff words\n");
        }
        bytes.extend(format!("{number} of  words \u{e9}\t{:x}\r\n", number * number).into_bytes());
    }
    bytes
}

fn file_of(bytes: &[u8]) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    file
}

#[test]
fn words_are_counted_wherever_their_lines_are() {
    let text = String::from_utf8(text(&[])).unwrap();
    let file = file_of(text.as_bytes());
    let mut expected = BTreeMap::new();
    for word in text.split_ascii_whitespace() {
        *expected.entry(word.len() as u64).or_insert(0) += 1;
    }
    for workers in [1, 2, 3] {
        let parts =
            run(workers, |worker| lengths(worker, &TextFile::open(file.path()).unwrap()).unwrap());
        let pairs = parts.iter().flatten().map(|pair| (pair.key, pair.value));
        assert_eq!(pairs.collect::<BTreeMap<u64, u64>>(), expected, "{workers} workers");
    }
}

#[test]
fn lines_that_are_no_text_are_counted_over_all_workers() {
    let file = file_of(&text(&[0, 60_000, 120_000, 180_000]));
    for (limit, is_enough) in [(3, false), (4, true), (9, true)] {
        let skipped = run(3, |worker| {
            let text = TextFile::open(file.path()).unwrap().skip_malformed(limit);
            lengths(worker, &text).unwrap();
            (text.skipped(), text.skipped_in_all(worker))
        });
        assert_eq!(skipped.iter().map(|(own, _)| own).sum::<u64>(), 4);
        for (own, all) in skipped {
            assert!(own < 4, "no worker has them all");
            match all {
                Ok(found) => assert!(is_enough && found == 4),
                Err(JobError::Input(error @ InputError::TooManyMalformed { .. })) => {
                    assert!(!is_enough);
                    let words = "has 4 malformed lines, where 3 may be skipped";
                    assert!(error.to_string().ends_with(words), "{error}");
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[test]
fn an_error_of_what_takes_results_ends_the_plan() {
    run(2, |worker| {
        // Who is still joining when another leaves fails to join.
        worker.gather(0_u64).unwrap();
        let mut records_seen = 0;
        let plan = records(share(worker, 100)).flat_map_into(|number, emit| {
            records_seen += 1;
            emit(number)?;
            emit(number + 1000)
        });
        let mut results = Vec::new();
        let ended = plan.run(worker, |result| {
            results.push(result);
            if results.len() == 3 { Err(JobError::Job("enough".to_owned())) } else { Ok(()) }
        });
        assert_eq!(ended.unwrap_err().to_string(), "enough");
        let first = worker.id().0 as u64;
        assert_eq!(results, [first, first + 1000, first + 2]);
        assert_eq!(records_seen, 2);
    });
}
