//! `EncryptionConfiguration` of `apiserver.config.k8s.io/v1`: parsing and validation, with the field errors of kube-apiserver.

use std::collections::BTreeSet;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use object::error_list;
use object::field::{FieldError, FieldPath};
use serde::{Deserialize, Serialize};
use thiserror::Error;

const AES_KEY_BYTES: &[usize] = &[16, 24, 32];
const SECRETBOX_KEY_BYTES: &[usize] = &[32];
const KMS_TIMEOUT: Duration = Duration::from_secs(3);

const OVERLAP: &str = "using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed as they \
                       will be masked";

#[derive(Debug, Error)]
pub enum ConfigError {
    #[error("it is not a valid EncryptionConfiguration: {0}")]
    Syntax(String),
    #[error("{0}")]
    Invalid(String),
}

/// The file of `--encryption-provider-config`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EncryptionConfiguration {
    pub api_version: String,
    pub kind: String,
    #[serde(default)]
    pub resources: Vec<ResourceConfiguration>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourceConfiguration {
    #[serde(default)]
    pub resources: Vec<String>,
    #[serde(default)]
    pub providers: Vec<ProviderConfiguration>,
}

/// One provider; exactly one field is set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderConfiguration {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aescbc: Option<KeyList>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aesgcm: Option<KeyList>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secretbox: Option<KeyList>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kms: Option<KmsConfiguration>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<IdentityConfiguration>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdentityConfiguration {}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyList {
    #[serde(default)]
    pub keys: Vec<Key>,
}

#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    #[serde(default)]
    pub name: String,
    /// In base64.
    #[serde(default)]
    pub secret: String,
}

impl std::fmt::Debug for Key {
    /// Omits the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Key({})", self.name)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KmsConfiguration {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub endpoint: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cachesize: Option<i64>,
    /// In Go's notation, such as `3s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
}

impl KmsConfiguration {
    pub fn timeout(&self) -> Duration {
        self.timeout.as_deref().and_then(parse_duration).unwrap_or(KMS_TIMEOUT)
    }
}

impl Key {
    pub fn bytes(&self) -> Vec<u8> {
        STANDARD.decode(&self.secret).unwrap_or_default()
    }
}

/// A resource of a group; `*` stands for all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResourcePattern {
    pub group: String,
    pub resource: String,
}

impl ResourcePattern {
    /// `secrets`, `deployments.apps`, `*.apps`, `*.` for the core group, `*.*`.
    pub fn parse(text: &str) -> Self {
        let (resource, group) = text.split_once('.').unwrap_or((text, ""));
        Self { group: group.to_owned(), resource: resource.to_owned() }
    }

    pub fn is_everything(&self) -> bool {
        self.group == "*" && self.resource == "*"
    }
}

impl std::fmt::Display for ResourcePattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.resource.as_str(), self.group.as_str()) {
            ("*", group) => write!(f, "*.{group}"),
            (resource, "") => f.write_str(resource),
            (resource, group) => write!(f, "{resource}.{group}"),
        }
    }
}

impl EncryptionConfiguration {
    /// Parses YAML or JSON and validates it.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        if text.trim().is_empty() {
            return Err(ConfigError::Syntax("it is empty".to_owned()));
        }
        let config: Self = serde_saphyr::from_str(text).map_err(|error| ConfigError::Syntax(redacted(&error)))?;
        if config.kind != "EncryptionConfiguration" || config.api_version != "apiserver.config.k8s.io/v1" {
            let found = format!("{} of {}", config.kind, config.api_version);
            let expected = "use kind EncryptionConfiguration of apiserver.config.k8s.io/v1";
            return Err(ConfigError::Syntax(format!("{expected}, not {found}")));
        }
        let errors = config.validate();
        if !errors.is_empty() {
            return Err(ConfigError::Invalid(error_list::joined(errors)));
        }
        config.refuse_masked().map(|()| config)
    }

    pub fn to_yaml(&self) -> Result<String, ConfigError> {
        serde_saphyr::to_string(self).map_err(|error| ConfigError::Syntax(error.to_string()))
    }

    fn validate(&self) -> Vec<FieldError> {
        let root = FieldPath::new("resources");
        if self.resources.is_empty() {
            return vec![FieldError::required(root, "at least one resources is required")];
        }
        let mut errors = Vec::new();
        let mut kms_names = BTreeSet::new();
        for (index, entry) in self.resources.iter().enumerate() {
            let resources = root.index(index).child("resources");
            let providers = root.index(index).child("providers");
            if entry.resources.is_empty() {
                errors.push(FieldError::required(resources.clone(), format!("at least one {resources} is required")));
            }
            errors.extend(validate_overlap(&entry.resources, &resources));
            errors.extend(validate_names(&entry.resources, &resources));
            if entry.providers.is_empty() {
                errors.push(FieldError::required(providers.clone(), format!("at least one {providers} is required")));
            }
            for (index, provider) in entry.providers.iter().enumerate() {
                validate_provider(provider, &providers.index(index), &mut kms_names, &mut errors);
            }
        }
        errors
    }

    /// A rule after one that already covers it never applies.
    fn refuse_masked(&self) -> Result<(), ConfigError> {
        let mut seen: BTreeSet<ResourcePattern> = BTreeSet::new();
        for entry in &self.resources {
            for text in &entry.resources {
                let pattern = ResourcePattern::parse(text);
                let whole_group = ResourcePattern { group: pattern.group.clone(), resource: "*".to_owned() };
                let everything = ResourcePattern { group: "*".to_owned(), resource: "*".to_owned() };
                for earlier in [whole_group, everything] {
                    if seen.contains(&earlier) {
                        let text = format!("resource {:?} is masked by earlier rule {:?}", text, earlier.to_string());
                        return Err(ConfigError::Invalid(text));
                    }
                }
                seen.insert(pattern);
            }
        }
        Ok(())
    }
}

