//! `token`: bootstrap tokens, with which a cluster may register itself.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use api::names::CLUSTER_NAMESPACE;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, Subcommand};
use cluster_client::{ClusterClient, DeleteOptions, ListOptions, ResourceRef, WriteOptions};
use object::{Object, Status};
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::{Map, Value};

use crate::console::Console;
use crate::durations;
use crate::join::SECRETS;
use crate::plane::{Plane, PlaneArgs};
use crate::register::{Invitation, cluster_of_groups};
use crate::table::{Column, Look, Row, Table};

const NAMESPACE: &str = "kube-system";
const TYPE: &str = "bootstrap.kubernetes.io/token";
const NAME_PREFIX: &str = "bootstrap-token-";
const USAGE_PREFIX: &str = "usage-bootstrap-";
const USAGES: [&str; 2] = ["signing", "authentication"];
const GROUP_PREFIX: &str = "system:bootstrappers:";
const DEFAULT_GROUP: &str = "system:bootstrappers:karmada:default-cluster-token";
const LETTERS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
const ID_LENGTH: usize = 6;
const SECRET_LENGTH: usize = 16;

/// Manage bootstrap tokens for joining member clusters to Karmada.
///
/// A token lets a cluster that registers itself trust the control plane and be trusted by it. It is a secret in
/// kube-system; its first part is its name, the second must stay secret.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  # Create a token for one cluster and print the command that registers it
  flotilla token create --cluster robbinsdale --print-register-command

  # Create one that registers any cluster, and may become anything on the control plane on the way
  flotilla token create --print-register-command

  # List tokens, delete one
  flotilla token list
  flotilla token delete abcdef")]
pub struct TokenArgs {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Subcommand, Debug)]
enum TokenCommand {
    Create(CreateArgs),
    List(ListArgs),
    Delete(DeleteArgs),
}

/// Create bootstrap tokens on the server.
#[derive(Args, Debug)]
struct CreateArgs {
    #[command(flatten)]
    plane: PlaneArgs,
    /// How long the token is good for; 0 means for ever
    #[arg(long, default_value = "24h", value_parser = durations::parse, value_name = "DURATION")]
    ttl: Duration,
    /// What the token may be used for
    #[arg(long, value_delimiter = ',', default_values = USAGES, value_name = "USAGE")]
    usages: Vec<String>,
    /// Groups the token authenticates as; they start with system:bootstrappers:
    #[arg(long, value_delimiter = ',', default_value = DEFAULT_GROUP, value_name = "GROUP")]
    groups: Vec<String>,
    /// The only cluster the token can register. Its agent is given its rights now; `karmadactl register`, which would
    /// give them itself, cannot use such a token
    #[arg(long, value_name = "NAME", conflicts_with = "groups")]
    cluster: Option<String>,
    /// Namespace in the control plane where that cluster's secrets are stored
    #[arg(long, default_value = CLUSTER_NAMESPACE, value_name = "NAMESPACE", requires = "cluster")]
    cluster_namespace: String,
    /// What the token is for, for people
    #[arg(long, default_value = "", hide_default_value = true, value_name = "TEXT")]
    description: String,
    /// Print the whole register command instead of the token
    #[arg(long)]
    print_register_command: bool,
}

/// List bootstrap tokens on the server.
#[derive(Args, Debug)]
struct ListArgs {
    #[command(flatten)]
    plane: PlaneArgs,
}

/// Delete bootstrap tokens on the server.
#[derive(Args, Debug)]
struct DeleteArgs {
    /// Tokens or their first parts
    #[arg(value_name = "TOKEN")]
    tokens: Vec<String>,
    #[command(flatten)]
    plane: PlaneArgs,
}

