//! Rows about the pool for closures that block.

use super::{Row, Target, Unit, Work, on_worker};
use crate::peers::{Blocking, cells};

/// Closures handed over together in blocking_batch.
const BATCH: u64 = 1_000;

pub fn rows() -> Vec<Row> {
    vec![
        Row {
            name: "blocking_seq",
            what: "one empty closure to the pool and await it",
            unit: Unit::Nanoseconds,
            ops_per_batch: 1,
            target: Target::both(0.80),
            counted: None,
            cells: cells!(blocking_seq: SmolStatic, SmolLocal, Monoio, Compio, Glommio),
        },
        Row {
            name: "blocking_batch",
            what: "1,000 empty closures to the pool, then await all; per closure",
            unit: Unit::Nanoseconds,
            ops_per_batch: BATCH,
            target: Target::both(0.20),
            counted: None,
            cells: cells!(blocking_batch: SmolStatic, SmolLocal, Monoio, Compio, Glommio),
        },
    ]
}

fn blocking_seq<P: Blocking>() -> Work {
    on_worker(P::build_with_pool(), |batches| async move {
        for _ in 0..batches {
            P::spawn_blocking(|| ()).await;
        }
    })
}

fn blocking_batch<P: Blocking>() -> Work {
    on_worker(P::build_with_pool(), |batches| async move {
        let mut joins = Vec::with_capacity(BATCH as usize);
        for _ in 0..batches {
            joins.extend((0..BATCH).map(|_| P::spawn_blocking(|| ())));
            for join in joins.drain(..) {
                join.await;
            }
        }
    })
}
