//! `shuffle validate`: whether records are in order, and which they are.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicU64;

use anyhow::Context as _;
use clap::builder::BoolishValueParser;
use serde_json::json;
use weft_shuffle::RecordFile;
use weft_shuffle::job::terasort::{Check, Checked, RECORD_BYTES};

use crate::report;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Validate {
    /// Files of records, in their order; of a folder, all files whose names begin with part-
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Print one JSON object
    #[arg(long, value_parser = BoolishValueParser::new())]
    json: bool,
}

/// Prints what there is; the exit code is 1 if it is not in order.
pub(crate) fn run(validate: &Validate) -> ExitCode {
    let checked = match check(&validate.paths) {
        Ok(checked) => checked,
        Err(error) => return report::complain(&error),
    };
    let text = if validate.json { object(&checked) } else { text(&checked) };
    match (report::say(&text), checked.unordered) {
        (said, 0) => said,
        (_, _) => ExitCode::FAILURE,
    }
}

fn check(paths: &[PathBuf]) -> anyhow::Result<Checked> {
    let mut check = Check::default();
    for path in paths {
        for path in files(path)? {
            let file = RecordFile::open(&path)?;
            file.each(0..file.len(), &AtomicU64::new(0), |record: &[u8; RECORD_BYTES]| {
                check.see(record);
                anyhow::Ok(())
            })?;
        }
    }
    Ok(check.so_far())
}

/// The files that are meant by a path.
fn files(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let cannot_read = || format!("cannot read {}", path.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(path).with_context(cannot_read)? {
        let entry = entry.with_context(cannot_read)?;
        if entry.file_name().as_encoded_bytes().starts_with(b"part-") {
            files.push(entry.path());
        }
    }
    anyhow::ensure!(!files.is_empty(), "{} has no files part-*", path.display());
    files.sort();
    Ok(files)
}

fn object(checked: &Checked) -> String {
    let Checked { records, checksum, duplicate_keys, unordered, first_unordered } = checked;
    let object = json!({
        "records": records,
        "checksum": format!("{checksum:x}"),
        "duplicate_keys": duplicate_keys,
        "unordered": unordered,
        "first_unordered": first_unordered,
    });
    format!("{object}\n")
}

fn text(checked: &Checked) -> String {
    let Checked { records, checksum, duplicate_keys, unordered, first_unordered } = checked;
    let order = match first_unordered {
        None => "in order".to_owned(),
        Some(first) => {
            format!("not in order: {unordered} below the one before, first record {first}")
        }
    };
    format!(
        "{records} records, {order}\nchecksum          {checksum:x}\nduplicate keys    {duplicate_keys}\n"
    )
}
