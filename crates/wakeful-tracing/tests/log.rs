//! Reports become records of the `log` crate.

use std::sync::Mutex;

use log::{Level, Log, Metadata, Record};
use wakeful::runtime::Builder;
use wakeful_tracing::log_report;

static RECORDS: Mutex<Vec<(Level, String, String)>> = Mutex::new(Vec::new());

struct Remember;

impl Log for Remember {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let (target, text) = (record.target().to_owned(), record.args().to_string());
        RECORDS.lock().unwrap().push((record.level(), target, text));
    }

    fn flush(&self) {}
}

#[test]
fn a_report_is_a_record_with_target_level_and_text() {
    log::set_logger(&Remember).unwrap();
    log::set_max_level(log::LevelFilter::Warn);
    let runtime = Builder::new_current_thread().on_report(log_report).build().unwrap();
    let orphan = runtime.spawn(std::future::pending::<()>());
    runtime.block_on(wakeful::task::yield_now());
    let records = RECORDS.lock().unwrap();
    let [(level, target, text)] = &records[..] else { panic!("{records:?}") };
    assert_eq!((*level, target.as_str()), (Level::Error, "wakeful"));
    let line = text.lines().next().unwrap();
    assert!(line.starts_with(&format!("orphan (proven): task {}", orphan.id())), "{text}");
    assert!(text.contains(file!()), "{text}");
}