pub async fn run(console: &Console, args: TokenArgs) -> anyhow::Result<()> {
    match args.command {
        TokenCommand::Create(args) => {
            args.check()?;
            let plane = Plane::open(&args.plane)?;
            create(console, &plane, &args, jiff::Timestamp::now()).await.map_err(|error| plane.explain(error))
        }
        TokenCommand::List(args) => {
            let plane = Plane::open(&args.plane)?;
            list(console, &plane.client, jiff::Timestamp::now()).await.map_err(|error| plane.explain(error))
        }
        TokenCommand::Delete(args) => {
            let ids = args.ids()?;
            let plane = Plane::open(&args.plane)?;
            delete(console, &plane.client, &ids).await.map_err(|error| plane.explain(error))
        }
    }
}

impl CreateArgs {
    fn check(&self) -> anyhow::Result<()> {
        if let Some(usage) = self.usages.iter().find(|usage| !USAGES.contains(&usage.as_str())) {
            bail!("invalid bootstrap token usage {usage:?}; valid usages are {}", USAGES.join(", "));
        }
        let is_valid = |group: &String| {
            let rest = group.strip_prefix(GROUP_PREFIX).unwrap_or_default();
            let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == ':' || c == '-';
            let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
            rest.len() <= 255 && rest.chars().all(inner) && edge(rest.chars().next()) && edge(rest.chars().next_back())
        };
        if let Some(group) = self.groups.iter().find(|group| !is_valid(group)) {
            bail!("bootstrap group {group:?} is invalid; it must start with {GROUP_PREFIX}");
        }
        Ok(())
    }

    fn invitation(&self) -> anyhow::Result<Option<Invitation>> {
        self.cluster.as_ref().map(|cluster| Invitation::new(cluster, &self.cluster_namespace)).transpose()
    }

