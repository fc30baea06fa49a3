//! Streamed bodies in trials: each is written and read at some pace, left, given up or aborted by either side,
//! and what the two have seen of it agrees.

use std::collections::VecDeque;
use std::sync::LazyLock;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::connection::{BodyReader, BodyWriter};
use crate::error::{BodyError, CloseReason, StopReason};
use crate::limits::{BODY_AHEAD_MAX, BODY_BLOCKS};
use crate::sync::Mutex;

/// More than any body is written, in bytes: some times what may be ahead.
const LONGEST: usize = 4 * BODY_AHEAD_MAX;

/// The program's codes for giving a body up.
const ABORTED: u32 = 1000;
const CANCELLED: u32 = 2000;

/// How a body is written and read.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// Bytes that are written at once, and whether they are lent instead of copied.
    writes: Vec<(usize, bool)>,
    write_pause_us: u64,
    read_pause_us: u64,
    ending: Ending,
    reading: Reading,
    /// Pieces that the reader keeps.
    held: usize,
}

#[derive(Debug, Clone, Copy)]
enum Ending {
    Finish,
    Abort,
    Drop,
}

#[derive(Debug, Clone, Copy)]
enum Reading {
    All,
    /// After so many pieces: tells why, or does not.
    Cancel(usize),
    Leave(usize),
    Never,
}

pub(super) fn plan() -> impl Strategy<Value = Plan> {
    let len = prop_oneof![2 => 1usize..5000, 2 => 5000usize..80_000, 1 => 80_000usize..300_000];
    let writes = prop::collection::vec((len, any::<bool>()), 0..12);
    let pause = || prop_oneof![2 => Just(0u64), 1 => 1u64..20_000];
    let ending =
        prop_oneof![6 => Just(Ending::Finish), 1 => Just(Ending::Abort), 1 => Just(Ending::Drop)];
    let reading = prop_oneof![
        8 => Just(Reading::All),
        1 => (0usize..8).prop_map(Reading::Cancel),
        1 => (0usize..8).prop_map(Reading::Leave),
        1 => Just(Reading::Never),
    ];
    (writes, pause(), pause(), ending, reading, 0..BODY_BLOCKS).prop_map(
        |(writes, write_pause_us, read_pause_us, ending, reading, held)| Plan {
            writes,
            write_pause_us,
            read_pause_us,
            ending,
            reading,
            held,
        },
    )
}

/// What a body's writer has come to.
#[derive(Debug, Clone, PartialEq)]
enum Written {
    /// It has been dropped somewhere, or there never was one.
    Left,
    /// All has been written and is on its way.
    Finishing,
    Finished,
    Aborted,
    Failed(BodyError),
}

/// What a body's reader has come to.
#[derive(Debug, Clone, PartialEq)]
enum Read {
    /// Nobody has read.
    Untaken,
    /// It has been dropped somewhere.
    Left,
    Cancelled,
    Ended(Result<(), BodyError>),
}

/// One body, with what both sides have seen of it.
#[derive(Debug)]
pub(super) struct Streamed {
    number: u32,
    plan: Plan,
    seen: Mutex<Seen>,
}

#[derive(Debug)]
struct Seen {
    /// Bytes that may have been written.
    offered: usize,
    written: Written,
    taken: usize,
    read: Read,
}

/// All bodies of a trial, and those that handlers have begun to read and write, for whom it is to go on.
#[derive(Default)]
pub(super) struct Bodies {
    all: Mutex<Vec<Arc<Streamed>>>,
    begun: Mutex<Vec<Begun>>,
}

/// An end of a body that a handler has been given.
enum Begun {
    Reader(usize, Arc<Streamed>, BodyReader),
    Writer(usize, Arc<Streamed>, BodyWriter),
}

impl Bodies {
    pub(super) fn add(&self, plan: Plan) -> Arc<Streamed> {
        let mut all = self.all.lock();
        let seen = Seen { offered: 0, written: Written::Left, taken: 0, read: Read::Untaken };
        let number = all.len() as u32;
        all.push(Arc::new(Streamed { number, plan, seen: Mutex::new(seen) }));
        Arc::clone(&all[number as usize])
    }

