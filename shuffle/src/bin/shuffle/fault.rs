//! A fault in a job that ships, for tests of what becomes of one: there is none in programs that are built to be shipped.

use weft_object::TextKey;
use weft_shuffle::Dataset;

use crate::job::Flags;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Fault {
    /// Panic when this word is read
    #[cfg(debug_assertions)]
    #[arg(long, hide = true, value_name = "WORD")]
    panic_on: Option<String>,
}

#[cfg(debug_assertions)]
impl Fault {
    /// The words, with the fault among them, if it was asked for.
    pub(crate) fn in_words(
        &self,
        words: impl Dataset<Item = TextKey>,
    ) -> impl Dataset<Item = TextKey> {
        words.map(|word| {
            let is_fault = self.panic_on.as_deref().is_some_and(|fault| *word == *fault);
            assert!(!is_fault, "what is {word}?");
            word
        })
    }

    /// What a worker has to be told.
    pub(crate) fn add_to(&self, flags: &mut Flags) {
        self.panic_on.iter().for_each(|word| flags.add("panic-on", word));
    }
}

#[cfg(not(debug_assertions))]
impl Fault {
    pub(crate) fn in_words<D: Dataset<Item = TextKey>>(&self, words: D) -> D {
        words
    }

    pub(crate) fn add_to(&self, _: &mut Flags) {}
}
