//! A run made smaller than it was drawn: less of everything, and without some of its faults.

use std::fmt;

/// The most of everything that a run has; what was drawn is less or gets no more. All else stays as it was drawn.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Caps {
    /// Clients.
    pub clients: Option<u32>,
    /// Tasks of each client.
    pub requesters: Option<u32>,
    /// Operations of each such task.
    pub operations: Option<u32>,
    /// Keys of each kind.
    pub keys: Option<u32>,
    /// Tables besides `default`, brief ones counted each time.
    pub tables: Option<u32>,
    /// Faults, from the first.
    pub faults: Option<u32>,
    /// Faults that are left out, by their places in the plan.
    pub without: Vec<usize>,
}

/// How much of everything a run had.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// Clients.
    pub clients: u32,
    /// Tasks of each client.
    pub requesters: u32,
    /// Operations of each such task.
    pub operations: u32,
    /// Keys of the kind that has most.
    pub keys: u32,
    /// Tables besides `default`, brief ones counted each time.
    pub tables: u32,
    /// Faults of the plan.
    pub faults: u32,
}

/// One of the numbers that a run is made smaller by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Size {
    /// See [`Caps::clients`].
    Clients,
    /// See [`Caps::requesters`].
    Requesters,
    /// See [`Caps::operations`].
    Operations,
    /// See [`Caps::keys`].
    Keys,
    /// See [`Caps::tables`].
    Tables,
    /// See [`Caps::faults`].
    Faults,
}

impl Size {
    /// All of them, those first that make a run smaller by most.
    pub const ALL: [Size; 6] =
        [Size::Operations, Size::Faults, Size::Tables, Size::Clients, Size::Requesters, Size::Keys];

    /// How much of it a run had.
    pub fn of(self, sizes: &Sizes) -> u32 {
        match self {
            Size::Clients => sizes.clients,
            Size::Requesters => sizes.requesters,
            Size::Operations => sizes.operations,
            Size::Keys => sizes.keys,
            Size::Tables => sizes.tables,
            Size::Faults => sizes.faults,
        }
    }

    /// The least that leaves a run at all.
    pub fn least(self) -> u32 {
        u32::from(!matches!(self, Size::Faults | Size::Tables))
    }
}

impl Caps {
    /// The cap on one of the numbers.
    pub fn cap_mut(&mut self, size: Size) -> &mut Option<u32> {
        match size {
            Size::Clients => &mut self.clients,
            Size::Requesters => &mut self.requesters,
            Size::Operations => &mut self.operations,
            Size::Keys => &mut self.keys,
            Size::Tables => &mut self.tables,
            Size::Faults => &mut self.faults,
        }
    }

    /// Whether a run is as it was drawn.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// What was drawn, or the cap if that is less.
pub fn capped(drawn: u32, cap: Option<u32>) -> u32 {
    cap.map_or(drawn, |cap| drawn.min(cap))
}

impl fmt::Display for Caps {
    /// The options that have the command make a run as small; each with a space before it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Caps { clients, requesters, operations, keys, tables, faults, without } = self;
        let numbers = [
            ("clients", clients),
            ("requesters", requesters),
            ("operations", operations),
            ("keys", keys),
            ("tables", tables),
            ("faults", faults),
        ];
        for (name, cap) in numbers {
            if let Some(cap) = cap {
                write!(f, " --{name} {cap}")?;
            }
        }
        if !without.is_empty() {
            let places: Vec<String> = without.iter().map(usize::to_string).collect();
            write!(f, " --without-faults {}", places.join(","))?;
        }
        Ok(())
    }
}
