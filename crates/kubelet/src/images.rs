//! Pulls images, with the credentials of pull secrets.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cluster_client::{ClusterClient, ResourceRef};
use object::Object;
use object::builtin;
use serde_json::Value;

use crate::cri::image_messages::{AuthConfig, Image};
use crate::cri::{Runtime, RuntimeError};
use crate::pod::text;
use crate::references::entries;
use crate::status::WaitingReason;

/// The handling of an image before its container starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Use,
    Pull,
    Refuse,
}

/// Decides by the pull policy and whether the image exists.
pub(crate) fn presence(policy: &str, is_here: bool) -> Presence {
    match (policy, is_here) {
        ("Always", _) => Presence::Pull,
        (_, true) => Presence::Use,
        ("Never", false) => Presence::Refuse,
        (_, false) => Presence::Pull,
    }
}

pub(crate) fn refused(image: &str) -> WaitingReason {
    let message = format!("Container image {image:?} is not present with pull policy of Never");
    WaitingReason { reason: "ErrImageNeverPull".to_owned(), message }
}

/// Tries each matching credential, then an anonymous pull.
pub(crate) async fn pull(runtime: &Runtime, image: &str, keys: &[AuthConfig]) -> Result<Image, WaitingReason> {
    let failed = |error: &RuntimeError| {
        let message = error.to_string();
        // The CRI has no code for it: containerd answers with the text of its parser.
        let is_name = message.contains("invalid reference format") || message.contains("repository name must be");
        let reason = if is_name { "InvalidImageName" } else { "ErrImagePull" };
        WaitingReason { reason: reason.to_owned(), message }
    };
    let attempts = keys.iter().cloned().map(Some).chain(std::iter::once(None));
    let mut first_failure = None;
    for auth in attempts {
        match runtime.pull(image, auth).await {
            Ok(_) => match runtime.image(image).await {
                Ok(Some(image)) => return Ok(image),
                Ok(None) => first_failure = first_failure.or(Some(gone(image))),
                Err(error) => first_failure = first_failure.or(Some(failed(&error))),
            },
            Err(error) => first_failure = first_failure.or(Some(failed(&error))),
        }
    }
    Err(first_failure.unwrap_or_else(|| gone(image)))
}

fn gone(image: &str) -> WaitingReason {
    WaitingReason {
        reason: "ErrImagePull".to_owned(),
        message: format!("image {image:?} disappeared after it was pulled"),
    }
}

/// Returns the credentials of the pod's pull secrets for the image's registry.
pub(crate) async fn gather_keys(client: &ClusterClient, pod: &Object, image: &str) -> Vec<AuthConfig> {
    let mut keys = Vec::new();
    for reference in pod.items(&["spec", "imagePullSecrets"]) {
        let target = ResourceRef::namespaced(&builtin::secrets(), pod.namespace(), text(reference, "name"));
        // A missing secret does not prevent an attempt without it.
        if let Ok(Some(secret)) = client.find(target).await {
            let data: BTreeMap<String, Vec<u8>> = entries(&secret, "data").collect();
            keys.extend(keys_in(&data, image));
        }
    }
    keys
}

/// Parses both formats of Docker credentials.
fn keys_in(data: &BTreeMap<String, Vec<u8>>, image: &str) -> Vec<AuthConfig> {
    let parse = |name: &str| data.get(name).and_then(|bytes| serde_json::from_slice::<Value>(bytes).ok());
    let new = parse(".dockerconfigjson").and_then(|config| config.get("auths").cloned());
    let Some(Value::Object(servers)) = new.or_else(|| parse(".dockercfg")) else { return Vec::new() };
    let mut matching: Vec<(&String, &Value)> = servers.iter().filter(|(server, _)| is_for(server, image)).collect();
    // Most specific first.
    matching.sort_by_key(|(server, _)| std::cmp::Reverse(server.len()));
    matching.into_iter().map(|(server, entry)| key_of(server, entry)).collect()
}

