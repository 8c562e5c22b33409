//! Checks the links of the documentation: every relative link leads to a file and a heading, every named source file exists, and the
//! table of contents has every page.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Returns all broken links, and the pages of `docs/` without an entry in `docs/README.md`.
pub fn complaints(root: &Path) -> Vec<String> {
    let mut complaints = Vec::new();
    let pages = pages(root);
    for page in &pages {
        let text = std::fs::read_to_string(page).unwrap_or_default();
        let name = page.strip_prefix(root).unwrap_or(page).display();
        for link in links(&text) {
            if let Some(problem) = problem_of(page, &link) {
                complaints.push(format!("{name}: {link}: {problem}"));
            }
        }
        if page.starts_with(root.join("docs")) {
            let missing = source_files(&text).into_iter().filter(|file| !is_source_file(root, file));
            complaints.extend(missing.map(|file| format!("{name}: {file}: there is no such file")));
        }
    }
    let contents = root.join("docs/README.md");
    let text = std::fs::read_to_string(&contents).unwrap_or_default();
    let linked: BTreeSet<PathBuf> =
        links(&text).iter().filter_map(|link| target_of(&contents, link).canonicalize().ok()).collect();
    for page in pages.iter().filter(|page| page.starts_with(root.join("docs")) && **page != contents) {
        if !page.canonicalize().is_ok_and(|page| linked.contains(&page)) {
            complaints
                .push(format!("docs/README.md has no link to {}", page.strip_prefix(root).unwrap_or(page).display()));
        }
    }
    complaints
}

/// Returns the Markdown files of the project.
fn pages(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![root.join("docs"), root.join("deploy")];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found.extend(["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|name| root.join(name)));
    found.sort();
    found
}

/// Returns the relative links of a page, outside of code blocks.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        if is_code {
            continue;
        }
        let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        found.extend(targets.filter(|target| !target.contains("://")).map(str::to_owned));
    }
    found
}

/// Returns the paths of source files that a page names as code: `crate/tests/name.rs`.
fn source_files(text: &str) -> Vec<&str> {
    let is_path = |code: &&str| code.ends_with(".rs") && code.contains('/') && !code.contains(char::is_whitespace);
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2)).filter(is_path).collect()
}

/// Paths start at the root or in `crates`; a `*` stands for a part of the file's name.
fn is_source_file(root: &Path, file: &str) -> bool {
    let Some((start, end)) = file.split_once('*') else {
        return root.join(file).exists() || root.join("crates").join(file).exists();
    };
    let (folder, prefix) = start.rsplit_once('/').unwrap_or(("", start));
    [root.join(folder), root.join("crates").join(folder)].iter().any(|folder| {
        let names = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
        names.filter_map(|name| name.into_string().ok()).any(|name| name.starts_with(prefix) && name.ends_with(end))
    })
}

fn target_of(page: &Path, link: &str) -> PathBuf {
    let file = link.split('#').next().unwrap_or_default();
    if file.is_empty() { page.to_owned() } else { page.parent().unwrap_or(Path::new("")).join(file) }
}

fn problem_of(page: &Path, link: &str) -> Option<String> {
    let target = target_of(page, link);
    if !target.exists() {
        return Some("there is no such file".to_owned());
    }
    let heading = link.split_once('#')?.1;
    let text = std::fs::read_to_string(target).unwrap_or_default();
    let has = text.lines().filter(|line| line.starts_with('#')).any(|line| anchor(line) == heading);
    (!has).then(|| "there is no such heading".to_owned())
}

/// Returns the anchor of a heading, as sites for Markdown make it.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_links_and_missing_pages_are_found() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path();
        std::fs::create_dir_all(root.join("docs")).expect("made");
        let write = |name: &str, text: &str| std::fs::write(root.join(name), text).expect("written");
        for name in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"] {
            write(name, "# X\n");
        }
        write("docs/README.md", "[a](a.md) [b](a.md#two-words) [c](none.md)\n```\n[d](code.md)\n```\n");
        std::fs::create_dir_all(root.join("crates/a/tests")).expect("made");
        write("crates/a/tests/x_one.rs", "");
        let named = "`a/tests/x_one.rs` `a/tests/x_*.rs` `a/tests/y_*.rs` `a/tests/gone.rs` `one.rs`";
        write("docs/a.md", &format!("## Two words\n[x](#nothing) [y](https://example.net/z) {named}\n"));
        write("docs/lost.md", "# Lost\n");
        let found = complaints(root);
        let expected = [
            "docs/README.md: none.md: there is no such file",
            "docs/a.md: #nothing: there is no such heading",
            "docs/a.md: a/tests/y_*.rs: there is no such file",
            "docs/a.md: a/tests/gone.rs: there is no such file",
            "docs/README.md has no link to docs/lost.md",
        ];
        assert_eq!(found.len(), expected.len(), "{found:?}");
        assert!(expected.iter().all(|line| found.iter().any(|found| found == line)), "{found:?}");
    }
}
