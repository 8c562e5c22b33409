//! The files of one container: an in-memory tree of bounded size.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::shell::ShellEnvironment;

/// Maximum total size of the files of one container.
pub const FILES_BYTES_MAX: usize = 16 * 1024 * 1024;
const FILES_MAX: usize = 20_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileEntry {
    Dir,
    File { bytes: Bytes, mode: u32 },
}

/// Paths are absolute and normalized; parent directories always exist.
#[derive(Clone, Debug, Default)]
pub struct Files {
    entries: BTreeMap<String, FileEntry>,
    bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileError {
    NotFound,
    IsDirectory,
    NotDirectory,
    Exists,
    NotEmpty,
    Full,
}

impl std::fmt::Display for FileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NotFound => "No such file or directory",
            Self::IsDirectory => "Is a directory",
            Self::NotDirectory => "Not a directory",
            Self::Exists => "File exists",
            Self::NotEmpty => "Directory not empty",
            Self::Full => "No space left on device",
        })
    }
}

/// Resolves a path relative to a directory.
pub fn resolve(dir: &str, path: &str) -> String {
    let whole = if path.starts_with('/') { path.to_owned() } else { format!("{dir}/{path}") };
    let mut parts: Vec<&str> = Vec::new();
    for part in whole.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

fn parent(path: &str) -> &str {
    match path.rfind('/') {
        Some(0) | None => "/",
        Some(at) => &path[..at],
    }
}

impl Files {
    /// The initial files of every container.
    pub fn new(environment: &ShellEnvironment) -> Self {
        let mut files = Self::default();
        files.entries.insert("/".to_owned(), FileEntry::Dir);
        for dir in ["/bin", "/dev", "/etc", "/home", "/proc", "/root", "/tmp", "/usr/bin", "/var/log"] {
            files.seed_dir(dir);
        }
        files.seed_dir(&resolve("/", &environment.working_dir));
        let ip = environment.env.get("POD_IP").map_or("127.0.0.1", String::as_str);
        let hosts = format!("127.0.0.1\tlocalhost\n{ip}\t{}\n", environment.hostname);
        files.seed("/etc/hosts", hosts);
        files.seed("/etc/hostname", format!("{}\n", environment.hostname));
        files.seed("/etc/os-release", "NAME=\"Simulated\"\nID=simulated\nPRETTY_NAME=\"A simulated container\"\n");
        files
    }

    /// Adds an initial file. Files that are too large are omitted.
    pub fn seed(&mut self, path: &str, bytes: impl Into<Bytes>) {
        self.seed_dir(parent(path));
        let _ = self.write(path, bytes.into(), 0o644);
    }

    pub fn seed_dir(&mut self, path: &str) {
        let _ = self.make_dir(path, true);
    }

    pub fn get(&self, path: &str) -> Option<&FileEntry> {
        self.entries.get(path)
    }

    pub fn read(&self, path: &str) -> Result<Bytes, FileError> {
        match self.entries.get(path) {
            Some(FileEntry::File { bytes, .. }) => Ok(bytes.clone()),
            Some(FileEntry::Dir) => Err(FileError::IsDirectory),
            None => Err(FileError::NotFound),
        }
    }

    /// Returns the sorted names in a directory.
    pub fn list(&self, dir: &str) -> Result<Vec<&str>, FileError> {
        match self.entries.get(dir) {
            Some(FileEntry::Dir) => {}
            Some(FileEntry::File { .. }) => return Err(FileError::NotDirectory),
            None => return Err(FileError::NotFound),
        }
        let prefix = if dir == "/" { "/".to_owned() } else { format!("{dir}/") };
        let below = self.entries.range(prefix.clone()..).take_while(|(path, _)| path.starts_with(&prefix));
        let names = below.filter_map(|(path, _)| path.strip_prefix(&prefix));
        Ok(names.filter(|name| !name.is_empty() && !name.contains('/')).collect())
    }

    /// Returns everything at and below a path, sorted.
    pub fn below<'a>(&'a self, path: &'a str) -> impl Iterator<Item = (&'a str, &'a FileEntry)> {
        let prefix = if path == "/" { "/".to_owned() } else { format!("{path}/") };
        let all = self.entries.range(path.to_owned()..);
        all.filter(move |(known, _)| *known == path || known.starts_with(&prefix))
            .map(|(known, entry)| (known.as_str(), entry))
    }

    pub fn write(&mut self, path: &str, bytes: Bytes, mode: u32) -> Result<(), FileError> {
        match self.entries.get(parent(path)) {
            Some(FileEntry::Dir) => {}
            Some(FileEntry::File { .. }) => return Err(FileError::NotDirectory),
            None => return Err(FileError::NotFound),
        }
        let before = match self.entries.get(path) {
            Some(FileEntry::Dir) => return Err(FileError::IsDirectory),
            Some(FileEntry::File { bytes, .. }) => bytes.len(),
            None if self.entries.len() >= FILES_MAX => return Err(FileError::Full),
            None => 0,
        };
        let total = self.bytes - before + bytes.len();
        if total > FILES_BYTES_MAX {
            return Err(FileError::Full);
        }
        self.bytes = total;
        self.entries.insert(path.to_owned(), FileEntry::File { bytes, mode });
        Ok(())
    }

    pub fn append(&mut self, path: &str, more: &[u8]) -> Result<(), FileError> {
        let (mut bytes, mode) = match self.entries.get(path) {
            Some(FileEntry::File { bytes, mode }) => (bytes.to_vec(), *mode),
            _ => (Vec::new(), 0o644),
        };
        bytes.extend_from_slice(more);
        self.write(path, bytes.into(), mode)
    }

    pub fn make_dir(&mut self, path: &str, with_parents: bool) -> Result<(), FileError> {
        match self.entries.get(path) {
            Some(FileEntry::Dir) if with_parents => return Ok(()),
            Some(_) => return Err(FileError::Exists),
            None => {}
        }
        if self.entries.len() >= FILES_MAX {
            return Err(FileError::Full);
        }
        match self.entries.get(parent(path)) {
            Some(FileEntry::Dir) => {}
            Some(FileEntry::File { .. }) => return Err(FileError::NotDirectory),
            None if with_parents => self.make_dir(parent(path), true)?,
            None => return Err(FileError::NotFound),
        }
        self.entries.insert(path.to_owned(), FileEntry::Dir);
        Ok(())
    }

    pub fn remove(&mut self, path: &str, recursive: bool) -> Result<(), FileError> {
        let is_dir = match self.entries.get(path) {
            None => return Err(FileError::NotFound),
            Some(FileEntry::Dir) if !recursive => return Err(FileError::IsDirectory),
            Some(entry) => *entry == FileEntry::Dir,
        };
        if path == "/" {
            return Err(FileError::NotEmpty);
        }
        let gone: Vec<String> = match is_dir {
            true => self.below(path).map(|(path, _)| path.to_owned()).collect(),
            false => vec![path.to_owned()],
        };
        for path in gone {
            if let Some(FileEntry::File { bytes, .. }) = self.entries.remove(&path) {
                self.bytes -= bytes.len();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_resolved_in_their_directory() {
        let cases = [("/", "a", "/a"), ("/a/b", "../c", "/a/c"), ("/a", "/b/./c/", "/b/c"), ("/", "../..", "/")];
        for (dir, path, expected) in cases {
            assert_eq!(resolve(dir, path), expected, "{path} in {dir}");
        }
    }

    #[test]
    fn a_tree_keeps_its_files_up_to_its_limit() {
        let mut files = Files::new(&ShellEnvironment { hostname: "web".into(), ..ShellEnvironment::default() });
        assert_eq!(files.read("/etc/hostname"), Ok(Bytes::from("web\n")));
        assert_eq!(files.write("/no/such", Bytes::new(), 0o644), Err(FileError::NotFound));
        assert_eq!(files.make_dir("/data", false), Ok(()));
        assert_eq!(files.write("/data/a", Bytes::from("1"), 0o644), Ok(()));
        assert_eq!(files.append("/data/a", b"2"), Ok(()));
        assert_eq!(files.read("/data/a"), Ok(Bytes::from("12")));
        assert_eq!(files.list("/data"), Ok(vec!["a"]));
        assert_eq!(files.remove("/data", false), Err(FileError::IsDirectory));
        let large = Bytes::from(vec![0; FILES_BYTES_MAX]);
        assert_eq!(files.write("/data/b", large, 0o644), Err(FileError::Full));
        assert_eq!(files.remove("/data", true), Ok(()));
        assert_eq!(files.list("/data"), Err(FileError::NotFound));
    }
}
