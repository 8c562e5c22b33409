//! Rules over the source text: first lines, sizes, module names, banned words.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

const FILE_LINES_MAX: usize = 700;
const FUNCTION_LINES_MAX: usize = 70;
const BANNED_NAMES: &[&str] = &["util", "utils", "common", "helper", "helpers", "misc"];
/// Split so that this file does not match itself.
const BANNED_WORDS: &[&str] =
    &[concat!("FIX", "ME"), concat!("dbg", "!("), concat!("todo", "!("), concat!("unimplemented", "!(")];

#[derive(Default, Deserialize)]
struct Exceptions {
    #[serde(default)]
    files: BTreeMap<String, usize>,
    #[serde(default)]
    functions: BTreeMap<String, usize>,
}

/// Returns every violation as `path:line: text`.
pub fn complaints(root: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(root.join("xtask/exceptions.toml")).unwrap_or_default();
    let exceptions: Exceptions = match toml::from_str(&text) {
        Ok(exceptions) => exceptions,
        Err(error) => return vec![format!("xtask/exceptions.toml: {error}")],
    };
    let mut files = Vec::new();
    for folder in ["crates", "xtask", "bench", "e2e"] {
        collect(&root.join(folder), &mut files);
    }
    files.sort();
    files.iter().flat_map(|file| check_file(root, file, &exceptions)).collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && (path.ends_with("target") || path.ends_with("generated")) {
            continue;
        }
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
}

fn check_file(root: &Path, file: &Path, exceptions: &Exceptions) -> Vec<String> {
    let name = file.strip_prefix(root).unwrap_or(file).display().to_string();
    let Ok(text) = std::fs::read_to_string(file) else { return vec![format!("{name}: failed to read")] };
    let mut found = Vec::new();
    if !text.starts_with("//!") {
        found.push(format!("{name}:1: the first line must describe the file (`//! …`)"));
    }
    let stem = file.file_stem().and_then(|s| s.to_str()).unwrap_or_default();
    if BANNED_NAMES.contains(&stem) {
        found.push(format!("{name}: name the module after its contents, not {stem}"));
    }
    let is_test = name.contains("/tests/") || stem == "tests" || name.contains("/benches/");
    let code = if is_test { &text[..] } else { text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(&text) };
    let lines = code.lines().count();
    let limit = exceptions.files.get(&name).copied().unwrap_or(FILE_LINES_MAX);
    if !is_test && lines > limit {
        found.push(format!("{name}: {lines} lines, at most {limit}"));
    }
    for (index, line) in text.lines().enumerate() {
        for word in BANNED_WORDS.iter().filter(|word| line.contains(**word)) {
            found.push(format!("{name}:{}: {word} is not allowed", index + 1));
        }
    }
    if !is_test {
        found.extend(long_functions(&name, code, exceptions));
    }
    found
}

/// Finds functions by their indentation, which rustfmt guarantees: the closing brace is aligned with `fn`.
fn long_functions(name: &str, code: &str, exceptions: &Exceptions) -> Vec<String> {
    let lines: Vec<&str> = code.lines().collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let trimmed = line.trim_start();
        let Some(function) = function_name(trimmed) else { continue };
        let indent = line.len() - trimmed.len();
        let closes = |candidate: &&str| {
            candidate.len() > indent && candidate[..indent].trim().is_empty() && candidate[indent..] == *"}"
        };
        let Some(length) = lines[start..].iter().position(closes) else { continue };
        let limit = exceptions.functions.get(&format!("{name}::{function}")).copied().unwrap_or(FUNCTION_LINES_MAX);
        if length + 1 > limit {
            found.push(format!("{name}:{}: function {function} has {} lines, at most {limit}", start + 1, length + 1));
        }
    }
    found
}

fn function_name(line: &str) -> Option<&str> {
    let mut rest = line;
    for prefix in ["pub(crate) ", "pub(super) ", "pub ", "const ", "async ", "unsafe "] {
        rest = rest.strip_prefix(prefix).unwrap_or(rest);
    }
    let rest = rest.strip_prefix("fn ")?;
    // One-line bodies and trait signatures have no closing brace of their own.
    if line.ends_with('}') || line.ends_with(';') {
        return None;
    }
    rest.split(['(', '<']).next()
}
