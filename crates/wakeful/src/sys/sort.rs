//! Sorts rows of reports and of the live page with little machine code.
//!
//! std compiles 6 kB for each type that is sorted, and for each type that is collected into a B-tree. Here all
//! types share one sort of indexes.

use std::cmp::Ordering;

/// Sorts items by a key. Items with equal keys keep their order.
pub(crate) fn sort_by_key<T, K: Ord>(items: &mut [T], key: impl Fn(&T) -> K) {
    let order = order(items.len(), &|a, b| key(&items[a]).cmp(&key(&items[b])));
    arrange(items, order);
}

/// Sorts items by a key that is computed once for each item. Items with equal keys keep their order.
#[cfg(feature = "page")]
pub(crate) fn sort_by_cached_key<T, K: Ord>(items: &mut [T], key: impl Fn(&T) -> K) {
    let keys: Vec<K> = items.iter().map(key).collect();
    let order = order(items.len(), &|a, b| keys[a].cmp(&keys[b]));
    arrange(items, order);
}

/// Returns the indexes of `len` items in the order of `compare`.
fn order(len: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    order.sort_by(|a, b| compare(*a, *b));
    order
}

/// Moves the item at `order[n]` to position `n`, for each `n`.
fn arrange<T>(items: &mut [T], mut order: Vec<usize>) {
    for to in 0..order.len() {
        let mut from = order[to];
        // If position `from` was filled, `order[from]` is where its item moved.
        while from < to {
            from = order[from];
        }
        order[to] = from;
        items.swap(to, from);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::sort_by_key;
    use crate::sys::rng::Rng;

    #[test]
    fn it_sorts_as_std_does() {
        let mut rng = Rng::from_seed(1);
        for len in 0..200 {
            let mut items: Vec<(u64, usize)> =
                (0..len).map(|at| (rng.next_u64() % 20, at)).collect();
            let mut expected = items.clone();
            expected.sort_by_key(|(key, _)| *key);
            sort_by_key(&mut items, |(key, _)| *key);
            assert_eq!(items, expected);
        }
    }
}
