//! `kv table`: create, list, alter, truncate and drop tables.

use anyhow::Context;
use bytesize::ByteSize;
use clap::Subcommand;
use clap::builder::{BoolishValueParser, PossibleValuesParser, TypedValueParser};
use serde_json::json;
use weft_client::{Durability, Eviction, TableAlteration, TableOptions, TableSummary};

use crate::args::Global;
use crate::complaint::note;
use crate::number;
use crate::output::{Format, Output};

/// Create, list, alter, truncate and drop tables
#[derive(Debug, clap::Args)]
pub(crate) struct Table {
    #[command(subcommand)]
    change: Change,
}

#[derive(Debug, Subcommand)]
enum Change {
    /// Create a table
    Create(Create),
    /// List the tables, and what they hold
    List,
    /// Change the quota or the eviction of a table; `default` may be one
    Alter(Alter),
    /// Remove all objects of a table; `default` may be one
    Truncate {
        /// Its name
        name: String,
    },
    /// Remove a table and all its objects
    Drop {
        /// Its name
        name: String,
    },
}

#[derive(Debug, clap::Args)]
struct Create {
    /// Its name: letters, digits, `_`, `-` and `.`
    name: String,

    /// Keep keys in their order, so that kv range can read them so
    #[arg(long, env = "WEFT_TABLE_ORDERED", value_parser = BoolishValueParser::new())]
    ordered: bool,

    /// The most that its objects may take on all nodes together, such as 2GiB [default: what there is]
    #[arg(long, env = "WEFT_TABLE_QUOTA", value_name = "SIZE", value_parser = size)]
    quota: Option<u64>,

    /// Which objects go when the table has no room for a new one, or a node no memory: those unused for longest (lru), or those that
    /// expire soonest (ttl)
    #[arg(long, env = "WEFT_TABLE_EVICTION", value_name = "WHICH", value_parser = eviction(), default_value_t)]
    eviction: Eviction,

    /// On how many nodes each object is, fewer while there are fewer [default: as of the table default]
    #[arg(long, env = "WEFT_TABLE_REPLICAS", value_name = "N",
          value_parser = number::within(1..=TableOptions::REPLICAS_MAX))]
    replicas: Option<u8>,

    /// What of it is on disk: nothing (memory), what was written some moments ago (disk), or all that was acknowledged (fsync); the nodes need a
    /// --data-dir for the latter two [default: as of the table default]
    #[arg(long, env = "WEFT_TABLE_DURABILITY", value_name = "WHAT", value_parser = durability())]
    durability: Option<Durability>,
}

#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("change").required(true).multiple(true)))]
struct Alter {
    /// Its name
    name: String,

    /// The most that its objects may take on all nodes together from now on, such as 2GiB, or none
    #[arg(long, env = "WEFT_TABLE_QUOTA", value_name = "SIZE", value_parser = size_or_none, group = "change")]
    quota: Option<Quota>,

    /// Which objects go from now on when the table has no room for a new one, or a node no memory: none, those unused for longest (lru), or
    /// those that expire soonest (ttl)
    #[arg(long, env = "WEFT_TABLE_EVICTION", value_name = "WHICH", value_parser = eviction(), group = "change")]
    eviction: Option<Eviction>,
}

/// A quota that is given, or taken back.
#[derive(Debug, Clone, Copy)]
struct Quota(Option<u64>);

