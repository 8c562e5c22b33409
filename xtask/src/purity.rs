//! Finds time, randomness, tasks and logging in decision crates, whose results must depend on their arguments alone.

use std::path::Path;

use crate::layers;
use crate::ratchet::Counts;
use crate::source::{SourceFile, is_name_byte};

/// The layer of the decision crates.
const DECISIONS: usize = 1;

const DENIED: [&str; 14] = [
    "tokio",
    "rand",
    "tracing",
    "async fn",
    "SystemTime::now",
    "Instant::now",
    "Timestamp::now",
    "Zoned::now",
    "TimeZone::system",
    "std::fs",
    "TcpStream",
    "UdpSocket",
    "std::env",
    "std::process",
];

/// Counts denied names in the product code of decision crates, as `crate: name`.
pub fn impure(root: &Path, files: &[SourceFile]) -> anyhow::Result<Counts> {
    let decisions = layers::crates_of(root, DECISIONS)?;
    let mut found = Counts::new();
    for file in files.iter().filter(|file| decisions.contains(&file.package) && file.path.contains("/src/")) {
        let code = file.product_code();
        for denied in DENIED {
            let count = occurrences(&code, denied);
            if count > 0 {
                *found.entry(format!("{}: {denied}", file.package)).or_default() += count;
            }
        }
    }
    Ok(found)
}

fn occurrences(code: &str, name: &str) -> usize {
    let is_whole = |at: &usize| {
        let before = code[..*at].bytes().next_back();
        let after = code[at + name.len()..].bytes().next();
        !before.is_some_and(is_name_byte) && !after.is_some_and(is_name_byte)
    };
    code.match_indices(name).map(|(at, _)| at).filter(is_whole).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn denied_names_are_whole_names() {
        assert_eq!(occurrences("use rand::rng; let operand = strand;", "rand"), 1);
        assert_eq!(occurrences("jiff::Timestamp::now()", "Timestamp::now"), 1);
        assert_eq!(occurrences("pub async fn a() {} async move {}", "async fn"), 1);
    }
}
