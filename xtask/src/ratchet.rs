//! Counts that may only fall: what a check still finds is listed in a file, more of it is an error.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;

use crate::source::SourceFile;
use crate::{dependencies, public_items, purity, type_names, words};

/// Findings of one check by name, with how often each was found.
pub type Counts = BTreeMap<String, usize>;

type Sections = BTreeMap<String, Counts>;

const FILES: [(&str, &[Check]); 2] = [
    (
        "xtask/ratchet.toml",
        &[
            Check { name: "unused_dependencies", rule: "remove it from the manifest", count: dependencies::unused },
            Check {
                name: "unused_public_items",
                rule: "nothing uses this public item: delete it",
                count: public_items::unused,
            },
            Check {
                name: "impure_decisions",
                rule: "decision crates (layer 1) take time, randomness and I/O as arguments",
                count: purity::impure,
            },
            Check {
                name: "shared_type_names",
                rule: "a public type name means one thing: choose a name that says which (number: crates that define it)",
                count: type_names::shared,
            },
        ],
    ),
    (
        "xtask/words.toml",
        &[
            Check {
                name: "words",
                rule: "use the words of STYLE.md section 0 (counted in comments, strings and *.md)",
                count: words::banned,
            },
            Check {
                name: "comment_openers",
                rule: "start a comment line with a verb or a domain noun",
                count: words::comment_openers,
            },
        ],
    ),
];

struct Check {
    /// The section of the file.
    name: &'static str,
    rule: &'static str,
    count: fn(&Path, &[SourceFile]) -> anyhow::Result<Counts>,
}

/// The counts of a run compared with those the files allow.
#[derive(Default)]
pub struct Outcome {
    /// Counts above the allowed ones.
    pub errors: Vec<String>,
    /// Counts below the allowed ones.
    pub warnings: Vec<String>,
}

/// Compares the tree with what the section `check` allows.
pub fn compare(root: &Path, files: &[SourceFile], check: &str) -> anyhow::Result<Outcome> {
    for (path, checks) in FILES {
        if let Some(check) = checks.iter().find(|known| known.name == check) {
            let allowed = read(root, path)?.remove(check.name).unwrap_or_default();
            return Ok(difference(path, check, &(check.count)(root, files)?, &allowed));
        }
    }
    anyhow::bail!("there is no check called {check}")
}

/// The names of all checks.
pub fn names() -> impl Iterator<Item = &'static str> {
    FILES.iter().flat_map(|(_, checks)| checks.iter().map(|check| check.name))
}

/// Writes the lower counts into the files; a count that rose stays as it is and remains an error.
pub fn lower(root: &Path, files: &[SourceFile]) -> anyhow::Result<()> {
    for (path, checks) in FILES {
        let mut sections = read(root, path)?;
        for check in checks {
            let found = (check.count)(root, files)?;
            let counts = sections.entry(check.name.to_owned()).or_default();
            for (name, count) in counts.iter_mut() {
                *count = (*count).min(found.get(name).copied().unwrap_or_default());
            }
            counts.retain(|name, count| *count > 0 || found.contains_key(name));
        }
        let header = std::fs::read_to_string(root.join(path))?;
        let header: String =
            header.lines().take_while(|line| line.starts_with('#')).map(|line| format!("{line}\n")).collect();
        let text = toml::to_string(&sections).context("the counts are plain numbers")?;
        std::fs::write(root.join(path), format!("{header}\n{text}")).with_context(|| format!("cannot write {path}"))?;
    }
    Ok(())
}

/// The words and openers to count are the names in `xtask/words.toml`.
pub fn listed(root: &Path, path: &str, section: &str) -> anyhow::Result<Vec<String>> {
    Ok(read(root, path)?.remove(section).unwrap_or_default().into_keys().collect())
}

fn read(root: &Path, path: &str) -> anyhow::Result<Sections> {
    let text = std::fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {path}"))?;
    toml::from_str(&text).with_context(|| format!("{path} is not valid"))
}

fn difference(path: &str, check: &Check, found: &Counts, allowed: &Counts) -> Outcome {
    let mut outcome = Outcome::default();
    for (name, count) in found {
        let most = allowed.get(name).copied().unwrap_or_default();
        if *count > most {
            let line = format!("{}: {name}: {count}, {path} allows {most}; {}", check.name, check.rule);
            outcome.errors.push(line);
        }
    }
    for (name, most) in allowed {
        let count = found.get(name).copied().unwrap_or_default();
        if count < *most {
            let line = format!("{}: {name}: {count}, {path} still allows {most}; run `cargo xtask lower`", check.name);
            outcome.warnings.push(line);
        }
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(pairs: &[(&str, usize)]) -> Counts {
        pairs.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    #[test]
    fn a_count_may_fall_and_not_rise() {
        let check = Check { name: "words", rule: "use another", count: |_, _| Ok(Counts::new()) };
        let outcome =
            difference("f.toml", &check, &counts(&[("a", 3), ("b", 1), ("new", 1)]), &counts(&[("a", 2), ("b", 2)]));
        assert_eq!(
            outcome.errors,
            ["words: a: 3, f.toml allows 2; use another", "words: new: 1, f.toml allows 0; use another"]
        );
        assert_eq!(outcome.warnings, ["words: b: 1, f.toml still allows 2; run `cargo xtask lower`"]);
    }
}
