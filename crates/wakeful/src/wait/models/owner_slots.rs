//! Loom models of owner slots.

use crate::sys::sync::{Arc, thread};
use crate::task::models::scheduler::{model, start};
use crate::wait::ownership::owner::Owner;
use crate::wait::ownership::owner_slots::{OwnerSlot, OwnerTable, SlotState};
use std::panic::Location;

fn owner(task: u64, site: &'static Location<'static>) -> Owner {
    Owner { task, site: Some(site), granted_unpolled: false }
}

/// Two threads claim, write and free a slot while a third reads it.
///
/// Detects a read of one owner's task with the other's site, and a slot with two owners.
#[test]
fn slot_is_read_while_its_owner_changes() {
    let sites = [Location::caller(), Location::caller(), Location::caller()];
    model(3, move || {
        let slot = Arc::new(OwnerSlot::new());
        let own_for_a_while = move |slot: &OwnerSlot, task: usize| {
            if slot.claim() {
                slot.write(owner(task as u64, sites[task]));
                assert_eq!(
                    slot.read(),
                    SlotState::Named(owner(task as u64, sites[task])),
                    "this thread owns the slot"
                );
                slot.free();
            }
        };
        let another = thread::spawn({
            let slot = slot.clone();
            move || own_for_a_while(&slot, 1)
        });
        let third = thread::spawn({
            let slot = slot.clone();
            move || own_for_a_while(&slot, 2)
        });
        start();
        if let SlotState::Named(seen) = slot.read() {
            assert_eq!(seen.site, Some(sites[seen.task as usize]), "the site of another task");
        }
        another.join().unwrap();
        third.join().unwrap();
        assert_eq!(slot.read(), SlotState::Free);
    });
}

/// An owner is replaced, and polls its grant, while another thread reads.
///
/// Detects a read of the previous owner's site or grant.
#[test]
fn owner_is_read_while_it_is_replaced() {
    let sites = [Location::caller(), Location::caller(), Location::caller()];
    model(3, move || {
        let names = Arc::new(OwnerTable::none());
        names.slots[0].replace(owner(1, sites[1]));
        let writer = thread::spawn({
            let names = names.clone();
            move || {
                names.slots[0].replace(owner(2, sites[2]).granted_unpolled());
                names.slots[0].mark_polled(sites[2]);
            }
        });
        start();
        for _ in 0..2 {
            match names.slots[0].read() {
                SlotState::Named(seen) => {
                    assert_eq!(seen.site, Some(sites[seen.task as usize]));
                    assert!(
                        seen.task == 2 || !seen.granted_unpolled,
                        "the grant of the other task"
                    );
                }
                other => assert_ne!(other, SlotState::InRecord),
            }
        }
        writer.join().unwrap();
        assert_eq!(names.named(), [owner(2, sites[2])]);
        assert!(!names.has_unlisted());
    });
}
