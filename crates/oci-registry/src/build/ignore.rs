//! Which files of a build context are meant: the patterns of COPY, and those `.dockerignore` leaves out.

use std::io;
use std::path::{Path, PathBuf};

use super::BuildError;

/// Files looked at in one context.
const FILES_MAX: usize = 500_000;

/// Patterns, the last one that fits decides.
#[derive(Debug, Default)]
pub struct Ignore {
    rules: Vec<(bool, String)>,
}

impl Ignore {
    /// Reads `NAME.dockerignore` next to the Dockerfile; if there is none, the context's own.
    pub fn of(context: &Path, dockerfile: &Path) -> Result<Self, BuildError> {
        let mut own_file = dockerfile.as_os_str().to_owned();
        own_file.push(".dockerignore");
        for path in [PathBuf::from(own_file), context.join(".dockerignore")] {
            match std::fs::read_to_string(&path) {
                Ok(text) => return Ok(Self::parse(&text)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(source) => return Err(BuildError::Io { path: path.display().to_string(), source }),
            }
        }
        Ok(Self::default())
    }

    pub fn parse(text: &str) -> Self {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let rule = |line: &str| match line.strip_prefix('!') {
            Some(pattern) => (false, clean(pattern)),
            None => (true, clean(line)),
        };
        Self { rules: lines.map(rule).collect() }
    }

    /// Of a path below the context. What is in a directory that is left out is left out, unless it is asked for again.
    pub fn leaves_out(&self, path: &Path) -> bool {
        let Some(path) = path.to_str() else { return false };
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let mut is_out = false;
        for (leaves_out, pattern) in &self.rules {
            let fits = (1..=parts.len()).any(|n| fits_path(pattern, &parts[..n].join("/")));
            if fits {
                is_out = *leaves_out;
            }
        }
        is_out
    }
}

/// The files and directories of the context a pattern of COPY means, sorted.
pub fn matches(context: &Path, pattern: &str, ignore: &Ignore) -> io::Result<Vec<PathBuf>> {
    let pattern = clean(pattern);
    if pattern.is_empty() {
        return Ok(vec![PathBuf::new()]);
    }
    if !pattern.contains(['*', '?', '[']) {
        let path = PathBuf::from(&pattern);
        let is_there = context.join(&path).exists() && !ignore.leaves_out(&path);
        return Ok(if is_there { vec![path] } else { Vec::new() });
    }
    let depth = pattern.split('/').count();
    let (mut found, mut open, mut seen) = (Vec::new(), vec![PathBuf::new()], 0);
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(context.join(&dir))? {
            let entry = entry?;
            let path = dir.join(entry.file_name());
            seen += 1;
            if seen > FILES_MAX {
                return Err(io::Error::other(format!("the context has more than {FILES_MAX} files")));
            }
            if path.to_str().is_some_and(|text| fits_path(&pattern, text)) && !ignore.leaves_out(&path) {
                found.push(path.clone());
            }
            if entry.file_type()?.is_dir() && path.components().count() < depth {
                open.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// A pattern without what does not matter: slashes at its ends, `.` and `..`.
fn clean(pattern: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in pattern.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Part by part; `**` is any number of parts.
fn fits_path(pattern: &str, path: &str) -> bool {
    fn fits(pattern: &[&str], path: &[&str]) -> bool {
        match (pattern, path) {
            ([], []) => true,
            (["**", rest @ ..], _) => (0..=path.len()).any(|n| fits(rest, &path[n..])),
            ([first, rest @ ..], [part, parts @ ..]) => fits_part(first, part) && fits(rest, parts),
            _ => false,
        }
    }
    let split = |text: &str| text.split('/').map(str::to_owned).collect::<Vec<_>>();
    let (pattern, path) = (split(pattern), split(path));
    fits(&pattern.iter().map(String::as_str).collect::<Vec<_>>(), &path.iter().map(String::as_str).collect::<Vec<_>>())
}

/// `*` is anything, `?` one character; no quicker than it must be, and never slower than the product of the lengths.
fn fits_part(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t, mut star) = (0, 0, None);
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some('?') => (p, t) = (p + 1, t + 1),
            Some(c) if *c == text[t] => (p, t) = (p + 1, t + 1),
            _ => match star {
                Some((at, begun)) => {
                    star = Some((at, begun + 1));
                    (p, t) = (at + 1, begun + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_matching_pattern_decides() {
        let ignore = Ignore::parse("# notes\n*.log\n**/secret\nbuild\n!build/keep.txt\n/docs/");
        for (path, expected) in [
            ("a.log", true),
            ("x/a.log", false),
            ("secret", true),
            ("x/y/secret", true),
            ("build/out", true),
            ("build/keep.txt", false),
            ("docs/a", true),
            ("src/main.rs", false),
        ] {
            assert_eq!(ignore.leaves_out(Path::new(path)), expected, "{path}");
        }
    }

    #[test]
    fn patterns_match_as_in_docker() {
        for (pattern, text, expected) in [
            ("*", "abc", true),
            ("a*c", "abbbc", true),
            ("a*c", "ab", false),
            ("?bc", "abc", true),
            ("a**", "a", true),
            ("", "", true),
            ("*a*b*c*", "xxaxxbxx", false),
        ] {
            assert_eq!(fits_part(pattern, text), expected, "{pattern} {text}");
        }
        assert!(fits_path("**/x", "a/b/x"));
        assert!(fits_path("a/**", "a/b/c"));
        assert!(!fits_path("a/*", "a/b/c"));
    }
}