/// Keeps the position and the reason of a parse error, without the lines of the file, which contain keys.
fn redacted(error: &serde_saphyr::Error) -> String {
    let text = error.to_string();
    text.lines().next().unwrap_or_default().to_owned()
}

fn list(resources: &[String]) -> serde_json::Value {
    resources.iter().map(|resource| serde_json::Value::from(resource.as_str())).collect()
}

fn validate_overlap(resources: &[String], path: &FieldPath) -> Vec<FieldError> {
    let patterns: Vec<ResourcePattern> = resources.iter().map(|text| ResourcePattern::parse(text)).collect();
    let pairs = || {
        let indexed = patterns.iter().enumerate();
        indexed.flat_map(|(i, one)| {
            patterns.iter().enumerate().filter(move |(j, _)| i != *j).map(move |(_, two)| (one, two))
        })
    };
    let is_duplicate = pairs().any(|(one, two)| one == two);
    let overlaps = |one: &ResourcePattern, two: &ResourcePattern| {
        one != two && (one.is_everything() || (one.group == two.group && (one.resource == "*" || two.resource == "*")))
    };
    let mut errors = Vec::new();
    if is_duplicate {
        let detail = "the same resource cannot be specified multiple times";
        errors.push(FieldError::invalid(path.clone(), list(resources), detail));
    }
    if pairs().any(|(one, two)| overlaps(one, two)) {
        errors.push(FieldError::invalid(path.clone(), list(resources), OVERLAP));
    }
    errors
}

fn validate_names(resources: &[String], path: &FieldPath) -> Vec<FieldError> {
    let problem = |text: &str| {
        let pattern = ResourcePattern::parse(text);
        if text.chars().any(char::is_uppercase) {
            return Some("resource name should not contain capital letters");
        }
        match (text, pattern.group.as_str()) {
            ("*", _) => {
                Some("use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources")
            }
            ("apiserveripinfo" | "serviceipallocations" | "servicenodeportallocations", _) => {
                Some("resources which do not have REST API/s cannot be encrypted")
            }
            (_, "events.k8s.io") => Some(
                "'*.events.k8s.io' objects are stored using the 'events' API group in etcd. Use 'events' instead in the config file",
            ),
            (_, "extensions") => Some("'extensions' group has been removed and cannot be used for encryption"),
            (_, "*") if pattern.resource != "*" => Some("encrypting the same resource across groups is not supported"),
            _ => None,
        }
    };
    let found = resources.iter().enumerate().filter_map(|(index, text)| Some((index, text, problem(text)?)));
    found.map(|(index, text, problem)| FieldError::invalid(path.index(index), text.as_str(), problem)).collect()
}

