//! Lists of repositories, and of the tags, manifests and blobs of one.

use std::path::{Path, PathBuf};

use super::{Result, Store, StoreError, disk};
use crate::digest::{Algorithm, Digest};
use crate::name::{Repository, Tag};

/// A part of a sorted list, and whether there is more behind it.
#[derive(Debug, PartialEq, Eq)]
pub struct Page {
    pub items: Vec<String>,
    pub has_more: bool,
}

impl Page {
    /// The `n` names after `last`.
    fn of(mut names: Vec<String>, last: Option<&str>, n: usize) -> Self {
        names.sort_unstable();
        let skipped = last.map_or(0, |last| names.partition_point(|name| name.as_str() <= last));
        let has_more = names.len() - skipped > n;
        Self { items: names.into_iter().skip(skipped).take(n).collect(), has_more }
    }
}

impl Store {
    pub fn tag_page(&self, repository: &Repository, last: Option<&str>, n: usize) -> Result<Page> {
        if !self.repository_dir(repository).join("_manifests").is_dir() {
            return Err(StoreError::RepositoryUnknown(repository.clone()));
        }
        let tags = self.tags(repository)?.iter().map(ToString::to_string).collect();
        Ok(Page::of(tags, last, n))
    }

    /// Repositories with a manifest in them.
    pub fn catalog_page(&self, last: Option<&str>, n: usize) -> Result<Page> {
        let mut names = Vec::new();
        for repository in self.repositories()? {
            if !self.revisions(&repository)?.is_empty() {
                names.push(repository.to_string());
            }
        }
        Ok(Page::of(names, last, n))
    }

    /// Everything with a directory of its own.
    pub fn repositories(&self) -> Result<Vec<Repository>> {
        let root = self.root.join("repositories");
        let mut found = Vec::new();
        let mut open: Vec<PathBuf> = vec![root.clone()];
        while let Some(dir) = open.pop() {
            for path in disk::entries(&dir)? {
                let Some(name) = relative(&root, &path) else { continue };
                // `_layers` and `_manifests` are no names, so the walk stays out of them.
                let Ok(repository) = name.parse::<Repository>() else { continue };
                if path.join("_layers").is_dir() || path.join("_manifests").is_dir() {
                    found.push(repository);
                }
                open.push(path);
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    pub(super) fn tags_dir(&self, repository: &Repository) -> PathBuf {
        self.repository_dir(repository).join("_manifests/tags")
    }

    pub fn tags(&self, repository: &Repository) -> Result<Vec<Tag>> {
        let entries = disk::entries(&self.tags_dir(repository))?;
        Ok(entries.iter().filter_map(|path| file_name(path)?.parse().ok()).collect())
    }

    pub fn revisions(&self, repository: &Repository) -> Result<Vec<Digest>> {
        digests_below(&self.repository_dir(repository).join("_manifests/revisions"))
    }

    pub(super) fn linked_blobs(&self, repository: &Repository) -> Result<Vec<Digest>> {
        digests_below(&self.repository_dir(repository).join("_layers"))
    }

    pub(super) fn all_blobs(&self) -> Result<Vec<Digest>> {
        let mut found = Vec::new();
        for algorithm in [Algorithm::Sha256, Algorithm::Sha512] {
            for shelf in disk::entries(&self.root.join("blobs").join(algorithm.name()))? {
                found.extend(digests_in(algorithm, &shelf)?);
            }
        }
        Ok(found)
    }
}

fn digests_below(dir: &Path) -> Result<Vec<Digest>> {
    let mut found = Vec::new();
    for algorithm in [Algorithm::Sha256, Algorithm::Sha512] {
        found.extend(digests_in(algorithm, &dir.join(algorithm.name()))?);
    }
    Ok(found)
}

fn digests_in(algorithm: Algorithm, dir: &Path) -> Result<Vec<Digest>> {
    let entries = disk::entries(dir)?;
    let digest = |path: &PathBuf| format!("{}:{}", algorithm.name(), file_name(path)?).parse().ok();
    Ok(entries.iter().filter_map(digest).collect())
}

fn file_name(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()
}

fn relative<'a>(root: &Path, path: &'a Path) -> Option<&'a str> {
    path.strip_prefix(root).ok()?.to_str()
}

#[cfg(test)]
mod tests {
    use super::Page;

    #[test]
    fn pages_begin_after_the_last_name_seen() {
        let names = || ["b", "a", "d", "c"].map(str::to_owned).to_vec();
        let check = |last: Option<&str>, n: usize, items: &[&str], has_more: bool| {
            let items = items.iter().map(ToString::to_string).collect();
            assert_eq!(Page::of(names(), last, n), Page { items, has_more });
        };
        check(None, 2, &["a", "b"], true);
        check(Some("b"), 2, &["c", "d"], false);
        check(Some("bb"), 1, &["c"], true);
        check(Some("z"), 5, &[], false);
        check(None, 0, &[], true);
    }
}
