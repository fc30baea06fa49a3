//! Runs futures on one thread, in an order that a seed decides.
//!
//! Whatever wakes several tasks at once leaves open which goes first. An executor that always takes
//! the first hides the orders that production will take, so this one draws. The real executors were
//! no choice: they own threads and clocks.
//!
//! Tasks have an owner, such as a host of a world: what stops the owner stops them.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Tasks, and which of them can go on.
pub struct Executor {
    /// By number; a task that has ended leaves its place empty.
    tasks: Vec<Option<Task>>,
    ready: Arc<Ready>,
    /// Owners whose tasks do not go on.
    stopped: BTreeSet<Owner>,
    /// Tasks that have not ended, and are to.
    awaited: usize,
    random: StdRng,
}

/// Whose a task is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Owner(pub usize);

/// Whether a task is to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// It has something to do, and is waited for.
    Awaited,
    /// It goes on for as long as its owner lives.
    Background,
}

struct Task {
    future: Pin<Box<dyn Future<Output = ()>>>,
    waker: Waker,
    owner: Option<Owner>,
    ending: Ending,
}

/// Tasks that were woken. Wakers have to be `Send`, so it is shared by a lock, on one thread all
/// the same. In the order of their numbers, so that the order in which they were woken, which may
/// come from anywhere, decides nothing.
#[derive(Default)]
struct Ready(Mutex<BTreeSet<usize>>);

/// Wakes one task.
struct TaskWaker {
    number: usize,
    ready: Arc<Ready>,
}

impl Executor {
    /// An executor without tasks.
    pub fn new(seed: u64) -> Self {
        Executor {
            tasks: Vec::new(),
            ready: Arc::default(),
            stopped: BTreeSet::new(),
            awaited: 0,
            random: StdRng::seed_from_u64(seed),
        }
    }

    /// Adds a task, which can go on at once, unless its owner is stopped.
    pub fn spawn(
        &mut self,
        owner: Option<Owner>,
        ending: Ending,
        future: impl Future<Output = ()> + 'static,
    ) {
        let number = self.tasks.len();
        let waker = Arc::new(TaskWaker { number, ready: Arc::clone(&self.ready) });
        waker.wake_by_ref();
        self.awaited += usize::from(ending == Ending::Awaited);
        self.tasks.push(Some(Task {
            future: Box::pin(future),
            waker: waker.into(),
            owner,
            ending,
        }));
    }

    /// Lets one task go on, drawn from those that can. Returns whether there was one.
    pub fn step(&mut self) -> bool {
        let Some(number) = self.draw() else { return false };
        // A waker may be called after its task has ended.
        if let Some(task) = &mut self.tasks[number]
            && task.future.as_mut().poll(&mut Context::from_waker(&task.waker)).is_ready()
        {
            self.end(number);
        }
        true
    }

    /// Tasks of this owner do not go on until [`go_on`](Self::go_on); they can be woken.
    pub fn stop(&mut self, owner: Owner) {
        self.stopped.insert(owner);
    }

    /// Tasks of this owner go on.
    pub fn go_on(&mut self, owner: Owner) {
        self.stopped.remove(&owner);
    }

    /// Drops all tasks of this owner where they are.
    pub fn drop_tasks(&mut self, owner: Owner) {
        for number in 0..self.tasks.len() {
            if self.tasks[number].as_ref().is_some_and(|task| task.owner == Some(owner)) {
                self.end(number);
            }
        }
    }

    /// Tasks that have not ended and are waited for.
    pub fn awaited(&self) -> usize {
        self.awaited
    }

    fn end(&mut self, number: usize) {
        let task = self.tasks[number].take();
        let was_awaited = task.is_some_and(|task| task.ending == Ending::Awaited);
        self.awaited -= usize::from(was_awaited);
    }

    fn draw(&mut self) -> Option<usize> {
        let mut ready = self.ready.0.lock();
        let number = if self.stopped.is_empty() {
            let drawn = draw_index(&mut self.random, ready.len())?;
            *ready.iter().nth(drawn)?
        } else {
            let can_go_on = |number: &&usize| {
                let owner = self.tasks[**number].as_ref().and_then(|task| task.owner);
                owner.is_none_or(|owner| !self.stopped.contains(&owner))
            };
            let can: Vec<usize> = ready.iter().filter(can_go_on).copied().collect();
            can[draw_index(&mut self.random, can.len())?]
        };
        ready.remove(&number);
        Some(number)
    }
}

fn draw_index(random: &mut StdRng, len: usize) -> Option<usize> {
    (len > 0).then(|| random.random_range(0..len))
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ready.0.lock().insert(self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::future::poll_fn;
    use std::rc::Rc;
    use std::task::Poll;

    use super::*;

    /// Goes on this often, telling each time.
    async fn go_on_times(times: u32, mut tell: impl FnMut()) {
        for _ in 0..times {
            tell();
            let mut yielded = false;
            poll_fn(|context| {
                context.waker().wake_by_ref();
                if std::mem::replace(&mut yielded, true) { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        }
    }

    /// Three tasks that go on three times each; the order in which they did.
    fn order(seed: u64) -> Vec<usize> {
        let order = Rc::new(RefCell::new(Vec::new()));
        let mut executor = Executor::new(seed);
        for task in 0..3 {
            let order = Rc::clone(&order);
            let tell = move || order.borrow_mut().push(task);
            executor.spawn(None, Ending::Awaited, go_on_times(3, tell));
        }
        while executor.step() {}
        assert_eq!(executor.awaited(), 0);
        order.take()
    }

    #[test]
    fn the_seed_decides_the_order() {
        let orders: BTreeSet<Vec<usize>> = (0..50).map(order).collect();
        assert!(orders.len() > 10, "{} orders from 50 seeds", orders.len());
        assert!((0..50).all(|seed| order(seed) == order(seed)));
    }

    #[test]
    fn a_task_that_nobody_wakes_does_not_go_on() {
        let mut executor = Executor::new(0);
        executor.spawn(None, Ending::Awaited, std::future::pending());
        executor.spawn(None, Ending::Background, std::future::pending());
        assert!(executor.step() && executor.step());
        assert!(!executor.step());
        assert_eq!(executor.awaited(), 1);
    }

    #[test]
    fn tasks_stop_and_end_with_their_owner() {
        let mut executor = Executor::new(0);
        let told = [0; 2].map(|_| Rc::new(Cell::new(0)));
        for (owner, told) in told.iter().enumerate() {
            let told = Rc::clone(told);
            let tell = move || told.set(told.get() + 1);
            executor.spawn(Some(Owner(owner)), Ending::Awaited, go_on_times(9, tell));
        }
        executor.stop(Owner(0));
        while executor.step() {}
        assert_eq!([told[0].get(), told[1].get()], [0, 9]);
        executor.go_on(Owner(0));
        assert!(executor.step() && executor.step());
        assert_eq!((told[0].get(), executor.awaited()), (2, 1));
        executor.drop_tasks(Owner(0));
        assert_eq!(executor.awaited(), 0);
        assert_eq!(Rc::strong_count(&told[0]), 1);
        // It had been woken before.
        while executor.step() {}
    }
}