    pub(super) fn get(&self, number: u32) -> Arc<Streamed> {
        Arc::clone(&self.all.lock()[number as usize])
    }

    /// The handler of node `at` has been given a body to read.
    pub(super) fn read(&self, at: usize, streamed: Arc<Streamed>, reader: BodyReader) {
        // Unless it is read: it may be dropped before that begins.
        streamed.see(|seen| seen.read = Read::Left);
        self.begun.lock().push(Begun::Reader(at, streamed, reader));
    }

    /// The handler of node `at` has begun to reply with a body.
    pub(super) fn write(&self, at: usize, streamed: Arc<Streamed>, writer: BodyWriter) {
        self.begun.lock().push(Begun::Writer(at, streamed, writer));
    }

    /// What handlers have begun goes on as tasks.
    pub(super) fn adopt(&self, world: &mut World) {
        for begun in self.begun.lock().drain(..) {
            match begun {
                Begun::Reader(at, streamed, reader) => {
                    let endpoint = world.endpoints[at].clone();
                    world.tasks.push(Box::pin(streamed.read(endpoint, reader)));
                }
                Begun::Writer(at, streamed, writer) => {
                    let endpoint = world.endpoints[at].clone();
                    world.tasks.push(Box::pin(streamed.write(endpoint, writer)));
                }
            }
        }
    }

    /// Both sides of each body have seen the same, but for what `disturbed` says.
    pub(super) fn check(&self, disturbed: bool) {
        assert!(self.begun.lock().is_empty());
        for streamed in self.all.lock().iter() {
            streamed.check(disturbed);
        }
    }
}

/// What is written to a body.
fn content(number: u32) -> &'static [u8] {
    const APART: usize = 977;
    static BYTES: LazyLock<Vec<u8>> =
        LazyLock::new(|| (0..LONGEST + 64 * APART).map(|at| (at * 31 + at / 977) as u8).collect());
    &BYTES[number as usize % 64 * APART..][..LONGEST]
}

/// Waits for so long, unless that is no time.
async fn pause(endpoint: &Endpoint, us: u64) {
    if us > 0 {
        endpoint.sleep_until(endpoint.clock().now() + Duration::from_micros(us)).await;
    }
}

impl Streamed {
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Whether somebody is to read it.
    pub(super) fn is_read(&self) -> bool {
        !matches!(self.plan.reading, Reading::Never)
    }

    fn see(&self, see: impl FnOnce(&mut Seen)) {
        see(&mut self.seen.lock());
    }

    pub(super) async fn write(self: Arc<Self>, endpoint: Endpoint, mut writer: BodyWriter) {
        let ended = self.write_all(&endpoint, &mut writer).await;
        if let Err(error) = ended {
            return self.see(|seen| seen.written = Written::Failed(error));
        }
        let written = writer.written();
        match self.plan.ending {
            Ending::Drop => {}
            Ending::Abort => {
                self.see(|seen| seen.written = Written::Aborted);
                writer.abort(ABORTED + self.number, "as was planned");
            }
            Ending::Finish => {
                self.see(|seen| seen.written = Written::Finishing);
                let finished = writer.finish().await;
                self.see(|seen| {
                    seen.written = match finished {
                        Ok(len) => {
                            assert_eq!(len, written);
                            Written::Finished
                        }
                        Err(error) => Written::Failed(error),
                    };
                });
            }
        }
    }

