//! Task hooks and task data for wakeful's runtimes, so that `bench/hooks` can count what they cost.

use std::fmt;
use std::hint::black_box;
use std::sync::{Arc, LazyLock};

use wakeful::runtime::{Builder, TaskData};

/// The environment variable that says which hooks the runtimes get: `spawns`, `polls` or `data`.
const VARIABLE: &str = "BENCH_HOOKS";

static MODE: LazyLock<String> = LazyLock::new(|| std::env::var(VARIABLE).unwrap_or_default());

/// Data without calls around polls, one value for all tasks.
struct Tag;

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tag")
    }
}

impl TaskData for Tag {}

/// Sets the hooks that the environment asks for. Each does next to nothing.
pub fn set(builder: &mut Builder) {
    match &**MODE {
        "" => {}
        "spawns" => {
            builder.on_task_spawn(|task| _ = black_box(task.id()));
            builder.on_task_terminate(|task| _ = black_box(task.id()));
        }
        "polls" => {
            builder.on_before_task_poll(|task| _ = black_box(task.id()));
            builder.on_after_task_poll(|task| _ = black_box(task.id()));
        }
        "data" => {
            let tag: Arc<Tag> = Arc::new(Tag);
            builder.on_spawn(move |task| task.set_data(tag.clone()));
        }
        other => panic!("{VARIABLE}={other}: use spawns, polls or data"),
    }
}
