//! Leaving out what nothing leads to.
//!
//! Each page is made shorter for itself, in place: what is reached keeps its order, and so do sequences, elements that are led to
//! alone too, and what is shared. Which of a page's places are reached is a bit for each; where they move is a count of bits.

use std::any::TypeId;

use weft_transport::{Memory, MemoryError, Purpose};

use crate::pages::{self, Targets, UNIT_BYTES};
use crate::segment::{BODY_BYTES_MAX, Entry, Header, PAGE_BYTES, PAGES_MAX, Segment};
use crate::text::TextByte;
use crate::types::TypeInfo;
use crate::view::View;

/// Goes along the links of objects, or has them lead to where what they lead to is moved.
#[derive(Debug)]
pub struct Mover<'a> {
    targets: Targets<'a>,
    pages: Vec<Reached>,
    /// Places that were reached and whose links have not been gone along: page and place.
    unvisited: Vec<(usize, usize)>,
    is_moving: bool,
}

/// Which places of a page are reached. A place is where a record begins that a link may lead to, with those behind it that none can.
#[derive(Debug)]
struct Reached {
    /// Bytes of a place.
    step: usize,
    bits: Vec<u64>,
    /// How many are reached before each word.
    before: Vec<u32>,
    /// The page's new number; zero if nothing of it is reached.
    number: u32,
}

impl Reached {
    fn of(len: usize, stride: usize) -> Reached {
        let step = pages::step(stride);
        let words = len.div_ceil(step).div_ceil(64);
        Reached { step, bits: vec![0; words], before: Vec::new(), number: 0 }
    }

