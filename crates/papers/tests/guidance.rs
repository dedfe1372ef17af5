//! The pages of guidance and of claims: what they show is what the commands print.

use std::fs;
use std::path::PathBuf;

use papers::Options;

/// The block of a page of the book that begins with a command, without it.
fn shown(page: &str, command: &str) -> (PathBuf, String, String) {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/book")).join(page);
    let text = fs::read_to_string(&path).unwrap();
    let begin = format!("```console\n$ {command}\n");
    let (_, rest) = text.split_once(&begin).unwrap_or_else(|| panic!("{page} has no {command}"));
    let (block, _) = rest.split_once("```").unwrap();
    (path.clone(), text.clone(), block.to_owned())
}

/// Compares the block with what is printed now, or renews it.
fn compare(page: &str, command: &str, printed: &str) {
    let (path, text, block) = shown(page, command);
    if std::env::var_os("SNAPSHOTS").is_some_and(|value| value == "overwrite") {
        fs::write(&path, text.replacen(&block, printed, 1)).unwrap();
        return;
    }
    assert!(block == printed, "{page} is stale: SNAPSHOTS=overwrite renews it\n{printed}");
}

#[test]
fn the_page_of_guidance_shows_what_the_quick_form_prints() {
    let options = Options { quick: true, ..Options::default() };
    let guidance = papers::guidance(options, &mut |_| {}).unwrap();
    compare("guidance.md", "ferroce papers guidance --quick", &guidance.table());
}

#[test]
fn the_page_of_guidance_shows_the_record_of_claims() {
    compare("guidance.md", "ferroce papers claims", &papers::record().unwrap());
}
