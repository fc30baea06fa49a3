//! Every property that means something here, with its default: the settings' code takes defaults
//! from this table, `ycsb properties` prints it, and a name that is not in it gets a warning.

/// A property and what it means.
#[derive(Debug)]
pub(crate) struct Property {
    pub(crate) name: &'static str,
    /// As it would be written in a file; `None` where there is none, or it depends on others.
    pub(crate) default: Option<&'static str>,
    /// Completes the sentence "it is …".
    pub(crate) meaning: &'static str,
}

impl Property {
    /// The entry of a name that the code asks for.
    pub(super) fn named(name: &str) -> &'static Property {
        let found = KNOWN.iter().find(|property| property.name == name);
        found.expect("the table lists every property that the code asks for")
    }
}

const fn with_default(
    name: &'static str,
    default: &'static str,
    meaning: &'static str,
) -> Property {
    Property { name, default: Some(default), meaning }
}

const fn without_default(name: &'static str, meaning: &'static str) -> Property {
    Property { name, default: None, meaning }
}

pub(crate) const KNOWN: &[Property] = &[
    without_default("recordcount", "the number of records loaded"),
    with_default(
        "operationcount",
        "0",
        "the number of operations of a run; 0: until its time is over",
    ),
    with_default("insertstart", "0", "the number of the first record to load or to use"),
    without_default("insertcount", "the number of records to load or to use; all, if not given"),
    with_default("threadcount", "1", "the number of concurrent requesters, also set by -threads"),
    with_default(
        "target",
        "0",
        "the operations a second to attempt, also set by -target; 0: as many as possible",
    ),
    with_default(
        "maxexecutiontime",
        "0",
        "the seconds after which a run ends; 0: when all operations are done",
    ),
    with_default(
        "workload",
        "site.ycsb.workloads.CoreWorkload",
        "the workload class; there is just the core workload",
    ),
    with_default("status", "false", "whether progress is shown on standard error, also set by -s"),
    with_default("status.interval", "10", "the seconds between two status lines"),
    without_default("label", "what each status line begins with, also set by -l"),
    with_default(
        "spin.sleep",
        "false",
        "whether a throttled requester spins instead of sleeping, which takes a core a thread",
    ),
    with_default("exporter", "TextMeasurementsExporter", "the form of the report"),
    without_default("exportfile", "the file that takes the report instead of standard output"),
    without_default(
        "seed",
        "the seed of all random choices; not in upstream; differs by run, if not given",
    ),
    with_default("fieldcount", "10", "the number of fields a record has"),
    with_default(
        "fieldlength",
        "100",
        "the length of a field in bytes, the greatest one if lengths differ",
    ),
    with_default("minfieldlength", "1", "the least length of a field in bytes, if lengths differ"),
    with_default("fieldlengthdistribution", "constant", "how lengths of fields are distributed"),
    with_default("fieldnameprefix", "field", "what names of fields begin with"),
    with_default("readallfields", "true", "whether a read wants all fields or one"),
    with_default("writeallfields", "false", "whether an update writes all fields or one"),
    with_default(
        "dataintegrity",
        "false",
        "whether values follow from their keys and reads are verified",
    ),
    with_default("readproportion", "0.95", "the share of reads"),
    with_default("updateproportion", "0.05", "the share of updates"),
    with_default("insertproportion", "0", "the share of inserts"),
    with_default("scanproportion", "0", "the share of scans; of the targets, weft and basic scan"),
    with_default("minscanlength", "1", "the least number of records that a scan wants"),
    with_default("maxscanlength", "1000", "the greatest number of records that a scan wants"),
    with_default("scanlengthdistribution", "uniform", "how lengths of scans are distributed"),
    without_default(
        "table",
        "the table that records lie in, for weft; usertable if there are scans, else the default table",
    ),
    with_default(
        "readmodifywriteproportion",
        "0",
        "the share of reads followed by an update of the same record",
    ),
    with_default("requestdistribution", "uniform", "which records are asked for"),
    with_default(
        "zipfianconstant",
        "0.99",
        "the skew of zipfian and latest requests; not in upstream",
    ),
    with_default(
        "insertorder",
        "hashed",
        "whether names of records are hashed numbers, or follow the numbers",
    ),
    with_default("zeropadding", "1", "the least number of digits in the name of a record"),
    with_default(
        "core_workload_insertion_retry_limit",
        "0",
        "how often a failed insert is tried again",
    ),
    with_default(
        "core_workload_insertion_retry_interval",
        "3",
        "the seconds before a failed insert is tried again",
    ),
    with_default("measurementtype", "hdrhistogram", "how latencies are kept"),
    with_default(
        "measurement.interval",
        "op",
        "which latency is reported: from when an operation began, from when it was due, or both",
    ),
    with_default("hdrhistogram.percentiles", "50,95,99", "the percentiles that the report lists"),
    without_default(
        "server.pids",
        "the process ids of servers on this host, whose CPU time is reported; not in upstream",
    ),
    with_default(
        "weft.cluster",
        "127.0.0.1:7400",
        "the addresses of nodes of the cluster, HOST:PORT, divided by commas",
    ),
    with_default(
        "weft.mode",
        "blocking",
        "how requests are made: by a blocking thread each, or concurrently from few threads",
    ),
    with_default(
        "weft.async.threads",
        "1",
        "the number of threads that all requesters share if the mode is async",
    ),
    with_default("weft.timeout", "5000", "the milliseconds after which an operation fails"),
    with_default("weft.link", "auto", "what connections run over"),
    with_default("weft.poll", "adaptive", "how the client waits for replies"),
    with_default("redis.host", "127.0.0.1", "the host of the server"),
    with_default("redis.port", "6379", "the port of the server"),
    without_default(
        "redis.socket",
        "the Unix socket of a server on this host, in the place of host and port; not in upstream",
    ),
    without_default("redis.password", "the password of the server"),
    with_default("redis.timeout", "0", "the milliseconds after which an operation fails; 0: never"),
    with_default(
        "redis.cluster",
        "false",
        "whether the server is a cluster, which is not supported",
    ),
    with_default(
        "redis.mode",
        "blocking",
        "how requests are made: by a blocking thread each, or concurrently from few threads",
    ),
    with_default(
        "redis.async.threads",
        "1",
        "the number of threads, each with one connection, that all requesters share if the mode is async",
    ),
    with_default(
        "basic.mode",
        "blocking",
        "how the driver runs: with a thread each, or all requesters on few threads",
    ),
    with_default(
        "basic.async.threads",
        "1",
        "the number of threads that all requesters share if the mode is async",
    ),
];

