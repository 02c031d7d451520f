//! The first example of docs/SIMULATION.md, which quotes the program and its output.

use std::path::Path;
use wakeful::sim::Explorer;

// The document quotes the lines from here on.
use std::sync::Arc;
use wakeful::sync::Mutex;

type Account = Arc<Mutex<i64>>;

async fn pay(from: Account, to: Account) {
    let mut from = from.lock().await;
    let mut to = to.lock().await;
    *from -= 10;
    *to += 10;
}

async fn payments_in_both_directions() {
    let (a, b) = (Account::default(), Account::default());
    let there = wakeful::spawn(pay(a.clone(), b.clone()));
    let back = wakeful::spawn(pay(b.clone(), a.clone()));
    there.await.unwrap();
    back.await.unwrap();
    assert_eq!(*a.lock().await + *b.lock().await, 0);
}
// The document quotes the lines up to here.

/// Replaces every word that has a digit, and the path of this file.
fn masked(text: &str) -> String {
    let text = text.replace("crates/wakeful/tests/sim_guide.rs", "tests/bank.rs");
    let is_end = |char: char| char.is_whitespace() || ",():;=/".contains(char);
    let mut masked = String::new();
    for part in text.split_inclusive(is_end) {
        let word = part.trim_end_matches(is_end);
        let has_digit = word.chars().any(|char| char.is_ascii_digit());
        masked.push_str(if has_digit { "#" } else { word });
        masked.push_str(&part[word.len()..]);
    }
    masked
}

#[test]
fn the_document_quotes_the_program_and_its_failure() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let document = std::fs::read_to_string(folder.join("../../docs/SIMULATION.md")).unwrap();
    let this = std::fs::read_to_string(folder.join("tests/sim_guide.rs")).unwrap();
    let quoted = this.split("// The document quotes the lines").nth(1).unwrap();
    let quoted = quoted.split_once('\n').unwrap().1;
    let attribute = "async fn payments_in_both_directions";
    let program = quoted.replace(attribute, &format!("#[wakeful::sim]\n{attribute}"));
    assert!(document.contains(program.trim()), "the document does not have this:\n{program}");

    let explorer = Explorer::new("payments_in_both_directions");
    let error = explorer.run(|_sim| payments_in_both_directions()).unwrap_err();
    let text = error.to_string();
    let masked_document = masked(&document);
    // The paths in the document belong to another test.
    let is_compared = |line: &&str| !line.contains("short:") && !line.contains("timeline:");
    for line in text.lines().filter(is_compared) {
        assert!(
            masked_document.contains(masked(line).trim_end()),
            "the document does not have this line:\n{line}\nof:\n{text}"
        );
    }
}

#[test]
fn words_with_digits_are_masked() {
    assert_eq!(masked("seed 0x6: (35 runs, 0.0 s)"), "seed #: (# runs, # s)");
}
