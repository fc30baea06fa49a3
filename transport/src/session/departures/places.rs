//! How many transfers and streamed bodies of each class may be under way.

use crate::frame::Class;

/// Whether one more may begin of `class`, beside those under way, of all `max` that there may be. Each class leaves
/// to those that it waits for as many places as it has itself: a request never keeps from going what is sent on
/// behalf of another, nor that a reply.
pub(super) fn has_place(class: Class, under_way: impl Iterator<Item = Class>, max: usize) -> bool {
    let (mut all, mut bounded) = (0, 0);
    for other in under_way {
        all += 1;
        bounded += usize::from(other as usize >= class as usize);
    }
    let share = max / Class::ALL.len();
    all < max && bounded < share * (Class::ALL.len() - class as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_class_takes_the_places_of_those_that_it_waits_for() {
        let mut under_way = Vec::new();
        for (class, most) in [(Class::Request, 8), (Class::Replication, 16), (Class::Reply, 24)] {
            while has_place(class, under_way.iter().copied(), 24) {
                under_way.push(class);
            }
            assert_eq!(under_way.len(), most);
        }
        // Those named first may have all.
        let replies = || (0..23).map(|_| Class::Reply);
        assert!(Class::ALL.into_iter().all(|class| has_place(class, replies(), 24)));
    }
}
