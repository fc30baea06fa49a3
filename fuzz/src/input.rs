//! An input as a sequence of decisions, and as damage of what was valid.

/// What is left of an input. At its end all decisions are 0.
#[derive(Debug)]
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or(0)
    }

    /// One of `count`, which is at most 256.
    pub fn choice(&mut self, count: usize) -> usize {
        usize::from(self.byte()) % count.max(1)
    }

    /// One of these.
    pub fn of<'s, T>(&mut self, all: &'s [T]) -> Option<&'s T> {
        let at = self.choice(all.len());
        all.get(at)
    }

    pub fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// Up to 255 bytes as they are.
    pub fn raw(&mut self) -> &'a [u8] {
        let len = self.byte();
        self.bytes(len.into())
    }

    pub fn word(&mut self) -> u64 {
        let mut word = [0; 8];
        let bytes = self.bytes(8);
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    }

    /// A number as peers lie about: small, near what it should be, near an end of the range, or any.
    pub fn number(&mut self, near: u64) -> u64 {
        let byte = self.byte();
        let distance = u64::from(byte >> 3);
        match byte % 8 {
            0..=2 => near,
            3 => near.wrapping_add(distance),
            4 => near.wrapping_sub(distance),
            5 => distance,
            6 => (u64::MAX >> (distance % 32)).wrapping_sub(distance / 2 % 2),
            _ => self.word(),
        }
    }

    /// Damages `bytes` in up to three places, or not at all.
    pub fn damage(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..self.choice(8).saturating_sub(4) {
            self.damage_once(bytes);
        }
    }

    fn damage_once(&mut self, bytes: &mut Vec<u8>) {
        let kind = self.byte();
        let at = usize::from(self.byte()) | usize::from(self.byte()) << 8;
        let Some(at) = at.checked_rem(bytes.len()) else { return bytes.extend(self.raw()) };
        let word = at.min(bytes.len().saturating_sub(8)) / 8 * 8;
        let words = bytes.len() / 8;
        match kind % 8 {
            0 => bytes[at] = self.byte(),
            1 => bytes[at] ^= 1 << (self.byte() % 8),
            2 | 3 if words > 0 => {
                let now = u64::from_le_bytes(std::array::from_fn(|byte| bytes[word + byte]));
                let lie = self.number(now).to_le_bytes();
                bytes[word..word + 8].copy_from_slice(&lie);
            }
            4 => bytes.truncate(at),
            5 => bytes.extend(self.raw()),
            6 if words > 0 => {
                let from = self.choice(words) * 8;
                bytes.copy_within(from..from + 8, word);
            }
            _ => {
                let new = self.raw();
                let end = (at + new.len()).min(bytes.len());
                bytes[at..end].copy_from_slice(&new[..end - at]);
            }
        }
    }
}
