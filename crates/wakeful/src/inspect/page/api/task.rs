//! One task: its details, and the graph of what it waits for.

use super::findings::findings;
use super::groups::Group;
use super::values::{self, array, object, task_ref};
use super::view::{RuntimeView, View, key};
use crate::inspect::dump::{TaskDump, millis};
use crate::inspect::json::Json;
use crate::inspect::page::history::History;
use crate::task::ended::{self, EndedTask};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::Location;
use std::time::Duration;

/// The maximum number of children listed. The tree lists all.
const MAX_CHILDREN: usize = 100;
/// The maximum number of tasks in a graph.
const MAX_GRAPH_TASKS: usize = 40;

pub(super) fn details(
    view: &View,
    history: &History,
    runtime: &RuntimeView,
    task: &TaskDump,
) -> String {
    let id = task.info().id;
    let groups = runtime.snapshot.groups().iter();
    let group = groups.into_iter().find(|group| group.spawned_at() == task.info().spawned_at());
    let group = group.filter(|_| !task.info().is_block_on());
    let graph = Graph::from_task(view, runtime, task);
    object(|json| {
        json.field("found", |json| json.plain(true));
        json.field("task", |json| values::task(json, runtime, task));
        json.field("children", |json| {
            array(json, runtime.children(id).take(MAX_CHILDREN), |json, child| {
                task_ref(json, runtime.id(), child.info());
            });
        });
        json.field("findings", |json| {
            let about = findings(runtime);
            let about = about.iter().filter(|finding| finding.is_about(id));
            array(json, about, |json, finding| finding.write(json));
        });
        json.field("group", |json| {
            json.option(group, |json, group| {
                Group::new(runtime, group, history).write_in_full(json)
            });
        });
        json.field("graph", |json| graph.write(json));
    })
}

/// Answers for a task that does not exist, or has ended.
pub(super) fn not_found(key: Option<&str>) -> String {
    let id = key.and_then(|key| key.strip_prefix('t')?.parse::<u64>().ok());
    let ended = ended::last().into_iter().find(|task| Some(task.id) == id);
    object(|json| {
        json.field("found", |json| json.plain(false));
        json.field("ended", |json| json.option(ended.as_ref(), ended_task));
    })
}

/// Answers `ended`: the tasks that ended most recently.
pub(super) fn ended(limit: usize) -> String {
    let tasks = ended::last();
    object(|json| {
        json.field("rows", |json| array(json, tasks.iter().take(limit), ended_task));
    })
}

fn ended_task(json: &mut Json, task: &EndedTask) {
    json.object(|json| {
        json.field("id", |json| json.plain(task.id));
        json.field("name", |json| json.option(task.name.as_deref(), Json::string));
        json.field("spawned_at", |json| json.string(&task.spawned_at.to_string()));
        json.field("outcome", |json| json.string(task.outcome));
        json.field("polls", |json| json.plain(task.polls));
        json.field("busy_ms", |json| millis(json, task.busy));
        json.field("ended_ms_ago", |json| millis(json, task.at.elapsed()));
    });
}

