//! Manifests and indexes: their media types, what they refer to, and whether they hang together.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::digest::Digest;

pub const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub const OCI_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
pub const OCI_LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
pub const OCI_LAYER_GZIP: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
pub const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
pub const DOCKER_INDEX: &str = "application/vnd.docker.distribution.manifest.list.v2+json";

/// Media types this client reads, for the Accept header.
pub const READABLE: [&str; 4] = [OCI_MANIFEST, OCI_INDEX, DOCKER_MANIFEST, DOCKER_INDEX];

/// As large as registries take them.
pub const MANIFEST_LEN_MAX: usize = 4 * 1024 * 1024;
/// More than any image has, few enough to look each of them up.
const REFERENCES_MAX: usize = 10_000;

/// Content by type, digest and size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    #[serde(default)]
    pub media_type: String,
    pub digest: Digest,
    pub size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Locations of a layer that registries do not store.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub urls: Vec<String>,
}

impl Descriptor {
    pub fn new(media_type: &str, digest: Digest, size: u64) -> Self {
        Self {
            media_type: media_type.to_owned(),
            digest,
            size,
            platform: None,
            artifact_type: None,
            annotations: BTreeMap::new(),
            urls: Vec::new(),
        }
    }

    /// Layers that may only be had from their maker are in no registry.
    pub fn is_foreign(&self) -> bool {
        self.media_type.contains(".nondistributable.") || self.media_type.contains(".foreign.")
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Platform {
    pub architecture: String,
    pub os: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    #[serde(default, rename = "os.version", skip_serializing_if = "Option::is_none")]
    pub os_version: Option<String>,
}

impl Platform {
    /// This machine's, in the words images use.
    pub fn host() -> Self {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            "x86" => "386",
            "powerpc64" => "ppc64le",
            other => other,
        };
        Self { architecture: architecture.to_owned(), os: "linux".to_owned(), variant: None, os_version: None }
    }

    /// `linux/arm64`, `linux/arm/v7`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('/').filter(|part| !part.is_empty());
        let (os, architecture) = (parts.next()?.to_owned(), parts.next()?.to_owned());
        let variant = parts.next().map(str::to_owned);
        if parts.next().is_some() { None } else { Some(Self { architecture, os, variant, os_version: None }) }
    }

    /// Returns true when an image for `other` runs on this platform.
    pub fn takes(&self, other: &Self) -> bool {
        let same_variant = self.variant.is_none() || other.variant.is_none() || self.variant == other.variant;
        self.os == other.os && self.architecture == other.architecture && same_variant
    }
}

impl std::fmt::Display for Platform {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)?;
        self.variant.as_ref().map_or(Ok(()), |variant| write!(f, "/{variant}"))
    }
}

/// The fields of a manifest that registries use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    pub media_type: String,
    pub kind: Kind,
    pub subject: Option<Descriptor>,
    pub artifact_type: Option<String>,
    pub annotations: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    Image { config: Box<Descriptor>, layers: Vec<Descriptor> },
    Index { manifests: Vec<Descriptor> },
}