impl Table {
    pub(crate) fn run(self, global: &Global, output: &mut Output) -> anyhow::Result<()> {
        match self.change {
            Change::Create(create) => {
                let Create { name, ordered, quota: quota_bytes, eviction, replicas, durability } =
                    create;
                let context = || format!("cannot create table {name}");
                let client = global.connect_cluster().with_context(context)?.blocking();
                // What the cluster was founded with is what whoever founded it wants, where nothing else is said.
                let usual = client.client().map().default_class();
                let replicas = replicas.unwrap_or(usual.replicas);
                let durability = durability.unwrap_or(usual.durability);
                let options = TableOptions { ordered, quota_bytes, eviction, replicas, durability };
                client.create_table(&name, options).with_context(context)?;
            }
            Change::List => {
                let client = global.connect_cluster().context("cannot list the tables")?;
                let tables = client.blocking().tables().context("cannot list the tables")?;
                list(&tables, output)?;
            }
            Change::Alter(Alter { name, quota, eviction }) => {
                let context = || format!("cannot alter table {name}");
                let client = global.connect_cluster().with_context(context)?.blocking();
                let change =
                    TableAlteration { quota_bytes: quota.map(|Quota(bytes)| bytes), eviction };
                client.alter_table(&name, change).with_context(context)?;
            }
            Change::Truncate { name } => {
                let context = || format!("cannot truncate table {name}");
                let global = global.with_table(Some(name.clone()));
                let client = global.connect().with_context(context)?.blocking();
                let removed = client.truncate().with_context(context)?;
                match output.format {
                    Format::Json => output.json(&json!({ "removed": removed }))?,
                    Format::Table | Format::Raw => note(&format!("{removed} objects removed")),
                }
            }
            Change::Drop { name } => {
                let context = || format!("cannot drop table {name}");
                let client = global.connect_cluster().with_context(context)?.blocking();
                client.drop_table(&name).with_context(context)?;
            }
        }
        Ok(())
    }
}

fn list(tables: &[TableSummary], output: &mut Output) -> anyhow::Result<()> {
    let kind = |table: &TableSummary| if table.options.ordered { "ordered" } else { "hashed" };
    match output.format {
        Format::Table => {
            let size = |bytes: u64| ByteSize::b(bytes).display().iec().to_string();
            let rows = tables.iter().map(|table| {
                let quota = table.options.quota_bytes.map_or("-".to_owned(), size);
                let (objects, bytes) = (table.objects.to_string(), size(table.bytes));
                let eviction = table.options.eviction.to_string();
                let replicas = table.options.replicas.to_string();
                let durability = table.options.durability.to_string();
                let name = table.name.clone();
                let kind = kind(table).to_owned();
                [name, kind, durability, eviction, replicas, objects, bytes, quota]
            });
            let head = [
                "table",
                "keys",
                "durability",
                "eviction",
                "replicas",
                "objects",
                "bytes",
                "quota",
            ];
            output.table(&head, rows, 4)?;
        }
        Format::Raw => {
            for table in tables {
                output.line(&table.name)?;
            }
        }
        Format::Json => {
            let told = tables.iter().map(|table| {
                json!({
                    "name": table.name,
                    "id": table.id.0,
                    "ordered": table.options.ordered,
                    "quota_bytes": table.options.quota_bytes,
                    "eviction": table.options.eviction.name(),
                    "replicas": table.options.replicas,
                    "durability": table.options.durability.name(),
                    "objects": table.objects,
                    "bytes": table.bytes,
                })
            });
            output.json(&told.collect::<serde_json::Value>())?;
        }
    }
    Ok(())
}

fn eviction() -> impl TypedValueParser<Value = Eviction> {
    let named = |name: String| Eviction::ALL.into_iter().find(|one| one.name() == name);
    let names = PossibleValuesParser::new(Eviction::ALL.map(Eviction::name));
    names.map(move |name| named(name).expect("it is one of the names"))
}

fn durability() -> impl TypedValueParser<Value = Durability> {
    let names = PossibleValuesParser::new(Durability::ALL.map(Durability::name));
    names.map(|name| name.parse().expect("it is one of the names"))
}

fn size_or_none(text: &str) -> Result<Quota, &'static str> {
    if text == "none" {
        return Ok(Quota(None));
    }
    let bytes = size(text).map_err(|_| "give a size above 0, such as 512MiB, or none")?;
    Ok(Quota(Some(bytes)))
}

fn size(text: &str) -> Result<u64, &'static str> {
    let size: Result<ByteSize, _> = text.parse();
    let size = size.ok().map(|size| size.as_u64()).filter(|bytes| *bytes > 0);
    size.ok_or("give a size above 0, such as 512MiB")
}
