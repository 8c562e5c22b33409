//! Bootstrap tokens: secrets in kube-system that let a cluster register itself.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use api::names::CLUSTER_NAMESPACE;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cluster_client::{ClusterClient, DeleteOptions, ListOptions, ResourceRef, WriteOptions};
use data_encoding::HEXLOWER;
use jiff::Timestamp;
use object::{Object, Status};
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::{Map, Value};

use crate::credentials::SECRETS;
use crate::invitation::{Invitation, cluster_of as cluster_of_groups};
use crate::{MembershipError, Progress};

pub const USAGES: [&str; 2] = ["signing", "authentication"];
pub const DEFAULT_GROUP: &str = "system:bootstrappers:karmada:default-cluster-token";
pub const DEFAULT_TTL: Duration = Duration::from_secs(24 * 3600);

const NAMESPACE: &str = "kube-system";
const TYPE: &str = "bootstrap.kubernetes.io/token";
const NAME_PREFIX: &str = "bootstrap-token-";
const USAGE_PREFIX: &str = "usage-bootstrap-";
const GROUP_PREFIX: &str = "system:bootstrappers:";
const LETTERS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
const ID_LENGTH: usize = 6;
const SECRET_LENGTH: usize = 16;

/// A bootstrap token: a public ID and a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct BootstrapToken {
    pub id: String,
    pub secret: String,
}

impl BootstrapToken {
    pub fn parse(text: &str) -> Result<Self, MembershipError> {
        match text.split_once('.') {
            Some((id, secret)) if is_word(id, ID_LENGTH) && is_word(secret, SECRET_LENGTH) => {
                Ok(Self { id: id.to_owned(), secret: secret.to_owned() })
            }
            _ => Err(MembershipError::InvalidToken),
        }
    }

    pub fn generate() -> Result<Self, MembershipError> {
        Ok(Self { id: random(ID_LENGTH)?, secret: random(SECRET_LENGTH)? })
    }
}

impl fmt::Display for BootstrapToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.id, self.secret)
    }
}

impl fmt::Debug for BootstrapToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BootstrapToken({})", self.id)
    }
}

/// Returns the ID of a token given as `id` or `id.secret`.
pub fn parse_id(text: &str) -> Option<String> {
    match text.split_once('.') {
        None if is_word(text, ID_LENGTH) => Some(text.to_owned()),
        Some(_) => BootstrapToken::parse(text).ok().map(|token| token.id),
        None => None,
    }
}

fn is_word(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| LETTERS.contains(&byte))
}

#[derive(Clone, Debug)]
pub struct TokenOptions {
    /// Zero means no expiry.
    pub ttl: Duration,
    pub usages: Vec<String>,
    /// Groups the token authenticates as. Ignored when `cluster` is set.
    pub groups: Vec<String>,
    /// The only cluster the token can register.
    pub cluster: Option<String>,
    /// Namespace of that cluster's secrets in the control plane.
    pub cluster_namespace: String,
    pub description: String,
}

impl Default for TokenOptions {
    fn default() -> Self {
        Self {
            ttl: DEFAULT_TTL,
            usages: USAGES.map(str::to_owned).to_vec(),
            groups: vec![DEFAULT_GROUP.to_owned()],
            cluster: None,
            cluster_namespace: CLUSTER_NAMESPACE.to_owned(),
            description: String::new(),
        }
    }
}

impl TokenOptions {
    pub fn check(&self) -> Result<(), MembershipError> {
        if let Some(usage) = self.usages.iter().find(|usage| !USAGES.contains(&usage.as_str())) {
            return Err(MembershipError::InvalidTokenOptions(format!(
                "invalid bootstrap token usage {usage:?}; valid usages are {}",
                USAGES.join(", ")
            )));
        }
        let is_valid = |group: &String| {
            let rest = group.strip_prefix(GROUP_PREFIX).unwrap_or_default();
            let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == ':' || c == '-';
            let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
            rest.len() <= 255 && rest.chars().all(inner) && edge(rest.chars().next()) && edge(rest.chars().next_back())
        };
        match self.groups.iter().find(|group| !is_valid(group)) {
            Some(group) => Err(MembershipError::InvalidTokenOptions(format!(
                "bootstrap group {group:?} is invalid; it must start with {GROUP_PREFIX}"
            ))),
            None => Ok(()),
        }
    }

