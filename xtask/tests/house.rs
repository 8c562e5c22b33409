//! The source rules as tests, so that `cargo test` covers them.

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the workspace exists")
}

#[test]
fn crates_depend_only_on_lower_layers() {
    let complaints = xtask::layers::complaints(&root()).expect("the map of layers can be read");
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn every_file_follows_the_source_rules() {
    let complaints = xtask::tidy::complaints(&root());
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}
