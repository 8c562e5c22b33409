//! Configuration files of kube-apiserver for authentication and authorization (`apiserver.config.k8s.io`).

mod authentication;
mod authorization;
mod claims;
mod expression;

use serde::de::DeserializeOwned;
use thiserror::Error;

pub use authentication::{AuthenticationConfig, read_authentication};
pub use authorization::read_authorization;
pub use claims::{ClaimRules, ClaimsRefused};
pub(super) use expression::conditions_hold;

/// Files above this are not read.
pub const CONFIG_BYTES_MAX: usize = 1024 * 1024;

const GROUP: &str = "apiserver.config.k8s.io";
const VERSIONS: [&str; 3] = ["v1", "v1beta1", "v1alpha1"];

#[derive(Debug, Error, PartialEq, Eq)]
pub enum ConfigError {
    #[error("the file has more than {CONFIG_BYTES_MAX} bytes")]
    TooLarge,
    #[error("{0}")]
    NotYaml(String),
    #[error("apiVersion and kind must be {GROUP}/v1 (or v1beta1, v1alpha1) and {kind}, not {found}")]
    OtherKind { kind: &'static str, found: String },
    /// One problem per line.
    #[error("{}", .0.join("\n"))]
    Invalid(Vec<String>),
}

/// Decodes a file of this kind; unknown fields are errors.
fn decode<T: DeserializeOwned>(text: &str, kind: &'static str) -> Result<T, ConfigError> {
    if text.len() > CONFIG_BYTES_MAX {
        return Err(ConfigError::TooLarge);
    }
    let not_yaml = |error: String| ConfigError::NotYaml(error);
    let mut document: serde_json::Value =
        serde_saphyr::from_str(text).map_err(|error| not_yaml(format!("the file is not YAML: {error}")))?;
    let taken = document.as_object_mut().map(|map| (map.remove("apiVersion"), map.remove("kind")));
    let read = |value: Option<serde_json::Value>| value.and_then(|value| value.as_str().map(str::to_owned));
    let (version, found) = taken.map_or((None, None), |(version, found)| (read(version), read(found)));
    let (version, found) = (version.unwrap_or_default(), found.unwrap_or_default());
    let is_known =
        version.split_once('/').is_some_and(|(group, version)| group == GROUP && VERSIONS.contains(&version));
    if !is_known || found != kind {
        return Err(ConfigError::OtherKind { kind, found: format!("{version:?} and {found:?}") });
    }
    serde_json::from_value(document).map_err(|error| not_yaml(error.to_string()))
}

/// Problems with the paths of their fields.
#[derive(Default)]
struct Problems(Vec<String>);

impl Problems {
    fn add(&mut self, path: &str, problem: impl std::fmt::Display) {
        self.0.push(format!("{path}: {problem}"));
    }

    fn into_result<T>(self, value: T) -> Result<T, ConfigError> {
        if self.0.is_empty() { Ok(value) } else { Err(ConfigError::Invalid(self.0)) }
    }
}
