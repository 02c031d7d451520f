//! openraft: a cluster of three nodes in memory that elects leaders, replicates a log and sends snapshots.

use interop::on_every_runtime;
use openraft::error::{InstallSnapshotError, RPCError, RaftError, RemoteError, Unreachable};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use openraft::storage::{LogFlushed, RaftLogStorage, RaftStateMachine};
use openraft::{
    BasicNode, Config, Entry, EntryPayload, LogId, LogState, OptionalSend, Raft, RaftLogReader,
    RaftMetrics, RaftNetwork, RaftNetworkFactory, RaftSnapshotBuilder, Snapshot, SnapshotMeta,
    SnapshotPolicy, StorageError, StoredMembership, Vote,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::io::Cursor;
use std::ops::RangeBounds;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinSet;

openraft::declare_raft_types!(
    /// A log of numbers; the state is the set of them.
    pub Numbers: D = u64, R = usize,
);

type Node = Raft<Numbers>;
type Stored<T> = Result<T, StorageError<u64>>;

/// The time limit of each step. Only a hang reaches it.
const LIMIT: Option<Duration> = Some(Duration::from_secs(40));

#[derive(Default)]
struct Log {
    entries: BTreeMap<u64, Entry<Numbers>>,
    last_purged: Option<LogId<u64>>,
    vote: Option<Vote<u64>>,
}

#[derive(Clone, Default)]
struct LogStore(Arc<Mutex<Log>>);

impl RaftLogReader<Numbers> for LogStore {
    async fn try_get_log_entries<R: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: R,
    ) -> Stored<Vec<Entry<Numbers>>> {
        let log = self.0.lock().unwrap();
        Ok(log.entries.range(range).map(|(_, entry)| entry.clone()).collect())
    }
}

impl RaftLogStorage<Numbers> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Stored<LogState<Numbers>> {
        let log = self.0.lock().unwrap();
        let last = log.entries.last_key_value().map(|(_, entry)| entry.log_id);
        Ok(LogState { last_purged_log_id: log.last_purged, last_log_id: last.or(log.last_purged) })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote<u64>) -> Stored<()> {
        self.0.lock().unwrap().vote = Some(*vote);
        Ok(())
    }

    async fn read_vote(&mut self) -> Stored<Option<Vote<u64>>> {
        Ok(self.0.lock().unwrap().vote)
    }

    async fn append<I>(&mut self, entries: I, callback: LogFlushed<Numbers>) -> Stored<()>
    where
        I: IntoIterator<Item = Entry<Numbers>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries = entries.into_iter().map(|entry| (entry.log_id.index, entry));
        self.0.lock().unwrap().entries.extend(entries);
        callback.log_io_completed(Ok(()));
        Ok(())
    }

    async fn truncate(&mut self, from: LogId<u64>) -> Stored<()> {
        self.0.lock().unwrap().entries.split_off(&from.index);
        Ok(())
    }

    async fn purge(&mut self, up_to: LogId<u64>) -> Stored<()> {
        let mut log = self.0.lock().unwrap();
        log.entries = log.entries.split_off(&(up_to.index + 1));
        log.last_purged = Some(up_to);
        Ok(())
    }
}

#[derive(Clone, Default)]
struct State {
    numbers: BTreeSet<u64>,
    last_applied: Option<LogId<u64>>,
    membership: StoredMembership<u64, BasicNode>,
}

#[derive(Clone, Default)]
struct StateMachine(Arc<Mutex<State>>);

impl StateMachine {
    fn numbers(&self) -> BTreeSet<u64> {
        self.0.lock().unwrap().numbers.clone()
    }

    /// The numbers, eight bytes each.
    fn snapshot(&self) -> Snapshot<Numbers> {
        let state = self.0.lock().unwrap();
        let meta = SnapshotMeta {
            last_log_id: state.last_applied,
            last_membership: state.membership.clone(),
            snapshot_id: format!("{:?}", state.last_applied),
        };
        let bytes = state.numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
        Snapshot { meta, snapshot: Box::new(Cursor::new(bytes)) }
    }
}

impl RaftSnapshotBuilder<Numbers> for StateMachine {
    async fn build_snapshot(&mut self) -> Stored<Snapshot<Numbers>> {
        Ok(self.snapshot())
    }
}

impl RaftStateMachine<Numbers> for StateMachine {
    type SnapshotBuilder = Self;

