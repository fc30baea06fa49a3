//! What is accepted, what is refused and where, what lines are, and that shares add up to the whole.

use std::error::Error;
use std::fmt::Write as _;
use std::io::{Seek as _, SeekFrom, Write as _};

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use tempfile::NamedTempFile;

use super::*;

/// Fine enough that a text of a few lines has chunks for several workers.
const FINE: Cut = Cut { chunk_bytes: 64, line_bytes_max: 63 };

const NONE: [&str; 0] = [];

/// `"# a graph\n1 2\n3\t4\n"` as written by the `zstd` program, with a checksum.
const FOREIGN_ZSTD: [u8; 31] = [
    0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x68, 0x91, 0x00, 0x00, 0x23, 0x20, 0x61, 0x20, 0x67, 0x72, 0x61,
    0x70, 0x68, 0x0a, 0x31, 0x20, 0x32, 0x0a, 0x33, 0x09, 0x34, 0x0a, 0x44, 0x8c, 0xa3, 0xa5,
];

pub(crate) fn file_of(bytes: &[u8]) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    file
}

pub(crate) fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn zstd(text: &[u8]) -> Vec<u8> {
    compress_to_vec(text, CompressionLevel::Fastest)
}

fn zstd_skippable(length: u32, content: &[u8]) -> Vec<u8> {
    [&[0x53, 0x2a, 0x4d, 0x18], length.to_le_bytes().as_slice(), content].concat()
}

pub(crate) fn share(index: usize, of: usize) -> Share {
    Share::new(index, of).unwrap()
}

pub(crate) fn malformed(error: InputError) -> (u64, String, LineProblem) {
    match error {
        InputError::MalformedLine { line, found, problem, .. } => (line, found, problem),
        other => panic!("not about a line: {other:?}"),
    }
}

fn read_failure(error: InputError) -> io::ErrorKind {
    match error {
        InputError::CannotRead { source, .. } => source.kind(),
        other => panic!("not about reading: {other:?}"),
    }
}

/// Lines that do not compress to next to nothing, and fill several chunks of the usual size.
pub(crate) fn long_text() -> String {
    let mut state = 1_u64;
    let mut text = String::new();
    while text.len() < 3 * CHUNK_BYTES {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        writeln!(text, "{}\t{}", state >> 40, state % 1000).unwrap();
    }
    text
}

/// The lines of a share, cut as `cut` says, of which `limit` malformed ones may be skipped, and how many were; what came before an
/// error is with it.
fn read_cut(
    bytes: &[u8],
    cut: Cut,
    share: Share,
    limit: u64,
) -> (Vec<String>, u64, Option<InputError>) {
    let file = file_of(bytes);
    let text = TextFile::open(file.path()).unwrap().skip_malformed(limit);
    let counter = AtomicU64::new(0);
    let mut lines = Vec::new();
    let read = Lines { text: &text, cut, share, file_bytes_read: &counter }.each(|line| {
        lines.push(line.to_owned());
        Ok(())
    });
    if read.is_ok() && share == Share::WHOLE {
        assert_eq!(counter.load(Ordering::Relaxed), bytes.len() as u64);
    }
    (lines, text.skipped(), read.err())
}

/// Through the public edge, all of the file.
fn read(bytes: &[u8]) -> Result<Vec<String>, InputError> {
    let file = file_of(bytes);
    let mut lines = Vec::new();
    TextFile::open(file.path())?.lines(Share::WHOLE, &AtomicU64::new(0)).each(|line| {
        lines.push(line.to_owned());
        Ok::<_, InputError>(())
    })?;
    Ok(lines)
}

#[test]
fn lines_come_without_their_ends() {
    for (text, expected) in [
        ("", &[][..]),
        ("\n", &[""]),
        ("\r\n", &[""]),
        ("one", &["one"]),
        ("one\r", &["one"]),
        ("one\ntwo\n", &["one", "two"]),
        ("one\r\n\r\n\ntwo", &["one", "", "", "two"]),
        (
            "a\rb\r\r\nZ\u{fc}rich \u{1f600}\0\u{2028}x\n",
            &["a\rb\r", "Z\u{fc}rich \u{1f600}\0\u{2028}x"],
        ),
    ] {
        assert_eq!(read(text.as_bytes()).unwrap(), expected, "{text:?}");
    }
}

