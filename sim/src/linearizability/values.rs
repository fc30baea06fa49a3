//! The values of one key, each once, by number: what is compared and remembered is the number.
//!
//! Values that no client named come about by appending and adding, so there are more of them while a
//! search goes on.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// A value of the key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) struct ValueId(usize);

#[derive(Default)]
pub(super) struct Values(RefCell<Inner>);

#[derive(Default)]
struct Inner {
    ids: HashMap<Rc<[u8]>, ValueId>,
    values: Vec<Rc<[u8]>>,
    appended: HashMap<(ValueId, ValueId), ValueId>,
    /// What clients have read, which is where a search that has a choice goes first.
    read: Vec<ValueId>,
    leads_on: HashMap<ValueId, bool>,
    begins: HashMap<(ValueId, ValueId), bool>,
}

impl Values {
    pub(super) fn id(&self, value: &[u8]) -> ValueId {
        self.0.borrow_mut().id(value)
    }

    /// A client was told this value.
    pub(super) fn note_read(&self, value: ValueId) {
        self.0.borrow_mut().read.push(value);
    }

    /// Whether a client has read this value, or one that begins with it.
    pub(super) fn leads_on(&self, value: ValueId) -> bool {
        let Inner { values, read, leads_on, .. } = &mut *self.0.borrow_mut();
        let begins = |read: &ValueId| values[read.0].starts_with(&values[value.0]);
        *leads_on.entry(value).or_insert_with(|| read.iter().any(begins))
    }

    /// Whether `whole` begins with `value`.
    pub(super) fn begins(&self, whole: ValueId, value: ValueId) -> bool {
        let Inner { values, begins, .. } = &mut *self.0.borrow_mut();
        *begins
            .entry((whole, value))
            .or_insert_with(|| values[whole.0].starts_with(&values[value.0]))
    }

    pub(super) fn append(&self, value: Option<ValueId>, tail: ValueId) -> ValueId {
        let Some(value) = value else { return tail };
        let mut inner = self.0.borrow_mut();
        if let Some(known) = inner.appended.get(&(value, tail)) {
            return *known;
        }
        let whole = [&*inner.values[value.0], &*inner.values[tail.0]].concat();
        let id = inner.id(&whole);
        inner.appended.insert((value, tail), id);
        id
    }

    /// The number after adding, if there is one.
    pub(super) fn add(&self, value: Option<ValueId>, delta: i64) -> Option<(i64, ValueId)> {
        let number = match value {
            Some(value) => self.bytes(value, |bytes| {
                std::str::from_utf8(bytes).ok().and_then(|text| text.parse::<i64>().ok())
            })?,
            None => 0,
        };
        let sum = number.checked_add(delta)?;
        Some((sum, self.id(sum.to_string().as_bytes())))
    }

    pub(super) fn len(&self, value: ValueId) -> u64 {
        self.bytes(value, |bytes| bytes.len() as u64)
    }

    pub(super) fn bytes<T>(&self, value: ValueId, look: impl FnOnce(&[u8]) -> T) -> T {
        look(&self.0.borrow().values[value.0])
    }
}

impl Inner {
    fn id(&mut self, value: &[u8]) -> ValueId {
        if let Some(known) = self.ids.get(value) {
            return *known;
        }
        let (id, value) = (ValueId(self.values.len()), Rc::<[u8]>::from(value));
        self.values.push(Rc::clone(&value));
        self.ids.insert(value, id);
        id
    }
}
