//! The repository rules as tests, so that `cargo test` runs every check.

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the workspace exists")
}

fn check(name: &str) {
    let files = xtask::source::read_all(&root()).expect("the sources can be read");
    let outcome = xtask::ratchet::compare(&root(), &files, name).expect("the check can run");
    outcome.warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
    assert!(outcome.errors.is_empty(), "{}", outcome.errors.join("\n"));
}

#[test]
fn crates_depend_on_lower_layers_only_and_the_map_lists_no_more() {
    let complaints = xtask::layers::complaints(&root()).expect("the layer map can be read");
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn every_file_keeps_the_rules() {
    let complaints = xtask::tidy::complaints(&root());
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn every_link_of_the_documentation_leads_somewhere() {
    let complaints = xtask::links::complaints(&root());
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn every_dependency_is_used() {
    check("unused_dependencies");
}

#[test]
fn every_public_item_is_used() {
    check("unused_public_items");
}

#[test]
fn decision_crates_are_pure() {
    check("impure_decisions");
}

#[test]
fn a_public_type_name_is_defined_in_at_most_three_crates() {
    check("shared_type_names");
}

#[test]
fn banned_words_only_become_fewer() {
    check("words");
}

#[test]
fn comments_opening_with_question_words_only_become_fewer() {
    check("comment_openers");
}