#[test]
fn lines_that_are_kept_stay_as_they_were() {
    let text: String = (0..500).map(|number| format!("line {number}\n")).collect();
    let file = file_of(text.as_bytes());
    let file = TextFile::open(file.path()).unwrap();
    for every in [1, 7, 100] {
        let mut kept = Vec::new();
        let mut number = 0;
        let counter = AtomicU64::new(0);
        let lines =
            Lines { text: &file, cut: FINE, share: Share::WHOLE, file_bytes_read: &counter };
        let read = lines.each(|line| {
            assert_eq!(&*line, format!("line {number}"));
            if number % every == 0 {
                kept.push((number, line));
            }
            number += 1;
            Ok::<_, InputError>(())
        });
        read.unwrap();
        assert_eq!(number, 500);
        for (number, line) in kept {
            assert_eq!(&*line, format!("line {number}"));
        }
    }
}

#[test]
fn what_is_done_with_a_line_may_fail() {
    let file = file_of(b"1\n2\n3\n");
    let text = TextFile::open(file.path()).unwrap();
    let mut lines = 0;
    let read = text.lines(Share::WHOLE, &AtomicU64::new(0)).each(|line| {
        lines += 1;
        if &*line == "2" { Err(JobError::Job("two".to_owned())) } else { Ok(()) }
    });
    assert_eq!((lines, read.unwrap_err().to_string().as_str()), (2, "two"));
}

#[test]
fn refuses_what_is_no_text_and_says_where_and_what_to_do() {
    let file = file_of(b"one\nZ\xfcrich\r\ntwo\n");
    let text = TextFile::open(file.path()).unwrap();
    let mut lines = Vec::new();
    let refused = text.lines(Share::WHOLE, &AtomicU64::new(0)).each(|line| {
        lines.push(line.to_owned());
        Ok::<_, InputError>(())
    });
    let expected = format!(
        "line 2 of {} is no text: expected UTF-8, as `iconv --to-code=UTF-8` makes it; it reads \"Z\\xfcrich\"",
        file.path().display()
    );
    assert_eq!(refused.unwrap_err().to_string(), expected);
    assert_eq!(lines, ["one"]);
    // Characters that a line end cuts off, ones too long, halves of pairs, and what begins UTF-16.
    for bad in
        [&b"\xc3"[..], b"ab\xf0\x9f\x98", b"\xc0\xaf", b"\xed\xa0\x80", b"\xff\xfea\0", b"\x80 x"]
    {
        for end in [&b"\n"[..], b"", b"\nmore"] {
            let (line, _, problem) = malformed(read(&[b"1\n2\n", bad, end].concat()).unwrap_err());
            assert_eq!((line, problem), (3, LineProblem::NotUtf8), "{bad:?} {end:?}");
        }
    }
}

#[test]
fn lines_that_are_no_text_are_skipped_and_counted_up_to_the_limit() {
    let text: [&[u8]; 7] = [b"0", b"\xff1", b"2", b"\xff3", b"4\xff", b"5", b"\xff6"];
    let bytes = text.join(&b'\n');
    for limit in 0..6 {
        let (lines, skipped, error) = read_cut(&bytes, FINE, Share::WHOLE, limit);
        assert_eq!(skipped, limit.min(4));
        let Some(error) = error else {
            assert!(limit >= 4, "{limit}");
            assert_eq!(lines, ["0", "2", "5"]);
            continue;
        };
        let told = error.to_string();
        let (line, found, _) = malformed(error);
        assert_eq!(line, [2, 4, 5, 7][limit as usize]);
        assert_eq!(found, [r"\xff1", r"\xff3", r"4\xff", r"\xff6"][limit as usize]);
        assert_eq!(lines, [&["0"][..], &["0", "2"], &["0", "2"], &["0", "2", "5"]][limit as usize]);
        let before = match limit {
            0 => "\"".to_owned(),
            1 => "; 1 malformed line before it was skipped".to_owned(),
            _ => format!("; {limit} malformed lines before it were skipped"),
        };
        assert!(told.ends_with(&before), "{told}");
    }
}

