//! The core workload: which operations on which records in which proportions, as YCSB's
//! `CoreWorkload` reads it from properties. Built once and shared by all requesters; just the
//! counters of records change.

mod mix;

#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::content::{Content, FieldLength};
use crate::generator::{
    AcknowledgedCounter, Counter, KeyChooser, Latest, Random, Scrambled, Uniform, Zipfian,
};
use crate::key::KeyFormat;
use crate::properties::{Properties, UsageError};
use crate::record::Layout;

pub(crate) use mix::{Mix, Transaction};

/// Bytes of the largest record; more than any target takes.
const RECORD_MAX: usize = 64 << 20;

/// Digits in a name; more than any target takes would just exhaust memory.
const ZERO_PADDING_MAX: usize = 60_000;

/// What is done with the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Insert them.
    Load,
    /// Read and change them.
    Run,
}

/// The workload, and the counters of records that its requesters share.
#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) phase: Phase,
    /// Operations to do; `None`: as many as the time allows.
    pub(crate) operations: Option<u64>,
    pub(crate) content: Content,
    pub(crate) key_format: KeyFormat,
    pub(crate) read_all_fields: bool,
    pub(crate) write_all_fields: bool,
    pub(crate) retry: InsertRetry,
    pub(crate) mix: Mix,
    /// How many records a scan wants.
    pub(crate) scan_length: ScanLength,
    /// What each requester draws keys from, in a copy of its own.
    pub(crate) key_chooser: KeyChooser,
    /// The numbers of the records to load.
    pub(crate) to_load: Counter,
    /// The records that exist, and the numbers of those to insert while running.
    pub(crate) inserted: AcknowledgedCounter,
}

/// What happens to an insert that fails while loading.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InsertRetry {
    pub(crate) limit: u64,
    /// Waited before each further attempt, give or take a fifth.
    pub(crate) interval: Duration,
}

impl Workload {
    pub(crate) fn new(phase: Phase, properties: &Properties) -> Result<Workload, UsageError> {
        const CORE: [&str; 3] =
            ["site.ycsb.workloads.CoreWorkload", "com.yahoo.ycsb.workloads.CoreWorkload", "core"];
        properties.choice("workload", &CORE.map(|name| (name, ())))?;

        let records = Records::from_properties(properties)?;
        let operation_count = properties.number("operationcount")?;
        let mix = Mix::from_properties(properties)?;
        Ok(Workload {
            phase,
            operations: match phase {
                Phase::Load => Some(records.used),
                Phase::Run => Some(operation_count).filter(|&count| count > 0),
            },
            content: content(properties)?,
            key_format: key_format(properties)?,
            read_all_fields: properties.flag("readallfields")?,
            write_all_fields: properties.flag("writeallfields")?,
            retry: insert_retry(properties)?,
            key_chooser: key_chooser(properties, records, operation_count, &mix)?,
            mix,
            scan_length: scan_length(properties)?,
            to_load: Counter::starting_at(records.first),
            inserted: AcknowledgedCounter::after(records.count),
        })
    }

    /// Whether ranges of records are asked for, so that targets have to keep the names in order.
    pub(crate) fn scans(&self) -> bool {
        self.mix.share(Transaction::Scan) > 0.0
    }

    /// Whether an update writes the whole record.
    pub(crate) fn updates_all(&self) -> bool {
        self.write_all_fields || self.content.layout.is_single()
    }

    /// How an update is done, for the report: results compare only if this does.
    pub(crate) fn update_method(&self) -> &'static str {
        if self.updates_all() { "put of the whole record" } else { "put of one field" }
    }
}

/// How many records scans want.
#[derive(Clone, Debug)]
pub(crate) enum ScanLength {
    Uniform(Uniform),
    /// Most want few.
    Zipfian {
        shortest: u64,
        beyond: Zipfian,
    },
}

impl ScanLength {
    pub(crate) fn draw(&self, random: &mut Random) -> u64 {
        match self {
            ScanLength::Uniform(uniform) => uniform.sample(random),
            ScanLength::Zipfian { shortest, beyond } => shortest + beyond.sample(random),
        }
    }
}

/// Which records there are.
#[derive(Clone, Copy, Debug)]
struct Records {
    count: u64,
    first: u64,
    used: u64,
}

impl Records {
    fn from_properties(properties: &Properties) -> Result<Records, UsageError> {
        let count: u64 = properties.number("recordcount")?;
        if count == 0 {
            return Err(properties.wrong("recordcount", "a whole number above 0"));
        }
        let first = properties.number("insertstart")?;
        let rest = count.saturating_sub(first);
        let used = properties.optional_number("insertcount")?.unwrap_or(rest);
        if used == 0 || used > rest {
            return Err(UsageError::Conflict {
                what: format!(
                    "insertstart = {first} and insertcount = {used} do not lie within \
                     recordcount = {count}"
                ),
                advice: "recordcount counts all records, those that other clients load included",
            });
        }
        Ok(Records { count, first, used })
    }
}

