//! Texts, as fields.

#![expect(unsafe_code, reason = "implements the trait that states what a type's bytes are")]

use std::fmt;

use crate::compact::Mover;
use crate::error::Fault;
use crate::fingerprint::Fingerprint;
use crate::pages::Targets;
use crate::seq::{put_words, words};
use crate::types::Types;
use crate::wire::Wire;

/// Bytes of a text that lie in the field itself.
pub(crate) const INLINE_MAX: usize = 7;
/// Which bits of a field are zero, by how many bytes of ASCII there are, but for the one that says that they are there.
const ZERO_BITS: [u64; INLINE_MAX + 1] = {
    let mut zero = [0xf8 << (u64::BITS - 8) | u64::MAX >> 8; INLINE_MAX + 1];
    let mut len = 1;
    while len <= INLINE_MAX {
        zero[len] = zero[len - 1] & !(0x7f << (8 * (len - 1)));
        len += 1;
    }
    zero
};
/// In the last byte of a field: the text is in the others, as many as the rest of this byte says.
const INLINE: u8 = 0x80;
/// A longer text has fewer bytes than this.
pub(crate) const LEN_MAX: u32 = 1 << 31;

/// UTF-8, as a field of eight bytes: up to seven bytes of text, or where a longer one is in the graph and how long it is. Read by
/// [`View::text`](crate::View::text).
#[derive(Clone, Copy)]
#[repr(C, align(4))]
pub struct Text([u8; 8]);

/// Where a text is.
pub(crate) enum Place<'a> {
    Here(&'a str),
    There { first: u32, len: u32 },
}

impl Text {
    /// No text.
    pub const EMPTY: Text = Text([0, 0, 0, 0, 0, 0, 0, INLINE]);

    /// A text that is short enough to need no other place.
    pub(crate) fn inline(text: &str) -> Option<Text> {
        let mut bytes = Text::EMPTY.0;
        bytes
            .get_mut(..text.len())
            .filter(|_| text.len() <= INLINE_MAX)?
            .copy_from_slice(text.as_bytes());
        bytes[INLINE_MAX] = INLINE | text.len() as u8;
        Some(Text(bytes))
    }

    /// A text elsewhere.
    pub(crate) fn there(first: u32, len: u32) -> Text {
        debug_assert!(len < LEN_MAX);
        let mut bytes = [0; 8];
        put_words(&mut bytes, [first, len]);
        Text(bytes)
    }

    /// How many bytes it has.
    pub fn len(&self) -> usize {
        match self.place() {
            Place::Here(text) => text.len(),
            Place::There { len, .. } => len as usize,
        }
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    pub(crate) fn place(&self) -> Place<'_> {
        if self.0[INLINE_MAX] & INLINE == 0 {
            let [first, len] = words(&self.0);
            return Place::There { first, len };
        }
        let len = usize::from(self.0[INLINE_MAX] & !INLINE).min(INLINE_MAX);
        // SAFETY: a `Text` is made of a `str`, or was checked to be one.
        Place::Here(unsafe { str::from_utf8_unchecked(&self.0[..len]) })
    }
}

impl Default for Text {
    fn default() -> Self {
        Text::EMPTY
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place() {
            Place::Here(text) => write!(f, "{text:?}"),
            Place::There { first, len } => write!(f, "Text({len} at {first:#x})"),
        }
    }
}

// SAFETY: eight initialized bytes, any of which are a value of the type; what they say is checked.
unsafe impl Wire for Text {
    const NAME: &'static str = "Text";
    const FINGERPRINT: Fingerprint = Fingerprint::of_plain("text", 8);
    const ALWAYS_VALID: bool = false;
    const IS_PLAIN_AT_TIMES: bool = true;
    const HAS_LINKS: bool = true;
    type Hint = ();

    #[inline]
    fn check(bytes: &[u8], targets: &Targets<'_>, (): &mut ()) -> Result<(), Fault> {
        if Self::doubts(bytes, ()) == 0 {
            return Ok(());
        }
        check_other(bytes.first_chunk().ok_or(Fault::Value)?, targets)
    }

    /// Most texts are ASCII and in the field: the last byte says how many others there are, those have no high bit, and zeros follow.
    #[inline]
    fn doubts(bytes: &[u8], (): ()) -> u64 {
        let Some(bytes) = bytes.first_chunk() else { return 1 };
        // One load: the compiler makes eight of parts.
        let whole = u64::from_le_bytes(*bytes);
        let len = (whole >> (u64::BITS - 8)) as usize & INLINE_MAX;
        (whole ^ u64::from(INLINE) << (u64::BITS - 8)) & ZERO_BITS[len]
    }

    fn collect(types: Types) -> Types {
        types.with::<TextByte>()
    }

    fn move_links(bytes: &mut [u8], mover: &mut Mover<'_>) {
        if bytes[INLINE_MAX] & INLINE == 0 {
            let [first, len] = words(bytes);
            put_words(bytes, [mover.run(first, len), len]);
        }
    }
}

/// Checks a text that is elsewhere, or not ASCII, or none.
fn check_other(bytes: &[u8; 8], targets: &Targets<'_>) -> Result<(), Fault> {
    let last = bytes[INLINE_MAX];
    if last & INLINE == 0 {
        let [first, len] = words(bytes);
        // A text that fits the field is there: each text has one form.
        let is_long = len as usize > INLINE_MAX;
        return if is_long { targets.check_text(first, len) } else { Err(Fault::Text) };
    }
    let (text, rest) =
        bytes[..INLINE_MAX].split_at_checked(usize::from(last & !INLINE)).ok_or(Fault::Text)?;
    let is_text = rest.iter().all(|byte| *byte == 0) && str::from_utf8(text).is_ok();
    if is_text { Ok(()) } else { Err(Fault::Text) }
}

/// A byte of a page of texts. The page is UTF-8 as a whole, so that each of its bytes is looked at once, whoever leads there and how often.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct TextByte(pub(crate) u8);

// SAFETY: one initialized byte, any value of which is a value of the type.
unsafe impl Wire for TextByte {
    const NAME: &'static str = "text";
    const FINGERPRINT: Fingerprint = Fingerprint::of_plain("text", 1);
    const ALWAYS_VALID: bool = false;
    type Hint = ();

    fn check(_: &[u8], _: &Targets<'_>, (): &mut ()) -> Result<(), Fault> {
        // A part of a character says nothing.
        Err(Fault::Text)
    }

    fn check_all(bytes: &[u8], _: &Targets<'_>) -> Result<(), (usize, Fault)> {
        match str::from_utf8(bytes) {
            Ok(_) => Ok(()),
            Err(error) => Err((error.valid_up_to(), Fault::Text)),
        }
    }
}
