//! Finds dependencies in manifests that no line of the crate names.

use std::path::Path;

use anyhow::Context;

use crate::ratchet::Counts;
use crate::source::{SourceFile, names};

const SECTIONS: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

/// Counts each dependency whose identifier is in no file of its crate, as `crate: dependency`.
pub fn unused(root: &Path, files: &[SourceFile]) -> anyhow::Result<Counts> {
    let mut found = Counts::new();
    for (package, manifest) in manifests(root)? {
        let own = files.iter().filter(|file| file.package == package);
        let included = own.clone().flat_map(|file| included(file, files));
        let code: Vec<&str> = own.clone().chain(included).map(|file| file.code.as_str()).collect();
        for dependency in declared(&manifest) {
            let identifier = dependency.replace('-', "_");
            if !code.iter().any(|code| names(code).any(|(_, name)| name == identifier)) {
                found.insert(format!("{package}: {dependency}"), 1);
            }
        }
    }
    Ok(found)
}

/// Files of other packages that this one includes with `#[path = "…"]`.
fn included<'a>(file: &'a SourceFile, files: &'a [SourceFile]) -> impl Iterator<Item = &'a SourceFile> {
    let folder = Path::new(&file.path).parent().unwrap_or(Path::new(""));
    let paths = file.strings.iter().filter(|text| text.ends_with(".rs")).map(|text| normal(&folder.join(text)));
    paths.filter_map(|path| files.iter().find(|file| file.path == path))
}

/// A path without `..`.
fn normal(path: &Path) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.iter().filter_map(|part| part.to_str()) {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    parts.join("/")
}

fn manifests(root: &Path) -> anyhow::Result<Vec<(String, toml::Table)>> {
    let mut folders = vec!["bench".into(), "e2e".into(), "xtask".into()];
    for entry in std::fs::read_dir(root.join("crates")).context("cannot list crates/")? {
        folders.push(Path::new("crates").join(entry?.file_name()));
    }
    let mut manifests = Vec::new();
    for folder in folders {
        let path = root.join(&folder).join("Cargo.toml");
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let manifest = text.parse().with_context(|| format!("{} is not valid", path.display()))?;
        manifests.push((folder.file_name().unwrap_or_default().display().to_string(), manifest));
    }
    Ok(manifests)
}

/// The names of all dependencies, those of single platforms included.
fn declared(manifest: &toml::Table) -> Vec<String> {
    let platforms = manifest.get("target").and_then(toml::Value::as_table).into_iter().flatten();
    let tables = platforms.filter_map(|(_, table)| table.as_table()).chain([manifest]);
    let sections = tables.flat_map(|table| SECTIONS.iter().filter_map(|section| table.get(*section)?.as_table()));
    sections.flat_map(|section| section.keys().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_other_crates_are_followed() {
        let file = |path: &str, text: &str| crate::source::parse(path.to_owned(), "a".to_owned(), text, true);
        let files = [file("crates/b/tests/kube/mod.rs", "use rcgen;"), file("crates/c/src/lib.rs", "")];
        let user = file("crates/a/tests/all.rs", "#[path = \"../../b/tests/kube/mod.rs\"]\nmod kube;");
        let found: Vec<&str> = included(&user, &files).map(|file| file.path.as_str()).collect();
        assert_eq!(found, ["crates/b/tests/kube/mod.rs"]);
    }

    #[test]
    fn dependencies_of_all_sections_are_declared() {
        let text = "[dependencies]\na = \"1\"\nb.workspace = true\n[dev-dependencies]\nc = \"1\"\n\
                    [target.'cfg(unix)'.dependencies]\nd = \"1\"";
        let mut found = declared(&text.parse().expect("a manifest"));
        found.sort();
        assert_eq!(found, ["a", "b", "c", "d"]);
    }
}
