//! What is accepted, what is refused and where, and that shares add up to the whole.

use proptest::prelude::*;

use super::*;
use crate::text_file::tests::{file_of, gzip, long_text, malformed, share, zstd};

type Edges = Vec<(u64, u64)>;

/// Fine enough that a text of a few lines has chunks for several workers.
const FINE: Cut = Cut { chunk_bytes: 64, line_bytes_max: 60 };

fn read_cut(bytes: &[u8], cut: Cut, share: Share) -> Result<(Edges, Summary), InputError> {
    let file = file_of(bytes);
    let list = EdgeList::open(file.path())?;
    let mut edges = Edges::new();
    let summary = list.edges_cut(cut, share, &AtomicU64::new(0), |from, to| {
        edges.push((from, to));
        Ok::<_, InputError>(())
    })?;
    assert_eq!(summary.edges, edges.len() as u64);
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
    assert_eq!(summary, Summary { edges: 10, lines: 16 });
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
        assert_eq!(summary.lines, text.lines().count() as u64, "{text:?}");
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
fn malformed_lines_are_skipped_and_counted_up_to_the_limit() {
    let long = "# ".to_owned() + &"x".repeat(2 * LINE_BYTES_MAX);
    let text = format!("1 2\n3,4\n5 6\n{long}\nx\n18446744073709551616 1\n7 8\n9");
    let file = file_of(text.as_bytes());
    let lines_malformed = [2, 4, 5, 6, 8];
    for limit in 0..7 {
        let list = EdgeList::open(file.path()).unwrap().skip_malformed(limit);
        let mut edges = Edges::new();
        let read = list.edges(Share::WHOLE, &AtomicU64::new(0), |from, to| edges.push((from, to)));
        assert_eq!(list.skipped(), limit.min(5));
        match read {
            Ok(summary) => {
                assert!(limit >= 5);
                assert_eq!(edges, [(1, 2), (5, 6), (7, 8)]);
                assert_eq!(summary, Summary { edges: 3, lines: 8 });
            }
            Err(error) => {
                assert_eq!(malformed(error).0, lines_malformed[limit as usize]);
                assert_eq!(edges, [(1, 2), (5, 6), (7, 8)][..[1, 2, 2, 2, 3][limit as usize]]);
            }
        }
    }
}

#[test]
fn a_matrix_market_header_is_never_skipped() {
    let file = file_of(b"%%MatrixMarket matrix coordinate pattern general\n3 3 2\n1 2\n2 3\n");
    let list = EdgeList::open(file.path()).unwrap().skip_malformed(u64::MAX);
    let error = list.edges(Share::WHOLE, &AtomicU64::new(0), |_, _| {}).unwrap_err();
    let (line, found, problem) = malformed(error);
    assert_eq!((line, problem), (1, LineProblem::MatrixMarket));
    assert_eq!(found, "%%MatrixMarket matrix coordinate pattern…");
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
fn refuses_a_binary_file() {
    let (line, _, problem) = malformed(read(b"\x7fELF\x02\x01\x01\x00\n\x00\xff").unwrap_err());
    assert_eq!((line, problem), (1, LineProblem::NotAnEdge));
    let (line, found, _) = malformed(read(&vec![0; 2 * CHUNK_BYTES]).unwrap_err());
    assert_eq!((line, found.as_str()), (1, (r"\x00".repeat(40) + "…").as_str()));
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
            let result = list.edges_cut(FINE, share(1, 2), &AtomicU64::new(0), |_, _| {
                calls += 1;
                Ok::<_, InputError>(())
            });
            if let Ok(summary) = result {
                prop_assert_eq!(summary.edges, calls);
            }
        }
    }
}
