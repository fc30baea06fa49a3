//! Texts in a page.

use std::fmt::{self, Write as _};

use super::super::merged::MergedStage;

/// A text as it is read, whatever is in it: nothing of it counts as markup.
pub(super) struct Plain<T>(pub(super) T);

impl<T: fmt::Display> fmt::Display for Plain<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping(f), "{}", self.0)
    }
}

struct Escaping<'f, 'g>(&'f mut fmt::Formatter<'g>);

impl fmt::Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|character| match character {
            '&' => self.0.write_str("&amp;"),
            '<' => self.0.write_str("&lt;"),
            '>' => self.0.write_str("&gt;"),
            '"' => self.0.write_str("&quot;"),
            '\'' => self.0.write_str("&#39;"),
            // No page may hold these.
            _ if character.is_control() && !character.is_whitespace() => {
                self.0.write_char(char::REPLACEMENT_CHARACTER)
            }
            _ => self.0.write_char(character),
        })
    }
}

/// The last characters of a text that is too long for its place.
pub(super) fn end_of(text: &str, len_max: usize) -> String {
    let len = text.chars().count();
    if len <= len_max {
        return text.to_owned();
    }
    std::iter::once('…').chain(text.chars().skip(len + 1 - len_max)).collect()
}

/// How many colours there are.
const COLOURS: usize = 10;

/// The colour of a stage, in names of classes: gatherings are many, and matter little.
pub(super) fn colour(stages: &[MergedStage], number: u32) -> String {
    let loud = stages.iter().filter(|stage| stage.verb != "gather");
    let place = loud.clone().position(|stage| stage.number == number);
    place.map_or_else(|| "q".to_owned(), |place| (place % COLOURS).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_counts_as_markup() {
        let text = "<a href=\"x\">'&'</a>\u{0}\tö";
        let expected = "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;&lt;/a&gt;\u{fffd}\tö";
        assert_eq!(Plain(text).to_string(), expected);
    }

    #[test]
    fn of_a_long_text_the_end_is_shown() {
        assert_eq!(end_of("größe", 5), "größe");
        assert_eq!(end_of("die größe", 5), "…röße");
    }
}
