//! A model of the vigil: two end something that leaves another stuck, as the one who looks is
//! about to rest. Catches a last look that came before an end of which nobody tells.

use crate::sys::sync::atomic::{AtomicUsize, Ordering::*};
use crate::sys::sync::{Arc, thread};
use crate::task::models::scheduler::{model, start};
use crate::telemetry::scan_gate::ScanGate;
use std::sync::atomic::AtomicBool;

#[test]
fn what_ends_is_seen_by_the_last_look_or_rouses_the_one_who_rests() {
    model(3, || {
        let vigil = ScanGate::new(false);
        // The last is not part of the model.
        let scene = Arc::new((vigil, AtomicUsize::new(0), AtomicBool::new(false)));
        let others = [0, 1].map(|_| {
            let scene = scene.clone();
            thread::spawn(move || {
                let (vigil, stuck, woken) = &*scene;
                stuck.fetch_add(1, Relaxed);
                if vigil.end() && vigil.rouse() {
                    woken.store(true, SeqCst);
                }
            })
        });
        start();
        let (vigil, stuck, woken) = &*scene;
        let mut seen;
        loop {
            let ends = vigil.ends();
            seen = stuck.load(Relaxed);
            if vigil.rest(ends) {
                break;
            }
        }
        others.into_iter().for_each(|other| other.join().unwrap());
        assert!(seen == 2 || woken.load(SeqCst), "it rests, and somebody is stuck");
    });
}
