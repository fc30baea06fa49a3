use rand::SeedableRng as _;

use super::*;
use crate::generator::Random;

fn properties(settings: &[&str]) -> Properties {
    let mut properties = Properties::default();
    settings.iter().for_each(|setting| properties.read_override(setting).unwrap());
    properties
}

fn workload(phase: Phase, settings: &[&str]) -> Result<Workload, UsageError> {
    Workload::new(phase, &properties(settings))
}

#[test]
fn the_shipped_files_are_the_standard_workloads() {
    for (name, read, update, read_modify_write) in
        [("a", 0.5, 0.5, 0.0), ("b", 0.95, 0.05, 0.0), ("c", 1.0, 0.0, 0.0), ("f", 0.5, 0.0, 0.5)]
    {
        let path = format!("{}/workloads/workload{name}", env!("CARGO_MANIFEST_DIR"));
        let mut properties = Properties::default();
        properties.read_file(path.as_ref()).unwrap();
        assert_eq!(properties.warnings(), Vec::<String>::new());
        let workload = Workload::new(Phase::Run, &properties).unwrap();
        let shares = [Transaction::Read, Transaction::Update, Transaction::ReadModifyWrite]
            .map(|transaction| (workload.mix.share(transaction) * 1e6).round() / 1e6);
        assert_eq!(shares, [read, update, read_modify_write], "workload{name}");
        assert_eq!(workload.operations, Some(1_000));
        assert!(matches!(workload.key_chooser, KeyChooser::Zipfian(_)));
        assert_eq!(workload.content.layout.count(), 10);
    }
}

#[test]
fn workload_e_scans_up_to_a_hundred_records() {
    let path = format!("{}/workloads/workloade", env!("CARGO_MANIFEST_DIR"));
    let mut properties = properties(&[]);
    properties.read_file(path.as_ref()).unwrap();
    assert_eq!(properties.warnings(), Vec::<String>::new());
    let run = Workload::new(Phase::Run, &properties).unwrap();
    assert!(run.scans() && (run.mix.share(Transaction::Scan) - 0.95).abs() < 1e-9);
    let mut random = Random::seed_from_u64(6);
    let lengths: Vec<_> = (0..10_000).map(|_| run.scan_length.draw(&mut random)).collect();
    assert_eq!((lengths.iter().min(), lengths.iter().max()), (Some(&1), Some(&100)));
    let mean = lengths.iter().sum::<u64>() as f64 / 10_000.0;
    assert!((mean - 50.5).abs() < 1.5, "{mean}");

    properties.read_override("scanlengthdistribution=zipfian").unwrap();
    let zipfian = Workload::new(Phase::Run, &properties).unwrap();
    let mut few = 0;
    for _ in 0..10_000 {
        let length = zipfian.scan_length.draw(&mut random);
        assert!((1..=100).contains(&length));
        few += usize::from(length <= 10);
    }
    assert!(few > 5_000, "{few}");
}

#[test]
fn a_load_inserts_its_share_of_the_records() {
    let load = workload(Phase::Load, &["recordcount=100", "insertstart=40", "insertcount=30"]);
    let load = load.unwrap();
    assert_eq!(load.operations, Some(30));
    assert_eq!(load.to_load.next(), 40);
    let rest = workload(Phase::Load, &["recordcount=100", "insertstart=40"]).unwrap();
    assert_eq!(rest.operations, Some(60));
}

#[test]
fn uniform_requests_stay_within_the_used_records() {
    let run = workload(Phase::Run, &["recordcount=100", "insertstart=40", "insertcount=10"]);
    let mut run = run.unwrap();
    let mut random = Random::seed_from_u64(5);
    let mut next = || run.key_chooser.next(&mut random, &run.inserted);
    assert!((0..1_000).all(|_| (40..50).contains(&next())));
}

#[test]
fn the_report_says_how_an_update_is_done() {
    let method = |settings: &[&str]| {
        let settings = [&["recordcount=1"], settings].concat();
        workload(Phase::Run, &settings).unwrap().update_method()
    };
    assert_eq!(method(&[]), "put of one field");
    assert_eq!(method(&["writeallfields=true"]), "put of the whole record");
    assert_eq!(method(&["fieldcount=1"]), "put of the whole record");
}

#[test]
fn what_cannot_run_is_refused_with_advice() {
    for (settings, expected) in [
        (&["recordcount=0"][..], "recordcount"),
        (&["recordcount=10", "insertcount=11"], "do not lie within recordcount = 10"),
        (&["recordcount=10", "insertstart=10"], "do not lie within recordcount = 10"),
        (&["recordcount=1", "fieldcount=0"], "fieldcount"),
        (&["recordcount=1", "fieldlength=99999999"], "over 64 MiB"),
        (&["recordcount=1", "requestdistribution=hotspot"], "one of uniform, zipfian, latest"),
        (&["recordcount=1", "fieldlengthdistribution=histogram"], "one of constant, uniform"),
        (&["recordcount=1", "scanlengthdistribution=x"], "one of uniform, zipfian"),
        (&["recordcount=1", "readproportion=0", "updateproportion=0"], "all proportions"),
        (&["recordcount=1", "zipfianconstant=1"], "zipfianconstant"),
        (&["recordcount=1", "zeropadding=1000000000000"], "zeropadding"),
        (&["recordcount=1", "workload=site.ycsb.workloads.RestWorkload"], "workload"),
        (
            &["recordcount=1", "dataintegrity=true", "fieldlengthdistribution=uniform"],
            "needs fieldlengthdistribution = constant",
        ),
        (
            &["recordcount=1", "fieldlengthdistribution=uniform", "minfieldlength=101"],
            "at most fieldlength",
        ),
    ] {
        let error = workload(Phase::Run, settings).unwrap_err().to_string();
        assert!(error.contains(expected), "{settings:?}: {error}");
    }
}