/// Names of upstream that nothing depends on here, and why.
const WITHOUT_EFFECT: &[(&str, &str)] = &[
    ("db", "the target is named on the command line"),
    ("dotransactions", "`load` or `run` decides"),
    ("readallfieldsbyname", "a record is always fetched whole"),
    ("hotspotdatafraction", "requestdistribution=hotspot is not supported"),
    ("hotspotopnfraction", "requestdistribution=hotspot is not supported"),
    ("exponential.percentile", "requestdistribution=exponential is not supported"),
    ("exponential.frac", "requestdistribution=exponential is not supported"),
    ("fieldlengthhistogram", "fieldlengthdistribution=histogram is not supported"),
    ("hdrhistogram.fileoutput", "histograms are not written to files"),
    ("hdrhistogram.output.path", "histograms are not written to files"),
    ("measurement.histogram.verbose", "the buckets are not listed"),
    ("histogram.buckets", "latencies are kept in HDR histograms"),
    ("timeseries.granularity", "latencies are kept in HDR histograms"),
    ("measurement.raw.output_file", "latencies are kept in HDR histograms"),
    ("measurement.trackjvm", "there is no JVM"),
    ("reportlatencyforeacherror", "failed operations are reported together"),
    ("latencytrackederrors", "failed operations are reported together"),
];

/// What should be said about `name`, unless it means something.
pub(super) fn warning(name: &str) -> Option<String> {
    if KNOWN.iter().any(|property| property.name == name) {
        return None;
    }
    if let Some((_, reason)) = WITHOUT_EFFECT.iter().find(|(known, _)| *known == name) {
        return Some(format!("property {name} has no effect: {reason}"));
    }
    let closest = KNOWN
        .iter()
        .map(|property| (strsim::jaro_winkler(name, property.name), property.name))
        .max_by(|one, other| one.0.total_cmp(&other.0))
        .filter(|(similarity, _)| *similarity > 0.85);
    let advice = match closest {
        Some((_, name)) => format!("did you mean {name}?"),
        None => "`ycsb properties` lists those that are".to_owned(),
    };
    Some(format!("property {name} is unknown and has no effect; {advice}"))
}
