//! What the fuzzer found, run by the ordinary compiler.

use std::fs;
use std::path::Path;

use crate::testing::fuzz;

#[test]
fn the_corpus_breaks_no_promise() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let mut inputs = 0;
    for folder in ["corpus/engine", "regressions/engine"] {
        for entry in fs::read_dir(root.join(folder)).expect("the folder is in the repository") {
            let path = entry.expect("it can be listed").path();
            let bytes = fs::read(&path).expect("it can be read");
            std::println!("{}", path.display());
            fuzz::engine(&bytes);
            inputs += 1;
        }
    }
    assert!(inputs > 50, "{inputs} inputs");
}
