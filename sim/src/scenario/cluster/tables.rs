//! Tables besides `default`: made while the cluster works and breaks, so that their partitions come to nodes that are in the middle of something. Some last
//! to the end, and clients ask about them as about `default`; others are dropped soon, and made anew under the same name, with nothing in them.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use weft_client::{Applied, Client, ClientError};
use weft_protocol::{CatalogError, Durability, TableOptions};
use weft_transport::Time;

use crate::cluster::Connector;
use crate::history::Action;
use crate::scenario::Failure;
use crate::scenario::requester::{Requester, connected, read, written};

/// What a run's tables besides `default` are like.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Tables {
    /// Those that stay.
    pub lasting: Vec<TableOptions>,
    /// Those that are made and dropped one after the other.
    pub brief: Vec<TableOptions>,
    /// The longest pause before one is made.
    pub pause: Duration,
}

impl Tables {
    /// Draws them, none in half of all runs. Where all of `default` is synced, so are the others in half of the runs that have any: only where
    /// everything is on disk may everything lose power.
    pub(super) fn draw(random: &mut StdRng, of_default: Durability) -> Tables {
        if random.random_bool(0.5) {
            return Tables::default();
        }
        let are_synced = of_default == Durability::Fsync && random.random_bool(0.5);
        let mut drawn = || TableOptions {
            replicas: random.random_range(1..=TableOptions::REPLICAS_MAX),
            durability: match are_synced {
                true => Durability::Fsync,
                false => Durability::ALL[random.random_range(0..Durability::ALL.len())],
            },
            ordered: random.random_bool(0.2),
            ..TableOptions::default()
        };
        let options: Vec<TableOptions> = (0..LASTING_MAX + BRIEF_MAX).map(|_| drawn()).collect();
        let (lasting, brief) = options.split_at(LASTING_MAX);
        Tables {
            lasting: lasting[..random.random_range(1..=LASTING_MAX)].to_vec(),
            brief: brief[..random.random_range(0..=BRIEF_MAX)].to_vec(),
            pause: Duration::from_millis(random.random_range(1..=3000)),
        }
    }

    /// The first ones only.
    pub(super) fn cap(&mut self, tables: usize) {
        self.brief.truncate(tables.saturating_sub(self.lasting.len()));
        self.lasting.truncate(tables);
    }

    pub(super) fn count(&self) -> usize {
        self.lasting.len() + self.brief.len()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &TableOptions> {
        self.lasting.iter().chain(&self.brief)
    }

    /// The names of those that stay, in the same order.
    pub(super) fn names(&self) -> impl Iterator<Item = String> {
        (0..self.lasting.len()).map(|number| format!("{LASTING}-{number}"))
    }
}

impl fmt::Display for Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tables { lasting, brief, pause } = self;
        if self.count() == 0 {
            return write!(f, "no table but default");
        }
        let classes = |tables: &[TableOptions]| {
            let classes: Vec<String> =
                tables.iter().map(|options| options.class().to_string()).collect();
            format!("[{}]", classes.join("; "))
        };
        write!(f, "tables {}, brief ones {}, ", classes(lasting), classes(brief))?;
        write!(f, "up to {pause:?} between them")
    }
}

/// Whether a history's key is of a table that is there for a short time: nothing of it is left to be read in the end.
pub(super) fn is_brief(key: &[u8]) -> bool {
    key.starts_with(BRIEF.as_bytes())
}

/// What a history's key is of a table that is there for a short time.
pub(super) struct BriefKey<'k> {
    pub(super) table: &'k str,
    /// Which of those that are made one after the other.
    pub(super) round: usize,
    /// What it is called in the table.
    pub(super) key: &'k [u8],
}

/// The key of a table that is there for a short time, as [`Maker`] notes it; `None` if it is none.
pub(super) fn brief_key(noted: &[u8]) -> Option<BriefKey<'_>> {
    let noted = str::from_utf8(noted).ok()?;
    let (table, rest) = noted.split_once(' ')?;
    let (round, key) = rest.split_once('/')?;
    let is_brief = is_brief(table.as_bytes());
    let round = round.parse().ok().filter(|_| is_brief)?;
    Some(BriefKey { table, round, key: key.as_bytes() })
}

/// Whether a history's key is of a table that stays, and is not `default`.
pub(super) fn is_lasting(key: &[u8]) -> bool {
    key.starts_with(LASTING.as_bytes())
}

/// What came of tables.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Made {
    /// How many were made.
    pub(super) made: u64,
    /// How many of them were dropped.
    pub(super) dropped: u64,
    /// How many were made under a name that another had before.
    pub(super) anew: u64,
}

