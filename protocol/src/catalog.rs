//! Which tables there are: what every node and every client has to agree about.

use thiserror::Error;

use crate::codec::{Reader, Writer};
use crate::error::DecodeError;
use crate::limits::{TABLE_NAME_MAX, TABLES_MAX};
use crate::table::{Durability, Eviction, TableAlteration, TableClass, TableId, TableOptions};

/// Bytes of a catalog without tables.
const HEAD_LEN: usize = 8 + 2 + 2;
/// Bytes of a table without its name.
const TABLE_LEN_MIN: usize = 2 + 2 + 2 + 2 + 8;
/// The flag of a table that keeps its keys in order.
const ORDERED: u16 = 1 << 0;
/// Where in the flags the number of its eviction is, of two bits.
const EVICTION_SHIFT: u32 = 1;
const EVICTION_MASK: u16 = 0b11 << EVICTION_SHIFT;
/// The same for its durability.
const DURABILITY_SHIFT: u32 = 3;
const DURABILITY_MASK: u16 = 0b11 << DURABILITY_SHIFT;
/// The same for its replicas, of which 0 are three: so a table that is as any has no flags.
const REPLICAS_SHIFT: u32 = 5;
const REPLICAS_MASK: u16 = 0b11 << REPLICAS_SHIFT;

/// The tables of a cluster, but for the one that is always there, as of a version.
///
/// Consistent by construction: numbers and names are given to one table each. The number of a table that was dropped is given out again
/// only when all others have been.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Catalog {
    version: u64,
    /// The number that was given out last.
    last: TableId,
    /// Of the table that is always there, which is not ordered.
    default: TableOptions,
    /// By number.
    tables: Vec<TableEntry>,
}

/// A table of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableEntry {
    /// Its number, by which requests name it.
    pub id: TableId,
    /// Its name: 1 to [`TABLE_NAME_MAX`] letters and digits of ASCII, `_`, `-` and `.`.
    pub name: String,
    /// What it is like.
    pub options: TableOptions,
}

/// What can be wrong with a catalog, or with a change of one.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CatalogError {
    /// The name is none that a table may have.
    #[error(
        "{name:?} is no name of a table: give 1 to {TABLE_NAME_MAX} letters, digits, `_`, `-` or `.`"
    )]
    MalformedName {
        /// The name.
        name: String,
    },
    /// There is a table of this name already.
    #[error("there is a table {name} already")]
    Exists {
        /// The name.
        name: String,
    },
    /// There is no table of this name.
    #[error("there is no table {name}")]
    Unknown {
        /// The name.
        name: String,
    },
    /// The table is always there.
    #[error("table {} is always there", TableId::DEFAULT_NAME)]
    Default,
    /// A table cannot have so many replicas.
    #[error("a table has 1 to {} replicas, not {replicas}", TableOptions::REPLICAS_MAX)]
    Replicas {
        /// How many were asked for.
        replicas: u8,
    },
    /// There are as many tables as a cluster may have.
    #[error("a cluster has at most {TABLES_MAX} tables")]
    Full,
}

impl Catalog {
    /// No tables; the first is given the number after `last`.
    pub fn numbered_after(last: TableId) -> Self {
        Self { last, ..Self::default() }
    }

    /// A catalog as it was once: its version, the number that was given out last, what the table that is always there is like, and the others
    /// by number.
    ///
    /// # Errors
    ///
    /// [`DecodeError::ListTooLong`] or [`DecodeError::ContradictoryTables`] if these are no catalog.
    pub fn restored(
        version: u64,
        last: TableId,
        default: TableOptions,
        tables: Vec<TableEntry>,
    ) -> Result<Self, DecodeError> {
        let count = tables.len();
        if count > TABLES_MAX {
            return Err(DecodeError::ListTooLong { field: "tables", count, limit: TABLES_MAX });
        }
        if default.ordered || check_replicas(&default).is_err() {
            return Err(DecodeError::ContradictoryTables { id: TableId::DEFAULT });
        }
        let mut catalog = Self { version, last, default, tables: Vec::with_capacity(count) };
        for table in tables {
            let is_table = is_name(&table.name) && check_replicas(&table.options).is_ok();
            if !is_table || !catalog.may_follow(&table) {
                return Err(DecodeError::ContradictoryTables { id: table.id });
            }
            catalog.tables.push(table);
        }
        Ok(catalog)
    }

