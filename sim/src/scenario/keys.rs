//! What clients of a run ask about: keys of tables, by what is done to them.

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::index::sample;

/// The keys of a table. None has the name of one of another table, so that a history needs no tables.
pub(super) struct TableKeys {
    /// Its name; none of the table that is always there.
    pub(super) table: Option<String>,
    pub(super) registers: Vec<Vec<u8>>,
    pub(super) counters: Vec<Vec<u8>>,
    pub(super) lists: Vec<Vec<u8>>,
}

/// The keys of all tables of a run, `default` first.
pub(super) struct Keys(Vec<TableKeys>);

impl TableKeys {
    /// So many of each kind.
    fn new(table: Option<String>, registers: u32, counters: u32, lists: u32) -> TableKeys {
        let prefix = table.as_ref().map_or_else(String::new, |table| format!("{table}/"));
        let keys =
            |kind, count| (0..count).map(|key| format!("{prefix}{kind}-{key}").into()).collect();
        let [registers, counters, lists] =
            [("register", registers), ("counter", counters), ("list", lists)]
                .map(|(kind, count): (&str, u32)| keys(kind, count));
        TableKeys { table, registers, counters, lists }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.registers.iter().chain(&self.counters).chain(&self.lists)
    }

    /// Several registers in a drawn order, none twice.
    pub(super) fn some_registers(&self, random: &mut StdRng) -> Vec<Vec<u8>> {
        let keys = &self.registers;
        let count = random.random_range(1..=keys.len());
        sample(random, keys.len(), count).iter().map(|key| keys[key].clone()).collect()
    }
}

impl Keys {
    /// So many of each kind in the table that is always there.
    pub(super) fn new(registers: u32, counters: u32, lists: u32) -> Keys {
        Keys(vec![TableKeys::new(None, registers, counters, lists)])
    }

    /// The same, and as many of each kind in another table as `default` has.
    pub(super) fn and_of(mut self, table: String) -> Keys {
        let TableKeys { registers, counters, lists, .. } = self.of_default();
        let [registers, counters, lists] =
            [registers, counters, lists].map(|keys| keys.len() as u32);
        self.0.push(TableKeys::new(Some(table), registers, counters, lists));
        self
    }

    pub(super) fn of_default(&self) -> &TableKeys {
        &self.0[0]
    }

    /// Those of a table that is drawn.
    pub(super) fn some(&self, random: &mut StdRng) -> &TableKeys {
        match &self.0[..] {
            [one] => one,
            several => &several[random.random_range(0..several.len())],
        }
    }

    /// All, each with its table.
    pub(super) fn all(&self) -> impl Iterator<Item = (&TableKeys, &Vec<u8>)> {
        self.0.iter().flat_map(|keys| keys.all().map(move |key| (keys, key)))
    }
}