fn key_of(server: &str, entry: &Value) -> AuthConfig {
    let decoded = STANDARD.decode(text(entry, "auth")).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let pair = decoded.as_deref().and_then(|pair| pair.split_once(':'));
    let given = |field: &str, decoded: Option<&str>| match text(entry, field) {
        "" => decoded.unwrap_or_default().to_owned(),
        text => text.to_owned(),
    };
    AuthConfig {
        username: given("username", pair.map(|(user, _)| user)),
        password: given("password", pair.map(|(_, password)| password)),
        auth: String::new(),
        server_address: server.to_owned(),
        identity_token: text(entry, "identitytoken").to_owned(),
        registry_token: text(entry, "registrytoken").to_owned(),
    }
}

/// A server (with or without scheme and path) matches images whose name begins with it; `*` matches one label of a
/// host name.
fn is_for(server: &str, image: &str) -> bool {
    let server = server.split_once("://").map_or(server, |(_, rest)| rest).trim_end_matches('/');
    let server = server.strip_suffix("/v1").or_else(|| server.strip_suffix("/v2")).unwrap_or(server);
    let server = if server == "index.docker.io" { "docker.io" } else { server };
    let (host, path) = server.split_once('/').unwrap_or((server, ""));
    let full = full_name(image);
    let (image_host, image_path) = full.split_once('/').unwrap_or((full.as_str(), ""));
    let (parts, image_parts): (Vec<&str>, Vec<&str>) = (host.split('.').collect(), image_host.split('.').collect());
    let same_host =
        parts.len() == image_parts.len() && parts.iter().zip(&image_parts).all(|(a, b)| *a == "*" || a == b);
    let under = image_path
        .strip_prefix(path)
        .is_some_and(|rest| path.is_empty() || rest.is_empty() || rest.starts_with(['/', ':', '@']));
    same_host && under
}

/// Adds the default registry: the first part is a registry if it has a dot, a port, or is localhost.
fn full_name(image: &str) -> String {
    match image.split_once('/') {
        Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => image.to_owned(),
        _ => format!("docker.io/{image}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_pull_policy_is_applied() {
        assert_eq!(presence("Always", true), Presence::Pull);
        assert_eq!(presence("IfNotPresent", true), Presence::Use);
        assert_eq!(presence("IfNotPresent", false), Presence::Pull);
        assert_eq!(presence("Never", true), Presence::Use);
        assert_eq!(presence("Never", false), Presence::Refuse);
    }

    #[track_caller]
    fn check(server: &str, image: &str, expected: bool) {
        assert_eq!(is_for(server, image), expected, "{server} for {image}");
    }

    #[test]
    fn credentials_match_their_registry() {
        check("https://index.docker.io/v1/", "busybox", true);
        check("localhost:32000", "localhost:32000/web:1", true);
        check("localhost:32000", "localhost:32001/web:1", false);
        check("reg.example.com/team", "reg.example.com/team/web", true);
        check("reg.example.com/team", "reg.example.com/teams/web", false);
        check("*.example.com", "reg.example.com/web", true);
        check("*.example.com", "example.com/web", false);
    }

    #[test]
    fn both_forms_of_docker_credentials_are_read() {
        let auth = json!({"auth": STANDARD.encode("me:pass:word")});
        let new = json!({"auths": {"reg.example.com": auth, "other.example.com": auth}}).to_string().into_bytes();
        let old = json!({"reg.example.com": {"username": "me", "password": "pass:word"}}).to_string().into_bytes();
        for (name, bytes) in [(".dockerconfigjson", new), (".dockercfg", old)] {
            let keys = keys_in(&BTreeMap::from([(name.to_owned(), bytes)]), "reg.example.com/web");
            let keys: Vec<(&str, &str)> = keys.iter().map(|k| (k.username.as_str(), k.password.as_str())).collect();
            assert_eq!(keys, [("me", "pass:word")], "{name}");
        }
    }
}