fn validate_provider(
    provider: &ProviderConfiguration,
    path: &FieldPath,
    kms_names: &mut BTreeSet<String>,
    errors: &mut Vec<FieldError>,
) {
    let set = [
        ("aescbc", provider.aescbc.is_some()),
        ("aesgcm", provider.aesgcm.is_some()),
        ("secretbox", provider.secretbox.is_some()),
        ("kms", provider.kms.is_some()),
        ("identity", provider.identity.is_some()),
    ];
    let names: Vec<String> = set.iter().filter(|(_, is_set)| *is_set).map(|(name, _)| (*name).to_owned()).collect();
    if names.is_empty() {
        let detail =
            "provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, Identity";
        errors.push(FieldError::invalid(path.clone(), serde_json::json!({}), detail));
    }
    if names.len() > 1 {
        let detail = "more than one provider specified in a single element, should split into different list elements";
        errors.push(FieldError::invalid(path.clone(), list(&names), detail));
    }
    // One provider is checked further, in the order kube-apiserver looks at them.
    match provider {
        ProviderConfiguration { kms: Some(kms), .. } => validate_kms(kms, &path.child("kms"), kms_names, errors),
        ProviderConfiguration { aesgcm: Some(keys), .. } => {
            validate_keys(keys, &path.child("aesgcm").child("keys"), AES_KEY_BYTES, errors);
        }
        ProviderConfiguration { aescbc: Some(keys), .. } => {
            validate_keys(keys, &path.child("aescbc").child("keys"), AES_KEY_BYTES, errors);
        }
        ProviderConfiguration { secretbox: Some(keys), .. } => {
            validate_keys(keys, &path.child("secretbox").child("keys"), SECRETBOX_KEY_BYTES, errors);
        }
        _ => {}
    }
}

fn validate_keys(list: &KeyList, path: &FieldPath, lengths: &[usize], errors: &mut Vec<FieldError>) {
    if list.keys.is_empty() {
        errors.push(FieldError::required(path.clone(), "at least one keys is required"));
    }
    for (index, key) in list.keys.iter().enumerate() {
        let path = path.index(index);
        if key.name.is_empty() {
            errors.push(FieldError::required(path.child("name"), "name is a mandatory field for a key"));
        }
        let secret = path.child("secret");
        if key.secret.is_empty() {
            errors.push(FieldError::required(secret, "secret is a mandatory field for a key"));
            continue;
        }
        match STANDARD.decode(&key.secret) {
            Err(_) => errors.push(FieldError::invalid(secret, "REDACTED", "secrets must be base64 encoded")),
            Ok(bytes) if !lengths.contains(&bytes.len()) => {
                let lengths: Vec<String> = lengths.iter().map(ToString::to_string).collect();
                let detail = format!(
                    "secret is not of the expected length, got {}, expected one of [{}]",
                    bytes.len(),
                    lengths.join(" ")
                );
                errors.push(FieldError::invalid(secret, "REDACTED", detail));
            }
            Ok(_) => {}
        }
    }
}

fn validate_kms(kms: &KmsConfiguration, path: &FieldPath, names: &mut BTreeSet<String>, errors: &mut Vec<FieldError>) {
    let name = path.child("name");
    if kms.name.is_empty() {
        errors.push(FieldError::required(name.clone(), "name is a mandatory field for a provider"));
    }
    if kms.name.contains(':') {
        let detail = format!("invalid KMS provider name {}, must not contain ':'", kms.name);
        errors.push(FieldError::invalid(name.clone(), kms.name.as_str(), detail));
    }
    if !names.insert(kms.name.clone()) {
        let detail = format!("duplicate KMS provider name {}, names must be unique", kms.name);
        errors.push(FieldError::invalid(name, kms.name.as_str(), detail));
    }
    if let Some(timeout) = &kms.timeout
        && parse_duration(timeout).is_none_or(|timeout| timeout.is_zero())
    {
        let detail = "timeout should be a positive value";
        errors.push(FieldError::invalid(path.child("timeout"), timeout.as_str(), detail));
    }
    let endpoint = path.child("endpoint");
    if kms.endpoint.is_empty() {
        errors.push(FieldError::invalid(endpoint, "", "endpoint is a mandatory field for a kms"));
    } else if !kms.endpoint.starts_with("unix://") {
        let scheme = kms.endpoint.split_once(':').map_or("", |(scheme, _)| scheme);
        let detail = format!("unsupported scheme {scheme:?} for KMS provider, only unix is supported");
        errors.push(FieldError::invalid(endpoint, kms.endpoint.as_str(), detail));
    }
    if let Some(size) = kms.cachesize {
        errors.push(FieldError::invalid(path.child("cachesize"), size, "cachesize is not supported in v2"));
    }
    // Kubernetes turned v1 off by default in 1.29; it has no health check and one remote call for each write.
    let version = kms.api_version.as_deref().unwrap_or("v1");
    if version != "v2" {
        let detail = "unsupported apiVersion for KMS provider, only v2 is supported";
        errors.push(FieldError::invalid(path.child("apiVersion"), version, detail));
    }
}

/// Parses a duration of Go: numbers with units, such as `1m30s` or `500ms`.
fn parse_duration(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut total = Duration::ZERO;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let units = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let seconds = match &rest[..units] {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        total += Duration::try_from_secs_f64(number * seconds).ok()?;
        rest = &rest[units..];
    }
    Some(total)
}

#[cfg(test)]
mod tests;