#[test]
fn takes_lines_up_to_a_chunk_and_refuses_or_skips_longer_ones() {
    let too_long = LineProblem::TooLong { limit: CHUNK_BYTES - 1 };
    let longest = "x".repeat(CHUNK_BYTES - 1);
    for end in ["", "\n", "\nend\n"] {
        let text = format!("begin\n{longest}{end}");
        let lines = read(text.as_bytes()).unwrap();
        assert_eq!(lines, text.lines().collect::<Vec<_>>());
        let text = format!("begin\nx{longest}{end}");
        let (line, found, problem) = malformed(read(text.as_bytes()).unwrap_err());
        assert_eq!((line, problem), (2, too_long), "{end:?}");
        assert!(found.ends_with("xx…"));
    }
    // Of a line that is skipped, no part passes for another line, and lines are counted on.
    for long in [64, 65, 127, 128, 129, 1000] {
        let long = "y".repeat(long);
        for end in ["", "\n", "\nafter\n\nit"] {
            let text = format!("before\n{long}{end}");
            let (lines, skipped, error) = read_cut(text.as_bytes(), FINE, Share::WHOLE, 1);
            assert!(error.is_none(), "{error:?}");
            assert_eq!(skipped, 1);
            assert_eq!(lines, text.lines().filter(|line| *line != long).collect::<Vec<_>>());
            let bytes = [format!("before\n{long}\nafter\n").as_bytes(), b"\xff\n"].concat();
            let (_, _, error) = read_cut(&bytes, FINE, Share::WHOLE, 1);
            assert_eq!(malformed(error.unwrap()).0, 4);
        }
    }
}

#[test]
fn a_malformed_line_is_found_by_its_owner_only() {
    let long = "y".repeat(300);
    for bad in [b"\xff".as_slice(), long.as_bytes()] {
        for at in [0, 1, 30, 60] {
            let mut lines: Vec<Vec<u8>> =
                (0..60).map(|number| format!("line {number}").into()).collect();
            lines.insert(at, bad.to_vec());
            let bytes = lines.join(&b'\n');
            for of in [1, 2, 5] {
                let reads = (0..of).map(|index| read_cut(&bytes, FINE, share(index, of), 0).2);
                let errors: Vec<InputError> = reads.flatten().collect();
                assert_eq!(errors.len(), 1, "line {at} of {of} shares");
                for error in errors {
                    assert_eq!(malformed(error).0, at as u64 + 1);
                }
            }
        }
    }
}

#[test]
fn a_plain_text_is_entered_where_the_share_begins() {
    const CHUNKS: usize = 4 << 20;
    let mut file = NamedTempFile::new().unwrap();
    // All a hole but for one chunk, and more than anybody reads to its end.
    file.as_file().set_len((CHUNKS * CHUNK_BYTES) as u64).unwrap();
    let index = CHUNKS - 7;
    file.seek(SeekFrom::Start((index * CHUNK_BYTES - 9) as u64)).unwrap();
    file.write_all(b"not this\none\ntwo\n").unwrap();
    file.seek(SeekFrom::Start(((index + 1) * CHUNK_BYTES - 6) as u64)).unwrap();
    file.write_all(b"\nthree and more\nnot this\n").unwrap();
    let text = TextFile::open(file.path()).unwrap();
    let (mut lines, counter) = (Vec::new(), AtomicU64::new(0));
    let read = text.lines(share(index, CHUNKS), &counter).each(|line| {
        lines.push(line.trim_matches('\0').to_owned());
        Ok::<_, InputError>(())
    });
    read.unwrap();
    assert_eq!(lines, ["one", "two", "", "three and more"]);
    assert_eq!(counter.load(Ordering::Relaxed), CHUNK_BYTES as u64);
}

#[test]
fn what_is_read_of_all_shares_adds_up() {
    let text = "words of a line\n".repeat(100);
    let zstd = zstd(text.as_bytes());
    for (bytes, each) in [(text.as_bytes(), 0), (&gzip(text.as_bytes()), 1), (&zstd, 1)] {
        let file = file_of(bytes);
        let text = TextFile::open(file.path()).unwrap();
        for of in [1, 2, 3, 1000] {
            let counter = AtomicU64::new(0);
            for index in 0..of {
                let lines = Lines {
                    text: &text,
                    cut: FINE,
                    share: share(index, of),
                    file_bytes_read: &counter,
                };
                lines.each(|_| Ok::<_, InputError>(())).unwrap();
            }
            assert_eq!(counter.load(Ordering::Relaxed), text.bytes_to_read(of));
            let times = 1 + each * (of as u64 - 1);
            assert_eq!(text.bytes_to_read(of), times * bytes.len() as u64);
        }
    }
}

