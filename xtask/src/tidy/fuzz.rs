//! Every fuzz target has a corpus, and a test of ours replays it.

use std::path::Path;

use super::finding::Finding;
use super::tree::Tree;

const TARGETS: &str = "fuzz/fuzz_targets";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, _) in tree.below(TARGETS) {
        let name = Path::new(path).file_stem().and_then(|stem| stem.to_str()).unwrap_or("");
        if tree.below(&format!("fuzz/corpus/{name}")).next().is_none() {
            let message = format!("fuzz/corpus/{name} holds no input");
            findings.push(Finding::new(path, None, message));
        }
        if !tree.below("crates").any(|(_, text)| replays(text, name)) {
            let message = format!("no test in crates/ names corpus/{name} to replay it");
            findings.push(Finding::new(path, None, message));
        }
    }
    findings
}

fn replays(text: &str, name: &str) -> bool {
    text.contains(&format!("corpus/{name}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_needs_inputs_and_a_test() {
        let target = ("fuzz/fuzz_targets/parse.rs", "");
        let input = ("fuzz/corpus/parse/one", "");
        let test = ("crates/wire/tests/corpus.rs", "replay(\"../../fuzz/corpus/parse\")");
        assert_eq!(check(&Tree::of(&[target, input, test])), []);
        assert_eq!(check(&Tree::of(&[target, test])).len(), 1);
        assert_eq!(check(&Tree::of(&[target, input])).len(), 1);
    }
}