    /// Whether `table` may stand behind the tables that there are.
    fn may_follow(&self, table: &TableEntry) -> bool {
        let last = self.tables.last().map_or(TableId::DEFAULT, |last| last.id);
        last < table.id && self.id_of(&table.name).is_err()
    }

    /// The number that was given to a table last.
    pub const fn last_given(&self) -> TableId {
        self.last
    }

    /// The catalog's version: how often it was changed.
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// What the table is like that is always there.
    pub const fn default_options(&self) -> TableOptions {
        self.default
    }

    /// The tables, by number.
    pub fn tables(&self) -> &[TableEntry] {
        &self.tables
    }

    /// The table of this number.
    pub fn table(&self, id: TableId) -> Option<&TableEntry> {
        let position = self.tables.binary_search_by_key(&id, |table| table.id).ok()?;
        Some(&self.tables[position])
    }

    /// Which tables the table of this number shares partitions with.
    pub fn class_of(&self, id: TableId) -> Option<TableClass> {
        if id == TableId::DEFAULT {
            return Some(self.default.class());
        }
        self.table(id).map(|table| table.options.class())
    }

    /// The number of the table of this name.
    ///
    /// # Errors
    ///
    /// [`CatalogError::Unknown`].
    pub fn id_of(&self, name: &str) -> Result<TableId, CatalogError> {
        if name == TableId::DEFAULT_NAME {
            return Ok(TableId::DEFAULT);
        }
        let table = self.tables.iter().find(|table| table.name == name);
        table.map(|table| table.id).ok_or_else(|| CatalogError::Unknown { name: name.to_owned() })
    }

    /// The next version, with one more table.
    ///
    /// # Errors
    ///
    /// [`CatalogError::MalformedName`], [`CatalogError::Replicas`], [`CatalogError::Exists`] and [`CatalogError::Full`].
    pub fn with(&self, name: &str, options: TableOptions) -> Result<Self, CatalogError> {
        if !is_name(name) {
            return Err(CatalogError::MalformedName { name: name.to_owned() });
        }
        if !options.class().is_supported() {
            return Err(CatalogError::Replicas { replicas: options.replicas });
        }
        if self.id_of(name).is_ok() {
            return Err(CatalogError::Exists { name: name.to_owned() });
        }
        check_replicas(&options)?;
        if self.tables.len() >= TABLES_MAX {
            return Err(CatalogError::Full);
        }
        let mut next = self.next_version();
        loop {
            next.last = TableId(next.last.0.wrapping_add(1));
            if next.last == TableId::DEFAULT {
                continue;
            }
            if let Err(position) = self.tables.binary_search_by_key(&next.last, |table| table.id) {
                let table = TableEntry { id: next.last, name: name.to_owned(), options };
                next.tables.insert(position, table);
                return Ok(next);
            }
        }
    }

    /// The next version, without a table.
    ///
    /// # Errors
    ///
    /// [`CatalogError::Unknown`] and [`CatalogError::Default`].
    pub fn without(&self, name: &str) -> Result<Self, CatalogError> {
        let id = self.id_of(name)?;
        if id == TableId::DEFAULT {
            return Err(CatalogError::Default);
        }
        let mut next = self.next_version();
        next.tables.retain(|table| table.id != id);
        Ok(next)
    }

    /// The next version, with `change` made to a table, which may be the one that is always there.
    ///
    /// # Errors
    ///
    /// [`CatalogError::Unknown`].
    pub fn altered(&self, name: &str, change: TableAlteration) -> Result<Self, CatalogError> {
        let id = self.id_of(name)?;
        let mut next = self.next_version();
        let options = match next.tables.iter_mut().find(|table| table.id == id) {
            Some(table) => &mut table.options,
            None => &mut next.default,
        };
        *options = options.changed(change);
        Ok(next)
    }

    /// The tables as they are in a message: with the one that is always there, if it is not as it was at first.
    fn entries(&self) -> impl Iterator<Item = (TableId, &str, &TableOptions)> {
        let is_told = self.default != TableOptions::default();
        let default = (TableId::DEFAULT, TableId::DEFAULT_NAME, &self.default);
        let others = self.tables.iter().map(|table| (table.id, &*table.name, &table.options));
        is_told.then_some(default).into_iter().chain(others)
    }

    fn next_version(&self) -> Self {
        Self { version: self.version + 1, ..self.clone() }
    }
}

/// Whether a table may have this name.
fn is_name(name: &str) -> bool {
    let is_taken = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    (1..=TABLE_NAME_MAX).contains(&name.len()) && name.bytes().all(is_taken)
}

