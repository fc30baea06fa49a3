//! Runs futures on one thread, in an order that a seed decides.
//!
//! Whatever wakes several tasks at once leaves open which goes first. An executor that always takes
//! the first hides the orders that production will take, so this one draws. The real executors were
//! no choice: they own threads and clocks.

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
    random: StdRng,
}

struct Task {
    future: Pin<Box<dyn Future<Output = ()>>>,
    waker: Waker,
}

/// Tasks that were woken. Wakers have to be `Send`, so it is shared by a lock, on one thread all
/// the same.
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
        let (tasks, ready) = (Vec::new(), Arc::default());
        Executor { tasks, ready, random: StdRng::seed_from_u64(seed) }
    }

    /// Adds a task, which can go on at once.
    pub fn spawn(&mut self, future: impl Future<Output = ()> + 'static) {
        let number = self.tasks.len();
        let waker = Arc::new(TaskWaker { number, ready: Arc::clone(&self.ready) });
        waker.wake_by_ref();
        self.tasks.push(Some(Task { future: Box::pin(future), waker: waker.into() }));
    }

    /// Lets one task go on, drawn from those that can. Returns whether there was one.
    pub fn step(&mut self) -> bool {
        let number = {
            let mut ready = self.ready.0.lock();
            if ready.is_empty() {
                return false;
            }
            let drawn = self.random.random_range(0..ready.len());
            let number =
                *ready.iter().nth(drawn).expect("the number was drawn from the set's length");
            ready.remove(&number);
            number
        };
        // A waker may be called after its task has ended.
        if let Some(task) = &mut self.tasks[number]
            && task.future.as_mut().poll(&mut Context::from_waker(&task.waker)).is_ready()
        {
            self.tasks[number] = None;
        }
        true
    }

    /// Tasks that have not ended.
    pub fn running(&self) -> usize {
        self.tasks.iter().flatten().count()
    }
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
    use std::cell::RefCell;
    use std::future::poll_fn;
    use std::rc::Rc;
    use std::task::Poll;

    use super::*;

    /// Three tasks that go on three times each; the order in which they did.
    fn order(seed: u64) -> Vec<usize> {
        let order = Rc::new(RefCell::new(Vec::new()));
        let mut executor = Executor::new(seed);
        for task in 0..3 {
            let order = Rc::clone(&order);
            executor.spawn(async move {
                for _ in 0..3 {
                    order.borrow_mut().push(task);
                    let mut yielded = false;
                    poll_fn(|context| {
                        context.waker().wake_by_ref();
                        if std::mem::replace(&mut yielded, true) {
                            Poll::Ready(())
                        } else {
                            Poll::Pending
                        }
                    })
                    .await;
                }
            });
        }
        while executor.step() {}
        assert_eq!(executor.running(), 0);
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
        executor.spawn(std::future::pending());
        assert!(executor.step());
        assert!(!executor.step());
        assert_eq!(executor.running(), 1);
    }
}
