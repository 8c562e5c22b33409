//! Readers of images: the paths and manifests of a registry, archives, Dockerfiles.

use std::fs::File;
use std::io::{Seek, Write};

use oci_registry::build::dockerfile::Dockerfile;
use oci_registry::build::ignore::Ignore;
use oci_registry::digest::Digest;
use oci_registry::image::tar::TarIndex;
use oci_registry::manifest::{Manifest, Platform};
use oci_registry::name::{Reference, Repository, Selector, Tag};
use oci_registry::server::route::Route;

/// A request to the registry: a path, then a body. No accepted name leaves its directory.
pub fn registry(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (path, body) = text.split_once('\n').unwrap_or((&text, ""));
    if let Ok(Route::Tags(repository) | Route::Uploads(repository)) = Route::parse(path) {
        assert!(
            !repository.as_str().split('/').any(|part| part.starts_with('.')),
            "{repository:?} leaves its directory"
        );
    }
    if let Ok(manifest) = Manifest::parse(None, body.as_bytes()) {
        let _ = (manifest.references().count(), manifest.effective_artifact_type());
    }
    let _ = (path.parse::<Repository>(), path.parse::<Tag>(), path.parse::<Selector>(), path.parse::<Digest>());
    let _ = Platform::parse(path);
    if let Ok(reference) = path.parse::<Reference>() {
        let written = reference.to_string();
        assert_eq!(written.parse::<Reference>().map(|again| again.to_string()).ok(), Some(written));
    }
}

/// A tar archive. What is found in it lies within it.
pub fn archive(data: &[u8]) {
    thread_local! {
        static FILE: File = tempfile::tempfile().expect("a temporary file");
    }
    FILE.with(|mut file| {
        file.set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| file.write_all(data))
            .expect("a file that can be written");
        let Ok(index) = TarIndex::read(file) else { return };
        for path in ["index.json", "manifest.json", "a", "../a", "/a/b"] {
            if let Some((offset, len)) = index.find(path) {
                assert!(offset + len <= data.len() as u64, "{path} lies outside of the archive");
            }
            let _ = index.read_small(file, path, 1 << 20);
        }
    });
}

pub fn dockerfile(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let _ = Dockerfile::parse(&text, &[("VERSION".to_owned(), "1".to_owned())]);
    let ignore = Ignore::parse(&text);
    let _ = (ignore.leaves_out(std::path::Path::new("a/b.c")), ignore.leaves_out(std::path::Path::new("target")));
}
