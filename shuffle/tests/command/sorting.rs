//! Records come in order, whole or not at all.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::death::{kill, workers_with};
use crate::job::{Ended, Job, run, wait_for};

const RECORD_BYTES: usize = 100;
const KEY_BYTES: usize = 10;

/// A folder with records to sort.
struct Records {
    folder: tempfile::TempDir,
}

impl Records {
    fn of(count: u64) -> Records {
        let folder = tempfile::tempdir().unwrap();
        let records = Records { folder };
        let (count, input) = (count.to_string(), records.input());
        let input = input.to_str().unwrap();
        let ended = run(["generate", "terasort", "--records", &count, "--output", input]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        records
    }

    fn input(&self) -> PathBuf {
        self.folder.path().join("records")
    }

    fn output(&self) -> PathBuf {
        self.folder.path().join("sorted")
    }

    fn arguments(&self, more: &[&str]) -> Vec<String> {
        let (input, output) = (self.input(), self.output());
        let paths = ["--input", input.to_str().unwrap(), "--output", output.to_str().unwrap()];
        ["sort"].iter().chain(&paths).chain(more).map(|word| (*word).to_owned()).collect()
    }

    fn sort(&self, more: &[&str]) -> Ended {
        run(self.arguments(more))
    }

    /// What was sorted, in the order of the files.
    fn sorted(&self) -> Vec<u8> {
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(self.output()).unwrap().map(|file| file.unwrap().path()).collect();
        files.sort();
        files.iter().flat_map(|file| std::fs::read(file).unwrap()).collect()
    }

    /// The same by a plain sort of all of them.
    fn expected(&self) -> Vec<u8> {
        let bytes = std::fs::read(self.input()).unwrap();
        let mut records: Vec<&[u8]> = bytes.chunks(RECORD_BYTES).collect();
        records.sort_by_key(|record| &record[..KEY_BYTES]);
        records.concat()
    }

    /// The job was refused or failed, said why, and left nothing.
    fn assert_nothing_is_left(&self, ended: &Ended, words: &[&str]) {
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "it is said once: {}", ended.stderr);
        for word in words {
            assert!(ended.stderr.contains(word), "no {word:?} in {:?}", ended.stderr);
        }
        assert_eq!(names(self.folder.path()), ["records"]);
    }
}

