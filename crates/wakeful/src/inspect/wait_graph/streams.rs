//! Streams between the hosts of a simulation, as resources of the wait graph.
//!
//! A task that waits for a stream depends on the tasks that use the other end: those that have last
//! read from it or written to it, and those that wait for it.

use super::node::WaitEdge;
use super::waiter::Waiter;
use crate::sim::network::StreamPeer;
use crate::task::state::COMPLETE;
use crate::task::wait_kind::WaitKind;
use crate::task::wait_record::{Link, RecordedWait, Wait};
use crate::task::wait_target::WaitTarget;
use crate::wait::ownership::owner::Owner;
use crate::watchdog::snapshot::Inspectable;
use std::collections::{BTreeMap, BTreeSet};

/// The users of the other end of each stream, by the number of the socket.
pub(super) struct Streams(BTreeMap<u64, Vec<Owner>>);

/// Returns the number of the socket if this is a wait for a socket.
fn socket_of(wait: &Wait) -> Option<u64> {
    match (wait.kind, wait.target.target()) {
        (WaitKind::IoRead | WaitKind::IoWrite | WaitKind::IoReady, WaitTarget::Number(number)) => {
            Some(number)
        }
        _ => None,
    }
}

/// Returns the numbers of the sockets for which a task or `block_on` future waits since its last poll.
fn sockets_of(waiter: &Waiter) -> Vec<u64> {
    let poll = waiter.poll_stamp();
    let (waits, _) = waiter.record().waits();
    let waits = waits.iter().filter(|it| it.link == Link::None && it.poll.same_poll(poll));
    waits.filter_map(|it| socket_of(&it.wait)).collect()
}

impl Streams {
    /// Reads the users of all streams of these hosts. `peers` has the other end of each stream.
    pub(super) fn read(hosts: &[&dyn Inspectable], peers: &BTreeMap<u64, StreamPeer>) -> Self {
        let mut alive = BTreeSet::new();
        let mut waiters: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        let mut add = |waiter: Waiter| {
            alive.insert(waiter.id());
            for number in sockets_of(&waiter) {
                waiters.entry(number).or_default().push(waiter.id());
            }
        };
        for host in hosts {
            host.block_ons().into_iter().map(Waiter::BlockOn).for_each(&mut add);
            host.each_task(&mut |task| {
                if !task.state().has(COMPLETE) {
                    add(Waiter::Task(task));
                }
            });
        }
        let owners = |peer: &StreamPeer| {
            let waiting = waiters.get(&peer.number).into_iter().flatten();
            let tasks: BTreeSet<u64> = peer.users.iter().chain(waiting).copied().collect();
            let tasks = tasks.into_iter().filter(|task| alive.contains(task));
            tasks.map(|task| Owner { task, site: None, granted_unpolled: false }).collect()
        };
        let streams = peers.iter().map(|(number, peer)| (*number, owners(peer)));
        Self(streams.filter(|(_, owners): &(u64, Vec<Owner>)| !owners.is_empty()).collect())
    }

    /// Returns the edge of a wait of the last poll, if it is for a stream with known users.
    pub(super) fn edge(&self, recorded: &RecordedWait) -> Option<WaitEdge> {
        let wait = recorded.wait;
        let holders = self.0.get(&socket_of(&wait)?)?.clone();
        Some(WaitEdge { wait, holders, queued_ahead: None, may_have_moved: false })
    }
}
