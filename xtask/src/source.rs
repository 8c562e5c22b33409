//! Reads the Rust files of the tree and separates code from comments and string literals.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Folders with Rust code: members of the workspace, and the fuzz targets, which use it.
const FOLDERS: [&str; 5] = ["crates", "xtask", "bench", "e2e", "fuzz"];

/// A Rust file and its three kinds of text.
pub struct SourceFile {
    /// Relative to the root of the repository.
    pub path: String,
    /// The folder of its package: `object` for `crates/object/src/lib.rs`, `e2e` for `e2e/tests/…`.
    pub package: String,
    /// The text with comments and the contents of string literals replaced by spaces; offsets are those of the file.
    pub code: String,
    /// One entry per line of a comment, with the markers `//`, `///`, `//!`, `/*` removed.
    pub comments: Vec<String>,
    pub strings: Vec<String>,
    /// Integration tests, benchmarks, examples, and modules behind `#[cfg(test)]`.
    pub is_test: bool,
}

impl SourceFile {
    /// The code without modules behind `#[cfg(test)]`; empty for a file of tests.
    pub fn product_code(&self) -> String {
        if self.is_test {
            return String::new();
        }
        let mut code = self.code.clone();
        for span in test_spans(&self.code) {
            code.replace_range(span.clone(), &" ".repeat(span.len()));
        }
        code
    }
}

/// Every Rust file below the folders of the workspace.
pub fn read_all(root: &Path) -> std::io::Result<Vec<SourceFile>> {
    let mut paths = Vec::new();
    for folder in FOLDERS {
        collect(&root.join(folder), "rs", &mut paths)?;
    }
    paths.sort();
    let mut files: Vec<SourceFile> = paths.iter().map(|path| read(root, path)).collect::<std::io::Result<_>>()?;
    let behind_cfg: BTreeSet<String> = files.iter().flat_map(test_modules).collect();
    for file in &mut files {
        // Generated code defines names for others; the rules about definitions are for people.
        let is_generated = file.path.contains("/generated/");
        file.is_test |= is_generated || behind_cfg.iter().any(|module| is_inside(&file.path, module));
    }
    Ok(files)
}

/// Adds the files below `folder` that end in `extension`, without build output and hidden folders.
pub fn collect(folder: &Path, extension: &str, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() {
            if !name.starts_with('.') && name != "target" && name != "node_modules" {
                collect(&path, extension, files)?;
            }
        } else if path.extension().is_some_and(|found| found == extension) {
            files.push(path);
        }
    }
    Ok(())
}

fn read(root: &Path, file: &Path) -> std::io::Result<SourceFile> {
    let text = std::fs::read_to_string(file)?;
    let path = file.strip_prefix(root).unwrap_or(file).display().to_string();
    let mut parts = path.split('/');
    let package = match parts.next() {
        Some("crates") => parts.next(),
        first => first,
    };
    let is_test = ["/tests/", "/benches/", "/examples/"].iter().any(|folder| path.contains(folder));
    let package = package.unwrap_or_default().to_owned();
    Ok(parse(path, package, &text, is_test))
}

/// Splits `text` into code, comments and strings.
pub fn parse(path: String, package: String, text: &str, is_test: bool) -> SourceFile {
    let (mut code, mut comments, mut strings) = (text.as_bytes().to_vec(), Vec::new(), Vec::new());
    let mut at = 0;
    while let Some(token) = next_token(text.as_bytes(), at) {
        let (range, content) = match token {
            Token::Comment(range) => {
                comments.extend(text[range.clone()].lines().map(|line| without_markers(line).to_owned()));
                (range.clone(), range)
            }
            Token::Text(range, content) => {
                strings.push(text[content.clone()].to_owned());
                (range, content)
            }
        };
        for byte in &mut code[content] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at = range.end;
    }
    let code = String::from_utf8_lossy(&code).into_owned();
    SourceFile { path, package, code, comments, strings, is_test }
}

enum Token {
    Comment(Range<usize>),
    /// A string literal and its contents.
    Text(Range<usize>, Range<usize>),
}

/// The first comment or string literal at or after `at`.
fn next_token(text: &[u8], at: usize) -> Option<Token> {
    let mut at = at;
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with(b"//") {
            let length = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
            return Some(Token::Comment(at..at + length));
        }
        if rest.starts_with(b"/*") {
            return Some(Token::Comment(at..at + block_comment_length(rest)));
        }
        let follows_name = at > 0 && is_name_byte(text[at - 1]);
        if let Some((opening, length)) = raw_string(rest).filter(|_| !follows_name) {
            let closing = opening - rest[..opening].iter().position(|byte| matches!(byte, b'#' | b'"'))?;
            return Some(Token::Text(at..at + length, at + opening..(at + length - closing).max(at + opening)));
        }
        match rest[0] {
            b'"' => {
                let length = string_length(rest);
                return Some(Token::Text(at..at + length, at + 1..(at + length - 1).max(at + 1)));
            }
            b'\'' => at += char_length(rest),
            _ => at += 1,
        }
    }
    None
}

