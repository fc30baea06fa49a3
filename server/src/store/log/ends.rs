//! Which segments are appended to.
//!
//! One of them takes whatever comes. A record that is longer than what it has left would have the rest stay unused, which is half a record
//! on average: much of a segment that holds few of them. So segments are set aside with what they have left, for records that fit there (bounded-space
//! bin packing: Csirik and Johnson, 2001).

use arrayvec::ArrayVec;

/// How many segments are set aside with room.
const ASIDE_MAX: usize = 4;

/// The segments that one kind of writer appends to, by number.
#[derive(Debug, Default)]
pub(super) struct End {
    open: Option<u32>,
    aside: ArrayVec<u32, ASIDE_MAX>,
}

impl End {
    /// The segment that takes whatever comes.
    #[inline]
    pub(super) fn open(&self) -> Option<u32> {
        self.open
    }

    /// Of the segments that were set aside, the one that has the least `room`, in bytes, of those that have enough for `len`.
    pub(super) fn aside_for(&self, len: usize, room: impl Fn(u32) -> usize) -> Option<u32> {
        let fitting = self.aside.iter().copied().filter(|&number| room(number) >= len);
        fitting.min_by_key(|&number| room(number))
    }

    /// Opens a new segment, and sets the one before aside, if it has more `room` than another one.
    pub(super) fn begin(&mut self, number: u32, room: impl Fn(u32) -> usize) {
        let Some(before) = self.open.replace(number) else { return };
        if let Err(full) = self.aside.try_push(before) {
            let least = self.aside.iter_mut().min_by_key(|number| room(**number));
            let least = least.expect("it is full");
            if room(*least) < room(full.element()) {
                *least = full.element();
            }
        }
    }

    /// Closes all of them. The open one comes last.
    pub(super) fn take(&mut self) -> impl Iterator<Item = u32> + use<> {
        let End { open, aside } = std::mem::take(self);
        aside.into_iter().chain(open)
    }

    /// Nothing is appended to this segment any more.
    pub(super) fn close(&mut self, number: u32) {
        self.open = self.open.filter(|open| *open != number);
        self.aside.retain(|aside| *aside != number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By number, what each segment has room for.
    const ROOM: [usize; 7] = [0, 100, 500, 300, 400, 50, 200];

    fn room(number: u32) -> usize {
        ROOM[number as usize]
    }

    fn after(begun: impl IntoIterator<Item = u32>) -> End {
        let mut end = End::default();
        begun.into_iter().for_each(|number| end.begin(number, room));
        end
    }

    #[test]
    fn a_record_goes_where_it_leaves_least() {
        let end = after([1, 2, 3, 4, 6]);
        assert_eq!(end.open(), Some(6));
        assert_eq!(end.aside_for(100, room), Some(1));
        assert_eq!(end.aside_for(101, room), Some(3));
        assert_eq!(end.aside_for(301, room), Some(4));
        assert_eq!(end.aside_for(501, room), None, "and never the open one");
    }

    #[test]
    fn those_with_most_room_stay() {
        let end = after([5, 1, 2, 3, 4, 6]);
        assert_eq!(end.aside_for(1, room), Some(1), "there was room for four");
        let end = after([1, 2, 3, 4, 5, 6]);
        assert_eq!(end.aside_for(1, room), Some(1), "which the fifth has less of");
    }

    #[test]
    fn what_is_closed_gets_nothing() {
        let mut end = after([1, 2, 3]);
        end.close(1);
        assert_eq!(end.aside_for(1, room), Some(2));
        end.close(3);
        assert_eq!(end.open(), None);
        end.begin(4, room);
        assert_eq!(end.aside_for(1, room), Some(2));
    }
}