    async fn write_all(
        &self,
        endpoint: &Endpoint,
        writer: &mut BodyWriter,
    ) -> Result<(), BodyError> {
        let mut at = 0;
        for (len, lent) in &self.plan.writes {
            let bytes = &content(self.number)[at..(at + len).min(LONGEST)];
            at += bytes.len();
            self.see(|seen| seen.offered = at);
            let block = endpoint.memory().allocate(bytes.len().max(1), Purpose::Buffer);
            match block {
                Ok(mut block) if *lent => {
                    block[..bytes.len()].copy_from_slice(bytes);
                    block.mark_touched(bytes.len());
                    writer.write_shared(block.freeze().narrow(0..bytes.len())).await?;
                }
                block => {
                    drop(block);
                    writer.write(bytes).await?;
                }
            }
            pause(endpoint, self.plan.write_pause_us).await;
        }
        Ok(())
    }

    pub(super) async fn read(self: Arc<Self>, endpoint: Endpoint, mut reader: BodyReader) {
        self.see(|seen| seen.read = Read::Left);
        let mut held = VecDeque::new();
        for count in 0.. {
            match self.plan.reading {
                Reading::Cancel(after) if count == after => {
                    self.see(|seen| seen.read = Read::Cancelled);
                    return reader.cancel(CANCELLED + self.number, "as was planned");
                }
                Reading::Leave(after) if count == after => return,
                _ => {}
            }
            let piece = match reader.next().await {
                Ok(Some(piece)) => piece,
                ended => {
                    let ended = ended.map(|_| ());
                    return self.see(|seen| seen.read = Read::Ended(ended));
                }
            };
            self.see(|seen| {
                let expected = &content(self.number)[seen.taken..seen.taken + piece.len()];
                assert!(*piece == *expected, "body {} is changed at {}", self.number, seen.taken);
                seen.taken += piece.len();
                assert!(seen.taken <= seen.offered, "more than was written");
            });
            held.push_back(piece);
            if held.len() > self.plan.held {
                held.pop_front();
            }
            pause(&endpoint, self.plan.read_pause_us).await;
        }
    }

    fn check(&self, disturbed: bool) {
        let seen = self.seen.lock();
        let excused = |error: &BodyError| match error {
            // Memory may have run out by itself.
            BodyError::Disconnected { reason: CloseReason::Memory, .. } => true,
            BodyError::Disconnected { reason: CloseReason::Goodbye(said), .. }
                if said.code == 14 =>
            {
                true
            }
            BodyError::Memory(_) => true,
            BodyError::Disconnected { .. } | BodyError::Silent { .. } => disturbed,
            _ => false,
        };
        match (&seen.read, &seen.written) {
            (Read::Ended(Ok(())), Written::Finishing | Written::Finished) => {
                assert_eq!(seen.taken, seen.offered, "all of it comes: {self:?}");
            }
            (Read::Ended(Err(BodyError::Aborted(reason))), written) => match reason {
                StopReason::Program { code, text } => {
                    assert_eq!((*code, &text[..]), (ABORTED + self.number, "as was planned"));
                    assert_eq!(*written, Written::Aborted, "{self:?}");
                }
                StopReason::Dropped => assert_eq!(*written, Written::Left, "{self:?}"),
                StopReason::Memory => {
                    assert!(matches!(written, Written::Failed(BodyError::Memory(_))), "{self:?}");
                }
                _ => assert!(disturbed, "{self:?}"),
            },
            (Read::Ended(Err(error)), _) => assert!(excused(error), "{self:?}"),
            (Read::Ended(Ok(())), _) => panic!("an end that was not written: {self:?}"),
            (Read::Untaken | Read::Left | Read::Cancelled, _) => {}
        }
        match (&seen.written, &seen.read) {
            (Written::Failed(BodyError::Refused(reason)), read) => match reason {
                StopReason::Program { code, text } => {
                    assert_eq!((*code, &text[..]), (CANCELLED + self.number, "as was planned"));
                    assert_eq!(*read, Read::Cancelled, "{self:?}");
                }
                StopReason::Dropped => assert_eq!(*read, Read::Left, "{self:?}"),
                StopReason::NotTaken => assert_eq!(*read, Read::Untaken, "{self:?}"),
                _ => assert!(disturbed, "{self:?}"),
            },
            (Written::Failed(error), _) => assert!(excused(error), "{self:?}"),
            _ => {}
        }
    }
}
