//! Names: of repositories, of tags, and whole references such as `docker.io/library/nginx:1.27@sha256:…`.

use std::fmt;
use std::str::FromStr;

use crate::digest::Digest;

/// As in the distribution specification, host included.
const REPOSITORY_LEN_MAX: usize = 255;
const TAG_LEN_MAX: usize = 128;
const DEFAULT_REGISTRY: &str = "docker.io";
const DEFAULT_TAG: &str = "latest";

/// A repository's name; every part of it is safe as the name of a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Repository(String);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(String);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error(
        "{0:?} is not a repository name: lower-case letters, digits and single . _ - between them, parts divided by /"
    )]
    Repository(String),
    #[error("{0:?} is not a tag: letters, digits, _ . -, at most {TAG_LEN_MAX}")]
    Tag(String),
    #[error("{0:?} is not an image: expected [HOST[:PORT]/]NAME[:TAG][@DIGEST]")]
    Reference(String),
}

impl Repository {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Repository {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        if !text.is_empty() && text.len() <= REPOSITORY_LEN_MAX && text.split('/').all(is_component) {
            Ok(Self(text.to_owned()))
        } else {
            Err(NameError::Repository(excerpt(text)))
        }
    }
}

/// `[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*`
fn is_component(part: &str) -> bool {
    let is_word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = part.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return false };
    if !is_word(*first) || !is_word(*last) {
        return false;
    }
    part.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        .filter(|separator| !separator.is_empty())
        .all(|separator| matches!(separator, "." | "_" | "__") || separator.bytes().all(|b| b == b'-'))
}

impl Tag {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Tag {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        let starts = text.bytes().next().is_some_and(is_word);
        if starts && text.len() <= TAG_LEN_MAX && text.bytes().all(|b| is_word(b) || b == b'.' || b == b'-') {
            Ok(Self(text.to_owned()))
        } else {
            Err(NameError::Tag(excerpt(text)))
        }
    }
}

impl fmt::Display for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A tag or a digest within a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    Tag(Tag),
    Digest(Digest),
}

impl FromStr for Selector {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        match text.parse() {
            Ok(digest) => Ok(Self::Digest(digest)),
            Err(_) => text.parse().map(Self::Tag),
        }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tag(tag) => tag.fmt(f),
            Self::Digest(digest) => digest.fmt(f),
        }
    }
}

/// An image by name, in full: what is left out is filled in as Docker and containerd do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// HOST or HOST:PORT, as users write it (`docker.io`).
    pub registry: String,
    pub repository: Repository,
    pub tag: Option<Tag>,
    pub digest: Option<Digest>,
}

impl Reference {
    /// The selector to request: the digest where there is one.
    pub fn selector(&self) -> Selector {
        match (&self.digest, &self.tag) {
            (Some(digest), _) => Selector::Digest(digest.clone()),
            (None, Some(tag)) => Selector::Tag(tag.clone()),
            (None, None) => Selector::Tag(Tag(DEFAULT_TAG.to_owned())),
        }
    }

    /// Docker Hub answers at another name than its own.
    pub fn host(&self) -> &str {
        if self.registry == DEFAULT_REGISTRY { "registry-1.docker.io" } else { &self.registry }
    }

    /// The names it gets in another registry: its path without the host. Images of Docker Hub's library get the short
    /// name people type and the full one runtimes ask a mirror for.
    pub fn retagged(&self, registry: &str) -> Vec<Self> {
        let renamed = |repository: Repository| Self { registry: registry.to_owned(), repository, ..self.clone() };
        let short = self.repository.as_str().strip_prefix("library/").filter(|_| self.registry == DEFAULT_REGISTRY);
        let short = short.and_then(|short| short.parse().ok()).map(renamed);
        short.into_iter().chain([renamed(self.repository.clone())]).collect()
    }
}

