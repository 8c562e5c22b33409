//! Counts the crates that define a public type of the same name: a search for it must find one meaning.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::public_items::items;
use crate::ratchet::Counts;
use crate::source::SourceFile;

/// This many crates may define a public type of one name.
const CRATES_MAX: usize = 3;

const KINDS: [&str; 4] = ["struct", "enum", "trait", "type"];

/// The names of public types that more than [`CRATES_MAX`] crates define, with the number of crates.
pub fn shared(_: &Path, files: &[SourceFile]) -> anyhow::Result<Counts> {
    let mut crates: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for file in files.iter().filter(|file| file.path.starts_with("crates/")) {
        let code = file.product_code();
        // An indented item is an associated type or inside a function.
        let at_margin = |at: usize| !code[code[..at].rfind('\n').map_or(0, |newline| newline + 1)..].starts_with(' ');
        for item in items(&code).filter(|item| KINDS.contains(&item.kind) && at_margin(item.at)) {
            crates.entry(item.name.to_owned()).or_default().insert(&file.package);
        }
    }
    let shared = crates.into_iter().filter(|(_, crates)| crates.len() > CRATES_MAX);
    Ok(shared.map(|(name, crates)| (name, crates.len())).collect())
}
