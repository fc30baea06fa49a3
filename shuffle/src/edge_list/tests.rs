//! What is accepted, what is refused and where, and that shares add up to the whole.

use std::error::Error;
use std::fmt::Write as _;
use std::io::Write;
use std::sync::atomic::Ordering;

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use tempfile::NamedTempFile;

use super::*;

type Edges = Vec<(u64, u64)>;

/// Fine enough that a text of a few lines has chunks for several workers.
const FINE: Cut = Cut { chunk_bytes: 64, line_bytes_max: 60 };

/// `"# a graph\n1 2\n3\t4\n"` as written by the `zstd` program, with a checksum.
const FOREIGN_ZSTD: [u8; 31] = [
    0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x68, 0x91, 0x00, 0x00, 0x23, 0x20, 0x61, 0x20, 0x67, 0x72, 0x61,
    0x70, 0x68, 0x0a, 0x31, 0x20, 0x32, 0x0a, 0x33, 0x09, 0x34, 0x0a, 0x44, 0x8c, 0xa3, 0xa5,
];

fn file_of(bytes: &[u8]) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    file
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn zstd(text: &[u8]) -> Vec<u8> {
    compress_to_vec(text, CompressionLevel::Fastest)
}

fn zstd_skippable(length: u32, content: &[u8]) -> Vec<u8> {
    [&[0x53, 0x2a, 0x4d, 0x18], length.to_le_bytes().as_slice(), content].concat()
}

fn share(index: usize, of: usize) -> Share {
    Share::new(index, of).unwrap()
}

fn read_cut(bytes: &[u8], cut: Cut, share: Share) -> Result<(Edges, Summary), InputError> {
    let file = file_of(bytes);
    let list = EdgeList::open(file.path())?;
    let mut edges = Edges::new();
    let counter = AtomicU64::new(0);
    let summary = list.edges_cut(cut, share, &counter, |from, to| edges.push((from, to)))?;
    assert_eq!(summary.edges, edges.len() as u64);
    assert_eq!(counter.load(Ordering::Relaxed), list.file_bytes());
    assert_eq!(list.file_bytes(), bytes.len() as u64);
    Ok((edges, summary))
}

/// Through the public edge, all of the file.
fn read(bytes: &[u8]) -> Result<(Edges, Summary), InputError> {
    let file = file_of(bytes);
    let mut edges = Edges::new();
    let summary =
        EdgeList::open(file.path())?
            .edges(Share::WHOLE, &AtomicU64::new(0), |from, to| edges.push((from, to)))?;
    Ok((edges, summary))
}