#[test]
fn tells_the_compression_by_content_and_takes_many_members() {
    let (first, second): (&[u8], &[u8]) = (b"1 2\n3 4", b"5\n6 7\n");
    let text = [first, second].concat();
    let expected = read(&text).unwrap();
    assert_eq!(expected, ["1 2", "3 45", "6 7"]);
    for compressed in [
        gzip(&text),
        [gzip(first), gzip(b""), gzip(second)].concat(),
        zstd(&text),
        [zstd(first), zstd(b""), zstd(second)].concat(),
        [zstd_skippable(3, b"abc"), zstd(&text)].concat(),
        [zstd(first), zstd_skippable(0, b""), zstd(second), zstd_skippable(1, b"z")].concat(),
    ] {
        assert_eq!(read(&compressed).unwrap(), expected);
    }
    assert_eq!(read(&FOREIGN_ZSTD).unwrap(), ["# a graph", "1 2", "3\t4"]);
    assert_eq!(read(&gzip(b"")).unwrap(), NONE);
    assert_eq!(read(&zstd(b"")).unwrap(), NONE);
}

#[test]
fn refuses_what_is_cut_off() {
    let text = long_text();
    for whole in [gzip(text.as_bytes()), zstd(text.as_bytes()), gzip(b"1 2"), zstd(b"1 2")] {
        let lengths = (5..12).chain([whole.len() / 2, whole.len() - 5, whole.len() - 1]);
        for length in lengths.filter(|length| *length < whole.len()) {
            let kind = read_failure(read(&whole[..length]).unwrap_err());
            assert_eq!(kind, io::ErrorKind::UnexpectedEof, "{length} of {}", whole.len());
        }
    }
    let skippable = [zstd(b"1 2\n"), zstd_skippable(9, b"short")].concat();
    assert_eq!(read_failure(read(&skippable).unwrap_err()), io::ErrorKind::UnexpectedEof);
}

#[test]
fn refuses_what_is_damaged_even_for_those_who_skip_it() {
    let text = long_text();
    for whole in [gzip(text.as_bytes()), zstd(text.as_bytes())] {
        // The checksum, which both formats have in their last eight bytes.
        let mut damaged = whole.clone();
        let checksum = whole.len() - if whole.starts_with(&[0x1f]) { 8 } else { 4 };
        damaged[checksum] ^= 1;
        // However little it is, it does not pass for the beginning of more.
        let trailing = [&b"trailing words"[..], b"\n", b"\0\0", b"words"]
            .map(|trailing| [whole.as_slice(), trailing].concat());
        for bytes in trailing.into_iter().chain([damaged]) {
            let file = file_of(&bytes);
            // However many lines may be skipped, damage is none of them.
            let text = TextFile::open(file.path()).unwrap().skip_malformed(u64::MAX);
            for index in [0, 8] {
                let read = text.lines(share(index, 9), &AtomicU64::new(0)).each(|_| Ok(()));
                let error: InputError = read.unwrap_err();
                assert!(error.to_string().ends_with("it is damaged: fetch it again"), "{error}");
                assert!(error.source().is_some());
            }
        }
    }
}

#[test]
fn names_what_a_zstd_file_may_not_use() {
    // A window of 2 GiB, as `--long=31` makes it.
    let wide = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa8, 0x01, 0x00, 0x00];
    let error = read(&wide).unwrap_err();
    assert!(error.to_string().contains("without --long"), "{error}");
    // The number of a dictionary.
    let with_dictionary = [0x28, 0xb5, 0x2f, 0xfd, 0x21, 0x07, 0x03, 0x19, 0x00, 0x00];
    let error = read(&with_dictionary).unwrap_err();
    assert!(error.to_string().contains("without a dictionary"), "{error}");
}

#[test]
fn refuses_what_is_no_file() {
    let folder = tempfile::tempdir().unwrap();
    for (path, kind, advice) in [
        (folder.path().to_owned(), io::ErrorKind::IsADirectory, "give a regular file"),
        (folder.path().join("absent"), io::ErrorKind::NotFound, "check the path"),
        ("/dev/null".into(), io::ErrorKind::InvalidInput, "give a regular file"),
    ] {
        let error = TextFile::open(&path).unwrap_err();
        assert!(error.to_string().contains(advice), "{error}");
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
        match error {
            InputError::CannotOpen { source, .. } => assert_eq!(source.kind(), kind),
            other => panic!("not about opening: {other:?}"),
        }
    }
}