fn content(properties: &Properties) -> Result<Content, UsageError> {
    let fields: usize = properties.number("fieldcount")?;
    if fields == 0 {
        return Err(properties.wrong("fieldcount", "a whole number above 0"));
    }
    let longest: usize = properties.number("fieldlength")?;
    if longest.saturating_mul(fields) > RECORD_MAX {
        return Err(UsageError::Conflict {
            what: format!("fieldcount = {fields} times fieldlength = {longest} is over 64 MiB"),
            advice: "no target takes such records; make them smaller",
        });
    }
    let length = field_length(properties, longest)?;
    let verifiable = properties.flag("dataintegrity")?;
    if verifiable && !matches!(length, FieldLength::Constant(_)) {
        return Err(UsageError::Conflict {
            what: "dataintegrity = true needs fieldlengthdistribution = constant".to_owned(),
            advice: "leave one of the two out",
        });
    }
    Ok(Content {
        layout: Layout::new(properties.required("fieldnameprefix")?, fields),
        length,
        verifiable,
    })
}

fn field_length(properties: &Properties, longest: usize) -> Result<FieldLength, UsageError> {
    #[derive(Clone, Copy)]
    enum Distribution {
        Constant,
        Uniform,
        Zipfian,
    }
    let distributions = [
        ("constant", Distribution::Constant),
        ("uniform", Distribution::Uniform),
        ("zipfian", Distribution::Zipfian),
    ];
    let distribution = properties.choice("fieldlengthdistribution", &distributions)?;
    let shortest: usize = properties.number("minfieldlength")?;
    if !matches!(distribution, Distribution::Constant) && shortest > longest {
        return Err(properties.wrong("minfieldlength", "at most fieldlength"));
    }
    Ok(match distribution {
        Distribution::Constant => FieldLength::Constant(longest),
        Distribution::Uniform => {
            FieldLength::Uniform(Uniform::new(shortest as u64, longest as u64))
        }
        Distribution::Zipfian => FieldLength::Zipfian {
            shortest,
            beyond: Zipfian::new((longest - shortest) as u64 + 1, Zipfian::DEFAULT_THETA),
        },
    })
}

fn scan_length(properties: &Properties) -> Result<ScanLength, UsageError> {
    let distributions = [("uniform", false), ("zipfian", true)];
    let is_zipfian = properties.choice("scanlengthdistribution", &distributions)?;
    let shortest: u64 = properties.number("minscanlength")?;
    let longest: u64 = properties.number("maxscanlength")?;
    if shortest == 0 {
        return Err(properties.wrong("minscanlength", "a whole number above 0"));
    }
    if shortest > longest {
        return Err(properties.wrong("minscanlength", "at most maxscanlength"));
    }
    Ok(if is_zipfian {
        let beyond = Zipfian::new(longest - shortest + 1, Zipfian::DEFAULT_THETA);
        ScanLength::Zipfian { shortest, beyond }
    } else {
        ScanLength::Uniform(Uniform::new(shortest, longest))
    })
}

fn key_format(properties: &Properties) -> Result<KeyFormat, UsageError> {
    let zero_padding = properties.number("zeropadding")?;
    if zero_padding > ZERO_PADDING_MAX {
        return Err(properties.wrong("zeropadding", "a whole number up to 60000"));
    }
    let ordered = properties.choice("insertorder", &[("hashed", false), ("ordered", true)])?;
    Ok(KeyFormat { ordered, zero_padding })
}

fn insert_retry(properties: &Properties) -> Result<InsertRetry, UsageError> {
    let interval = properties.number("core_workload_insertion_retry_interval")?;
    Ok(InsertRetry {
        limit: properties.number("core_workload_insertion_retry_limit")?,
        interval: Duration::from_secs(interval),
    })
}

fn key_chooser(
    properties: &Properties,
    records: Records,
    operation_count: u64,
    mix: &Mix,
) -> Result<KeyChooser, UsageError> {
    #[derive(Clone, Copy)]
    enum Distribution {
        Uniform,
        Zipfian,
        Latest,
    }
    let distributions = [
        ("uniform", Distribution::Uniform),
        ("zipfian", Distribution::Zipfian),
        ("latest", Distribution::Latest),
    ];
    let theta: f64 = properties.number("zipfianconstant")?;
    if theta == 0.0 || (theta - 1.0).abs() < 1e-3 || !theta.is_finite() {
        let expected = "a number above 0, below 0.999 or above 1.001";
        return Err(properties.wrong("zipfianconstant", expected));
    }
    let Records { count, first, used } = records;
    Ok(match properties.choice("requestdistribution", &distributions)? {
        Distribution::Uniform => KeyChooser::Uniform(Uniform::new(first, first + used - 1)),
        Distribution::Zipfian => {
            // Twice the expected inserts, as upstream: the key space must not change while it
            // grows, or other records would become the popular ones. Upstream counts one more.
            let inserts = 2.0 * operation_count as f64 * mix.share(Transaction::Insert);
            KeyChooser::Zipfian(Scrambled::new(first, used + inserts as u64 + 1, theta))
        }
        Distribution::Latest => KeyChooser::Latest(Latest::new(count - 1, theta)),
    })
}
