//! `kv import`: store the objects of a file.

#![expect(clippy::disallowed_methods, reason = "it reads a file")]

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::builder::BoolishValueParser;
use weft_client::BlockingClient;

use crate::args::Global;
use crate::complaint::note;
use crate::dump;
use crate::dump::progress::{self, Done, Progress};
use crate::dump::{Entries, Entry, FileFormat};
use crate::output::Output;
use crate::text;

/// Objects that are put together …
const TOGETHER: usize = 1_000;
/// … or fewer, if they have so many bytes.
const TOGETHER_BYTES: usize = 8 << 20;
/// Batches between two notes of how far it has come.
const SAVE_EVERY: u64 = 10;

/// Store the objects of a file that `kv export` has written
#[derive(Debug, clap::Args)]
#[command(override_usage = "kv import [OPTIONS] <FILE>")]
pub(crate) struct Import {
    /// The file; `-` is stdin
    file: PathBuf,

    /// How objects are written there [default: csv if the file is named so, jsonl otherwise]
    #[arg(long, env = "WEFT_FILE_FORMAT", value_name = "FORMAT")]
    format: Option<FileFormat>,

    /// Go on with one that was stopped
    #[arg(long, env = "WEFT_RESUME", value_parser = BoolishValueParser::new())]
    resume: bool,
}

impl Import {
    pub(crate) fn run(self, global: &Global, output: &mut Output) -> anyhow::Result<()> {
        let context = || format!("cannot import {}", self.file.display());
        let format = FileFormat::of(self.format, &self.file);
        let is_stdin = self.file == Path::new("-");
        let file: Box<dyn BufRead> = if is_stdin {
            Box::new(io::stdin().lock())
        } else {
            Box::new(BufReader::new(File::open(&self.file).with_context(context)?))
        };
        let mut entries = Entries::new(format, file).with_context(context)?;
        let progress = (!is_stdin).then(|| Progress::beside(&self.file));
        let task = format!("import of {format} into table {}", global.table());
        let mut done = self.begun(progress.as_ref(), &task)?;
        for _ in 0..done.objects {
            entries.next().transpose().with_context(context)?;
        }
        let client = global.connect().with_context(context)?.blocking();
        if let Some(node) = done.note_nodes(&client) {
            bail!(
                "cannot go on with {}: {node} has started anew, and what was stored on it is gone; import from the \
                 beginning, without --resume",
                self.file.display()
            );
        }
        let counter = progress::counter();
        let imported = put_all(&client, &mut entries, &mut done, progress.as_ref(), &counter);
        counter.finish_and_clear();
        if let Some(progress) = progress {
            match imported {
                Ok(()) => progress.remove()?,
                // The next one begins anew, too.
                Err(_) if done.objects == 0 => {}
                // Why the import failed is told after this.
                Err(_) => match progress.save(&done) {
                    Ok(()) => note(&format!(
                        "{} objects are stored; give --resume to go on",
                        done.objects
                    )),
                    Err(error) => note(&format!("{} objects are stored; {error:#}", done.objects)),
                },
            }
        }
        imported.with_context(context)?;
        if let Some(node) = done.note_nodes(&client) {
            bail!(
                "{} is not imported whole: {node} has started anew meanwhile, and what had been stored on it is gone; \
                 import again",
                self.file.display()
            );
        }
        Ok(dump::tell(done.objects - done.expired, &self.file, output)?)
    }

    /// What is done of `task` already: nothing, unless it is to be gone on with.
    fn begun(&self, progress: Option<&Progress>, task: &str) -> anyhow::Result<Done> {
        match (progress, self.resume) {
            (None, true) => bail!("stdin cannot be gone on with: leave --resume out"),
            (Some(progress), true) => progress.load(task)?.with_context(|| {
                format!("nothing is to be gone on with: there is no {}", progress.path().display())
            }),
            (progress, false) => {
                if let Some(path) = progress.map(Progress::path).filter(|path| path.exists()) {
                    let path = path.display();
                    note(&format!(
                        "this import begins anew; --resume would have gone on by {path}"
                    ));
                }
                Ok(Done::of(task))
            }
        }
    }
}

fn put_all(
    client: &BlockingClient,
    entries: &mut Entries<Box<dyn BufRead>>,
    done: &mut Done,
    progress: Option<&Progress>,
    counter: &indicatif::ProgressBar,
) -> anyhow::Result<()> {
    let (mut batch, mut batches) = (Vec::with_capacity(TOGETHER), 0);
    loop {
        batch.clear();
        let (mut bytes, mut failed) = (0, None);
        while batch.len() < TOGETHER && bytes < TOGETHER_BYTES {
            match entries.next() {
                Some(Ok(entry)) => {
                    bytes += entry.key.len() + entry.value.len();
                    batch.push(entry);
                }
                Some(Err(error)) => {
                    failed = Some(error);
                    break;
                }
                None => break,
            }
        }
        done.expired += put(client, &batch)?;
        done.objects += batch.len() as u64;
        batches += 1;
        counter.set_position(done.objects);
        if let Some(error) = failed {
            return Err(error.into());
        }
        if batch.is_empty() {
            return Ok(());
        }
        if let Some(progress) = progress.filter(|_| batches % SAVE_EVERY == 0) {
            progress.save(done)?;
        }
    }
}

/// Puts a batch; objects that have expired meanwhile are left out. Returns how many these are.
fn put(client: &BlockingClient, batch: &[Entry]) -> anyhow::Result<u64> {
    let now_ms = client.client().endpoint().clock().unix_millis();
    let (mut objects, mut expired) = (Vec::with_capacity(batch.len()), 0);
    for Entry { key, value, expires_at_ms } in batch {
        if expires_at_ms.is_some_and(|at| at <= now_ms) {
            expired += 1;
        } else {
            objects.push((key, value, *expires_at_ms));
        }
    }
    for outcome in client.multi_put_until(&objects) {
        outcome.map_err(|(index, error)| {
            let key = text::quoted(objects[index].0);
            anyhow::Error::new(error).context(format!("cannot put {key}"))
        })?;
    }
    Ok(expired)
}