#[test]
fn a_share_is_one_of_at_least_one() {
    assert_eq!(Share::new(0, 1), Some(Share::WHOLE));
    assert_eq!(Share::new(0, 0), None);
    assert_eq!(Share::new(3, 3), None);
}

proptest! {
    #[test]
    fn shares_add_up_to_the_lines_of_the_text(
        lines in prop::collection::vec(("[a-z \u{e0}-\u{ff}\u{1f600}]{0,12}", prop::option::weighted(0.1, 0..2_usize)), 0..80),
        ends_with_newline: bool,
        chunk_bytes in 64_usize..300,
        compression in 0..3,
    ) {
        let long = "z".repeat(1000);
        let line = |(line, bad): &(String, Option<usize>)| match bad {
            None => line.as_bytes().to_vec(),
            Some(0) => [line.as_bytes(), b"\xff", line.as_bytes()].concat(),
            Some(_) => [line.as_bytes(), long.as_bytes()].concat(),
        };
        let mut text: Vec<u8> = lines.iter().flat_map(|each| [line(each), b"\n".to_vec()]).flatten().collect();
        if !ends_with_newline {
            text.pop();
        }
        let bytes = match compression {
            0 => text.clone(),
            1 => gzip(&text),
            _ => zstd(&text),
        };
        let mut expected: Vec<&str> = lines.iter().filter(|(_, bad)| bad.is_none()).map(|(line, _)| line.as_str()).collect();
        // Without a line end, a last line of nothing is none.
        if !ends_with_newline && lines.last().is_some_and(|(line, bad)| line.is_empty() && bad.is_none()) {
            expected.pop();
        }
        let bad = lines.iter().filter(|(_, bad)| bad.is_some()).count() as u64;
        let cut = Cut { chunk_bytes, line_bytes_max: chunk_bytes - 1 };
        let (found, skipped, error) = read_cut(&bytes, cut, Share::WHOLE, bad);
        prop_assert!(error.is_none());
        prop_assert_eq!(&found, &expected);
        prop_assert_eq!(skipped, bad);
        expected.sort_unstable();
        for of in [2, 3, 7] {
            let (mut union, mut skipped_in_all) = (Vec::new(), 0);
            for index in 0..of {
                let (lines, skipped, error) = read_cut(&bytes, cut, share(index, of), bad);
                prop_assert!(error.is_none());
                union.extend(lines);
                skipped_in_all += skipped;
            }
            union.sort_unstable();
            prop_assert_eq!(&union, &expected);
            prop_assert_eq!(skipped_in_all, bad);
        }
    }

    #[test]
    fn words_are_those_of_the_lines(
        lines in prop::collection::vec(prop_oneof![
            "[a-z ]{0,60}",
            "([\\t \u{2003}\u{a0}]{0,2}\\PC{0,5}){0,5}",
            Just("\u{fffd}".to_owned()),
        ], 0..60),
        end in prop_oneof![Just("\n"), Just("\r\n")],
    ) {
        // What stands for a character that is none is one that is no text.
        let text = lines.iter().map(|line| format!("{line}{end}")).collect::<String>();
        let bytes = text.split('\u{fffd}').map(str::as_bytes).collect::<Vec<_>>().join(&b"\xff"[..]);
        let file = file_of(&bytes);
        for of in [1, 3] {
            let counter = AtomicU64::new(0);
            for index in 0..of {
                let text = TextFile::open(file.path()).unwrap().skip_malformed(60);
                let mut words = Vec::new();
                let read = Words { text: &text, cut: FINE, share: share(index, of), file_bytes_read: &counter };
                read.each(|word| {
                    words.push(word.to_owned());
                    Ok::<_, InputError>(())
                }).unwrap();
                let (lines, skipped, error) = read_cut(&bytes, FINE, share(index, of), 60);
                prop_assert!(error.is_none());
                let expected: Vec<&str> = lines.iter().flat_map(|line| line.split_whitespace()).collect();
                prop_assert_eq!(words, expected);
                prop_assert_eq!(text.skipped(), skipped);
            }
            prop_assert_eq!(counter.load(Ordering::Relaxed), bytes.len() as u64);
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), limit in 0_u64..20) {
        let (lines, skipped, error) = read_cut(&bytes, FINE, Share::WHOLE, limit);
        if error.is_none() {
            let of_text = String::from_utf8_lossy(&bytes);
            prop_assert_eq!(lines.len() as u64 + skipped, of_text.lines().count() as u64);
        }
    }
}