    async fn applied_state(
        &mut self,
    ) -> Stored<(Option<LogId<u64>>, StoredMembership<u64, BasicNode>)> {
        let state = self.0.lock().unwrap();
        Ok((state.last_applied, state.membership.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Stored<Vec<usize>>
    where
        I: IntoIterator<Item = Entry<Numbers>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut state = self.0.lock().unwrap();
        let mut sizes = Vec::new();
        for entry in entries {
            state.last_applied = Some(entry.log_id);
            match entry.payload {
                EntryPayload::Blank => {}
                EntryPayload::Normal(number) => {
                    state.numbers.insert(number);
                }
                EntryPayload::Membership(membership) => {
                    state.membership = StoredMembership::new(Some(entry.log_id), membership);
                }
            }
            sizes.push(state.numbers.len());
        }
        Ok(sizes)
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.clone()
    }

    async fn begin_receiving_snapshot(&mut self) -> Stored<Box<Cursor<Vec<u8>>>> {
        Ok(Box::default())
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta<u64, BasicNode>,
        snapshot: Box<Cursor<Vec<u8>>>,
    ) -> Stored<()> {
        let (numbers, rest) = snapshot.get_ref().as_chunks();
        assert!(rest.is_empty());
        *self.0.lock().unwrap() = State {
            numbers: numbers.iter().map(|bytes| u64::from_be_bytes(*bytes)).collect(),
            last_applied: meta.last_log_id,
            membership: meta.last_membership.clone(),
        };
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Stored<Option<Snapshot<Numbers>>> {
        let has_any = self.0.lock().unwrap().last_applied.is_some();
        Ok(has_any.then(|| self.snapshot()))
    }
}

/// The reachable nodes. A remote call is a method call of the other node.
#[derive(Clone, Default)]
struct Network(Arc<Mutex<BTreeMap<u64, Node>>>);

struct Link {
    network: Network,
    target: u64,
}

type CallError<E> = RPCError<u64, BasicNode, E>;

impl Link {
    fn target(&self) -> Result<Node, Unreachable> {
        let nodes = self.network.0.lock().unwrap();
        let gone = std::io::Error::other("the node is gone");
        nodes.get(&self.target).cloned().ok_or_else(|| Unreachable::new(&gone))
    }
}

impl RaftNetworkFactory<Numbers> for Network {
    type Network = Link;

    async fn new_client(&mut self, target: u64, _: &BasicNode) -> Link {
        Link { network: self.clone(), target }
    }
}

impl RaftNetwork<Numbers> for Link {
    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<Numbers>,
        _: openraft::network::RPCOption,
    ) -> Result<AppendEntriesResponse<u64>, CallError<RaftError<u64>>> {
        let answer = self.target()?.append_entries(request).await;
        answer.map_err(|error| RemoteError::new(self.target, error).into())
    }

    async fn install_snapshot(
        &mut self,
        request: InstallSnapshotRequest<Numbers>,
        _: openraft::network::RPCOption,
    ) -> Result<InstallSnapshotResponse<u64>, CallError<RaftError<u64, InstallSnapshotError>>> {
        let answer = self.target()?.install_snapshot(request).await;
        answer.map_err(|error| RemoteError::new(self.target, error).into())
    }

    async fn vote(
        &mut self,
        request: VoteRequest<u64>,
        _: openraft::network::RPCOption,
    ) -> Result<VoteResponse<u64>, CallError<RaftError<u64>>> {
        let answer = self.target()?.vote(request).await;
        answer.map_err(|error| RemoteError::new(self.target, error).into())
    }
}

/// Waits between two attempts, so that a vote can end. The number of attempts does not matter.
async fn pause() {
    tokio::time::sleep(Duration::from_millis(10)).await;
}

#[derive(Default)]
struct Cluster {
    network: Network,
    states: BTreeMap<u64, StateMachine>,
}

impl Cluster {
    async fn start_node(&mut self, id: u64) -> Node {
        let config = Config {
            heartbeat_interval: 50,
            election_timeout_min: 500,
            election_timeout_max: 1000,
            snapshot_policy: SnapshotPolicy::Never,
            max_in_snapshot_log_to_keep: 0,
            ..Config::default()
        };
        let config = Arc::new(config.validate().unwrap());
        let state = StateMachine::default();
        self.states.insert(id, state.clone());
        let node = Raft::new(id, config, self.network.clone(), LogStore::default(), state);
        let node = node.await.unwrap();
        self.network.0.lock().unwrap().insert(id, node.clone());
        node
    }

    async fn stop_node(&self, id: u64) {
        let node = self.network.0.lock().unwrap().remove(&id).unwrap();
        node.shutdown().await.unwrap();
    }

    fn node(&self, id: u64) -> Node {
        self.network.0.lock().unwrap()[&id].clone()
    }

    fn ids(&self) -> Vec<u64> {
        self.network.0.lock().unwrap().keys().copied().collect()
    }

    /// Waits until the node `id` knows a leader that is reachable, and returns the leader.
    async fn leader(&self, id: u64) -> Node {
        let ids = self.ids();
        let is_there = |metrics: &RaftMetrics<u64, BasicNode>| {
            metrics.current_leader.is_some_and(|leader| ids.contains(&leader))
        };
        let metrics = self.node(id).wait(LIMIT).metrics(is_there, "a leader").await.unwrap();
        self.node(metrics.current_leader.unwrap())
    }

    /// Adds a number. If the leader changes, asks the next one.
    async fn write(&self, number: u64) {
        while self.leader(self.ids()[0]).await.client_write(number).await.is_err() {
            pause().await;
        }
    }

    /// Adds a node that does not vote, and waits until it has the log.
    async fn add_learner(&self, id: u64) {
        let node = BasicNode::default();
        while self.leader(self.ids()[0]).await.add_learner(id, node.clone(), true).await.is_err() {
            pause().await;
        }
    }

    /// Makes a snapshot at a node, and drops the log up to there.
    async fn cut_log(&self, id: u64) {
        let node = self.node(id);
        node.trigger().snapshot().await.unwrap();
        let has_snapshot = |metrics: &RaftMetrics<u64, BasicNode>| metrics.snapshot.is_some();
        let metrics = node.wait(LIMIT).metrics(has_snapshot, "a snapshot").await.unwrap();
        node.trigger().purge_log(metrics.snapshot.unwrap().index).await.unwrap();
        let is_cut = |now: &RaftMetrics<u64, BasicNode>| now.purged == metrics.snapshot;
        node.wait(LIMIT).metrics(is_cut, "a shorter log").await.unwrap();
    }

    /// Writes many numbers at once, and waits until every node has them all.
    async fn write_all(self: &Arc<Self>, numbers: std::ops::Range<u64>) {
        let mut writes = JoinSet::new();
        for number in numbers.clone() {
            let cluster = self.clone();
            writes.spawn(async move { cluster.write(number).await });
        }
        writes.join_all().await;
        for id in self.ids() {
            let state = &self.states[&id];
            let has_all =
                |_: &RaftMetrics<u64, BasicNode>| state.numbers() == (0..numbers.end).collect();
            self.node(id).wait(LIMIT).metrics(has_all, "all numbers").await.unwrap();
        }
    }
}

#[test]
fn three_nodes_elect_leaders_and_replicate() {
    on_every_runtime(|| async {
        let mut cluster = Cluster::default();
        for id in 0..4 {
            cluster.start_node(id).await;
        }
        let cluster = Arc::new(cluster);
        // The fourth node is not a member yet, and is unreachable.
        let fourth = cluster.network.0.lock().unwrap().remove(&3).unwrap();
        let members: BTreeMap<u64, BasicNode> =
            (0..3).map(|id| (id, BasicNode::default())).collect();
        cluster.node(0).initialize(members).await.unwrap();
        cluster.write_all(0..100).await;

        // The leader goes. The others elect a new one, which has everything.
        let old = cluster.leader(0).await.metrics().borrow().id;
        cluster.stop_node(old).await;
        cluster.write_all(100..200).await;

        // Every log is cut off at a snapshot, so the new member gets one.
        for id in cluster.ids() {
            cluster.cut_log(id).await;
        }
        cluster.network.0.lock().unwrap().insert(3, fourth);
        cluster.add_learner(3).await;
        let has_snapshot = |metrics: &RaftMetrics<u64, BasicNode>| metrics.snapshot.is_some();
        cluster.node(3).wait(LIMIT).metrics(has_snapshot, "the snapshot").await.unwrap();
        cluster.write_all(200..300).await;

        for id in cluster.ids() {
            cluster.stop_node(id).await;
        }
    });
}
