//! Compares tokio and wakeful for futures that are polled once and dropped.
//!
//! The question for each future: does its event still wake the task?
#![cfg(feature = "wakeful")]
#![allow(clippy::duplicate_mod, reason = "one table, once for each runtime")]

/// `side!(tokio)` is the table of that crate.
macro_rules! side {
    ($name:ident) => {
        mod $name {
            pub(crate) use ::$name as rt;
            pub mod table {
                include!("../../crates/wakeful/tests/support/dropped_futures.rs");
            }
        }
    };
}
side!(tokio);
side!(wakeful);

#[test]
fn wakeful_answers_as_tokio_does() {
    let (theirs, ours) = (tokio::table::rows(), wakeful::table::rows());
    assert_eq!(theirs.len(), ours.len());
    println!("{:<64} {:<8} {:<8}", "woken after the future was dropped?", "tokio", "wakeful");
    let mut different = Vec::new();
    for ((name, theirs), (own_name, ours)) in theirs.into_iter().zip(ours) {
        assert_eq!(name, own_name);
        let word = |woken| if woken { "woken" } else { "-" };
        let mark = if theirs == ours { "" } else { "  <--" };
        println!("{name:<64} {:<8} {:<8}{mark}", word(theirs), word(ours));
        if theirs != ours {
            different.push(name);
        }
    }
    assert!(different.is_empty(), "other answers than tokio's: {different:?}");
}
