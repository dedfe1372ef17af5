//! What the fuzzer found, run by the ordinary compiler.

use std::fs;
use std::path::Path;

use crate::testing::fuzz;

/// Runs the inputs in two folders, and says how many there are.
fn replay(folders: [&str; 2], run: fn(&[u8])) -> u32 {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let mut inputs = 0;
    for folder in folders {
        for entry in fs::read_dir(root.join(folder)).expect("the folder is in the repository") {
            let path = entry.expect("it can be listed").path();
            let bytes = fs::read(&path).expect("it can be read");
            std::println!("{}", path.display());
            run(&bytes);
            inputs += 1;
        }
    }
    inputs
}

#[test]
fn the_engines_corpus_breaks_no_promise() {
    let inputs = replay(["corpus/engine", "regressions/engine"], fuzz::engine);
    assert!(inputs > 50, "{inputs} inputs");
}

#[test]
fn the_managers_corpus_breaks_no_promise() {
    let inputs = replay(["corpus/manager", "regressions/manager"], fuzz::manager);
    assert!(inputs > 30, "{inputs} inputs");
}
