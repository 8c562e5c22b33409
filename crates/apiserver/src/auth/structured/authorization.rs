//! `AuthorizationConfiguration`: authorizers in their order, webhooks with match conditions among them.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use object::names;
use serde::Deserialize;

use super::expression::{ACCESS, condition};
use super::{ConfigError, Problems, decode};
use crate::auth::Authorizer;
use crate::auth::webhook::{AccessWebhook, AccessWebhookSettings, ReviewVersion, WebhookEndpoint};

const CONDITIONS_MAX: usize = 64;
const TIMEOUT_MAX: Duration = Duration::from_secs(30);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AuthorizationFile {
    #[serde(default)]
    authorizers: Vec<AuthorizerEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AuthorizerEntry {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    name: String,
    webhook: Option<WebhookEntry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WebhookEntry {
    #[serde(default = "five_minutes", rename = "authorizedTTL")]
    authorized_ttl: String,
    #[serde(default = "yes")]
    cache_authorized_requests: bool,
    #[serde(default = "half_a_minute", rename = "unauthorizedTTL")]
    unauthorized_ttl: String,
    #[serde(default = "yes")]
    cache_unauthorized_requests: bool,
    #[serde(default)]
    timeout: String,
    #[serde(default)]
    subject_access_review_version: String,
    #[serde(default)]
    match_condition_subject_access_review_version: String,
    #[serde(default)]
    failure_policy: String,
    #[serde(default)]
    connection_info: ConnectionInfo,
    #[serde(default)]
    match_conditions: Vec<MatchConditionEntry>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ConnectionInfo {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    kube_config_file: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MatchConditionEntry {
    #[serde(default)]
    expression: String,
}

fn yes() -> bool {
    true
}

fn five_minutes() -> String {
    "5m".to_owned()
}

fn half_a_minute() -> String {
    "30s".to_owned()
}

/// Reads a configuration and the kubeconfig files that it names.
pub fn read_authorization(text: &str) -> Result<Vec<Authorizer>, ConfigError> {
    let file: AuthorizationFile = decode(text, "AuthorizationConfiguration")?;
    let mut problems = Problems::default();
    let mut authorizers = Vec::new();
    let mut seen_names = BTreeSet::new();
    let mut has_rbac = false;
    for (index, entry) in file.authorizers.iter().enumerate() {
        let path = format!("authorizers[{index}]");
        let name_problems = names::dns1123_subdomain(&entry.name);
        if !seen_names.insert(&entry.name) {
            problems.add(&format!("{path}.name"), format!("{:?} occurs twice", entry.name));
        } else if !name_problems.is_empty() {
            problems.add(&format!("{path}.name"), format!("{:?}: {}", entry.name, name_problems.join(", ")));
        }
        match (entry.kind.as_str(), &entry.webhook) {
            ("Webhook", Some(webhook)) => {
                let webhook = read_webhook(webhook, &format!("{path}.webhook"), &mut problems);
                authorizers.extend(webhook.map(|webhook| Authorizer::Webhook(Arc::new(webhook))));
            }
            ("Webhook", None) => problems.add(&format!("{path}.webhook"), "is required with type Webhook"),
            (_, Some(_)) => problems.add(&format!("{path}.webhook"), "can only be set with type Webhook"),
            ("RBAC", None) if has_rbac => problems.add(&format!("{path}.type"), "\"RBAC\" occurs twice"),
            ("RBAC", None) => {
                has_rbac = true;
                authorizers.push(Authorizer::Rbac);
            }
            // Files of kube-apiserver have it.
            ("Node", None) => tracing::warn!("the authorizer Node has no effect: no kubelets connect to this server"),
            (other, None) => problems.add(&format!("{path}.type"), format!("{other:?} must be RBAC or Webhook")),
        }
    }
    if !has_rbac {
        problems.add("authorizers", "RBAC is required: components of the control plane get their rights from roles");
    }
    problems.into_result(authorizers)
}

fn read_webhook(entry: &WebhookEntry, path: &str, problems: &mut Problems) -> Option<AccessWebhook> {
    let timeout = read_time(&entry.timeout, &format!("{path}.timeout"), problems);
    if timeout > TIMEOUT_MAX {
        problems.add(&format!("{path}.timeout"), "must be at most 30s");
    }
    let allowed_for = read_time(&entry.authorized_ttl, &format!("{path}.authorizedTTL"), problems);
    let refused_for = read_time(&entry.unauthorized_ttl, &format!("{path}.unauthorizedTTL"), problems);
    let version = match entry.subject_access_review_version.as_str() {
        "v1beta1" => ReviewVersion::V1beta1,
        "v1" => ReviewVersion::V1,
        other => {
            problems.add(&format!("{path}.subjectAccessReviewVersion"), format!("{other:?} must be v1 or v1beta1"));
            ReviewVersion::V1
        }
    };
    match entry.match_condition_subject_access_review_version.as_str() {
        "v1" => {}
        "" if entry.match_conditions.is_empty() => {}
        other => {
            let at = format!("{path}.matchConditionSubjectAccessReviewVersion");
            problems.add(&at, format!("{other:?} must be v1"));
        }
    }
    let denies_on_failure = match entry.failure_policy.as_str() {
        "Deny" => true,
        "NoOpinion" => false,
        other => {
            problems.add(&format!("{path}.failurePolicy"), format!("{other:?} must be NoOpinion or Deny"));
            true
        }
    };
    let settings = AccessWebhookSettings {
        allowed_for: if entry.cache_authorized_requests { allowed_for } else { Duration::ZERO },
        refused_for: if entry.cache_unauthorized_requests { refused_for } else { Duration::ZERO },
        timeout,
        version,
        denies_on_failure,
        conditions: read_conditions(&entry.match_conditions, &format!("{path}.matchConditions"), problems),
    };
    let endpoint = read_endpoint(&entry.connection_info, &format!("{path}.connectionInfo"), problems)?;
    Some(AccessWebhook::new(endpoint, settings))
}

fn read_time(text: &str, path: &str, problems: &mut Problems) -> Duration {
    let read = object::duration::parse(text).ok().and_then(|time| Duration::try_from(time).ok());
    read.filter(|time| !time.is_zero()).unwrap_or_else(|| {
        problems.add(path, format!("{text:?} must be a duration above 0s, such as 3s"));
        Duration::ZERO
    })
}

fn read_conditions(entries: &[MatchConditionEntry], path: &str, problems: &mut Problems) -> Vec<cel::Program> {
    if entries.len() > CONDITIONS_MAX {
        problems.add(path, format!("must have at most {CONDITIONS_MAX} items, not {}", entries.len()));
        return Vec::new();
    }
    let mut conditions = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let path = format!("{path}[{index}].expression");
        if entries[..index].iter().any(|earlier| earlier.expression == entry.expression) {
            problems.add(&path, "occurs twice");
        }
        match condition(&ACCESS, &entry.expression) {
            _ if entry.expression.trim().is_empty() => problems.add(&path, "is required"),
            Ok(program) => conditions.push(program),
            Err(error) => problems.add(&path, error),
        }
    }
    conditions
}

fn read_endpoint(info: &ConnectionInfo, path: &str, problems: &mut Problems) -> Option<WebhookEndpoint> {
    let file = Path::new(&info.kube_config_file);
    let at = format!("{path}.kubeConfigFile");
    match info.kind.as_str() {
        "KubeConfigFile" if !file.is_absolute() => problems.add(&at, "must be an absolute path"),
        "KubeConfigFile" => {
            let text = std::fs::read_to_string(file).map_err(|error| error.to_string());
            let directory = file.parent().unwrap_or(Path::new("/"));
            let read = |text: String| WebhookEndpoint::of_kubeconfig(&text, directory).map_err(|e| e.to_string());
            match text.and_then(read) {
                Ok(endpoint) => return Some(endpoint),
                Err(problem) => problems.add(&at, format!("{}: {problem}", file.display())),
            }
        }
        "InClusterConfig" => {
            problems.add(&format!("{path}.type"), "InClusterConfig is not supported: use KubeConfigFile")
        }
        other => problems.add(&format!("{path}.type"), format!("{other:?} must be KubeConfigFile")),
    }
    None
}