/// A graph of tasks, the resources that they wait for, and the holders.
#[derive(Default)]
struct Graph<'v> {
    tasks: BTreeMap<String, (u64, &'v TaskDump)>,
    resources: BTreeMap<String, (&'static str, String)>,
    edges: Vec<GraphEdge>,
}

struct GraphEdge {
    from: String,
    to: String,
    what: &'static str,
    at: Option<&'static Location<'static>>,
    duration: Option<Duration>,
}

impl<'v> Graph<'v> {
    /// Follows the waits of a task to the holders of what it waits for. Also adds the tasks that
    /// directly wait for this task.
    fn from_task(view: &'v View, runtime: &'v RuntimeView, task: &'v TaskDump) -> Self {
        let mut graph = Self::default();
        let mut next = VecDeque::from([(runtime, task)]);
        for other in runtime.tasks() {
            let holders = other.waits().iter().flat_map(|wait| wait.holders());
            let mut ids = holders.map(|holder| holder.id());
            if other.info() != task.info() && ids.any(|it| it == task.info().id) {
                next.push_back((runtime, other));
            }
        }
        while let Some((runtime, task)) = next.pop_front() {
            let from = node_key(runtime, task.info().id);
            if graph.tasks.len() >= MAX_GRAPH_TASKS || graph.tasks.contains_key(&from) {
                continue;
            }
            graph.tasks.insert(from.clone(), (runtime.id(), task));
            for (position, wait) in task.waits().iter().filter(|it| !it.is_earlier()).enumerate() {
                let id = match wait.resource_id() {
                    id if id != 0 && !wait.is_timer() => format!("{}:{id}", wait.kind()),
                    _ => format!("{from}/{position}"),
                };
                let to = format!("r{id}");
                let label = format!("{} {}", wait.kind(), wait.resource());
                graph.resources.insert(to.clone(), (wait.kind(), label.trim_end().to_owned()));
                graph.edges.push(GraphEdge {
                    from: from.clone(),
                    to: to.clone(),
                    what: "waits for",
                    at: Some(wait.site()),
                    duration: Some(wait.duration()),
                });
                for holder in wait.holders().iter().take(MAX_GRAPH_TASKS) {
                    let id = holder.id();
                    let found = view.runtimes.iter().find_map(|it| Some((it, it.task(id)?)));
                    let Some((runtime, task)) = found else { continue };
                    graph.add_holder(&to, node_key(runtime, id), holder.acquired_at());
                    next.push_back((runtime, task));
                }
            }
        }
        graph.drop_loose_edges();
        graph
    }

    fn add_holder(&mut self, resource: &str, task: String, at: Option<&'static Location<'static>>) {
        let is_known = |edge: &GraphEdge| edge.from == resource && edge.to == task;
        if !self.edges.iter().any(is_known) {
            let from = resource.to_owned();
            self.edges.push(GraphEdge { from, to: task, what: "held by", at, duration: None });
        }
    }

    /// Drops edges to tasks that are beyond the limit.
    fn drop_loose_edges(&mut self) {
        let (tasks, resources) = (&self.tasks, &self.resources);
        let exists = |key: &String| tasks.contains_key(key) || resources.contains_key(key);
        self.edges.retain(|edge| exists(&edge.from) && exists(&edge.to));
    }

    /// Returns the nodes of a cycle, in its order, or nothing.
    fn cycle(&self) -> Vec<&str> {
        let mut done = BTreeSet::new();
        for start in self.tasks.keys() {
            let mut path: Vec<&str> = Vec::new();
            if let Some(cycle) = self.visit(start, &mut path, &mut done) {
                return cycle;
            }
        }
        Vec::new()
    }

    /// Searches depth first for a path back to a node of `path`.
    fn visit<'g>(
        &'g self,
        node: &'g str,
        path: &mut Vec<&'g str>,
        done: &mut BTreeSet<&'g str>,
    ) -> Option<Vec<&'g str>> {
        if let Some(at) = path.iter().position(|other| *other == node) {
            return Some(path[at..].to_vec());
        }
        if !done.insert(node) {
            return None;
        }
        path.push(node);
        for edge in self.edges.iter().filter(|edge| edge.from == node) {
            if let Some(cycle) = self.visit(&edge.to, path, done) {
                return Some(cycle);
            }
        }
        path.pop();
        None
    }

    fn write(&self, json: &mut Json) {
        json.object(|json| {
            json.field("nodes", |json| {
                json.array(|json| {
                    for (key, (runtime, task)) in &self.tasks {
                        json.item(|json| {
                            json.object(|json| {
                                json.field("key", |json| json.string(key));
                                json.field("kind", |json| json.string("task"));
                                json.field("task", |json| task_ref(json, *runtime, task.info()));
                                json.field("state", |json| json.string(task.state().name()));
                                json.field("orphan", |json| json.plain(task.is_orphan()));
                            });
                        });
                    }
                    for (key, (kind, label)) in &self.resources {
                        json.item(|json| {
                            json.object(|json| {
                                json.field("key", |json| json.string(key));
                                json.field("kind", |json| json.string("resource"));
                                json.field("label", |json| json.string(label));
                                json.field("wait", |json| json.string(kind));
                            });
                        });
                    }
                });
            });
            json.field("edges", |json| {
                array(json, &self.edges, |json, edge| {
                    json.object(|json| {
                        json.field("from", |json| json.string(&edge.from));
                        json.field("to", |json| json.string(&edge.to));
                        json.field("what", |json| json.string(edge.what));
                        json.field("at", |json| {
                            json.option(edge.at, |json, at| json.string(&at.to_string()));
                        });
                        json.field("duration_ms", |json| json.option(edge.duration, millis));
                    });
                });
            });
            json.field("cycle", |json| array(json, self.cycle(), |json, key| json.string(key)));
        });
    }
}

/// Returns the key of a task in a graph, which may cross runtimes.
fn node_key(runtime: &RuntimeView, id: u64) -> String {
    format!("{}/{}", runtime.id(), key(id))
}