impl FromStr for Reference {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let wrong = || NameError::Reference(excerpt(text));
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest.parse().map_err(|_| wrong())?)),
            None => (text, None),
        };
        let (registry, path) = match rest.split_once('/') {
            Some((host, path)) if is_host(host) => (host, path),
            _ => (DEFAULT_REGISTRY, rest),
        };
        let registry = if registry == "index.docker.io" { DEFAULT_REGISTRY } else { registry };
        if !registry.bytes().all(|b| b.is_ascii_alphanumeric() || b".-:[]".contains(&b)) {
            return Err(wrong());
        }
        let (path, tag) = match path.rsplit_once(':') {
            Some((path, tag)) => (path, Some(tag.parse()?)),
            None => (path, None),
        };
        let tag = match (tag, &digest) {
            (None, None) => Some(Tag(DEFAULT_TAG.to_owned())),
            (tag, _) => tag,
        };
        let is_library = registry == DEFAULT_REGISTRY && !path.contains('/');
        let repository = if is_library { format!("library/{path}").parse() } else { path.parse() };
        Ok(Self { registry: registry.to_owned(), repository: repository?, tag, digest })
    }
}

/// Returns true when the first part of a name is a host, by Docker's rule.
fn is_host(part: &str) -> bool {
    part == "localhost" || part.contains(['.', ':']) || part.bytes().any(|b| b.is_ascii_uppercase())
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

/// Shortens untrusted text for messages.
fn excerpt(text: &str) -> String {
    text.chars().take(160).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repositories_follow_the_specification() {
        for good in ["a", "library/nginx", "a-b/c__d/e.f", "a--b", "0/1", "a/".repeat(126).trim_end_matches('/')] {
            assert!(good.parse::<Repository>().is_ok(), "{good}");
        }
        for bad in
            ["", "/", "a/", "/a", "a//b", "..", "a/../b", "A", "a_-b", "a..b", "a___b", "_uploads", "-a", "a-", "a\0b"]
        {
            assert!(bad.parse::<Repository>().is_err(), "{bad:?}");
        }
        assert!("a".repeat(256).parse::<Repository>().is_err());
    }

    #[test]
    fn tags_follow_the_specification() {
        for good in ["latest", "v1.2-rc_3", "_x", &"a".repeat(128)] {
            assert!(good.parse::<Tag>().is_ok(), "{good}");
        }
        for bad in ["", ".x", "-x", "a/b", "..", "a b", "a:b", &"a".repeat(129)] {
            assert!(bad.parse::<Tag>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn references_are_filled_in_as_docker_does() {
        let sum = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let cases = [
            ("nginx", "docker.io/library/nginx:latest".to_owned()),
            ("nginx:1.27", "docker.io/library/nginx:1.27".to_owned()),
            ("index.docker.io/a/b", "docker.io/a/b:latest".to_owned()),
            ("karmada/karmada-agent:v1", "docker.io/karmada/karmada-agent:v1".to_owned()),
            ("localhost:32000/x/y:1", "localhost:32000/x/y:1".to_owned()),
            ("localhost/x", "localhost/x:latest".to_owned()),
            ("[::1]:5000/x", "[::1]:5000/x:latest".to_owned()),
            ("registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10".to_owned()),
            (&format!("q.io/a@{sum}"), format!("q.io/a@{sum}")),
            (&format!("q.io/a:t@{sum}"), format!("q.io/a:t@{sum}")),
        ];
        for (text, full) in cases {
            assert_eq!(text.parse::<Reference>().map(|found| found.to_string()), Ok(full));
        }
        for bad in ["", ":", "a:", "a@b", "Q_.io/a", "a.io/", "a.io/../b", "ex ample.io/a"] {
            assert!(bad.parse::<Reference>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn names_in_another_registry_keep_their_path() {
        let names = |text: &str| {
            let found = text.parse::<Reference>().unwrap().retagged("127.0.0.1:32000");
            found.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(names("nginx:1"), ["127.0.0.1:32000/nginx:1", "127.0.0.1:32000/library/nginx:1"]);
        assert_eq!(names("registry.k8s.io/etcd:3"), ["127.0.0.1:32000/etcd:3"]);
        assert_eq!(names("karmada/agent:1"), ["127.0.0.1:32000/karmada/agent:1"]);
    }
}
