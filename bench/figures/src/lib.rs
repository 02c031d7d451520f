//! What the records in `bench/records` are made of, and what is made of them.
//!
//! | file | what it is |
//! | --- | --- |
//! | `choice.rs` | the names that a command line chooses |
//! | `machine.rs` | the description of a machine |
//! | `stats.rs` | medians and comparisons of samples |
//! | `records.rs` | reads records |
//! | `svg.rs` | shapes and colours |
//! | `bars.rs` | a chart of ratios |
//! | `curves.rs` | a chart of latencies by load |
//! | `charts.rs` | which charts there are |
//! | `tables.rs` | the figures behind them |
//! | `report.rs` | writes charts, page and document |

mod bars;
mod charts;
pub mod choice;
mod curves;
pub mod machine;
mod records;
pub mod report;
pub mod stats;
mod svg;
mod tables;
