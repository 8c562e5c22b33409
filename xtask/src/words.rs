//! Counts words that do not belong into technical English, in comments, string literals and Markdown files.
//!
//! The words are the keys of `xtask/words.toml`, so that this file does not count itself.

use std::path::Path;

use anyhow::Context;

use crate::ratchet::{Counts, listed};
use crate::source::{SourceFile, collect};

const FILE: &str = "xtask/words.toml";

/// Counts each listed word over the whole tree; upper and lower case are the same.
pub fn banned(root: &Path, files: &[SourceFile]) -> anyhow::Result<Counts> {
    let words = listed(root, FILE, "words")?;
    let mut found: Counts = words.iter().map(|word| (word.clone(), 0)).collect();
    let mut count = |text: &str| {
        let text = spaced(text);
        for word in &words {
            *found.entry(word.clone()).or_default() += text.matches(&format!(" {} ", word.replace(' ', "  "))).count();
        }
    };
    for file in files {
        file.comments.iter().chain(&file.strings).for_each(|text| count(text));
    }
    let mut paths = Vec::new();
    collect(root, "md", &mut paths).context("cannot list the Markdown files")?;
    for path in paths {
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        count(&text);
    }
    Ok(found)
}

/// Counts comment lines that open with a listed word.
pub fn comment_openers(root: &Path, files: &[SourceFile]) -> anyhow::Result<Counts> {
    let openers = listed(root, FILE, "comment_openers")?;
    let mut found: Counts = openers.into_iter().map(|opener| (opener, 0)).collect();
    for line in files.iter().flat_map(|file| &file.comments) {
        let opener: String = line.chars().take_while(|letter| letter.is_alphabetic()).collect();
        if let Some(count) = found.get_mut(&opener) {
            *count += 1;
        }
    }
    Ok(found)
}

/// The words of a text in lower case; each has two spaces before and behind it, so that neighbours are found apart.
fn spaced(text: &str) -> String {
    let mut spaced = String::with_capacity(text.len() * 2);
    for word in text.split(|letter: char| !letter.is_alphanumeric() && letter != '_').filter(|word| !word.is_empty()) {
        spaced.push(' ');
        spaced.push_str(&word.to_lowercase());
        spaced.push(' ');
    }
    spaced
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::parse;

    #[test]
    fn words_and_openers_are_counted() {
        let root = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(root.path().join("xtask")).expect("a folder");
        let list = "[words]\nyonder = 0\n\"to wit\" = 0\n[comment_openers]\nWhither = 0\n";
        std::fs::write(root.path().join(FILE), list).expect("a file");
        std::fs::write(root.path().join("a.md"), "Yonder, yonder: yonders. To wit\n").expect("a file");
        let text = "// Whither it goes, to\n// wit\nlet yonder = \"yonder_a to wit yonder\"; // whither";
        let files = [parse("crates/a/src/lib.rs".to_owned(), "a".to_owned(), text, false)];
        let expected = Counts::from([("to wit".to_owned(), 2), ("yonder".to_owned(), 3)]);
        assert_eq!(banned(root.path(), &files).expect("readable"), expected);
        assert_eq!(comment_openers(root.path(), &files).expect("readable"), Counts::from([("Whither".to_owned(), 1)]));
    }
}
