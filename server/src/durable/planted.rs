//! Bugs that tests plant, to see that they would be found.

/// A bug of the log. Only who builds with the feature `planted-bugs` can plant one, by `Settings::planted`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Planted {
    /// Tells that entries are durable once they are written.
    AcknowledgeBeforeSync,
    /// Takes damage for a torn end, whatever is behind it.
    CutAtCorruption,
    /// Does not sync the directory after making a file.
    SkipDirectorySync,
    /// Removes files as soon as the end of the snapshot that replaces them is written.
    RemoveBeforeSync,
    /// Syncs once more when a sync has failed, and believes it.
    RetrySync,
    /// Takes a log of [`Mode::Disk`](super::Mode::Disk) for complete though it was not closed.
    ForgiveUnclean,
    /// Takes entries before the file in which they are to be is known to survive.
    AppendWhileOpening,
}

/// What is planted: nothing, in every build but those that try it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Plant(Option<Planted>);

impl Plant {
    pub(super) const NONE: Plant = Plant(None);

    #[cfg(any(test, feature = "planted-bugs"))]
    pub(super) fn new(bug: Planted) -> Plant {
        Plant(Some(bug))
    }

    /// Whether `bug` is to be had. The compiler knows the answer where nothing can be planted.
    #[inline]
    pub(super) fn has(self, bug: Planted) -> bool {
        cfg!(any(test, feature = "planted-bugs")) && self.0 == Some(bug)
    }
}
