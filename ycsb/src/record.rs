//! What records are made of: the names of their fields, and the values on their way to a store.
//!
//! How a store keeps them is its target's affair: fields of a record in Weft, of a hash in Redis. A record of a
//! single field is one value in either, that field byte for byte.

use std::sync::Arc;

/// The fields that every record of a workload has.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// At least one.
    names: Arc<[String]>,
}

impl Layout {
    /// As many fields as `count`, called by `prefix` and their number.
    pub(crate) fn new(prefix: &str, count: usize) -> Layout {
        Layout { names: (0..count).map(|index| format!("{prefix}{index}")).collect() }
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// How many fields there are.
    pub(crate) fn count(&self) -> usize {
        self.names.len()
    }

    /// Whether a record is one value, and not a value a field.
    pub(crate) fn is_single(&self) -> bool {
        self.names.len() == 1
    }
}

/// Values of fields that are to be written: all of a record's, or some. It keeps its buffers.
#[derive(Debug, Default)]
pub(crate) struct Values {
    bytes: Vec<u8>,
    /// The field's number, and where its bytes end.
    fields: Vec<(usize, usize)>,
}

impl Values {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.fields.clear();
    }

    /// Adds the value of field `index`, that `fill` appends.
    pub(crate) fn push(&mut self, index: usize, fill: impl FnOnce(&mut Vec<u8>)) {
        fill(&mut self.bytes);
        self.fields.push((index, self.bytes.len()));
    }

    /// The numbers of the fields, and their values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &[u8])> + Clone {
        let mut begin = 0;
        self.fields.iter().map(move |&(index, end)| {
            let value = &self.bytes[begin..end];
            begin = end;
            (index, value)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_that_were_pushed_since_it_was_cleared() {
        let mut values = Values::default();
        for _ in 0..2 {
            values.clear();
            values.push(3, |out| out.extend_from_slice(b"three"));
            values.push(1, |_| ());
            values.push(2, |out| out.extend_from_slice(b"two"));
            let expected = [(3, &b"three"[..]), (1, b""), (2, b"two")];
            assert!(values.iter().eq(expected));
        }
    }

    #[test]
    fn fields_are_called_by_their_prefix_and_number() {
        let layout = Layout::new("field", 3);
        assert_eq!(layout.names(), ["field0", "field1", "field2"]);
        assert!(!layout.is_single() && Layout::new("f", 1).is_single());
    }
}
