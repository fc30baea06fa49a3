//! Letting go of what is the program's: its objects, whose destructors may do anything, and what it panics with.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs code of the program's. A panic has been printed, and is nobody else's: whoever waits is told by what is dropped.
pub(super) fn contained(code: impl FnOnce()) {
    let Err(payload) = catch_unwind(AssertUnwindSafe(code)) else { return };
    if let Err(next) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        // What panics when it is dropped may do so for ever.
        mem::forget(next);
    }
}

/// Drops each, whatever the others do: two that panic while one is unwound would end the process.
pub(super) fn drop_each<T>(objects: impl IntoIterator<Item = T>) {
    for object in objects {
        contained(|| drop(object));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::panic::panic_any;

    struct Breaks<'a>(&'a Cell<usize>);

    impl Drop for Breaks<'_> {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
            panic!("a destructor");
        }
    }

    /// Panics again with itself.
    struct Endless;

    impl Drop for Endless {
        fn drop(&mut self) {
            panic_any(Endless);
        }
    }

    #[test]
    fn each_is_dropped_though_all_panic() {
        let count = Cell::new(0);
        drop_each((0..3).map(|_| Breaks(&count)));
        assert_eq!(count.get(), 3);
    }

    #[test]
    fn a_panic_goes_no_further_whatever_it_panics_with() {
        contained(|| panic_any(Endless));
    }
}