    fn count(&self) -> usize {
        self.bits.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Where what lies at `offset` moves.
    fn moved(&self, offset: usize) -> usize {
        let (place, rest) = (offset / self.step, offset % self.step);
        let below = self.bits[place / 64] & ((1 << (place % 64)) - 1);
        (self.before[place / 64] + below.count_ones()) as usize * self.step + rest
    }
}

impl<'a> Mover<'a> {
    fn new(targets: Targets<'a>) -> Mover<'a> {
        let pages = (0..targets.len()).map(|page| {
            let (bytes, info) = targets.bytes_of(page);
            Reached::of(bytes.len(), info.stride)
        });
        Mover { pages: pages.collect(), targets, unvisited: Vec::new(), is_moving: false }
    }

    /// Where `len` records from where a link leads are moved; or notes that they are reached.
    pub(crate) fn run(&mut self, raw: u32, len: u32) -> u32 {
        let (page, offset) = pages::page_and_offset(raw);
        if self.is_moving {
            let reached = &self.pages[page];
            return pages::raw(reached.number, reached.moved(offset));
        }
        self.reach(page, offset, len as usize);
        raw
    }

    /// Notes that places are reached: 64 at a time, since many sequences may have the same elements.
    fn reach(&mut self, page: usize, offset: usize, len: usize) {
        let (bytes, info) = self.targets.bytes_of(page);
        let mut end = offset + len * info.stride;
        let reached = &mut self.pages[page];
        if info.type_id == TypeId::of::<TextByte>() {
            // A page of texts stays UTF-8 if no character is cut.
            end = end.next_multiple_of(reached.step).min(bytes.len());
            while end < bytes.len() && bytes[end] & 0xc0 == 0x80 {
                end = (end + reached.step).min(bytes.len());
            }
        }
        let (first, end) = (offset / reached.step, end.div_ceil(reached.step));
        let mut place = first;
        while place < end {
            let (word, bit) = (place / 64, place % 64);
            let count = (end - place).min(64 - bit);
            let mask = (u64::MAX >> (64 - count)) << bit;
            let mut new = mask & !reached.bits[word];
            reached.bits[word] |= mask;
            while info.move_links.is_some() && new != 0 {
                self.unvisited.push((page, 64 * word + new.trailing_zeros() as usize));
                new &= new - 1;
            }
            place += count;
        }
    }

    /// Goes along all links from what was reached.
    fn reach_all(&mut self) {
        let mut scratch = [0; PAGE_BYTES];
        while let Some((page, place)) = self.unvisited.pop() {
            let (bytes, info) = self.targets.bytes_of(page);
            let Some(move_links) = info.move_links else { continue };
            let start = place * self.pages[page].step;
            // A place is more than one record where records are shorter than a link, and those have none.
            let record = &mut scratch[..info.stride];
            record.copy_from_slice(&bytes[start..start + info.stride]);
            move_links(record, self);
        }
    }

    /// Gives the pages of which something is reached their new numbers.
    fn number(&mut self) {
        self.is_moving = true;
        let mut next = 1;
        for reached in &mut self.pages {
            let mut count = 0;
            reached.before = Vec::with_capacity(reached.bits.len());
            for word in &reached.bits {
                reached.before.push(count);
                count += word.count_ones();
            }
            if count > 0 {
                reached.number = next;
                next += 1;
            }
        }
    }

    /// Bytes that stay of a page.
    fn len_of(&self, page: usize) -> usize {
        let (bytes, reached) = (self.targets.bytes_of(page).0, &self.pages[page]);
        let whole = reached.count() * reached.step;
        // The last place of a page may have fewer records than others.
        let last = bytes.len().div_ceil(reached.step) - 1;
        let has_last = reached.bits[last / 64] >> (last % 64) & 1 == 1;
        if has_last { whole - ((last + 1) * reached.step - bytes.len()) } else { whole }
    }

    /// Writes what stays of a page.
    fn write(&mut self, page: usize, to: &mut [u8]) {
        let (bytes, &TypeInfo { stride, move_links, .. }) = self.targets.bytes_of(page);
        let step = self.pages[page].step;
        let mut at = 0;
        for word in 0..self.pages[page].bits.len() {
            let mut bits = self.pages[page].bits[word];
            while bits != 0 {
                let place = 64 * word + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let from = &bytes[place * step..((place + 1) * step).min(bytes.len())];
                let record = &mut to[at..at + from.len()];
                record.copy_from_slice(from);
                if let Some(move_links) = move_links {
                    move_links(&mut record[..stride], self);
                }
                at += from.len();
            }
        }
        to[at..].fill(0);
    }
}

/// Segments of what the root leads to.
pub(crate) fn compact<B>(
    view: &View<B>,
    memory: &Memory,
    purpose: Purpose,
) -> Result<Vec<Segment>, MemoryError> {
    let Some(root) = view.root_link() else { return Ok(Vec::new()) };
    let mut mover = Mover::new(view.targets());
    mover.run(root, 1);
    mover.reach_all();
    mover.number();
    let lens: Vec<(usize, usize)> = (0..mover.pages.len())
        .filter(|page| mover.pages[*page].number != 0)
        .map(|page| (page, mover.len_of(page)))
        .collect();
    let (root, root_place) = (mover.run(root, 1), view.targets().place_of(root));
    let root_place = root_place.expect("the root was checked");
    let (mut segments, mut left) = (Vec::new(), lens.as_slice());
    while !left.is_empty() {
        let (mut count, mut len) = (0, 0);
        for (_, page_len) in left.iter().take(PAGES_MAX) {
            let longer = len + page_len.next_multiple_of(8);
            if count > 0 && longer > BODY_BYTES_MAX {
                break;
            }
            (count, len) = (count + 1, longer);
        }
        let (now, later) = left.split_at(count);
        let mut block = memory.allocate(len.next_multiple_of(PAGE_BYTES), purpose)?;
        block.mark_touched(len);
        let (mut table, mut at) = (Vec::with_capacity(count), 0);
        for &(page, page_len) in now {
            let info = view.targets().bytes_of(page).1;
            let place = view.targets().place_at(page);
            table.push(Entry { place, room: 0, count: (page_len / info.stride) as u32 });
            let end = at + page_len.next_multiple_of(8);
            mover.write(page, &mut block[at..end]);
            at = end;
        }
        let first_page = mover.pages[now[0].0].number;
        let is_last = later.is_empty();
        let (root, root_place) = if is_last { (root, root_place) } else { (0, 0) };
        let header = Header { pages: count as u32, first_page, is_last, root, root_place };
        segments.push(Segment::new(header, &table, block.freeze().narrow(0..len)));
        left = later;
    }
    Ok(segments)
}

const _: () = assert!(UNIT_BYTES == 4, "records with links are as long as a link or longer");