fn block_comment_length(text: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        match &text[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// The lengths of the opening (`r##"`) and of the whole of a raw string that starts here.
fn raw_string(text: &[u8]) -> Option<(usize, usize)> {
    let prefix = ["br", "cr", "r"].iter().find(|prefix| text.starts_with(prefix.as_bytes()))?.len();
    let hashes = text[prefix..].iter().take_while(|byte| **byte == b'#').count();
    if text.get(prefix + hashes) != Some(&b'"') {
        return None;
    }
    let opening = prefix + hashes + 1;
    let closing = [&b"\""[..], "#".repeat(hashes).as_bytes()].concat();
    let length = text[opening..].windows(closing.len()).position(|window| window == closing);
    Some((opening, length.map_or(text.len(), |length| opening + length + closing.len())))
}

fn string_length(text: &[u8]) -> usize {
    let mut at = 1;
    while at < text.len() {
        match text[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

/// A character literal is skipped as a whole; of a lifetime only the quote is.
fn char_length(text: &[u8]) -> usize {
    match text {
        [_, b'\\', _, rest @ ..] => 4 + rest.iter().take(10).position(|byte| *byte == b'\'').unwrap_or(0),
        [_, first, ..] => {
            let width = match first {
                0..=0x7f => 1,
                0x80..=0xdf => 2,
                0xe0..=0xef => 3,
                _ => 4,
            };
            if text.get(1 + width) == Some(&b'\'') { width + 2 } else { 1 }
        }
        _ => 1,
    }
}

fn without_markers(line: &str) -> &str {
    line.trim().trim_start_matches(['/', '!', '*']).trim_end_matches("*/").trim()
}

pub fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Every identifier and keyword with its offset.
pub fn names(code: &str) -> impl Iterator<Item = (usize, &str)> {
    code.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
        .filter(|name| !name.is_empty())
        .map(|name| (name.as_ptr() as usize - code.as_ptr() as usize, name))
}

/// The inline modules behind `#[cfg(test)]`.
fn test_spans(code: &str) -> Vec<Range<usize>> {
    let mut spans = Vec::new();
    for (start, attribute) in code.match_indices("#[cfg(test)]") {
        let item = code[start + attribute.len()..].trim_start();
        let item = item.strip_prefix("pub ").unwrap_or(item);
        let Some(open) = item.starts_with("mod ").then(|| item.find(['{', ';'])).flatten() else { continue };
        if item.as_bytes()[open] == b';' {
            continue;
        }
        let open = code.len() - item.len() + open;
        spans.push(start..open + braces_length(&code[open..]));
    }
    spans
}

fn braces_length(code: &str) -> usize {
    let mut depth = 0;
    for (at, byte) in code.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    code.len()
}

/// The paths without `.rs` of the files that this one declares behind `#[cfg(test)]`.
fn test_modules(file: &SourceFile) -> Vec<String> {
    let path = Path::new(&file.path);
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let folder = path.parent().unwrap_or(path);
    let folder = if ["mod", "lib", "main"].contains(&stem) { folder.to_owned() } else { folder.join(stem) };
    let declarations = file.code.match_indices("#[cfg(test)]").filter_map(|(at, attribute)| {
        let item = file.code[at + attribute.len()..].trim_start();
        let item = item.strip_prefix("pub ").unwrap_or(item).strip_prefix("mod ")?;
        let end = item.find(['{', ';'])?;
        (item.as_bytes()[end] == b';').then(|| folder.join(item[..end].trim()).display().to_string())
    });
    declarations.collect()
}

fn is_inside(path: &str, module: &str) -> bool {
    path.strip_prefix(module).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, code: &str, comments: &[&str], strings: &[&str]) {
        let file = parse("a.rs".to_owned(), "a".to_owned(), text, false);
        assert_eq!(file.code.split_whitespace().collect::<Vec<_>>().join(" "), code, "code of {text}");
        assert_eq!(file.comments, comments, "comments of {text}");
        assert_eq!(file.strings, strings, "strings of {text}");
        assert_eq!(file.code.len(), text.len(), "offsets of {text}");
    }

    #[test]
    fn code_comments_and_strings_are_separated() {
        check("let a = 1; // one\nlet b;", "let a = 1; let b;", &["one"], &[]);
        check("/// Doc\n//! Head\nfn f() {}", "fn f() {}", &["Doc", "Head"], &[]);
        check("a(/* x /* y */ z */ b)", "a( b)", &["x /* y */ z"], &[]);
        check(r#"f("a \" // b", 'c')"#, "f(\" \", 'c')", &[], &[r#"a \" // b"#]);
        check(r###"f(r#"a " b"#, br"c")"###, r###"f(r#" "#, br" ")"###, &[], &["a \" b", "c"]);
        check(
            r"fn f<'a>(x: &'a str) { '\''; '\u{7f}'; '/' }",
            r"fn f<'a>(x: &'a str) { '\''; '\u{7f}'; '/' }",
            &[],
            &[],
        );
        check("let über = \"ü\"; // é", "let über = \" \";", &["é"], &["ü"]);
        check("x(\"\")", "x(\"\")", &[], &[""]);
    }

    #[test]
    fn test_modules_are_no_product_code() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() { {} }\n}\nfn c() {}";
        let file = parse("a.rs".to_owned(), "a".to_owned(), text, false);
        let code = file.product_code();
        assert!(code.contains("fn a") && code.contains("fn c") && !code.contains("fn b"), "{code}");
    }

    #[test]
    fn files_declared_behind_cfg_test_are_tests() {
        let text = "mod a;\n#[cfg(test)]\nmod tests;";
        let declared = |path: &str| test_modules(&parse(path.to_owned(), "a".to_owned(), text, false));
        assert_eq!(declared("crates/a/src/lib.rs"), ["crates/a/src/tests"]);
        assert_eq!(declared("crates/a/src/b.rs"), ["crates/a/src/b/tests"]);
        assert!(is_inside("crates/a/src/tests/one.rs", "crates/a/src/tests"));
        assert!(!is_inside("crates/a/src/tests_runner.rs", "crates/a/src/tests"));
    }
}
