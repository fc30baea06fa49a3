//! What is a record, what is refused and where, and that shares add up to the whole.

use serde::Deserialize;

use super::*;
use crate::text_file::tests::{file_of, gzip, malformed, share, zstd};

#[derive(Debug, Deserialize, PartialEq)]
struct Place {
    name: String,
    people: u64,
    #[serde(default)]
    mayor: Option<String>,
}

fn read<T: DeserializeOwned>(file: &CsvFile, share: Share) -> Result<Vec<T>, InputError> {
    let mut records = Vec::new();
    file.each(CUT, share, &AtomicU64::new(0), |record| {
        records.push(record);
        Ok::<_, InputError>(())
    })?;
    Ok(records)
}

fn places(text: &[u8]) -> Result<Vec<Place>, InputError> {
    let file = file_of(text);
    read(&CsvFile::open(file.path())?, Share::WHOLE)
}

fn place(name: &str, people: u64, mayor: Option<&str>) -> Place {
    Place { name: name.into(), people, mayor: mayor.map(Into::into) }
}

#[test]
fn fields_are_found_by_their_names_whatever_their_order_and_quotes() {
    let text = "people,mayor,name\r\n\
        3,,\"Ulm, Neu-\"\n\
        \n\
        \r\n\
        12,\"the \"\"old\"\" one\",Zürich\r\n\
        7,\"\",\"\"";
    let expected = [
        place("Ulm, Neu-", 3, None),
        place("Zürich", 12, Some("the \"old\" one")),
        place("", 7, None),
    ];
    for bytes in [text.as_bytes().to_vec(), gzip(text.as_bytes()), zstd(text.as_bytes())] {
        assert_eq!(places(&bytes).unwrap(), expected);
    }
}

#[test]
fn without_names_fields_are_found_by_their_places() {
    let file = file_of(b"a,1,0.5\nb,2,-1e3\n");
    let records: Vec<(String, u8, f64)> =
        read(&CsvFile::open_without_names(file.path()).unwrap(), Share::WHOLE).unwrap();
    assert_eq!(records, [("a".to_owned(), 1, 0.5), ("b".to_owned(), 2, -1000.0)]);
    let empty = file_of(b"");
    assert_eq!(read::<Place>(&CsvFile::open(empty.path()).unwrap(), Share::WHOLE).unwrap(), []);
}

#[test]
fn a_line_that_is_no_record_is_named_or_skipped() {
    for (line, problem) in [
        (&b"\"Ulm"[..], LineProblem::LineBreakInQuotes),
        (b"Ulm,3,\"of\r", LineProblem::LineBreakInQuotes),
        (b"Ulm,3", LineProblem::OtherFieldCount { found: 2, expected: 3 }),
        (b"Ulm,3,x,y", LineProblem::OtherFieldCount { found: 4, expected: 3 }),
        (b"Ulm,many,x", LineProblem::NotTheRecord { field: Some(2) }),
        (b"Ulm,-1,x", LineProblem::NotTheRecord { field: Some(2) }),
        (b"Ulm,,x", LineProblem::NotTheRecord { field: Some(2) }),
        (b"U\xff,1,x", LineProblem::NotUtf8),
    ] {
        let text = [b"name,people,mayor\n\na,1,\n", line, b"\nb,2,\n"].concat();
        let (number, _, found) = malformed(places(&text).unwrap_err());
        assert_eq!((number, found), (4, problem), "{}", line.escape_ascii());
        let file = file_of(&text);
        let file = CsvFile::open(file.path()).unwrap().skip_malformed(1);
        let records: Vec<Place> = read(&file, Share::WHOLE).unwrap();
        assert_eq!(records, [place("a", 1, None), place("b", 2, None)]);
        assert_eq!(file.skipped(), 1);
    }
}

#[test]
fn a_first_line_that_names_nothing_is_never_skipped() {
    let long = "x".repeat(HEADER_BYTES_MAX + 1);
    for (text, problem) in [
        (&b"\"name\n1,2\n"[..], LineProblem::LineBreakInQuotes),
        (b"\xff\n", LineProblem::NotUtf8),
        (long.as_bytes(), LineProblem::TooLong { limit: HEADER_BYTES_MAX }),
    ] {
        let file = file_of(text);
        let (line, _, found) = malformed(CsvFile::open(file.path()).unwrap_err());
        assert_eq!((line, found), (1, problem));
    }
}

#[test]
fn an_error_says_what_to_do() {
    let file = file_of(b"name,people\n\"a\nb\",1\n");
    let opened = CsvFile::open(file.path()).unwrap();
    let expected = format!(
        "line 2 of {} ends within quotes: a field must have no line break, as lines are read apart; it reads \"\\\"a\"",
        file.path().display()
    );
    let error = read::<Place>(&opened, Share::WHOLE).unwrap_err();
    assert_eq!(error.to_string(), expected);
}

#[test]
fn shares_add_up_to_all_and_only_one_has_the_names() {
    let mut text = "number,\"square, of it\"\n".to_owned();
    let line = |number: u64| format!("{number},\"{}\"\n", number * number);
    text.extend((0..200_000).map(line));
    let file = file_of(text.as_bytes());
    let file = CsvFile::open(file.path()).unwrap();
    for of in [1, 3, 4] {
        let parts: Vec<Vec<(u64, u64)>> =
            (0..of).map(|index| read(&file, share(index, of)).unwrap()).collect();
        assert!(parts.iter().all(|part| !part.is_empty()) && file.skipped() == 0);
        let mut all = parts.concat();
        all.sort_unstable();
        assert!(all.into_iter().eq((0..200_000).map(|number| (number, number * number))));
    }
}
