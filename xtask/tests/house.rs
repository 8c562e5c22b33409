//! The house rules as tests, so that `cargo test` is the whole gate.

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the workspace exists")
}

#[test]
fn crates_only_use_what_lies_below_them() {
    let complaints = xtask::layers::complaints(&root()).expect("the map of layers can be read");
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn every_file_keeps_the_house_rules() {
    let complaints = xtask::tidy::complaints(&root());
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}
