//! `kv fields` and `kv patch`: read and change fields of a record.

use anyhow::{Context, bail};
use clap::builder::BoolishValueParser;
use serde_json::{Map, Value};
use weft_client::{ClientError, ErrorCode, FieldChange, FieldsLookup, Lookup, Record, Version};

use crate::args::Global;
use crate::command::put::tell_version;
use crate::complaint::WrongUsage;
use crate::duration::Lifetime;
use crate::output::{Format, Output};
use crate::text::{self, Bytes};
use crate::value::Source;

/// Print fields of the record under a key: those that are named, or all; exit code 1 if one is missing
#[derive(Debug, clap::Args)]
#[command(override_usage = "kv fields [OPTIONS] <KEY> [NAME]…")]
pub(crate) struct Fields {
    /// The key
    key: Bytes,

    /// The fields
    names: Vec<Bytes>,
}

/// Change fields of the record under a key, all or none, and make one if there is none
#[derive(Debug, clap::Args)]
#[command(override_usage = "kv patch [OPTIONS] <KEY> [NAME=VALUE]…")]
pub(crate) struct Patch {
    /// The key
    key: Bytes,

    /// What fields are to be; a value that is `-` is read from stdin, `@FILE` from a file
    #[arg(value_name = "NAME=VALUE")]
    fields: Vec<Bytes>,

    /// Take values as they are typed, `-` and `@` included
    #[arg(long, env = "WEFT_LITERAL", value_parser = BoolishValueParser::new())]
    literal: bool,

    /// Remove a field; may be given several times
    #[arg(long, env = "WEFT_PATCH_REMOVE", value_name = "NAME")]
    remove: Vec<Bytes>,

    #[command(flatten)]
    lifetime: Lifetime,
}

impl Fields {
    pub(crate) fn run(self, global: &Global, output: &mut Output) -> anyhow::Result<()> {
        let key = text::quoted(&self.key);
        let context = || format!("cannot read the fields of {key}");
        let client = global.connect().with_context(context)?.blocking();
        if self.names.is_empty() {
            let Lookup::Found(object) = client.get(&self.key).with_context(context)? else {
                bail!("key not found: {key}");
            };
            let Ok(record) = Record::parse(&object) else {
                let code = ErrorCode::NotARecord;
                bail!("{key} holds no record of fields ({code})");
            };
            let fields = record.fields().map(|(name, value)| (name, Some(value)));
            return tell(&self.key, object.version(), fields, output);
        }
        match client.get_fields(&self.key, &self.names).with_context(context)? {
            FieldsLookup::Found(found) => {
                let names = self.names.iter().map(|name| &**name);
                tell(&self.key, found.version(), names.zip(found.iter()), output)?;
                let missing =
                    self.names.iter().zip(found.iter()).find(|(_, value)| value.is_none());
                if let Some((name, _)) = missing {
                    output.finish()?;
                    bail!("{key} has no field {}", text::quoted(name));
                }
                Ok(())
            }
            FieldsLookup::Absent { .. } => bail!("key not found: {key}"),
        }
    }
}

impl Patch {
    pub(crate) fn run(self, global: &Global, output: &mut Output) -> anyhow::Result<()> {
        let context = || format!("cannot change fields of {}", text::quoted(&self.key));
        let fields = self.read_fields()?;
        let changes = self.changes(&fields).with_context(context)?;
        let client = global.connect().with_context(context)?.blocking();
        let lifetime = self.lifetime.expires_in;
        let version = client.change_fields(&self.key, &changes, lifetime).with_context(context)?;
        tell_version(&self.key, version, None, output)
    }

    /// Names and values of the fields that are to be.
    fn read_fields(&self) -> anyhow::Result<Vec<(&[u8], Vec<u8>)>> {
        let mut fields = Vec::with_capacity(self.fields.len());
        for field in &self.fields {
            let Some(at) = field.iter().position(|byte| *byte == b'=') else {
                let field = text::quoted(field);
                return Err(WrongUsage(format!("{field} has no value: write NAME=VALUE")).into());
            };
            let value = Source::of(field[at + 1..].to_vec(), self.literal).read()?;
            fields.push((&field[..at], value));
        }
        if fields.is_empty() && self.remove.is_empty() {
            return Err(WrongUsage("nothing is to be changed: give NAME=VALUE".to_owned()).into());
        }
        Ok(fields)
    }

    fn changes<'a>(
        &'a self,
        fields: &'a [(&[u8], Vec<u8>)],
    ) -> Result<Vec<FieldChange<'a>>, ClientError> {
        let removed = self.remove.iter().map(|name| FieldChange::remove(name));
        let put = fields.iter().map(|(name, value)| FieldChange::put(name, value));
        Ok(removed.chain(put).collect::<Result<_, _>>()?)
    }
}

/// Prints a field a line; in raw its value only, as it was named.
fn tell<'a>(
    key: &Bytes,
    version: Version,
    fields: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
    output: &mut Output,
) -> anyhow::Result<()> {
    if output.format != Format::Json {
        for (name, value) in fields.filter_map(|(name, value)| Some((name, value?))) {
            if output.format == Format::Table {
                let (name, value) = (text::abridged(name), text::abridged(value));
                output.line(format!("{name}\t{value}"))?;
            } else {
                output.bytes(name)?;
                output.bytes(b"\t")?;
                output.bytes(value)?;
                output.line("")?;
            }
        }
        return Ok(());
    }
    let fields = fields.map(|(name, value)| {
        let mut told = Map::new();
        text::insert(&mut told, "name", name);
        match value {
            Some(value) => text::insert(&mut told, "value", value),
            None => drop(told.insert("error".to_owned(), "no such field".into())),
        }
        Value::from(told)
    });
    let mut told = Map::new();
    text::insert(&mut told, "key", key);
    told.insert("version".to_owned(), version.to_string().into());
    told.insert("fields".to_owned(), fields.collect());
    Ok(output.json(&Value::from(told))?)
}
