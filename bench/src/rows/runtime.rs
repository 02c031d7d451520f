//! Rows about the runtime as a whole: `block_on`, starting and stopping.

use std::hint::black_box;
use std::time::Instant;

use super::{Row, Target, Unit, Work};
use crate::peers::{Peer, cells};

pub fn rows() -> Vec<Row> {
    vec![
        Row {
            name: "block_on",
            what: "block_on a future that is ready",
            unit: Unit::Nanoseconds,
            ops_per_batch: 1,
            target: Target::each(0.45, 0.25),
            counted: Some((5_000, 55_000)),
            cells: cells!(block_on: SmolStatic, SmolLocal, FuturesPool, FuturesLocal, Monoio, Compio, Glommio),
        },
        Row {
            name: "start_stop",
            what: "build the runtime, block_on a future that is ready, drop the runtime",
            unit: Unit::Nanoseconds,
            ops_per_batch: 1,
            target: Target::both(0.85),
            counted: Some((10, 60)),
            cells: cells!(start_stop: SmolMulti, SmolLocal, FuturesLocal, Monoio, Compio, Glommio),
        },
    ]
}

fn block_on<P: Peer>() -> Work {
    let peer = P::build();
    Work::timed(move |batches| {
        let start = Instant::now();
        for _ in 0..batches {
            black_box(peer.block_on(async { black_box(1) }));
        }
        start.elapsed()
    })
}

fn start_stop<P: Peer>() -> Work {
    Work::timed(move |batches| {
        let start = Instant::now();
        for _ in 0..batches {
            let peer = P::build();
            peer.block_on(async {});
            drop(peer);
        }
        start.elapsed()
    })
}
