use std::io::Write as _;

use super::*;

fn from_file(text: &str) -> Result<Properties, UsageError> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let mut properties = Properties::default();
    properties.read_file(file.path())?;
    Ok(properties)
}

fn given(settings: &[&str]) -> Properties {
    let mut properties = Properties::default();
    settings.iter().for_each(|setting| properties.read_override(setting).unwrap());
    properties
}

#[test]
fn files_follow_javas_format() {
    let properties = from_file(
        "# comment = ignored\n\
         ! so is this\n\
         \n\
         plain=1\n\
         \u{20} blanks around = a b \u{20}\n\
         colon:2\n\
         blank 3\n\
         url=redis://host:1=2\n\
         long=one,\\\n\
         \u{20}   two\n\
         escaped\\=name=\\u0041\\t\\\\\n\
         bare\n\
         last=with\\",
    )
    .unwrap();
    let expected = [
        ("bare", ""),
        ("blank", "3"),
        ("blanks", "around = a b"),
        ("colon", "2"),
        ("escaped=name", "A\t\\"),
        ("last", "with"),
        ("long", "one,two"),
        ("plain", "1"),
        ("url", "redis://host:1=2"),
    ];
    let values: Vec<(&str, &str)> =
        properties.values.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(values, expected);
}

#[test]
fn a_later_setting_overrides_an_earlier_one() {
    let mut properties = from_file("recordcount=1\nrecordcount=2\n").unwrap();
    assert_eq!(properties.number::<u64>("recordcount").unwrap(), 2);
    properties.read_override("recordcount=3").unwrap();
    assert_eq!(properties.number::<u64>("recordcount").unwrap(), 3);
}

#[test]
fn defaults_come_from_the_table() {
    let properties = Properties::default();
    assert_eq!(properties.number::<usize>("fieldcount").unwrap(), 10);
    assert_eq!(properties.optional_number::<u64>("insertcount").unwrap(), None);
    assert!(properties.flag("readallfields").unwrap());
}

#[test]
fn wrong_values_say_what_is_wrong_and_what_to_do() {
    let message = |error: UsageError| error.to_string();
    let properties = given(&["fieldcount=ten", "readproportion=-1", "status=yes"]);
    let error = message(properties.number::<usize>("fieldcount").unwrap_err());
    assert!(error.contains("fieldcount = `ten` is not a whole number"), "{error}");
    assert!(error.contains("the number of fields a record has (default 10)"), "{error}");
    assert!(properties.number::<f64>("readproportion").is_err());
    let error = message(properties.flag("status").unwrap_err());
    assert!(error.contains("one of true, false"), "{error}");
    let error = message(properties.number::<u64>("recordcount").unwrap_err());
    assert!(error.contains("recordcount is missing; give it by -p recordcount="), "{error}");

    let error = message(Properties::default().read_file(Path::new("no/such")).unwrap_err());
    assert!(error.contains("no/such") && error.contains("workloada"), "{error}");
    let error = message(Properties::default().read_override("recordcount").unwrap_err());
    assert!(error.contains("write -p name=value"), "{error}");
    let error = message(from_file("name=\\u00x1\n").unwrap_err());
    assert!(error.contains("line 1") && error.contains("\\u00x1"), "{error}");
}

#[test]
fn names_without_effect_are_warned_about() {
    let warnings = given(&["recordcnt=1", "mongodb.url=x", "db=t", "recordcount=1"]).warnings();
    assert_eq!(
        warnings,
        [
            "property db has no effect: the target is named on the command line",
            "property mongodb.url is unknown and has no effect; `ycsb properties` lists those \
             that are",
            "property recordcnt is unknown and has no effect; did you mean recordcount?",
        ]
    );
}

#[test]
fn the_documentation_lists_every_property() {
    let documentation = include_str!("../../../docs/ycsb.md");
    for property in KNOWN {
        let listed = format!("`{}`", property.name);
        assert!(documentation.contains(&listed), "docs/ycsb.md does not list {listed}");
    }
}
