//! Finds the bugs of the catalogue: `cargo run --example simulation` all of them, `… simulation abba` one.
//! `… simulation register` finds the bugs of a replicated register.
//!
//! For each bug, this prints the failure, and then runs the fixed version under 1,000 seeds, or as many as
//! `WAKEFUL_TWINS` requests. `docs/SIMULATION.md` explains the text.

#[path = "mod.rs"]
mod catalogue;

use catalogue::register::{Election, register};
use catalogue::{CATALOGUE, Twin};
use wakeful::sim::{ExploreError, Explored, Explorer};

fn main() {
    let wanted = std::env::args().nth(1);
    let twins = std::env::var("WAKEFUL_TWINS").ok();
    let twins = twins.map_or(1_000, |seeds| seeds.parse().expect("WAKEFUL_TWINS is a number"));
    for entry in CATALOGUE {
        if wanted.as_ref().is_some_and(|name| name != entry.name) {
            continue;
        }
        println!("== {}: {}\n", entry.name, entry.about);
        let buggy = Explorer::new(entry.name).seeds(entry.seeds);
        show_bug(buggy.run(|sim| (entry.program)(sim, Twin::Buggy)));
        let fixed = Explorer::new(format!("{}_fixed", entry.name)).seeds(twins);
        show_fixed(fixed.run(|sim| (entry.program)(sim, Twin::Fixed)));
    }
    if wanted.is_some_and(|name| name == "register") {
        for election in [Election::OldVersion, Election::NoQuorum] {
            println!("== register, {election:?}\n");
            let buggy = Explorer::new(format!("register_{election:?}")).seeds(500);
            show_bug(buggy.run(move |sim| register(sim, election)));
            println!();
        }
        let fixed = Explorer::new("register").seeds(twins);
        show_fixed(fixed.run(|sim| register(sim, Election::Correct)));
    }
}

fn show_bug(result: Result<Explored, ExploreError>) {
    match result {
        Ok(explored) => println!("not found in {} seeds", explored.runs()),
        Err(error) => println!("{error}"),
    }
}

fn show_fixed(result: Result<Explored, ExploreError>) {
    match result {
        Ok(explored) => println!("\nthe fixed version: no failure in {} seeds\n", explored.runs()),
        Err(error) => println!("\nthe fixed version fails too:\n{error}\n"),
    }
}
