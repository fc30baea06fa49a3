//! Which worker reads which partition.

/// The worker for each partition, of which `nodes` has who serves it: no worker has more than its even share, rounded up, and as far as
/// that allows each partition is read beside the node that serves it. Equal for equal arguments.
pub(super) fn assign(
    nodes: &[Option<u64>],
    workers: usize,
    is_beside: impl Fn(usize, u64) -> bool,
) -> Vec<usize> {
    let share = nodes.len().div_ceil(workers);
    let mut taken = vec![0; workers];
    let mut given = vec![None; nodes.len()];
    for (to, node) in given.iter_mut().zip(nodes) {
        let Some(node) = *node else { continue };
        let near = (0..workers).filter(|worker| is_beside(*worker, node) && taken[*worker] < share);
        *to = near.min_by_key(|worker| taken[*worker]);
        to.iter().for_each(|worker| taken[*worker] += 1);
    }
    let to_anybody = |to: Option<usize>| {
        to.unwrap_or_else(|| {
            let least = (0..workers).min_by_key(|worker| taken[*worker]);
            let worker = least.expect("a job has a worker");
            taken[worker] += 1;
            worker
        })
    };
    given.into_iter().map(to_anybody).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_node_is_read_by_the_workers_beside_it() {
        let nodes: Vec<_> = (0..12).map(|partition| Some(partition / 4)).collect();
        // Workers 0 and 1 are on the machine of node 2, worker 2 on that of node 1, and 3, 4 and 5 on that of node 0.
        let machine = [2, 2, 1, 0, 0, 0];
        let given = assign(&nodes, 6, |worker, node| machine[worker] == node);
        // Of the four of node 1, worker 2 has its share, and the others go to who has least.
        assert_eq!(given, [3, 4, 5, 3, 2, 2, 4, 5, 0, 1, 0, 1]);
    }

    #[test]
    fn what_nobody_serves_or_is_beside_is_shared_out_too() {
        assert_eq!(assign(&[None; 5], 2, |_, _| true), [0, 1, 0, 1, 0]);
        assert_eq!(assign(&[Some(7); 3], 4, |_, _| false), [0, 1, 2]);
        assert_eq!(assign(&[], 3, |_, _| true), [0; 0]);
    }

    proptest! {
        #[test]
        fn nobody_has_more_than_the_even_share_or_reads_far_what_it_could_read_near(
            nodes in prop::collection::vec(prop::option::of(0_u64..5), 0..40),
            machines in prop::collection::vec(0_u64..5, 1..8),
        ) {
            let (workers, is_beside) = (machines.len(), |worker: usize, node| machines[worker] == node);
            let given = assign(&nodes, workers, is_beside);
            let share = nodes.len().div_ceil(workers);
            let count = |worker| given.iter().filter(|to| **to == worker).count();
            prop_assert!((0..workers).all(|worker| count(worker) <= share));
            for (to, node) in given.iter().zip(&nodes) {
                let Some(node) = *node else { continue };
                // Who reads it from afar: those beside it have their share of what is beside them.
                let reads_its_share_near = |worker| {
                    let near = given.iter().zip(&nodes).filter(|(to, node)| {
                        **to == worker && node.is_some_and(|node| is_beside(worker, node))
                    });
                    near.count() == share
                };
                let is_as_near_as_can_be = is_beside(*to, node)
                    || (0..workers).all(|worker| !is_beside(worker, node) || reads_its_share_near(worker));
                prop_assert!(is_as_near_as_can_be);
            }
        }
    }
}