#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    #[error("the manifest has {0} bytes, at most {MANIFEST_LEN_MAX} are taken")]
    TooLarge(usize),
    #[error("the manifest is not what its type promises")]
    Json(#[source] serde_json::Error),
    #[error("manifests of schema version {0} are not taken; 2 is")]
    Schema(String),
    #[error("the manifest calls itself {inside:?}, the request calls it {outside:?}")]
    TypesDiffer { inside: String, outside: String },
    #[error("manifests of type {0:?} are not taken")]
    Type(String),
    #[error("the manifest has both layers and manifests")]
    Ambiguous,
    #[error("the manifest refers to {0} things, at most {REFERENCES_MAX} are taken")]
    TooMany(usize),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw {
    #[serde(default)]
    schema_version: Value,
    media_type: Option<String>,
    config: Option<Descriptor>,
    layers: Option<Vec<Descriptor>>,
    manifests: Option<Vec<Descriptor>>,
    subject: Option<Descriptor>,
    artifact_type: Option<String>,
    annotations: Option<BTreeMap<String, String>>,
}

impl Manifest {
    /// Reads a manifest that came with a Content-Type, or without.
    pub fn parse(content_type: Option<&str>, bytes: &[u8]) -> Result<Self, ManifestError> {
        if bytes.len() > MANIFEST_LEN_MAX {
            return Err(ManifestError::TooLarge(bytes.len()));
        }
        let raw: Raw = serde_json::from_slice(bytes).map_err(ManifestError::Json)?;
        if raw.schema_version != 2 {
            return Err(ManifestError::Schema(raw.schema_version.to_string()));
        }
        // Parameters follow a semicolon: `; charset=utf-8`.
        let outside = content_type.map(|text| text.split(';').next().unwrap_or_default().trim().to_owned());
        let media_type = match (raw.media_type.filter(|inside| !inside.is_empty()), outside) {
            (Some(inside), Some(outside)) if inside != outside => {
                return Err(ManifestError::TypesDiffer { inside, outside });
            }
            (Some(known), _) | (None, Some(known)) => known,
            (None, None) if raw.manifests.is_some() => OCI_INDEX.to_owned(),
            (None, None) => OCI_MANIFEST.to_owned(),
        };
        let is_index = match media_type.as_str() {
            OCI_INDEX | DOCKER_INDEX => true,
            OCI_MANIFEST | DOCKER_MANIFEST => false,
            _ => return Err(ManifestError::Type(media_type)),
        };
        // A document two readers can take for two things is a known trick.
        if raw.manifests.is_some() && (raw.layers.is_some() || raw.config.is_some()) {
            return Err(ManifestError::Ambiguous);
        }
        let kind = match (is_index, raw.manifests, raw.config) {
            (true, Some(manifests), None) => Kind::Index { manifests },
            (false, None, Some(config)) => {
                Kind::Image { config: Box::new(config), layers: raw.layers.unwrap_or_default() }
            }
            (true, ..) => return Err(ManifestError::Json(missing("manifests"))),
            (false, ..) => return Err(ManifestError::Json(missing("config"))),
        };
        let annotations = raw.annotations.unwrap_or_default();
        let found = Self { media_type, kind, subject: raw.subject, artifact_type: raw.artifact_type, annotations };
        match found.references().count() {
            n if n > REFERENCES_MAX => Err(ManifestError::TooMany(n)),
            _ => Ok(found),
        }
    }

    /// All it is made of; its subject is not.
    pub fn references(&self) -> impl Iterator<Item = &Descriptor> {
        let (first, rest) = match &self.kind {
            Kind::Image { config, layers } => (Some(config.as_ref()), layers),
            Kind::Index { manifests } => (None, manifests),
        };
        first.into_iter().chain(rest)
    }

    /// The artifact type of a referrer: its own field, or its config's media type.
    pub fn effective_artifact_type(&self) -> Option<String> {
        match (&self.artifact_type, &self.kind) {
            (Some(said), _) if !said.is_empty() => Some(said.clone()),
            (_, Kind::Image { config, .. }) => Some(config.media_type.clone()),
            _ => None,
        }
    }
}

fn missing(field: &'static str) -> serde_json::Error {
    serde::de::Error::missing_field(field)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(content_type: Option<&str>, text: &str) -> String {
        let text = text.replace("SUM", &Digest::of(b"x").to_string());
        match Manifest::parse(content_type, text.as_bytes()) {
            Ok(found) => format!("{} with {}", found.media_type, found.references().count()),
            Err(error) => format!("{error}"),
        }
    }

    #[test]
    fn manifests_have_a_media_type() {
        let image = r#"{"schemaVersion":2,"config":{"mediaType":"c","digest":"SUM","size":1},"layers":[{"mediaType":"l","digest":"SUM","size":1}]}"#;
        let index = r#"{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[]}"#;
        assert_eq!(check(Some(DOCKER_MANIFEST), image), format!("{DOCKER_MANIFEST} with 2"));
        assert_eq!(check(None, image), format!("{OCI_MANIFEST} with 2"));
        assert_eq!(
            check(Some("application/vnd.oci.image.index.v1+json; charset=utf-8"), index),
            format!("{OCI_INDEX} with 0")
        );
    }

    #[test]
    fn inconsistent_manifests_are_refused() {
        let cases = [
            (None, "{}", "schema version null"),
            (None, r#"{"schemaVersion":1}"#, "schema version 1"),
            (None, r#"{"schemaVersion":2}"#, "not what its type promises"),
            (None, "[", "not what its type promises"),
            (None, r#"{"schemaVersion":2,"manifests":[],"layers":[]}"#, "both layers and manifests"),
            (Some(OCI_MANIFEST), r#"{"schemaVersion":2,"mediaType":"x"}"#, "calls itself \"x\""),
            (Some("text/plain"), r#"{"schemaVersion":2}"#, "type \"text/plain\""),
            (
                Some(OCI_INDEX),
                r#"{"schemaVersion":2,"config":{"digest":"SUM","size":1}}"#,
                "not what its type promises",
            ),
            (None, r#"{"schemaVersion":2,"config":{"digest":"sha256:..","size":1}}"#, "not what its type promises"),
        ];
        for (content_type, text, expected) in cases {
            let said = check(content_type, text);
            assert!(said.contains(expected), "{text}: {said}");
        }
    }

    #[test]
    fn a_platform_matches_its_own_images() {
        let platform = |text| Platform::parse(text).unwrap();
        assert!(platform("linux/arm").takes(&platform("linux/arm/v7")));
        assert!(!platform("linux/arm/v6").takes(&platform("linux/arm/v7")));
        assert!(!platform("linux/amd64").takes(&platform("windows/amd64")));
        assert_eq!(Platform::parse("linux"), None);
    }
}