fn malformed(error: InputError) -> (u64, String, LineProblem) {
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

#[test]
fn takes_every_form_of_line() {
    let text = b"# FromNodeId\tToNodeId\n\
        % of KONECT\n\
        1 2\n\
        3\t4\n\
        \x20 \t5 \t  6\n\
        \n\
        \x20\t\n\
        \r\n\
        \t# comment after blanks\n\
        7 8\r\n\
        9 10 0.5 1082040961\n\
        11 12 \n\
        13 14 \r\n\
        000000000000000000000015 0\n\
        18446744073709551615 1844674407370955161\n\
        16 17";
    let (edges, summary) = read(text).unwrap();
    let expected = [
        (1, 2),
        (3, 4),
        (5, 6),
        (7, 8),
        (9, 10),
        (11, 12),
        (13, 14),
        (15, 0),
        (u64::MAX, 1_844_674_407_370_955_161),
        (16, 17),
    ];
    assert_eq!(edges, expected);
    assert_eq!(summary, Summary { edges: 10, lines: 16, bytes: text.len() as u64 });
}

#[test]
fn takes_texts_that_end_anyhow() {
    for (text, edges) in [
        ("", 0),
        ("\n", 0),
        ("# only a comment", 0),
        ("1 2", 1),
        ("1 2\n", 1),
        ("1 2\r", 1),
        ("1 2 ", 1),
        ("1 2\n\n", 1),
        ("1 2\n ", 1),
    ] {
        let (found, summary) = read(text.as_bytes()).unwrap();
        assert_eq!(found, vec![(1, 2); edges], "{text:?}");
        assert_eq!(summary.bytes, text.len() as u64, "{text:?}");
    }
}

#[test]
fn refuses_lines_that_are_no_edges() {
    for line in [
        "1",
        "1 ",
        "1\t\r",
        "one two",
        "1,2",
        "1;2",
        "1 two",
        "-1 2",
        "1 -2",
        "+1 2",
        "1.5 2",
        "1 2.5",
        "1 2x",
        "1 2,",
        "1x 2",
        "1\r2",
        "1 2\r3",
        "1\u{a0}2",
        "\u{feff}1 2",
        "1\x0b2",
        "// comment",
    ] {
        let text = format!("7 8\n{line}\n9 10\n");
        let (number, _, problem) = malformed(read(text.as_bytes()).unwrap_err());
        assert_eq!((number, problem), (2, LineProblem::NotAnEdge), "{line:?}");
    }
}

#[test]
fn refuses_numbers_past_64_bits() {
    for line in ["18446744073709551616 1", "1 18446744073709551616", "1 99999999999999999999999 2"]
    {
        let (number, found, problem) = malformed(read(line.as_bytes()).unwrap_err());
        assert_eq!((number, problem), (1, LineProblem::NumberTooLarge), "{line}");
        assert_eq!(found, line);
    }
}

#[test]
fn shows_the_beginning_of_a_line_escaped() {
    let (_, found, _) = malformed(read(b"1 2\n\x1b[31m\"Z\xc3\xbcrich\"\tx\r\n3 4").unwrap_err());
    assert_eq!(found, r#"\x1b[31m\"Z\xc3\xbcrich\"\tx"#);
    let (_, found, _) = malformed(read("x".repeat(40).as_bytes()).unwrap_err());
    assert_eq!(found, "x".repeat(40));
    let (_, found, _) = malformed(read("x".repeat(41).as_bytes()).unwrap_err());
    assert_eq!(found, "x".repeat(40) + "…");
}

#[test]
fn says_what_is_wrong_where_and_what_to_do() {
    let file = file_of(b"1 2\n3,4\n");
    let error =
        EdgeList::open(file.path()).unwrap().edges(Share::WHOLE, &AtomicU64::new(0), |_, _| {});
    let expected = format!(
        "line 2 of {} is no edge: expected two decimal numbers with blanks or tabs between, or # or % \
         first; it reads \"3,4\"",
        file.path().display()
    );
    assert_eq!(error.unwrap_err().to_string(), expected);
}

#[test]
fn refuses_a_matrix_market_header_whoever_owns_it() {
    let text = b"%%MatrixMarket matrix coordinate pattern general\n3 3 2\n1 2\n2 3\n";
    for index in 0..3 {
        let error = read_cut(text, FINE, share(index, 3)).unwrap_err();
        assert_eq!(malformed(error).2, LineProblem::MatrixMarket);
    }
    assert_eq!(read(&text[49 + 6..]).unwrap().0, [(1, 2), (2, 3)]);
}

#[test]
fn refuses_long_lines_and_only_those() {
    let limit = LINE_BYTES_MAX;
    let too_long = LineProblem::TooLong { limit };
    for (begin, ends) in [("# ", ["\n", "", "\n3 4\n"]), ("1 2 ", ["\n", "", "\n3 4\n"])] {
        for end in ends {
            let longest = begin.to_owned() + &"x".repeat(limit - begin.len());
            let text = format!("5 6\n{longest}{end}");
            assert!(read(text.as_bytes()).is_ok(), "{begin:?} {end:?}");
            let text = format!("5 6\n{longest}x{end}");
            let (number, found, problem) = malformed(read(text.as_bytes()).unwrap_err());
            assert_eq!((number, problem), (2, too_long), "{begin:?} {end:?}");
            assert!(found.starts_with(begin) && found.ends_with('…'));
        }
    }
    // Longer than a chunk: everybody finds it, and nobody keeps it.
    let text = "1 2\n# ".to_owned() + &"x".repeat(3 * CHUNK_BYTES);
    for bytes in [text.as_bytes().to_vec(), gzip(text.as_bytes()), zstd(text.as_bytes())] {
        let (number, _, problem) = malformed(read(&bytes).unwrap_err());
        assert_eq!((number, problem), (2, too_long));
    }
}

#[test]
fn tells_the_compression_by_content_and_takes_many_members() {
    let (first, second): (&[u8], &[u8]) = (b"1 2\n3 4", b"5\n6 7\n");
    let text = [first, second].concat();
    let expected = read(&text).unwrap();
    assert_eq!(expected.0, [(1, 2), (3, 45), (6, 7)]);
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
    assert_eq!(read(&FOREIGN_ZSTD).unwrap().0, [(1, 2), (3, 4)]);
    assert_eq!(read(&gzip(b"")).unwrap().0, []);
    assert_eq!(read(&zstd(b"")).unwrap().0, []);
}

/// Lines that do not compress to next to nothing, and fill several chunks of the usual size.
fn long_text() -> String {
    let mut state = 1_u64;
    let mut text = String::new();
    while text.len() < 3 * CHUNK_BYTES {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        writeln!(text, "{}\t{}", state >> 40, state % 1000).unwrap();
    }
    text
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
            let list = EdgeList::open(file.path()).unwrap();
            for index in [0, 8] {
                let error = list.edges(share(index, 9), &AtomicU64::new(0), |_, _| {}).unwrap_err();
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
fn refuses_a_binary_file() {
    let (line, _, problem) = malformed(read(b"\x7fELF\x02\x01\x01\x00\n\x00\xff").unwrap_err());
    assert_eq!((line, problem), (1, LineProblem::NotAnEdge));
    let (line, found, _) = malformed(read(&vec![0; 2 * CHUNK_BYTES]).unwrap_err());
    assert_eq!((line, found.as_str()), (1, (r"\x00".repeat(40) + "…").as_str()));
}

#[test]
fn refuses_what_is_no_file() {
    let folder = tempfile::tempdir().unwrap();
    for (path, kind, advice) in [
        (folder.path().to_owned(), io::ErrorKind::IsADirectory, "give a regular file"),
        (folder.path().join("absent"), io::ErrorKind::NotFound, "check the path"),
        ("/dev/null".into(), io::ErrorKind::InvalidInput, "give a regular file"),
    ] {
        let error = EdgeList::open(&path).unwrap_err();
        assert!(error.to_string().contains(advice), "{error}");
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
        match error {
            InputError::CannotOpen { source, .. } => assert_eq!(source.kind(), kind),
            other => panic!("not about opening: {other:?}"),
        }
    }
}

#[test]
fn names_the_line_in_later_chunks_and_only_to_their_owner() {
    let mut lines: Vec<String> = (0..100).map(|number| format!("{number} {number}")).collect();
    for bad in [0, 7, 8, 9, 50, 98, 99] {
        let good = std::mem::replace(&mut lines[bad], "bad".to_owned());
        let text = lines.join("\n");
        for of in [1, 2, 3, 7] {
            let results = (0..of).map(|index| read_cut(text.as_bytes(), FINE, share(index, of)));
            let errors: Vec<InputError> = results.filter_map(Result::err).collect();
            assert_eq!(errors.len(), 1, "line {bad} of {of} shares");
            for error in errors {
                let (line, found, _) = malformed(error);
                assert_eq!((line, found.as_str()), (bad as u64 + 1, "bad"), "{of} shares");
            }
        }
        lines[bad] = good;
    }
}

#[test]
fn a_share_is_one_of_at_least_one() {
    assert_eq!(Share::new(0, 1), Some(Share::WHOLE));
    assert_eq!(Share::new(0, 0), None);
    assert_eq!(Share::new(3, 3), None);
}

#[test]
fn gives_shares_of_about_the_same_size_at_the_usual_cut() {
    let text = long_text();
    let file = file_of(text.as_bytes());
    let list = EdgeList::open(file.path()).unwrap();
    let whole = list.edges(Share::WHOLE, &AtomicU64::new(0), |_, _| {}).unwrap();
    let parts: Vec<u64> = (0..3)
        .map(|index| list.edges(share(index, 3), &AtomicU64::new(0), |_, _| {}).unwrap().edges)
        .collect();
    assert_eq!(parts.iter().sum::<u64>(), whole.edges);
    assert!(parts.iter().all(|edges| *edges > whole.edges / 4), "{parts:?}");
}

/// A line that is fine, and its edge.
fn any_line() -> impl Strategy<Value = (String, Option<(u64, u64)>)> {
    let number = prop_oneof![0_u64..1000, any::<u64>()];
    let blanks = "[ \t]{1,3}";
    prop_oneof![
        8 => (number.clone(), blanks, number, "|\r| 5").prop_map(|(from, between, to, end)| {
            (format!("{from}{between}{to}{end}"), Some((from, to)))
        }),
        1 => "[#%][a-z0-9 ]{0,40}".prop_map(|line| (line, None)),
        1 => "[ \t]{0,3}\r?".prop_map(|line| (line, None)),
    ]
}

proptest! {
    #[test]
    fn shares_add_up_to_the_whole(
        lines in prop::collection::vec(any_line(), 0..80),
        ends_with_newline: bool,
        chunk_bytes in 64_usize..300,
        compression in 0..3,
    ) {
        let mut text: String = lines.iter().map(|(line, _)| format!("{line}\n")).collect();
        if !ends_with_newline {
            text.pop();
        }
        let bytes = match compression {
            0 => text.as_bytes().to_vec(),
            1 => gzip(text.as_bytes()),
            _ => zstd(text.as_bytes()),
        };
        let mut expected: Edges = lines.iter().filter_map(|(_, edge)| *edge).collect();
        let cut = Cut { chunk_bytes, line_bytes_max: 60 };
        prop_assert_eq!(&read_cut(&bytes, cut, Share::WHOLE).unwrap().0, &expected);
        expected.sort_unstable();
        let lines_expected = text.lines().count() as u64;
        for of in [1, 2, 3, 7] {
            let mut union = Edges::new();
            let mut lines_found = 0;
            for index in 0..of {
                let (edges, summary) = read_cut(&bytes, cut, share(index, of)).unwrap();
                union.extend(edges);
                lines_found += summary.lines;
                prop_assert_eq!(summary.bytes, text.len() as u64);
            }
            union.sort_unstable();
            prop_assert_eq!(&union, &expected);
            prop_assert_eq!(lines_found, lines_expected);
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), flip: u16, mark in 0..3) {
        let mut bytes = match mark {
            0 => bytes,
            1 => gzip(&bytes),
            _ => zstd(&bytes),
        };
        if let Some(index) = usize::from(flip).checked_rem(bytes.len()) {
            bytes[index] ^= 1 << (flip % 8);
        }
        let file = file_of(&bytes);
        if let Ok(list) = EdgeList::open(file.path()) {
            let mut calls = 0;
            let result = list.edges_cut(FINE, share(1, 2), &AtomicU64::new(0), |_, _| calls += 1);
            if let Ok(summary) = result {
                prop_assert_eq!(summary.edges, calls);
            }
        }
    }
}
