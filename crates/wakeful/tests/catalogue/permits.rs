//! Permits, barriers and cells: amounts that never come together.

use std::sync::Arc;

use wakeful::inspect::Certainty::Suspected;
use wakeful::join;
use wakeful::sync::{Barrier, OnceCell};

use super::Twin;
use super::child::{is_buggy, named};
use super::program::{Bug, bug};

/// Two cells, each of which is computed from the other.
async fn two_cells(twin: Twin) {
    let cells = Arc::new([OnceCell::new(), OnceCell::new()]);
    let both = Arc::new(Barrier::new(2));
    let compute = |name: &'static str, own: usize| {
        let (cells, both) = (cells.clone(), both.clone());
        named(name, async move {
            let other = &cells[1 - own];
            let value = cells[own].get_or_init(|| async {
                //@ has
                both.wait().await;
                match is_buggy(twin) {
                    true => *other.get_or_init(async || 1).await, //@ wants
                    false => 2,
                }
            });
            value.await;
        })
    };
    let (left, right) = (compute("left", 0), compute("right", 1));
    let _ = join!(left, right);
}

pub fn bugs() -> Vec<Bug> {
    vec![
        bug!(two_cells)
            .reports("deadlock", Suspected)
            .edge(("left", "OnceCell::get_or_init", "wants"), ("right", "has"))
            .edge(("right", "OnceCell::get_or_init", "wants"), ("left", "has")),
    ]
}