    fn invitation(&self) -> Result<Option<Invitation>, MembershipError> {
        self.cluster.as_ref().map(|cluster| Invitation::new(cluster, &self.cluster_namespace)).transpose()
    }

    fn secret(&self, token: &BootstrapToken, now: Timestamp) -> Result<Object, MembershipError> {
        let mut data = Map::new();
        let mut put = |key: &str, value: &str| data.insert(key.to_owned(), STANDARD.encode(value).into());
        put("token-id", &token.id);
        put("token-secret", &token.secret);
        if !self.description.is_empty() {
            put("description", &self.description);
        }
        if !self.ttl.is_zero() {
            let too_long = |_| MembershipError::InvalidTokenOptions("--ttl is too long".to_owned());
            let expires = now.checked_add(self.ttl).map_err(too_long)?;
            put("expiration", &object::time::format_seconds(expires));
        }
        let groups = match self.invitation()? {
            Some(invitation) => vec![invitation.group()],
            None => self.groups.clone(),
        };
        for usage in &self.usages {
            put(&format!("{USAGE_PREFIX}{usage}"), "true");
        }
        if !groups.is_empty() {
            put("auth-extra-groups", &groups.join(","));
        }
        let mut object = SECRETS.object(NAMESPACE, &format!("{NAME_PREFIX}{}", token.id));
        object.set(&["type"], TYPE);
        object.set(&["data"], Value::Object(data));
        Ok(object)
    }
}

/// Creates a new token.
pub async fn create_token(
    control_plane: &ClusterClient,
    options: &TokenOptions,
    now: Timestamp,
) -> Result<BootstrapToken, MembershipError> {
    let token = BootstrapToken::generate()?;
    store_token(control_plane, &token, options, now).await?;
    Ok(token)
}

/// Stores a generated token in the control plane. A token for one cluster also grants the agent's permissions.
pub async fn store_token(
    control_plane: &ClusterClient,
    token: &BootstrapToken,
    options: &TokenOptions,
    now: Timestamp,
) -> Result<(), MembershipError> {
    options.check()?;
    let secret = options.secret(token, now)?;
    if let Some(invitation) = options.invitation()? {
        invitation.grant(control_plane).await?;
    }
    let target = ResourceRef::within(&SECRETS.gvr(), NAMESPACE);
    match control_plane.create(target, secret, WriteOptions::default()).await {
        Ok(_) => Ok(()),
        Err(status) => Err(MembershipError::CreateToken { name: format!("{NAME_PREFIX}{}", token.id), status }),
    }
}

/// A token as it is stored in the control plane.
#[derive(Debug)]
pub struct StoredToken {
    pub token: BootstrapToken,
    pub expires: Option<Timestamp>,
    pub usages: Vec<String>,
    pub description: String,
    pub groups: String,
    /// The only cluster the token can register.
    pub cluster: Option<String>,
}

/// Lists the tokens. A secret that is not a valid token is reported as a warning.
pub async fn list_tokens(
    control_plane: &ClusterClient,
    progress: &dyn Progress,
) -> Result<Vec<StoredToken>, MembershipError> {
    let secrets = list_secrets(control_plane).await.map_err(MembershipError::ListTokens)?;
    let mut tokens = Vec::new();
    for secret in secrets {
        match StoredToken::read(&secret) {
            Ok(token) => tokens.push(token),
            Err(problem) => progress.warn(&problem),
        }
    }
    Ok(tokens)
}

async fn list_secrets(client: &ClusterClient) -> Result<Vec<Arc<Object>>, Status> {
    let options = ListOptions { field_selector: Some(format!("type={TYPE}")), ..ListOptions::default() };
    Ok(client.list_all(ResourceRef::within(&SECRETS.gvr(), NAMESPACE), options).await?.items)
}

fn read(secret: &Object, key: &str) -> String {
    let bytes = STANDARD.decode(secret.str_at(&["data", key])).unwrap_or_default();
    String::from_utf8(bytes).unwrap_or_default()
}

fn cluster_of(secret: &Object) -> Option<String> {
    cluster_of_groups(read(secret, "auth-extra-groups").split(',')).map(str::to_owned)
}

