//! Who has permits, for those who ask why somebody waits for some.
//!
//! Each holder is one of a few with a name, in a place that is its own until it leaves, or
//! one of the others, who are counted. As long as there are no others, all are known.
//! While there are, newcomers are only counted, but for the first place: to name four of
//! ten, and others every moment, would cost more than it tells.
//!
//! Rules:
//! - Q1. The first place belongs to whoever sets FIRST in the word of the permits, with
//!   the same step by which it takes them, and who gives them back clears it with that
//!   step: so a single holder costs two stores. The other places are claimed one by one.
//! - Q2. Whoever takes permits says who it is after that, and unless it has the first place
//!   looks whether somebody waits; if so, it tells (`tell`). Whoever gives permits back
//!   leaves its place after that, and does the same; only the first place is emptied
//!   before, while FIRST still says that somebody has it. So at any time there is a name,
//!   or a sign that somebody has no name yet, for each holder, or it is about to tell.
//! - Q3. The first to queue up copies the names to the plate; it does so under the list's
//!   lock, after WAITERS was set. Others need not, as everybody tells while WAITERS is set.
//!   If it finds the sign of one without a name, it waits until there is none, and tells:
//!   that one is a few instructions away from having a name, or leaves, for which it needs
//!   the lock, and tells as well.
//! - Q4. Of permits that are handed to a waiter, the plate alone knows the name; the place
//!   says that it stands elsewhere. It is written under the list's lock, and taken up by
//!   the holder.
//! - Q5. The waiter in front may have a part of what it asks for (P2), which those behind it
//!   would get if it left. So the plate names it as the one ahead, as long as it has a part.
//!   Written under the list's lock.
//!
//! The race one fears: a holder claims its place, sees nobody wait, and the first to queue
//! up copies an empty place. Both write, then read what the other writes: who claims or
//! leaves a place does so by an exchange, and so does who sets WAITERS, SeqCst. So the
//! holder tells, or the other finds its name, or its sign. Of the first place the sign is
//! FIRST, in the very word that WAITERS is set in: there is no race, and nothing to look at.

use crate::sys::membarrier;
use crate::sys::sync::atomic::{AtomicU32, Ordering::*};
use crate::sys::sync::const_unless_model;
use crate::wait::ownership::owner::Owner;
use crate::wait::ownership::owner_slots::{OWNER_SLOTS, OwnerSlot, OwnerTable, SlotState};
use std::panic::Location;

/// Those who have permits, in the memory of the permits themselves.
pub(super) struct PermitOwners {
    places: [OwnerSlot; OWNER_SLOTS],
    /// How many have none. Less than that for a moment, if somebody goes who was counted
    /// under a lock that is still held.
    others: AtomicU32,
}

/// What the list's lock guards.
#[derive(Clone, Copy)]
pub(super) struct Counted {
    /// How many more have no place, of those who came and went under this hold of the lock:
    /// mostly one goes as another comes. See [`PermitOwners::settle`].
    more: i32,
    /// Somebody is noted as the one ahead (Q5).
    pub(super) has_ahead: bool,
}

impl Counted {
    pub(super) const NOBODY: Self = Self { more: 0, has_ahead: false };
}

/// Where a holder stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OwnerIndex(u8);

impl OwnerIndex {
    /// In the first place (Q1).
    pub(super) const FIRST: OwnerIndex = OwnerIndex(1);
    const OTHERS: OwnerIndex = OwnerIndex(OWNER_SLOTS as u8 + 1);
    /// It holds nothing.
    pub(super) const NOWHERE: OwnerIndex = OwnerIndex(0);

    /// As the remark that a waiter is left, which is 0 if it is left none.
    pub(super) fn to_remark(self) -> u32 {
        u32::from(self.0)
    }

    pub(super) fn from_remark(remark: u32) -> Self {
        OwnerIndex(remark as u8)
    }

    /// It is not in the first place, and has something.
    #[inline]
    pub(super) fn is_behind(self) -> bool {
        self.0 > OwnerIndex::FIRST.0
    }

    /// Of two that become one, the second is left: not if it is the only one.
    pub(super) fn stay_somewhere(&mut self, left: &mut Self) {
        if *self == OwnerIndex::NOWHERE {
            std::mem::swap(self, left);
        }
    }

    fn nth(nth: usize) -> Self {
        OwnerIndex(nth as u8 + 1)
    }

    #[inline]
    fn of(self, places: &[OwnerSlot; OWNER_SLOTS]) -> Option<&OwnerSlot> {
        places.get(usize::from(self.0).wrapping_sub(1))
    }
}

impl PermitOwners {
    const_unless_model! {
        pub(super) fn nobody() -> Self {
            Self {
                places: [OwnerSlot::new(), OwnerSlot::new(), OwnerSlot::new(), OwnerSlot::new()],
                others: AtomicU32::new(0),
            }
        }
    }

    /// Whoever has taken permits and FIRST says who it is (Q2).
    #[inline(always)]
    pub(super) fn enter_first(&self, held: Owner) {
        self.places[0].write(held);
    }

