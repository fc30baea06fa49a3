//! `kv export`: write all objects to a file.

#![expect(clippy::disallowed_methods, reason = "it writes a file")]

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::builder::BoolishValueParser;
use weft_client::{BlockingScan, ScanCursor, ScanOptions, Scanned};

use crate::args::Global;
use crate::complaint::note;
use crate::dump;
use crate::dump::progress::{self, Done, Progress};
use crate::dump::{Entry, FileFormat};
use crate::output::Output;
use crate::text::{self, Bytes};

/// Objects between two notes of how far it has come, or a few more.
const SAVE_EVERY: u64 = 10_000;

/// Write all objects to a file, which `kv import` reads
#[derive(Debug, clap::Args)]
#[command(override_usage = "kv export [OPTIONS] <FILE> [PREFIX]")]
pub(crate) struct Export {
    /// The file; `-` is stdout
    file: PathBuf,

    /// Only keys that begin so
    prefix: Option<Bytes>,

    /// How objects are written [default: csv if the file is named so, jsonl otherwise]
    #[arg(long, env = "WEFT_FILE_FORMAT", value_name = "FORMAT")]
    format: Option<FileFormat>,

    /// Go on with one that was stopped
    #[arg(long, env = "WEFT_RESUME", value_parser = BoolishValueParser::new())]
    resume: bool,
}

impl Export {
    pub(crate) fn run(self, global: &Global, output: &mut Output) -> anyhow::Result<()> {
        let client = global.connect().context("cannot export")?.blocking();
        let format = FileFormat::of(self.format, &self.file);
        let mut options = ScanOptions { with_values: true, ..ScanOptions::default() };
        options.key_prefix = self.prefix.map(Bytes::into_vec).unwrap_or_default();
        if self.file == Path::new("-") {
            let mut stdout = BufWriter::new(io::stdout().lock());
            format.begin(&mut stdout)?;
            let mut scan = client.scan(options).context("cannot export")?;
            for scanned in scan.by_ref() {
                format.write(&mut stdout, &entry(scanned.context("cannot export")?))?;
            }
            return Ok(stdout.flush()?);
        }
        let progress = Progress::beside(&self.file);
        let prefix = text::quoted(&options.key_prefix);
        let table = global.table();
        let task = format!("export of {format} from table {table} with prefix {prefix}");
        let (mut file, mut done) = open(&self.file, self.resume, &progress, &task)?;
        let context = || format!("cannot write {}", self.file.display());
        if done.objects == 0 {
            format.begin(&mut file).with_context(context)?;
        }
        if let Some(cursor) = &done.cursor {
            options.from = cursor.parse().context("cannot go on")?;
        }
        let mut scan = client.scan(options).context("cannot export")?;
        let counter = progress::counter();
        let exported = write_all(&mut scan, format, &mut file, &mut done, &progress, &counter);
        counter.finish_and_clear();
        if let Err(error) = exported {
            if done.cursor.is_some() {
                note("what was exported is kept; give --resume to go on");
            } else {
                // It was made for this, and there is nothing to go on from.
                drop(file);
                fs::remove_file(&self.file).with_context(context)?;
            }
            return Err(error.context(format!("cannot export to {}", self.file.display())));
        }
        progress.remove()?;
        Ok(dump::tell(done.objects, &self.file, output)?)
    }
}

/// The file at the place where it goes on, and what is in it up to there.
fn open(
    path: &Path,
    resume: bool,
    progress: &Progress,
    task: &str,
) -> anyhow::Result<(BufWriter<File>, Done)> {
    let context = || format!("cannot write {}", path.display());
    let done = match resume.then(|| progress.load(task)).transpose()? {
        Some(Some(done)) => done,
        Some(None) => {
            bail!("nothing is to be gone on with: there is no {}", progress.path().display())
        }
        None => Done::of(task),
    };
    let mut options = OpenOptions::new();
    if resume {
        options.write(true);
    } else {
        // What is there may be all that is left of something.
        options.write(true).create_new(true);
    }
    let mut file = match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let resume =
                if progress.path().exists() { "--resume to go on with it, or " } else { "" };
            bail!("{} is there already: give {resume}another name", path.display())
        }
        file => file.with_context(context)?,
    };
    if file.metadata().with_context(context)?.len() < done.bytes {
        bail!("{} is shorter than what was written to it: export anew", path.display());
    }
    file.set_len(done.bytes).with_context(context)?;
    file.seek(SeekFrom::End(0)).with_context(context)?;
    Ok((BufWriter::new(file), done))
}

fn write_all(
    scan: &mut BlockingScan,
    format: FileFormat,
    file: &mut BufWriter<File>,
    done: &mut Done,
    progress: &Progress,
    counter: &indicatif::ProgressBar,
) -> anyhow::Result<()> {
    let mut saved = None;
    while let Some(scanned) = scan.next() {
        format.write(file, &entry(scanned?))?;
        done.objects += 1;
        let is_due = saved.is_none_or(|saved| done.objects - saved >= SAVE_EVERY);
        if is_due && scan.is_between_pages() {
            save(scan.cursor(), file, done, progress)?;
            saved = Some(done.objects);
            counter.set_position(done.objects);
        }
    }
    Ok(file.flush()?)
}

/// Keeps how far it has come, once that is in the file.
fn save(
    cursor: ScanCursor,
    file: &mut BufWriter<File>,
    done: &mut Done,
    progress: &Progress,
) -> anyhow::Result<()> {
    file.flush()?;
    done.bytes = file.stream_position()?;
    done.cursor = Some(cursor.to_string());
    progress.save(done)
}

fn entry(scanned: Scanned) -> Entry {
    let value = scanned.value.expect("values were asked for").to_vec();
    Entry { key: scanned.key, value, expires_at_ms: scanned.expires_at_ms }
}
