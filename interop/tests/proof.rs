//! Proves that the patch is applied: tokio is wakeful, for these tests and for their dependencies.

use std::any::type_name;

#[test]
fn the_names_are_wakefuls() {
    let names = [
        type_name::<tokio::runtime::Runtime>(),
        type_name::<tokio::net::TcpStream>(),
        type_name::<tokio::sync::mpsc::Sender<()>>(),
        type_name::<tokio::time::Sleep>(),
    ];
    for name in names {
        assert!(name.starts_with("wakeful::"), "{name}");
    }
}

#[test]
fn the_lock_file_has_no_other_tokio() {
    let lock = include_str!("../Cargo.lock");
    let tokios: Vec<&str> = lock
        .split("[[package]]")
        .filter(|package| package.contains("\nname = \"tokio\"\n"))
        .collect();
    assert_eq!(tokios.len(), 1, "{tokios:?}");
    assert!(!tokios[0].contains("source ="), "from a registry: {}", tokios[0]);
}