impl StoredToken {
    fn read(secret: &Object) -> Result<Self, String> {
        let read = |key: &str| read(secret, key);
        let (id, key) = (read("token-id"), read("token-secret"));
        if id.is_empty() || key.is_empty() {
            return Err(format!("bootstrap Token Secret has no token-id or token-secret data: {}", secret.name()));
        }
        if secret.name() != format!("{NAME_PREFIX}{id}") {
            return Err(format!(
                "bootstrap token name is not of the form '{NAME_PREFIX}(token-id)'. Actual: {:?}. Expected: {:?}",
                secret.name(),
                format!("{NAME_PREFIX}{id}")
            ));
        }
        let expiration = read("expiration");
        let expires = object::time::parse(&expiration);
        if expires.is_none() && !expiration.is_empty() {
            return Err(format!("can't parse expiration time of bootstrap token {:?}", secret.name()));
        }
        let data = secret.get(&["data"]).and_then(Value::as_object);
        let usages = data.into_iter().flat_map(Map::keys).filter_map(|key| key.strip_prefix(USAGE_PREFIX));
        let usages = usages.filter(|usage| read(&format!("{USAGE_PREFIX}{usage}")) == "true");
        let mut usages: Vec<String> = usages.map(str::to_owned).collect();
        usages.sort_unstable();
        Ok(Self {
            token: BootstrapToken { id, secret: key },
            expires,
            usages,
            description: read("description"),
            groups: read("auth-extra-groups"),
            cluster: cluster_of(secret),
        })
    }
}

/// Deletes a token by its ID. The last token of a cluster takes its permissions along.
pub async fn delete_token(
    control_plane: &ClusterClient,
    id: &str,
    progress: &dyn Progress,
) -> Result<(), MembershipError> {
    let name = format!("{NAME_PREFIX}{id}");
    let target = ResourceRef::namespaced(&SECRETS.gvr(), NAMESPACE, &name);
    let cluster = control_plane.find(target.clone()).await.ok().flatten().and_then(|secret| cluster_of(&secret));
    if let Err(status) = control_plane.delete(target, DeleteOptions::default()).await {
        return Err(MembershipError::DeleteToken { name, status });
    }
    if let Some(cluster) = cluster {
        revoke_invitation(control_plane, &cluster, progress).await;
    }
    Ok(())
}

/// Revokes the permissions of a cluster's tokens when it has none left.
async fn revoke_invitation(client: &ClusterClient, cluster: &str, progress: &dyn Progress) {
    let is_of_cluster = |secret: &Arc<Object>| cluster_of(secret).as_deref() == Some(cluster);
    match (list_secrets(client).await, Invitation::new(cluster, CLUSTER_NAMESPACE)) {
        (Ok(secrets), Ok(invitation)) if !secrets.iter().any(is_of_cluster) => {
            invitation.revoke(client, progress).await;
        }
        _ => {}
    }
}

/// Returns random lower-case letters and digits.
pub fn random(length: usize) -> Result<String, MembershipError> {
    let random = SystemRandom::new();
    let mut text = String::with_capacity(length);
    let mut byte = [0u8];
    while text.len() < length {
        random.fill(&mut byte).map_err(|_| MembershipError::NoRandomness)?;
        // Larger values would make some letters more likely than others.
        if usize::from(byte[0]) < LETTERS.len() * 7 {
            text.push(char::from(LETTERS[usize::from(byte[0]) % LETTERS.len()]));
        }
    }
    Ok(text)
}

/// Returns the SHA-256 of the public key of every certificate in a PEM bundle.
pub fn key_pins(pem: &[u8]) -> Result<Vec<String>, MembershipError> {
    let mut pins: Vec<String> = Vec::new();
    for block in x509_parser::pem::Pem::iter_from_buffer(pem) {
        let block = block.map_err(|_| MembershipError::ParseAuthority)?;
        let certificate = block.parse_x509().map_err(|_| MembershipError::ParseAuthority)?;
        let digest = ring::digest::digest(&ring::digest::SHA256, certificate.public_key().raw);
        let hex = HEXLOWER.encode(digest.as_ref());
        pins.push(format!("sha256:{hex}"));
    }
    match pins.is_empty() {
        true => Err(MembershipError::NoAuthority),
        false => Ok(pins),
    }
}

#[cfg(test)]
mod tests;