fn names(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn validate<A: AsRef<OsStr>>(path: A) -> (Option<i32>, Value) {
    let ended = run([OsStr::new("validate"), path.as_ref(), OsStr::new("--json")]);
    assert_eq!(ended.stderr, "");
    (ended.code, serde_json::from_str(&ended.stdout).unwrap())
}

#[test]
fn records_are_sorted_as_a_plain_sort_does_with_any_number_of_workers() {
    for workers in ["1", "2", "3"] {
        let records = Records::of(30_000);
        let ended = records.sort(&["--workers", workers, "--json"]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let report: Value = serde_json::from_str(&ended.stdout).unwrap();
        assert_eq!((&report["records"], &report["bytes_spilled"]), (&json!(30_000), &json!(0)));
        assert_eq!(report["workers"].to_string(), workers);
        let parts = report["records_by_worker"].as_array().unwrap();
        let parts: Vec<u64> = parts.iter().map(|count| count.as_u64().unwrap()).collect();
        assert!(parts.iter().max().unwrap() * parts.len() as u64 <= 33_000, "{parts:?}");
        assert!(records.sorted() == records.expected());
        assert_eq!(names(records.folder.path()), ["records", "sorted"]);
    }
}

#[test]
fn what_memory_has_no_room_for_is_sorted_too() {
    let records = Records::of(600_000);
    for workers in ["1", "2"] {
        let ended = records.sort(&["--workers", workers, "--memory", "64MiB", "--json"]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let report: Value = serde_json::from_str(&ended.stdout).unwrap();
        let spilled = report["bytes_spilled"].as_u64().unwrap();
        assert_eq!(spilled > 0, workers == "1", "{report}");
        let peak = report["peak_memory_bytes"].as_u64().unwrap();
        assert!((32 << 20..(64 << 20) * 105 / 100).contains(&peak), "{peak} of 64 MiB");
        assert!(records.sorted() == records.expected());
        std::fs::remove_dir_all(records.output()).unwrap();
    }
}

#[test]
fn what_is_in_order_is_told_from_what_is_not() {
    let records = Records::of(5_000);
    assert_eq!(records.sort(&[]).code, Some(0));
    let (code, sorted) = validate(records.output());
    let (other_code, unsorted) = validate(records.input());
    assert_eq!((code, other_code), (Some(0), Some(1)));
    assert_eq!((&sorted["records"], &sorted["unordered"]), (&json!(5_000), &json!(0)));
    assert_eq!((&sorted["first_unordered"], &sorted["duplicate_keys"]), (&json!(null), &json!(0)));
    assert!(unsorted["unordered"].as_u64().unwrap() > 2_000, "{unsorted}");
    assert_eq!(sorted["checksum"], unsorted["checksum"], "they are the same records");
    // One is there twice, and another one not at all.
    let mut bytes = records.sorted();
    bytes.copy_within(..RECORD_BYTES, RECORD_BYTES);
    std::fs::write(records.input(), bytes).unwrap();
    let (code, twice) = validate(records.input());
    assert_eq!((code, &twice["duplicate_keys"]), (Some(0), &json!(1)));
    assert_ne!(twice["checksum"], sorted["checksum"]);
    let ended = run([OsStr::new("validate"), records.folder.path().as_os_str()]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("has no files part-*"), "{}", ended.stderr);
}

#[test]
fn nothing_is_sorted_into_nothing() {
    let records = Records::of(0);
    assert_eq!(records.sort(&["--workers", "3"]).code, Some(0));
    assert_eq!(names(&records.output()), ["part-00000", "part-00001", "part-00002"]);
    assert_eq!(records.sorted(), b"");
}

#[test]
fn what_cannot_be_sorted_is_said_and_leaves_nothing() {
    let records = Records::of(10);
    let nowhere = ["--spill-dir", "/no/such/folder"];
    records.assert_nothing_is_left(&records.sort(&nowhere), &["/no/such/folder", "--spill-dir"]);
    let input = records.input();
    let nowhere =
        ["sort", "--input", input.to_str().unwrap(), "--output", "/no/such/folder/sorted"];
    records.assert_nothing_is_left(&run(nowhere), &["cannot make /no/such/folder/sorted.part"]);
    std::fs::write(records.input(), [7; 2 * RECORD_BYTES + 1]).unwrap();
    records.assert_nothing_is_left(&records.sort(&[]), &["records has 201 bytes", "cut off"]);
    std::fs::remove_file(records.input()).unwrap();
    let ended = records.sort(&[]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("check the path"), "{}", ended.stderr);
}

#[test]
fn what_is_there_is_kept() {
    let records = Records::of(10);
    for taken in [records.output(), records.folder.path().join("sorted.part")] {
        std::fs::create_dir(&taken).unwrap();
        std::fs::write(taken.join("part-00000"), "mine").unwrap();
        let ended = records.sort(&[]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
        assert!(ended.stderr.contains(taken.to_str().unwrap()), "{}", ended.stderr);
        assert_eq!(names(&taken), ["part-00000"]);
        assert_eq!(std::fs::read(taken.join("part-00000")).unwrap(), b"mine");
        std::fs::remove_dir_all(&taken).unwrap();
    }
}

#[test]
fn what_was_made_in_place_of_the_output_meanwhile_is_kept() {
    let records = Records::of(600_000);
    let job = Job::start(records.arguments(&[]));
    wait_for("the workers", || (workers_with(records.folder.path()).len() == 2).then_some(()));
    std::fs::create_dir(records.output()).unwrap();
    let ended = job.end();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
    let told = format!(
        "{} was made by another while the job ran, and stays as it is; what the job made is removed: give another name, or remove that one, and run the job again",
        records.output().display()
    );
    assert_eq!(ended.stderr, format!("shuffle: {told}\n"));
    assert_eq!(names(records.folder.path()), ["records", "sorted"]);
    assert_eq!(names(&records.output()), [""; 0]);
}

#[test]
fn an_output_may_end_with_a_slash() {
    let records = Records::of(10);
    let (input, output) = (records.input(), format!("{}/", records.output().display()));
    let ended = run(["sort", "--input", input.to_str().unwrap(), "--output", &output]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(records.sorted() == records.expected());
}

#[test]
fn numbers_out_of_range_are_wrong_usage() {
    let records = Records::of(1);
    for (flag, value) in [
        ("--memory", "63MiB"),
        ("--memory", "much"),
        ("--memory", "0"),
        ("--workers", "0"),
        ("--link", "rdma"),
    ] {
        let ended = records.sort(&[flag, value]);
        assert_eq!(ended.code, Some(2), "{flag} {value}: {}", ended.stderr);
        assert!(ended.stderr.contains(flag), "{}", ended.stderr);
    }
    let ended = records.sort(&["--workers", "16", "--memory", "175MiB"]);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("each of 16 workers needs 176MiB"), "{}", ended.stderr);
    let ended = run(["sort", "--input", "/dev/stdin", "--output", "sorted"]);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
}

#[test]
fn variables_stand_in_for_flags_of_a_sort() {
    let records = Records::of(100);
    let (input, output) = (records.input(), records.output());
    let variables = [
        ("WEFT_SORT_INPUT", input.to_str().unwrap()),
        ("WEFT_SORT_OUTPUT", output.to_str().unwrap()),
        ("WEFT_SORT_WORKERS", "3"),
        ("WEFT_SORT_MEMORY", "1GiB"),
        ("WEFT_SORT_SPILL_DIR", ""),
        ("WEFT_SORT_JSON", "true"),
    ];
    let ended = Job::start_with(["sort"], variables).end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(report["workers"], 3);
}

#[test]
fn a_full_disk_ends_the_job_and_leaves_nothing() {
    let records = Records::of(600_000);
    let disk = tempfile::tempdir().unwrap();
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=4m", "weft-test"]).arg(disk.path());
    let outcome = mount.stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !outcome.is_ok_and(|status| status.success()) {
        eprintln!("left out: no file system can be mounted");
        return;
    }
    let path = disk.path().to_str().unwrap().to_owned();
    let ended = records.sort(&["--memory", "64MiB", "--workers", "1", "--spill-dir", &path]);
    assert!(Command::new("umount").arg(&path).status().unwrap().success(), "nothing has it open");
    records.assert_nothing_is_left(&ended, &[&path, "No space left", "--spill-dir"]);
}

#[test]
fn a_worker_that_is_killed_ends_the_job_and_nothing_is_left() {
    let records = Records::of(600_000);
    let job = Job::start(records.arguments(&["--workers", "3", "--max-attempts", "1"]));
    let workers = wait_for("the workers", || {
        let found = workers_with(records.folder.path());
        (found.len() == 3).then_some(found)
    });
    kill(workers[1].id);
    let ended = job.end();
    records.assert_nothing_is_left(&ended, &[&format!("worker {}", workers[1].index)]);
}