fn check_replicas(options: &TableOptions) -> Result<(), CatalogError> {
    match options.replicas {
        1..=TableOptions::REPLICAS_MAX => Ok(()),
        replicas => Err(CatalogError::Replicas { replicas }),
    }
}

/// `version u64 | last number u16 | count u16 | tables`, of which one is
/// `number u16 | flags u16 | name length u16 | 0 u16 | quota u64 | name`.
impl Catalog {
    /// Bytes of the catalog in a message.
    pub fn encoded_len(&self) -> usize {
        HEAD_LEN + self.entries().map(|(_, name, _)| table_len(name)).sum::<usize>()
    }

    pub(crate) fn encode(&self, writer: &mut Writer<'_>) {
        writer.u64(self.version);
        writer.u16(self.last.0);
        writer.u16(self.entries().count() as u16);
        for (id, name, options) in self.entries() {
            encode_table(id, name, options, writer);
        }
    }

    pub(crate) fn decode(mut reader: Reader<'_>) -> Result<Self, DecodeError> {
        let (version, last) = (reader.u64()?, TableId(reader.u16()?));
        let count = usize::from(reader.u16()?);
        let too_long = DecodeError::ListTooLong { field: "tables", count, limit: TABLES_MAX };
        if count > TABLES_MAX + 1 {
            return Err(too_long);
        }
        let default = TableOptions::default();
        let mut catalog = Self { version, last, default, tables: Vec::new() };
        let fits = reader.rest().len() / TABLE_LEN_MIN;
        catalog.tables.reserve(count.min(fits));
        for position in 0..count {
            let (id, name, options) = decode_table(&mut reader)?;
            let table = TableEntry { id, name: name.to_owned(), options };
            if position == 0 && table.id == TableId::DEFAULT {
                let is_it = table.name == TableId::DEFAULT_NAME
                    && !table.options.ordered
                    && table.options.class().is_supported();
                if !is_it || table.options == default {
                    return Err(DecodeError::ContradictoryTables { id: table.id });
                }
                catalog.default = table.options;
                continue;
            }
            if !catalog.may_follow(&table) {
                return Err(DecodeError::ContradictoryTables { id: table.id });
            }
            catalog.tables.push(table);
        }
        if catalog.tables.len() > TABLES_MAX {
            return Err(too_long);
        }
        reader.finish()?;
        Ok(catalog)
    }
}

/// Bytes of a table of this name.
pub(crate) const fn table_len(name: &str) -> usize {
    TABLE_LEN_MIN + name.len()
}

/// Writes a table as a catalog has it.
pub(crate) fn encode_table(
    id: TableId,
    name: &str,
    options: &TableOptions,
    writer: &mut Writer<'_>,
) {
    writer.u16(id.0);
    writer.u16(flags(options));
    writer.u16(name.len() as u16);
    writer.u16(0);
    // No table could hold anything with a quota of 0.
    writer.u64(options.quota_bytes.unwrap_or(0));
    writer.bytes(name.as_bytes());
}

/// Reads the name of a table, with which the message ends.
pub(crate) fn decode_name<'a>(reader: &mut Reader<'a>) -> Result<&'a str, DecodeError> {
    let malformed = DecodeError::InvalidText { field: "table name" };
    let len = u16::try_from(reader.rest().len()).map_err(|_| malformed)?;
    let name = reader.text(len, "table name")?;
    if is_name(name) { Ok(name) } else { Err(malformed) }
}

fn flags(options: &TableOptions) -> u16 {
    let replicas = match options.replicas {
        replicas @ 1..3 => u16::from(replicas),
        _ => 0,
    };
    (if options.ordered { ORDERED } else { 0 })
        | u16::from(options.eviction.number()) << EVICTION_SHIFT
        | u16::from(options.durability.number()) << DURABILITY_SHIFT
        | replicas << REPLICAS_SHIFT
}

