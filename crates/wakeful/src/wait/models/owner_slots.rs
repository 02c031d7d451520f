//! A model of the names on a plate.

use crate::sys::sync::{Arc, thread};
use crate::task::models::scheduler::{model, start};
use crate::wait::ownership::owner::Owner;
use crate::wait::ownership::owner_slots::{OwnerSlot, OwnerTable, SlotState};
use std::panic::Location;

fn held(task: u64, site: &'static Location<'static>) -> Owner {
    Owner { task, site: Some(site), granted_unpolled: false }
}

/// A place is claimed, said to be somebody's and given up, by two who want it; another
/// reads it meanwhile. Catches a name of one with the site of the other, and two who have
/// one place.
#[test]
fn a_place_is_read_as_it_goes_from_one_to_another() {
    let sites = [Location::caller(), Location::caller(), Location::caller()];
    model(3, move || {
        let place = Arc::new(OwnerSlot::new());
        let come_and_go = move |place: &OwnerSlot, task: usize| {
            if place.claim() {
                place.write(held(task as u64, sites[task]));
                assert_eq!(
                    place.read(),
                    SlotState::Named(held(task as u64, sites[task])),
                    "it is mine"
                );
                place.free();
            }
        };
        let another = thread::spawn({
            let place = place.clone();
            move || come_and_go(&place, 1)
        });
        let third = thread::spawn({
            let place = place.clone();
            move || come_and_go(&place, 2)
        });
        start();
        if let SlotState::Named(seen) = place.read() {
            assert_eq!(seen.site, Some(sites[seen.task as usize]), "not the site of another");
        }
        another.join().unwrap();
        third.join().unwrap();
        assert_eq!(place.read(), SlotState::Free);
    });
}

/// A name is written over, and what was granted is taken up, while another reads. Catches
/// a site, or a grant, that belongs to the one before.
#[test]
fn a_name_is_read_as_it_is_replaced() {
    let sites = [Location::caller(), Location::caller(), Location::caller()];
    model(3, move || {
        let names = Arc::new(OwnerTable::none());
        names.slots[0].replace(held(1, sites[1]));
        let writer = thread::spawn({
            let names = names.clone();
            move || {
                names.slots[0].replace(held(2, sites[2]).granted_unpolled());
                names.slots[0].mark_polled(sites[2]);
            }
        });
        start();
        for _ in 0..2 {
            match names.slots[0].read() {
                SlotState::Named(seen) => {
                    assert_eq!(seen.site, Some(sites[seen.task as usize]));
                    assert!(seen.task == 2 || !seen.granted_unpolled, "granted to the other");
                }
                other => assert_ne!(other, SlotState::InRecord),
            }
        }
        writer.join().unwrap();
        assert_eq!(names.named(), [held(2, sites[2])]);
        assert!(!names.has_unlisted());
    });
}
