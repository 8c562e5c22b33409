//! The directories of volumes: named here, created by the node, removed here and only below the root.

use std::io;
use std::path::{Component, Path, PathBuf};

use object::Object;

/// Returns the directory of a volume: directly below the root, unique by the volume's name.
pub fn path_for(root: &Path, claim: &Object, volume: &str) -> PathBuf {
    root.join(format!("{}-{}-{volume}", claim.namespace(), claim.name()))
}

/// Removes a volume's directory, if it is directly below the root. Does not follow or remove symlinks.
pub fn remove(root: &Path, path: &Path) -> io::Result<()> {
    let refuse = |why: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{}: {why}", path.display())));
    let is_plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if !root.is_absolute() || !is_plain || path.parent() != Some(root) {
        return refuse("not a directory directly below the root of volumes");
    }
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(metadata) if !metadata.is_dir() => refuse("not a directory"),
        // Symlinks inside are removed as such.
        Ok(_) => std::fs::remove_dir_all(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_outside_the_root_is_removed() {
        let outside = tempfile::tempdir().expect("a directory");
        let root = outside.path().join("volumes");
        let keep = outside.path().join("keep");
        for path in [&root, &keep, &root.join("a"), &root.join("a/inner")] {
            std::fs::create_dir(path).expect("made");
        }
        std::os::unix::fs::symlink(&keep, root.join("link")).expect("linked");
        std::os::unix::fs::symlink(&keep, root.join("a/link")).expect("linked");
        let wrong = [
            keep.clone(),
            root.clone(),
            root.join(".."),
            root.join("../keep"),
            root.join("a/inner"),
            root.join("link"),
        ];
        for path in wrong {
            assert!(remove(&root, &path).is_err(), "{}", path.display());
        }
        assert!(remove(Path::new("relative"), Path::new("relative/a")).is_err());
        remove(&root, &root.join("a")).expect("removed");
        remove(&root, &root.join("a")).expect("already removed");
        assert!(!root.join("a").exists() && keep.exists() && root.join("link").exists());
    }
}