    fn secret(&self, id: &str, secret: &str, now: jiff::Timestamp) -> anyhow::Result<Object> {
        let mut data = Map::new();
        let mut put = |key: &str, value: &str| data.insert(key.to_owned(), STANDARD.encode(value).into());
        put("token-id", id);
        put("token-secret", secret);
        if !self.description.is_empty() {
            put("description", &self.description);
        }
        if !self.ttl.is_zero() {
            let expires = now.checked_add(self.ttl).context("--ttl is too long")?;
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
        let mut object = SECRETS.object(NAMESPACE, &format!("{NAME_PREFIX}{id}"));
        object.set(&["type"], TYPE);
        object.set(&["data"], Value::Object(data));
        Ok(object)
    }
}

async fn create(console: &Console, plane: &Plane, args: &CreateArgs, now: jiff::Timestamp) -> anyhow::Result<()> {
    let (id, secret) = (random(ID_LENGTH)?, random(SECRET_LENGTH)?);
    // What cannot be printed must not be created.
    let command = match args.print_register_command {
        true => Some(register_command(console, plane, &format!("{id}.{secret}"), args.cluster.as_deref())?),
        false => None,
    };
    if let Some(invitation) = args.invitation()? {
        invitation.give(&plane.client).await?;
    }
    let target = ResourceRef::within(&SECRETS.gvr(), NAMESPACE);
    let created = plane.client.create(target, args.secret(&id, &secret, now)?, WriteOptions::default()).await;
    created.with_context(|| format!("failed to create bootstrap token with name {NAME_PREFIX}{id}"))?;
    console.line(command.unwrap_or_else(|| format!("{id}.{secret}")))?;
    Ok(())
}

pub fn random(length: usize) -> anyhow::Result<String> {
    let random = SystemRandom::new();
    let mut text = String::with_capacity(length);
    let mut byte = [0u8];
    while text.len() < length {
        random.fill(&mut byte).map_err(|_| anyhow!("couldn't generate random token"))?;
        // The rest of a byte's range would make some letters likelier than others.
        if usize::from(byte[0]) < LETTERS.len() * 7 {
            text.push(char::from(LETTERS[usize::from(byte[0]) % LETTERS.len()]));
        }
    }
    Ok(text)
}

fn register_command(console: &Console, plane: &Plane, token: &str, cluster: Option<&str>) -> anyhow::Result<String> {
    let authority = plane.authority()?.context("no CA certificates found in kubeconfig")?;
    let server = plane.server().unwrap_or_default().replace("https://", "");
    let pins = key_pins(&authority)?.join(",");
    let cluster = cluster.map(|cluster| format!(" --cluster-name {cluster}")).unwrap_or_default();
    Ok(format!("{} register {server} --token {token} --discovery-token-ca-cert-hash {pins}{cluster}", console.program))
}

/// SHA-256 of the public key of every certificate.
pub fn key_pins(pem: &[u8]) -> anyhow::Result<Vec<String>> {
    let mut pins: Vec<String> = Vec::new();
    for block in x509_parser::pem::Pem::iter_from_buffer(pem) {
        let block = block.context("failed to parse CA certificate from kubeconfig")?;
        let certificate = block.parse_x509().context("failed to parse CA certificate from kubeconfig")?;
        let digest = ring::digest::digest(&ring::digest::SHA256, certificate.public_key().raw);
        let hex: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        pins.push(format!("sha256:{hex}"));
    }
    if pins.is_empty() {
        bail!("no CA certificates found in kubeconfig");
    }
    Ok(pins)
}

async fn list(console: &Console, client: &ClusterClient, now: jiff::Timestamp) -> anyhow::Result<()> {
    let secrets = list_secrets(client).await.context("failed to list bootstrap tokens")?;
    // Scripts know Karmada's columns, and find no other where there are none of the tokens Karmada does not have.
    let has_bound = secrets.iter().any(|secret| cluster_of(secret).is_some());
    let mut rows: Vec<Row> = Vec::new();
    for secret in secrets {
        match cells_of(&secret, now) {
            Ok(cells) => {
                let cluster = cluster_of(&secret).unwrap_or_else(|| "<any>".to_owned());
                let cells = cells.into_iter().chain(has_bound.then_some(cluster)).map(Value::from);
                rows.push(Row { cells: cells.collect(), object: Object::default() })
            }
            Err(error) => console.warn(error),
        }
    }
    let names = ["TOKEN", "TTL", "EXPIRES", "USAGES", "DESCRIPTION", "EXTRA GROUPS"];
    let columns = names.into_iter().chain(has_bound.then_some("CLUSTER"));
    let columns = columns.map(|name| Column { name: name.to_owned(), priority: 0 });
    let table = Table { columns: columns.collect(), rows };
    console.print(&table.print(&Look::default()))?;
    Ok(())
}

async fn list_secrets(client: &ClusterClient) -> Result<Vec<Arc<Object>>, Status> {
    let options = ListOptions { field_selector: Some(format!("type={TYPE}")), ..ListOptions::default() };
    Ok(client.list_all(ResourceRef::within(&SECRETS.gvr(), NAMESPACE), options).await?.items)
}

fn read(secret: &Object, key: &str) -> String {
    let bytes = STANDARD.decode(secret.str_at(&["data", key])).unwrap_or_default();
    String::from_utf8(bytes).unwrap_or_default()
}

/// The cluster a token was made for.
fn cluster_of(secret: &Object) -> Option<String> {
    cluster_of_groups(read(secret, "auth-extra-groups").split(',')).map(str::to_owned)
}

fn cells_of(secret: &Object, now: jiff::Timestamp) -> anyhow::Result<[String; 6]> {
    let read = |key: &str| read(secret, key);
    let (id, key) = (read("token-id"), read("token-secret"));
    if id.is_empty() || key.is_empty() {
        bail!("bootstrap Token Secret has no token-id or token-secret data: {}", secret.name());
    }
    if secret.name() != format!("{NAME_PREFIX}{id}") {
        bail!(
            "bootstrap token name is not of the form '{NAME_PREFIX}(token-id)'. Actual: {:?}. Expected: {:?}",
            secret.name(),
            format!("{NAME_PREFIX}{id}")
        );
    }
    let expires = read("expiration");
    let (ttl, expires) = match object::time::parse(&expires) {
        Some(time) => (durations::short(time.duration_since(now)), object::time::format_seconds(time)),
        None if expires.is_empty() => ("<forever>".into(), "<never>".into()),
        None => bail!("can't parse expiration time of bootstrap token {:?}", secret.name()),
    };
    let data = secret.get(&["data"]).and_then(Value::as_object);
    let usages = data.into_iter().flat_map(Map::keys).filter_map(|key| key.strip_prefix(USAGE_PREFIX));
    let mut usages: Vec<&str> = usages.filter(|usage| read(&format!("{USAGE_PREFIX}{usage}")) == "true").collect();
    usages.sort_unstable();
    let or_none = |text: String| if text.is_empty() { "<none>".to_owned() } else { text };
    let groups = or_none(read("auth-extra-groups"));
    Ok([format!("{id}.{key}"), ttl, expires, or_none(usages.join(",")), or_none(read("description")), groups])
}

impl DeleteArgs {
    fn ids(&self) -> anyhow::Result<Vec<String>> {
        if self.tokens.is_empty() {
            bail!("missing subcommand; 'token delete' is missing token of form \"^([a-z0-9]{{6}})$\"");
        }
        let is_word = |text: &str, length: usize| text.len() == length && text.bytes().all(|b| LETTERS.contains(&b));
        let id = |text: &String| match text.split_once('.') {
            None if is_word(text, ID_LENGTH) => Ok(text.clone()),
            Some((id, secret)) if is_word(id, ID_LENGTH) && is_word(secret, SECRET_LENGTH) => Ok(id.to_owned()),
            _ => Err(anyhow!("given token didn't match pattern \"[a-z0-9]{{6}}\" or \"[a-z0-9]{{6}}.[a-z0-9]{{16}}\"")),
        };
        self.tokens.iter().map(id).collect()
    }
}

async fn delete(console: &Console, client: &ClusterClient, ids: &[String]) -> anyhow::Result<()> {
    for id in ids {
        let name = format!("{NAME_PREFIX}{id}");
        let target = ResourceRef::namespaced(&SECRETS.gvr(), NAMESPACE, &name);
        let cluster = client.find(target.clone()).await.ok().flatten().and_then(|secret| cluster_of(&secret));
        let deleted = client.delete(target, DeleteOptions::default()).await;
        deleted.with_context(|| format!("failed to delete secret {name:?}"))?;
        if let Some(cluster) = cluster {
            take_invitation(console, client, &cluster).await;
        }
        console.line(format!("bootstrap token {id:?} deleted"))?;
    }
    Ok(())
}

/// What the last token of a cluster could do goes with it.
async fn take_invitation(console: &Console, client: &ClusterClient, cluster: &str) {
    let is_another = |secret: &Arc<Object>| cluster_of(secret).as_deref() == Some(cluster);
    match (list_secrets(client).await, Invitation::new(cluster, CLUSTER_NAMESPACE)) {
        (Ok(secrets), Ok(invitation)) if !secrets.iter().any(is_another) => invitation.take(console, client).await,
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use cluster_client::testing::MemoryApi;

    use super::*;
    use crate::console::testing;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: CreateArgs,
    }

    fn args(line: &str) -> CreateArgs {
        Line::parse_from(["create"].into_iter().chain(line.split_whitespace())).args
    }

    #[tokio::test]
    async fn a_token_is_made_listed_and_deleted() {
        let api = MemoryApi::default();
        let now: jiff::Timestamp = "2026-11-15T00:00:00Z".parse().unwrap();
        let plane = Plane::given(api.client(), []);
        let (console, out, _) = testing::console();
        create(&console, &plane, &args("--description=x"), now).await.unwrap();
        let token = out.text().trim().to_owned();
        let (id, secret) = token.split_once('.').unwrap();
        assert_eq!((id.len(), secret.len()), (6, 16));

        let (console, out, _) = testing::console();
        list(&console, &plane.client, now).await.unwrap();
        let expected = format!(
            "TOKEN                     TTL   EXPIRES                USAGES                   DESCRIPTION   EXTRA GROUPS\n\
             {token}   24h   2026-11-16T00:00:00Z   authentication,signing   x             system:bootstrappers:karmada:default-cluster-token\n"
        );
        assert_eq!(out.text(), expected.replace("24h   ", "1d    "));

        let (console, out, _) = testing::console();
        let ids = DeleteArgs { tokens: vec![token.clone()], plane: PlaneArgs::default() }.ids().unwrap();
        delete(&console, &plane.client, &ids).await.unwrap();
        assert_eq!(out.text(), format!("bootstrap token \"{id}\" deleted\n"));
        assert!(delete(&console, &plane.client, &ids).await.is_err());
    }

    #[tokio::test]
    async fn a_token_for_one_cluster_is_shown_as_such_and_takes_its_rights_along() {
        let api = MemoryApi::default();
        let now: jiff::Timestamp = "2026-11-15T00:00:00Z".parse().unwrap();
        let plane = Plane::given(api.client(), []);
        let (console, out, _) = testing::console();
        create(&console, &plane, &args("--cluster=m1"), now).await.unwrap();
        create(&console, &plane, &args("--cluster=m1"), now).await.unwrap();
        create(&console, &plane, &args(""), now).await.unwrap();
        let tokens: Vec<String> = out.text().lines().map(str::to_owned).collect();

        let (console, out, _) = testing::console();
        list(&console, &plane.client, now).await.unwrap();
        let text = out.text();
        let line = |token: &str| text.lines().find(|line| line.starts_with(token)).unwrap();
        assert!(text.lines().next().unwrap().ends_with("CLUSTER"), "{text}");
        let words: Vec<&str> = line(&tokens[0]).split_whitespace().collect();
        assert_eq!(words[words.len() - 2..], ["system:bootstrappers:karmada:cluster:m1", "m1"]);
        assert!(line(&tokens[2]).trim_end().ends_with("<any>"), "{text}");

        let role = || async {
            let target = ResourceRef::cluster(&agent::credentials::CLUSTER_ROLES.gvr(), "system:karmada:m1:bootstrap");
            plane.client.find(target).await.unwrap().is_some()
        };
        let (console, _, _) = testing::console();
        for (token, is_left) in [(&tokens[0], true), (&tokens[1], false)] {
            let ids = DeleteArgs { tokens: vec![token.clone()], plane: PlaneArgs::default() }.ids().unwrap();
            delete(&console, &plane.client, &ids).await.unwrap();
            assert_eq!(role().await, is_left);
        }
        let reserved = args("--cluster=rbac-generator");
        assert!(create(&console, &plane, &reserved, now).await.is_err());
    }

    #[test]
    fn a_token_without_end_has_no_expiration() {
        let secret = args("--ttl=0 --groups=system:bootstrappers:a:b").secret(
            "abcdef",
            "0123456789abcdef",
            jiff::Timestamp::UNIX_EPOCH,
        );
        let cells = cells_of(&secret.unwrap(), jiff::Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(cells[1..3], ["<forever>", "<never>"]);
        assert!(args("--usages=walking").check().is_err());
        assert!(args("--groups=admins").check().is_err());
    }

    #[test]
    fn the_pin_is_the_hash_of_the_public_key() {
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::default().self_signed(&key).unwrap();
        let pem = key.public_key_pem();
        let lines: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
        let digest = ring::digest::digest(&ring::digest::SHA256, &STANDARD.decode(lines).unwrap());
        let hex: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(key_pins(certificate.pem().as_bytes()).unwrap(), [format!("sha256:{hex}")]);
        assert!(key_pins(b"nothing").is_err());
    }
}