    /// The same for one who has not got FIRST: the caller then looks whether somebody
    /// waits.
    pub(super) fn enter_behind(&self, held: Owner) -> OwnerIndex {
        let mut spot = OwnerIndex::OTHERS;
        if self.others.load(Relaxed) == 0
            && let Some((free, place)) = self.claim()
        {
            place.write(held);
            spot = free;
        } else {
            self.others.fetch_add(1, SeqCst);
        }
        membarrier::fence_in_models();
        spot
    }

    fn claim(&self) -> Option<(OwnerIndex, &OwnerSlot)> {
        let mut behind = self.places.iter().enumerate().skip(1);
        let (nth, place) = behind.find(|(_, place)| place.claim())?;
        Some((OwnerIndex::nth(nth), place))
    }

    /// Q2: before FIRST is cleared.
    #[inline]
    pub(super) fn leave_first(&self) {
        self.places[0].free();
    }

    /// Q2: whoever is behind has given its permits back.
    pub(super) fn leave_behind(&self, spot: OwnerIndex) {
        match spot.of(&self.places) {
            Some(place) => place.free_seq_cst(),
            None => _ = self.others.fetch_sub(1, SeqCst),
        }
        membarrier::fence_in_models();
    }

    /// Under the list's lock, by whoever gives its permits back there. From the first
    /// place it has gone already (Q2).
    #[inline]
    pub(super) fn leave(
        &self,
        spot: OwnerIndex,
        counted: &mut Counted,
        names: Option<&OwnerTable>,
    ) {
        if spot == OwnerIndex::OTHERS {
            counted.more -= 1;
        } else if let Some(place) = spot.of(&self.places) {
            if spot != OwnerIndex::FIRST {
                place.free();
            }
            if let Some(told) = names.and_then(|names| spot.of(&names.slots)) {
                // Another may have claimed it meanwhile.
                told.update(place.read());
            }
        }
    }

    /// Permits are handed to a waiter, as which `held` is granted, under the list's lock;
    /// with FIRST, if the caller has set that for it (Q4).
    #[inline]
    pub(super) fn hand(
        &self,
        has_first: bool,
        held: Owner,
        counted: &mut Counted,
        names: Option<&OwnerTable>,
    ) -> OwnerIndex {
        if has_first || !self.has_others(counted) {
            let first = || Some((OwnerIndex::FIRST, &self.places[0]));
            if let Some(names) = names
                && let Some((spot, place)) = if has_first { first() } else { self.claim() }
                && let Some(told) = spot.of(&names.slots)
            {
                place.mark_in_record();
                told.replace(held);
                return spot;
            }
        }
        counted.more += 1;
        if let Some(names) = names {
            // At once: it will be a holder before the count is settled.
            names.set_unlisted(true);
        }
        OwnerIndex::OTHERS
    }

    /// What was handed to a waiter is taken up; false: it has a name there that is not
    /// that of this task.
    #[inline]
    pub(super) fn take_up(
        spot: OwnerIndex,
        task: u64,
        site: &'static Location<'static>,
        names: Option<&OwnerTable>,
    ) -> bool {
        if spot == OwnerIndex::OTHERS {
            return true;
        }
        let Some(place) = names.and_then(|names| spot.of(&names.slots)) else { return true };
        let is_own = place.is_owned_by(task);
        if is_own {
            place.mark_polled(site);
        }
        is_own
    }

    /// The same for another task than that which queued up, under the list's lock.
    pub(super) fn take_up_as_another(spot: OwnerIndex, held: Owner, names: Option<&OwnerTable>) {
        if let Some(place) = names.and_then(|names| spot.of(&names.slots)) {
            place.replace(held);
        }
    }

    /// Before the lock is let go of: who was counted under it counts for everybody.
    #[inline]
    pub(super) fn settle(&self, counted: &mut Counted, names: Option<&OwnerTable>) {
        if counted.more != 0 {
            let more = std::mem::take(&mut counted.more);
            self.others.fetch_add(more.cast_unsigned(), SeqCst);
            if let Some(names) = names {
                self.tell_others(counted, names);
            }
        }
    }

    fn has_others(&self, counted: &Counted) -> bool {
        self.others.load(SeqCst) as i32 + counted.more > 0
    }

    fn tell_others(&self, counted: &Counted, names: &OwnerTable) {
        names.set_unlisted(self.has_others(counted));
    }

    /// Who is in which place. `has_first`: FIRST is set.
    fn seen(&self, has_first: bool) -> impl Iterator<Item = SlotState> {
        self.places.iter().enumerate().map(move |(nth, place)| match place.read() {
            SlotState::Free if nth == 0 && has_first => SlotState::Claimed,
            seen => seen,
        })
    }

    /// Whether somebody has no name yet.
    pub(super) fn has_unnamed(&self, has_first: bool) -> bool {
        self.seen(has_first).any(|seen| seen == SlotState::Claimed)
    }

