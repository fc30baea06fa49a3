//! When which stage was at work, in bounded memory.
//!
//! Spans are kept one by one as long as they are few. When they are too many, time is cut into slices, and in each slice the spans of a stage become one, which says how often the
//! stage was there and how long in all; the slices get longer as the job does. What a picture can show of a million rounds is no more than that.

use std::time::Duration;

/// Spans that are kept at most; more than there are stages, so that there is always room once slices are long enough.
const SPANS_MAX: usize = 1024;

/// When a stage was at work, from when the worker had met the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The stage's number.
    pub number: u32,
    /// When it began.
    pub began: Duration,
    /// When it ended: the last time, if it was there several times.
    pub ended: Duration,
    /// How often it was there in between: other stages were, too, unless it was once.
    pub times: u64,
    /// How long in all.
    pub time: Duration,
    /// How much of that the worker waited.
    pub waiting: Duration,
}

/// The spans of a worker, each stage's after the other.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    spans: Vec<Span>,
    /// How long a slice is; nothing while spans are kept as they were.
    slice: Duration,
}

impl Timeline {
    /// A stage has ended, later than all before.
    pub(super) fn push(&mut self, span: Span) {
        self.add(span);
        while self.spans.len() > SPANS_MAX {
            // Long enough that half of them is left, if stages are few.
            self.slice = (2 * self.slice).max(span.ended / (SPANS_MAX as u32 / 2));
            for span in std::mem::take(&mut self.spans) {
                self.add(span);
            }
        }
    }

    /// The last stage has gone on until `ended`.
    pub(super) fn extend(&mut self, number: u32, ended: Duration) {
        // Others may be between if it was put to one that began earlier.
        if let Some(last) = self.spans.iter_mut().rev().find(|span| span.number == number) {
            last.time += ended.saturating_sub(last.ended);
            last.ended = ended;
        }
    }

    pub(super) fn spans(&self) -> &[Span] {
        &self.spans
    }

    fn add(&mut self, span: Span) {
        let slice = self.slice_of(span);
        let in_slice = self.spans.iter_mut().rev();
        let mut in_slice = in_slice.take_while(|other| slice_of(self.slice, **other) == slice);
        match in_slice.find(|other| slice.is_some() && other.number == span.number) {
            None => self.spans.push(span),
            Some(other) => {
                other.ended = span.ended;
                other.times += span.times;
                other.time += span.time;
                other.waiting += span.waiting;
            }
        }
    }

    fn slice_of(&self, span: Span) -> Option<u128> {
        slice_of(self.slice, span)
    }
}

/// In which slice a span begins, if there are any.
fn slice_of(slice: Duration, span: Span) -> Option<u128> {
    span.began.as_nanos().checked_div(slice.as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    /// A stage that is at work for a millisecond from so many on, half of which it waits.
    fn span(number: u32, at: u32) -> Span {
        let (began, time) = (at * MILLISECOND, MILLISECOND);
        Span { number, began, ended: began + time, times: 1, time, waiting: time / 2 }
    }

    #[test]
    fn few_spans_are_kept_as_they_are() {
        let mut timeline = Timeline::default();
        let spans: Vec<Span> = (0..SPANS_MAX as u32).map(|at| span(at % 2, at)).collect();
        spans.iter().for_each(|span| timeline.push(*span));
        assert_eq!(timeline.spans(), spans);
    }

    #[test]
    fn many_spans_take_bounded_memory_and_no_time_is_lost() {
        let mut timeline = Timeline::default();
        timeline.push(span(7, 0));
        let rounds = 1_000_000;
        for at in 1..=rounds {
            timeline.push(span(at % 3, at));
            assert!(
                timeline.spans.len() <= SPANS_MAX && timeline.spans.capacity() <= 4 * SPANS_MAX
            );
        }
        timeline.push(span(8, rounds + 1));
        let spans = timeline.spans();
        assert!(spans.len() > SPANS_MAX / 8, "{} are left", spans.len());
        assert_eq!(
            spans.iter().map(|span| span.time).sum::<Duration>(),
            (rounds + 2) * MILLISECOND
        );
        let waiting = spans.iter().map(|span| span.waiting).sum::<Duration>();
        assert_eq!(waiting, (rounds + 2) * MILLISECOND / 2);
        assert_eq!(spans.iter().map(|span| span.times).sum::<u64>(), u64::from(rounds) + 2);
        assert!(spans.iter().all(|span| span.began + span.time <= span.ended));
        assert!(spans.is_sorted_by_key(|span| span.began));
        assert_eq!((spans[0].number, spans.last().unwrap().number), (7, 8));
    }

    #[test]
    fn what_goes_on_is_longer() {
        let mut timeline = Timeline::default();
        timeline.push(span(0, 0));
        timeline.push(span(1, 1));
        timeline.extend(1, 5 * MILLISECOND);
        let last = timeline.spans()[1];
        assert_eq!((last.ended, last.time), (5 * MILLISECOND, 4 * MILLISECOND));
        assert_eq!(timeline.spans()[0], span(0, 0));
    }
}
