//! Manifests from files, directories and standard input, in YAML or JSON.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use object::Object;
use serde_json::Value;

use crate::download;
use crate::files::FileObject;

/// Maximum size of a file.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// The source of manifests from the standard input, as kubectl names it.
const STDIN: &str = "STDIN";
const EXTENSIONS: [&str; 3] = ["json", "yaml", "yml"];

/// A document and its source.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    pub source: String,
    pub value: Value,
}

impl Manifest {
    pub fn into_object(self) -> anyhow::Result<Object> {
        let source = self.source;
        let object = Object::from_value(self.value)
            .with_context(|| format!("{source} contains a document that is not an object"))?;
        if object.kind().is_empty() || object.api_version().is_empty() {
            bail!("{source}: apiVersion and kind are required");
        }
        Ok(object)
    }
}

/// Reads all objects in files; lists are expanded.
pub async fn read_objects(paths: &[String], recursive: bool) -> anyhow::Result<Vec<Object>> {
    let objects = read_sources(paths, recursive).await?;
    Ok(objects.into_iter().map(|found| found.object).collect())
}

/// Reads all objects in files and at URLs, with their sources; lists are expanded.
pub async fn read_sources(paths: &[String], recursive: bool) -> anyhow::Result<Vec<FileObject>> {
    expand(read_all(paths, recursive).await?)
}

/// Reads all objects of a text.
pub fn read_text(text: &str, source: &str) -> anyhow::Result<Vec<FileObject>> {
    expand(documents(text, source)?)
}

fn expand(manifests: Vec<Manifest>) -> anyhow::Result<Vec<FileObject>> {
    let mut objects: Vec<FileObject> = Vec::new();
    for manifest in manifests {
        let source = manifest.source.clone();
        let is_list = manifest.value["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
        match (is_list, manifest.value["items"].as_array()) {
            (true, Some(items)) => {
                for item in items {
                    let one = Manifest { source: source.clone(), value: item.clone() };
                    objects.push(FileObject { source: source.clone(), object: one.into_object()? });
                }
            }
            _ => objects.push(FileObject { source, object: manifest.into_object()? }),
        }
    }
    Ok(objects)
}

/// Reads all documents of all files in order, without empty ones.
pub async fn read_all(paths: &[String], recursive: bool) -> anyhow::Result<Vec<Manifest>> {
    let mut manifests: Vec<Manifest> = Vec::new();
    for path in paths {
        if path == "-" {
            let mut text = String::new();
            std::io::stdin()
                .lock()
                .take(FILE_BYTES_MAX)
                .read_to_string(&mut text)
                .context("cannot read standard input")?;
            manifests.extend(documents(&text, STDIN)?);
        } else if download::is_url(path) {
            manifests.extend(documents(&download::fetch(path).await?, path)?);
        } else {
            for file in files_in(Path::new(path), recursive)? {
                manifests.extend(documents(&read_file(&file)?, &file.display().to_string())?);
            }
        }
    }
    Ok(manifests)
}

fn read_file(path: &Path) -> anyhow::Result<String> {
    let size = std::fs::metadata(path).map(|metadata| metadata.len());
    if size.with_context(|| format!("cannot read {}", path.display()))? > FILE_BYTES_MAX {
        bail!("{} is larger than {FILE_BYTES_MAX} bytes", path.display());
    }
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Returns the file, or the manifests in a directory sorted by name.
fn files_in(path: &Path, recursive: bool) -> anyhow::Result<Vec<PathBuf>> {
    let metadata = match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            bail!("the path {:?} does not exist", path.display())
        }
        other => other.with_context(|| format!("cannot access the path {:?}", path.display()))?,
    };
    if !metadata.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = std::fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut entries: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    entries.sort();
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in entries {
        let extension = entry.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        if entry.is_dir() {
            if recursive {
                files.extend(files_in(&entry, true)?);
            }
        } else if EXTENSIONS.contains(&extension) {
            files.push(entry);
        }
    }
    Ok(files)
}

/// Splits a YAML stream into documents (JSON is YAML).
pub fn documents(text: &str, source: &str) -> anyhow::Result<Vec<Manifest>> {
    let mut manifests: Vec<Manifest> = Vec::new();
    for document in split(text) {
        let is_empty = document.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'));
        if is_empty {
            continue;
        }
        let value: Value = match serde_json::from_str(&document) {
            Ok(value) => value,
            Err(_) => serde_saphyr::from_str(&document).map_err(|error| anyhow::anyhow!("{source}: {error}"))?,
        };
        if !value.is_null() {
            manifests.push(Manifest { source: source.to_owned(), value });
        }
    }
    Ok(manifests)
}

/// Splits at lines that are `---`, with or without a comment.
fn split(text: &str) -> Vec<String> {
    let mut parts: Vec<String> = vec![String::new()];
    for line in text.lines() {
        let is_separator = line == "---" || line.starts_with("--- ");
        match parts.last_mut() {
            Some(part) if !is_separator => {
                part.push_str(line);
                part.push('\n');
            }
            _ => parts.push(String::new()),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_cut_into_documents() {
        let text = "# head\n---\napiVersion: v1\nkind: ConfigMap\ndata:\n  a: |\n    x\n    ---- no\n--- # next\n{\"kind\": \"Secret\"}\n---\n";
        let kinds: Vec<Value> = documents(text, "f").unwrap().into_iter().map(|m| m.value["kind"].clone()).collect();
        assert_eq!(kinds, ["ConfigMap", "Secret"]);
    }

    #[tokio::test]
    async fn directories_are_read_by_name_and_lists_taken_apart() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        write(
            "b.yaml",
            "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: B1}\n- {apiVersion: v1, kind: B2}\n",
        );
        write("a.json", "{\"apiVersion\": \"v1\", \"kind\": \"A\"}");
        write("note.txt", "not: [a manifest");
        std::fs::create_dir(dir.path().join("deep")).unwrap();
        write("deep/c.yml", "apiVersion: v1\nkind: C\n");
        let read = async |recursive| -> Vec<String> {
            let objects = read_objects(&[dir.path().display().to_string()], recursive).await.unwrap();
            objects.iter().map(|object| object.kind().to_owned()).collect()
        };
        assert_eq!(read(false).await, ["A", "B1", "B2"]);
        assert_eq!(read(true).await, ["A", "B1", "B2", "C"]);
    }

    #[tokio::test]
    async fn invalid_manifests_are_named() {
        let error = read_objects(&["/does/not/exist.yaml".into()], false).await.unwrap_err();
        assert!(format!("{error:#}").contains("/does/not/exist.yaml"), "{error:#}");
        assert!(documents("a: [", "f.yaml").unwrap_err().to_string().starts_with("f.yaml: "));
    }
}