    /// Q3: copies all names, under the list's lock. `has_first`: FIRST is set. Answers
    /// whether somebody has no name yet.
    pub(super) fn tell(&self, has_first: bool, counted: &Counted, names: &OwnerTable) -> bool {
        let mut is_unsure = false;
        membarrier::fence_in_models(); // after the exchange that set WAITERS
        for (seen, told) in self.seen(has_first).zip(&names.slots) {
            is_unsure |= seen == SlotState::Claimed;
            if seen != SlotState::InRecord {
                told.update(seen); // Q4
            }
        }
        self.tell_others(counted, names);
        is_unsure
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn held(task: u64) -> Owner {
        Owner { task, site: Some(Location::caller()), granted_unpolled: false }
    }

    /// What a plate says after all names were copied: who is named, and whether all are.
    fn told(holders: &PermitOwners, has_first: bool, counted: &Counted) -> (Vec<u64>, bool) {
        let names = OwnerTable::none();
        holders.tell(has_first, counted, &names);
        (names.named().iter().map(|held| held.task).collect(), !names.has_unlisted())
    }

    #[test]
    fn all_are_named_until_there_are_too_many() {
        let (holders, nobody) = (PermitOwners::nobody(), Counted::NOBODY);
        holders.enter_first(held(1));
        let mut behind: Vec<OwnerIndex> =
            (2..=4).map(|task| holders.enter_behind(held(task))).collect();
        assert_eq!(told(&holders, true, &nobody), (vec![1, 2, 3, 4], true));
        let fifth = holders.enter_behind(held(5));
        assert_eq!(told(&holders, true, &nobody), (vec![1, 2, 3, 4], false));
        // Two of the named leave: those left are not all, and who comes now is one of the others.
        behind.drain(..2).for_each(|spot| holders.leave_behind(spot));
        assert_eq!(told(&holders, true, &nobody), (vec![1, 4], false));
        let sixth = holders.enter_behind(held(6));
        assert_eq!((fifth, sixth), (OwnerIndex::OTHERS, OwnerIndex::OTHERS));
        holders.leave_behind(fifth);
        assert_eq!(told(&holders, true, &nobody), (vec![1, 4], false));
        holders.leave_behind(sixth);
        assert_eq!(told(&holders, true, &nobody), (vec![1, 4], true), "all are known again");
        holders.leave_first();
        assert_eq!(told(&holders, true, &nobody), (vec![4], false), "about to leave, or to come");
        assert_eq!(told(&holders, false, &nobody), (vec![4], true));
    }

    #[test]
    fn what_is_handed_over_is_told_by_the_plate_alone() {
        let (holders, mut counted) = (PermitOwners::nobody(), Counted::NOBODY);
        let names = OwnerTable::none();
        let first = holders.hand(true, held(1).granted_unpolled(), &mut counted, Some(&names));
        let second = holders.hand(false, held(2).granted_unpolled(), &mut counted, Some(&names));
        let again = [first, second].map(|spot| OwnerIndex::from_remark(spot.to_remark()));
        assert_eq!(again, [first, second]);
        assert!(PermitOwners::take_up(second, 2, Location::caller(), Some(&names)));
        assert!(!PermitOwners::take_up(first, 3, Location::caller(), Some(&names)), "another's");
        // Copying the names again leaves them alone.
        assert!(!holders.tell(true, &counted, &names));
        let granted: Vec<(u64, bool)> =
            names.named().iter().map(|held| (held.task, held.granted_unpolled)).collect();
        assert_eq!(granted, [(1, true), (2, false)]);
        // Those who are counted under the lock may go without it.
        let rest = [3, 4, 5].map(|task| {
            holders.hand(false, held(task).granted_unpolled(), &mut counted, Some(&names))
        });
        assert_eq!(rest[2], OwnerIndex::OTHERS);
        assert!(names.has_unlisted());
        holders.leave_behind(rest[2]);
        holders.tell(true, &counted, &names);
        assert!(!names.has_unlisted());
        holders.settle(&mut counted, Some(&names));
        holders.leave_first();
        holders.leave(first, &mut counted, Some(&names));
        assert_eq!(names.named().len(), 3);
        assert_eq!(OwnerIndex::from_remark(0), OwnerIndex::NOWHERE);
    }

    #[test]
    fn who_is_counted_under_the_lock_or_without_it_counts_the_same() {
        let (holders, mut counted) = (PermitOwners::nobody(), Counted::NOBODY);
        let names = OwnerTable::none();
        let all: Vec<OwnerIndex> = (1..=4).map(|task| holders.enter_behind(held(task))).collect();
        assert_eq!(all[3], OwnerIndex::OTHERS);
        // One comes without the lock and goes under it, another the other way round.
        holders.leave(all[3], &mut counted, Some(&names));
        holders.settle(&mut counted, Some(&names));
        let handed = holders.hand(false, held(5).granted_unpolled(), &mut counted, Some(&names));
        assert_eq!(handed, OwnerIndex::OTHERS, "all places are taken");
        holders.settle(&mut counted, Some(&names));
        holders.leave_behind(handed);
        holders.leave_behind(all[0]);
        assert_eq!(holders.enter_behind(held(6)), all[0], "there are no others");
    }
}