/// Reads a table as a catalog has it.
pub(crate) fn decode_table<'a>(
    reader: &mut Reader<'a>,
) -> Result<(TableId, &'a str, TableOptions), DecodeError> {
    let (id, flags) = (TableId(reader.u16()?), reader.u16()?);
    let name_len = reader.u16()?;
    if reader.u16()? != 0 {
        return Err(DecodeError::ReservedField { field: "table reserved" });
    }
    let eviction = Eviction::from_number(((flags & EVICTION_MASK) >> EVICTION_SHIFT) as u8);
    let durability = ((flags & DURABILITY_MASK) >> DURABILITY_SHIFT) as u8;
    let replicas = match (flags & REPLICAS_MASK) >> REPLICAS_SHIFT {
        0 => 3,
        replicas @ 1..3 => replicas as u8,
        _ => return Err(DecodeError::UnsupportedTableFlags { flags }),
    };
    let known = ORDERED | EVICTION_MASK | DURABILITY_MASK | REPLICAS_MASK;
    let (Some(eviction), Some(durability), 0) =
        (eviction, Durability::from_number(durability), flags & !known)
    else {
        return Err(DecodeError::UnsupportedTableFlags { flags });
    };
    let quota_bytes = Some(reader.u64()?).filter(|quota| *quota != 0);
    let name = reader.text(name_len, "table name")?;
    if !is_name(name) {
        return Err(DecodeError::InvalidText { field: "table name" });
    }
    let ordered = flags & ORDERED != 0;
    let options = TableOptions { ordered, quota_bytes, eviction, replicas, durability };
    Ok((id, name, options))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalog() -> Catalog {
        let eviction = Eviction::LeastRecentlyUsed;
        let durability = Durability::Fsync;
        let quota_bytes = Some(1 << 20);
        let ordered =
            TableOptions { ordered: true, quota_bytes, eviction, replicas: 2, durability };
        let one = Catalog::default().with("people", TableOptions::default()).unwrap();
        one.with("times", ordered).unwrap()
    }

    #[test]
    fn numbers_are_given_out_in_turn() {
        let mut catalog = catalog();
        assert_eq!((catalog.version(), catalog.id_of("times")), (2, Ok(TableId(2))));
        catalog = catalog.without("people").unwrap().with("more", TableOptions::default()).unwrap();
        assert_eq!((catalog.version(), catalog.id_of("more")), (4, Ok(TableId(3))));
        assert_eq!(catalog.table(TableId(1)), None);
        assert!(catalog.table(TableId(2)).unwrap().options.ordered);
        catalog.last = TableId(u16::MAX);
        catalog = catalog.with("again", TableOptions::default()).unwrap();
        assert_eq!(catalog.id_of("again"), Ok(TableId(1)));
        catalog = catalog.with("skips", TableOptions::default()).unwrap();
        assert_eq!(catalog.id_of("skips"), Ok(TableId(4)));
    }

    #[test]
    fn what_contradicts_the_catalog_is_refused() {
        let catalog = catalog();
        let name = |name: &str| name.to_owned();
        let with = |name| catalog.with(name, TableOptions::default()).unwrap_err();
        assert_eq!(with("times"), CatalogError::Exists { name: name("times") });
        assert_eq!(with("default"), CatalogError::Exists { name: name("default") });
        for wrong in ["", "a b", "ä", "a/b", "\n", &"x".repeat(TABLE_NAME_MAX + 1)] {
            assert_eq!(with(wrong), CatalogError::MalformedName { name: name(wrong) });
        }
        for replicas in [0, 4, u8::MAX] {
            let options = TableOptions { replicas, ..TableOptions::default() };
            assert_eq!(catalog.with("more", options), Err(CatalogError::Replicas { replicas }));
        }
        assert_eq!(catalog.without("no"), Err(CatalogError::Unknown { name: name("no") }));
        assert_eq!(catalog.without("default"), Err(CatalogError::Default));
        let mut full = Catalog::default();
        for number in 0..TABLES_MAX {
            full = full.with(&format!("t{number}"), TableOptions::default()).unwrap();
        }
        assert_eq!(full.with("more", TableOptions::default()), Err(CatalogError::Full));
    }

    #[test]
    fn what_was_a_catalog_is_one_again_and_nothing_else() {
        let (whole, default) = (catalog(), TableOptions::default());
        let again = |default, tables| Catalog::restored(2, TableId(2), default, tables);
        assert_eq!(again(default, whole.tables.clone()), Ok(whole.clone()));
        let ordered = TableOptions { ordered: true, ..default };
        let contradictory = |id| Err(DecodeError::ContradictoryTables { id: TableId(id) });
        assert_eq!(again(ordered, Vec::new()), contradictory(0));
        let turned = whole.tables.iter().rev().cloned().collect();
        assert_eq!(again(default, turned), contradictory(1));
        for replicas in [0, 4] {
            let options = TableOptions { replicas, ..default };
            assert_eq!(again(options, Vec::new()), contradictory(0));
            assert_eq!(whole.with("more", options), Err(CatalogError::Replicas { replicas }));
        }
    }

    #[test]
    fn replicas_and_durability_are_kept() {
        for replicas in 1..=TableOptions::REPLICAS_MAX {
            for durability in Durability::ALL {
                let options = TableOptions { replicas, durability, ..TableOptions::default() };
                let catalog = Catalog::default().with("t", options).unwrap();
                let mut bytes = vec![0; catalog.encoded_len()];
                catalog.encode(&mut Writer::new(&mut bytes));
                assert_eq!(Catalog::decode(Reader::new(&bytes)), Ok(catalog));
            }
        }
    }

    #[test]
    fn a_table_is_altered_and_keeps_its_number_and_its_order() {
        let change = |quota_bytes, eviction| TableAlteration { quota_bytes, eviction };
        let read = |catalog: &Catalog| {
            let mut bytes = vec![0; catalog.encoded_len()];
            let mut writer = Writer::new(&mut bytes);
            catalog.encode(&mut writer);
            writer.finish();
            Catalog::decode(Reader::new(&bytes)).unwrap()
        };
        let altered = catalog().altered("times", change(Some(None), None)).unwrap();
        let expected = TableOptions { quota_bytes: None, ..catalog().tables[1].options };
        assert_eq!((altered.version(), altered.tables[1].options), (3, expected));
        assert_eq!((altered.tables[1].id, read(&altered)), (TableId(2), altered.clone()));

        let eviction = Some(Eviction::SoonestExpiry);
        let default = altered.altered("default", change(Some(Some(9)), eviction)).unwrap();
        let options = default.default_options();
        assert_eq!((options.quota_bytes, options.eviction), (Some(9), Eviction::SoonestExpiry));
        assert_eq!((default.tables(), read(&default)), (altered.tables(), default.clone()));
        let back = default.altered("default", change(Some(None), Some(Eviction::None))).unwrap();
        assert_eq!(back.default_options(), TableOptions::default());
        assert_eq!(read(&back), back);
        let unknown = CatalogError::Unknown { name: "no".to_owned() };
        assert_eq!(back.altered("no", TableAlteration::default()), Err(unknown));

        let mut full = default;
        for number in full.tables.len()..TABLES_MAX {
            full = full.with(&format!("t{number}"), TableOptions::default()).unwrap();
        }
        assert_eq!(read(&full), full);
    }

    #[test]
    fn bytes_that_contradict_themselves_are_refused() {
        let mut bytes = vec![0; catalog().encoded_len()];
        let mut writer = Writer::new(&mut bytes);
        catalog().encode(&mut writer);
        writer.finish();
        assert_eq!(Catalog::decode(Reader::new(&bytes)), Ok(catalog()));
        let with = |at: usize, byte: u8| {
            let mut bytes = bytes.clone();
            bytes[at] = byte;
            Catalog::decode(Reader::new(&bytes)).unwrap_err()
        };
        // The number of the first table, its flags, what is reserved, its name; the number of the second.
        assert_eq!(with(12, 0), DecodeError::ContradictoryTables { id: TableId(0) });
        assert_eq!(with(14, 6), DecodeError::UnsupportedTableFlags { flags: 6 });
        for flags in [0b11 << 3, 0b11 << 5, 1 << 7] {
            let error = DecodeError::UnsupportedTableFlags { flags: u16::from(flags) };
            assert_eq!(with(14, flags), error);
        }
        assert_eq!(with(18, 1), DecodeError::ReservedField { field: "table reserved" });
        assert_eq!(with(28, b' '), DecodeError::InvalidText { field: "table name" });
        assert_eq!(with(34, 1), DecodeError::ContradictoryTables { id: TableId(1) });
        let count = usize::from(u16::from_le_bytes([2, 8]));
        assert!(count > TABLES_MAX + 1);
        let too_many = DecodeError::ListTooLong { field: "tables", count, limit: TABLES_MAX };
        assert_eq!(with(11, 8), too_many);
        let same = Catalog::default().with("ab", TableOptions::default()).unwrap();
        let same = same.with("cd", TableOptions::default()).unwrap();
        let mut bytes = vec![0; same.encoded_len()];
        same.encode(&mut Writer::new(&mut bytes));
        let end = bytes.len();
        bytes[end - 2..].copy_from_slice(b"ab");
        let twice = DecodeError::ContradictoryTables { id: TableId(2) };
        assert_eq!(Catalog::decode(Reader::new(&bytes)), Err(twice));
    }
}
