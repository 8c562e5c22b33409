//! Finds public items that nothing in the workspace names: `pub` hides them from the compiler's own check.

use std::collections::BTreeMap;
use std::path::Path;

use crate::ratchet::Counts;
use crate::source::{SourceFile, names};

const KINDS: [&str; 7] = ["fn", "struct", "enum", "const", "static", "trait", "type"];
const MODIFIERS: [&str; 4] = ["const", "async", "unsafe", "extern"];

/// A public item: its kind, its name and the offset of the name.
pub struct Item<'a> {
    pub kind: &'a str,
    pub name: &'a str,
    pub at: usize,
}

/// Counts the public items without a use, as `crate::name`.
pub fn unused(_: &Path, files: &[SourceFile]) -> anyhow::Result<Counts> {
    let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
    for file in files {
        for (at, name) in names(&file.code) {
            if !is_definition(&file.code, at) && !is_header_of_impl(&file.code, at) && !is_exported(&file.code, at) {
                *uses.entry(name).or_default() += 1;
            }
        }
        // Attributes name functions in strings: `#[serde(default = "…")]`.
        for (_, name) in file.strings.iter().filter(|text| !text.contains(' ')).flat_map(|text| names(text)) {
            *uses.entry(name).or_default() += 1;
        }
    }
    let mut found = Counts::new();
    for file in files.iter().filter(|file| file.path.starts_with("crates/")) {
        let code = file.product_code();
        for item in items(&code).filter(|item| !uses.contains_key(item.name)) {
            *found.entry(format!("{}::{}", file.package, item.name)).or_default() += 1;
        }
    }
    Ok(found)
}

/// The `pub` items of a file; those with a narrower visibility are the compiler's to check.
pub fn items(code: &str) -> impl Iterator<Item = Item<'_>> {
    let mut words = names(code).peekable();
    std::iter::from_fn(move || {
        loop {
            let (at, word) = words.next()?;
            if word != "pub" || code[at + word.len()..].starts_with('(') {
                continue;
            }
            let mut next = words.next()?;
            while MODIFIERS.contains(&next.1) && words.peek().is_some_and(|(_, word)| is_keyword(word)) {
                next = words.next()?;
            }
            if KINDS.contains(&next.1) {
                let (at, name) = words.next()?;
                return Some(Item { kind: next.1, name, at });
            }
        }
    })
}

fn is_keyword(word: &str) -> bool {
    KINDS.contains(&word) || MODIFIERS.contains(&word)
}

fn is_definition(code: &str, at: usize) -> bool {
    let before = code[..at].trim_end();
    before.len() < at && KINDS.iter().any(|kind| ends_with_word(before, kind))
}

fn ends_with_word(text: &str, word: &str) -> bool {
    text.strip_suffix(word)
        .is_some_and(|rest| !rest.ends_with(|letter: char| letter.is_alphanumeric() || letter == '_'))
}

/// True for the `Type` in `impl Type {` and in `impl Trait for Type {`: methods of a type that is never made are unused too.
fn is_header_of_impl(code: &str, at: usize) -> bool {
    let line = code[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let before = code[line..at].trim_start();
    if !before.starts_with("impl") {
        return false;
    }
    match before.rfind(" for ") {
        Some(found) => before[found + 5..].chars().all(|letter| !letter.is_alphanumeric()),
        None => before == "impl " || (before.starts_with("impl<") && before.trim_end().ends_with('>')),
    }
}

/// True inside `pub use …;`: an item that is only exported has no use yet.
fn is_exported(code: &str, at: usize) -> bool {
    let start = code[..at].rfind([';', '}']).map_or(0, |end| end + 1);
    code[start..at].trim_start().starts_with("pub use ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::parse;

    fn check(texts: &[&str], expected: &[&str]) {
        let file = |text: &&str| parse("crates/a/src/lib.rs".to_owned(), "a".to_owned(), text, false);
        let files: Vec<SourceFile> = texts.iter().map(file).collect();
        let found = unused(Path::new("."), &files).expect("the check does no I/O");
        assert_eq!(found.into_keys().collect::<Vec<_>>(), expected, "{texts:?}");
    }

    #[test]
    fn items_without_a_use_are_found() {
        check(&["pub fn a() {}"], &["a::a"]);
        check(&["pub fn a() {}", "fn main() { a() }"], &[]);
        check(&["fn a() {}\npub(crate) fn b() {}"], &[]);
        check(&["pub const A: u8 = 1;\npub async fn b() {}\npub const fn c() {}"], &["a::A", "a::b", "a::c"]);
        check(&["pub struct A;\nimpl A {}\nimpl Clone for A {}"], &["a::A"]);
        check(&["pub struct A;\nimpl From<A> for u8 {}"], &[]);
        check(&["pub mod b { pub struct A; }\npub use b::{\n    A,\n};"], &["a::A"]);
        check(&["pub fn a() {}\n// a\nfn b() { \"is a word\"; }"], &["a::a"]);
        check(&["pub fn a() {}\n#[serde(default = \"a\")]\nstruct B;"], &[]);
    }
}
