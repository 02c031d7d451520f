//! Finds the bugs of the catalogue: `cargo run --example simulation` all of them, `… simulation abba` one.
//!
//! For each bug it prints the failure, and then runs the fixed version under as many seeds as
//! `WAKEFUL_TWINS` says, or 1,000. `docs/SIMULATION.md` explains the text.

#[path = "mod.rs"]
mod catalogue;

use catalogue::{CATALOGUE, Twin};
use wakeful::sim::Explorer;

fn main() {
    let wanted = std::env::args().nth(1);
    let twins = std::env::var("WAKEFUL_TWINS").ok();
    let twins = twins.map_or(1_000, |seeds| seeds.parse().expect("WAKEFUL_TWINS is a number"));
    for entry in CATALOGUE {
        if wanted.as_ref().is_some_and(|name| name != entry.name) {
            continue;
        }
        println!("== {}: {}\n", entry.name, entry.about);
        match Explorer::new(entry.name)
            .seeds(entry.seeds)
            .run(|sim| (entry.program)(sim, Twin::Buggy))
        {
            Ok(explored) => println!("not found in {} seeds", explored.runs()),
            Err(error) => println!("{error}"),
        }
        let fixed = Explorer::new(format!("{}_fixed", entry.name)).seeds(twins);
        match fixed.run(|sim| (entry.program)(sim, Twin::Fixed)) {
            Ok(explored) => {
                println!("\nthe fixed version: no failure in {} seeds\n", explored.runs())
            }
            Err(error) => println!("\nthe fixed version fails too:\n{error}\n"),
        }
    }
}