/// Who makes tables.
pub(super) struct Maker {
    /// Who asks for him, and writes down what he is told.
    pub(super) hand: Requester,
    pub(super) tables: Tables,
    pub(super) made: Rc<Cell<Made>>,
}

impl Maker {
    /// Makes all that stay, and the others in turn.
    pub(super) async fn work(self, connector: Connector, mut random: StdRng) {
        let client = connected(&connector).await;
        let longest = self.tables.pause;
        let mut pause = || connector.pause(random.random_range(Duration::ZERO..=longest));
        for (name, options) in self.tables.names().zip(&self.tables.lasting) {
            pause().await;
            while !self.make(&client, &name, *options).await {
                connector.pause(AGAIN_AFTER).await;
            }
        }
        // A name is used again once it is known to be free.
        let (mut names, mut is_used) = (0, false);
        for (round, options) in self.tables.brief.iter().enumerate() {
            pause().await;
            let name = format!("{BRIEF}-{names}");
            match self.brief(&client, &name, round, *options, is_used).await {
                Ok(is_dropped) => is_used |= is_dropped,
                Err(Doubt) => (names, is_used) = (names + 1, false),
            }
        }
    }

    /// Makes a table that stays. Returns whether it is there: where it is not known, it is made again, and may be there then.
    async fn make(&self, client: &Client, name: &str, options: TableOptions) -> bool {
        let asked_at = self.ask();
        let told = client.create_table(name, options).await;
        self.hand.check_time(asked_at);
        let is_there =
            matches!(told, Ok(_) | Err(ClientError::Catalog(CatalogError::Exists { .. })));
        self.note(|made| made.made += u64::from(is_there));
        is_there
    }

    /// Makes a table, finds nothing in it, writes and reads some of it, and drops it. Returns whether it did.
    async fn brief(
        &self,
        client: &Client,
        name: &str,
        round: usize,
        options: TableOptions,
        is_used: bool,
    ) -> Result<bool, Doubt> {
        let asked_at = self.ask();
        let created = client.create_table(name, options).await;
        self.hand.check_time(asked_at);
        let table = match created {
            Ok(table) => table,
            Err(ClientError::Catalog(CatalogError::Exists { .. })) => {
                let reason = format!("the table {name} was dropped, and is there");
                self.hand.fail(Failure::NotConverged { reason });
                return Err(Doubt);
            }
            Err(error) if error.applied() == Applied::No => return Ok(false),
            Err(_) => return Err(Doubt),
        };
        self.note(|made| {
            made.made += 1;
            made.anew += u64::from(is_used);
        });
        for number in 0..BRIEF_KEYS {
            let key = format!("register-{number}").into_bytes();
            // In the history a table of the same name is another one: what is found of the former one was written by nobody.
            let noted = format!("{name} {round}/register-{number}").into_bytes();
            self.read(&table, &key, &noted).await;
            let value = format!("{round}.{number}").into_bytes();
            let asked_at = self.ask();
            let id = self.hand.invoke(&noted, Action::Put(value.clone()));
            self.hand.end(id, &table.put(&key, &value).await, written);
            self.hand.check_time(asked_at);
            self.read(&table, &key, &noted).await;
        }
        let asked_at = self.ask();
        let dropped = client.drop_table(name).await;
        self.hand.check_time(asked_at);
        match dropped {
            Ok(()) => {
                self.note(|made| made.dropped += 1);
                Ok(true)
            }
            Err(_) => Err(Doubt),
        }
    }

    async fn read(&self, table: &Client, key: &[u8], noted: &[u8]) {
        let asked_at = self.ask();
        let id = self.hand.invoke(noted, Action::Get);
        self.hand.end(id, &table.get(key).await, read);
        self.hand.check_time(asked_at);
    }

    /// It asks something now.
    fn ask(&self) -> Time {
        let now = self.hand.clock.now();
        self.hand.asked_at.set(now);
        now
    }

    fn note(&self, note: impl FnOnce(&mut Made)) {
        let mut made = self.made.get();
        note(&mut made);
        self.made.set(made);
    }
}

/// It is not known whether there is a table of the name.
struct Doubt;

const LASTING_MAX: usize = 2;
const BRIEF_MAX: usize = 6;
const BRIEF_KEYS: usize = 3;
const BRIEF: &str = "brief";
const LASTING: &str = "lasting";
/// Between two attempts to make a table.
const AGAIN_AFTER: Duration = Duration::from_millis(50);
