//! `token`: manages the bootstrap tokens that clusters register with.

use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use api::names::CLUSTER_NAMESPACE;
use clap::{Args, Subcommand};
use cluster_client::ClusterClient;
use membership::token::{
    BootstrapToken, DEFAULT_GROUP, StoredToken, TokenOptions, USAGES, delete_token, key_pins, list_tokens, parse_id,
    store_token,
};
use object::Object;
use serde_json::Value;

use crate::console::Console;
use crate::durations;
use crate::membership_progress::to_anyhow;
use crate::plane::{PlaneArgs, PlaneClient};
use crate::table::{Column, Look, Row, Table};

/// Manage bootstrap tokens for joining member clusters to Karmada.
///
/// A token authenticates the control plane and the registering cluster to each other. It is stored as a secret in
/// kube-system. Its first part is its ID, its second part must be kept secret.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  # Create a token for one cluster, and print the command that registers it
  flotilla token create --cluster robbinsdale --print-register-command

  # Create a token that can register any cluster, on a control plane that runs with --agent-approval any or --compat.
  # Its holder can gain full access to the control plane
  flotilla token create --any-cluster --print-register-command

  # List tokens, and delete one
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
    /// Time until the token expires; 0 means never
    #[arg(long, default_value = "24h", value_parser = durations::parse, value_name = "DURATION")]
    ttl: Duration,
    /// Allowed uses of the token
    #[arg(long, value_delimiter = ',', default_values = USAGES, value_name = "USAGE")]
    usages: Vec<String>,
    /// Groups the token authenticates as; they must start with system:bootstrappers:
    #[arg(long, value_delimiter = ',', default_value = DEFAULT_GROUP, value_name = "GROUP")]
    groups: Vec<String>,
    /// The only cluster the token can register. Its agent's permissions are granted now, so `karmadactl register`, which
    /// grants them itself, cannot use such a token
    #[arg(short = 'C', long, value_name = "NAME", conflicts_with_all = ["groups", "any_cluster"])]
    cluster: Option<String>,
    /// Create a token that can register any cluster, as Karmada does. The control plane approves its certificates only
    /// when it runs with --agent-approval any or --compat
    #[arg(long)]
    any_cluster: bool,
    /// Namespace in the control plane where that cluster's secrets are stored
    #[arg(long, default_value = CLUSTER_NAMESPACE, value_name = "NAMESPACE", requires = "cluster")]
    cluster_namespace: String,
    /// Description of the token
    #[arg(long, default_value = "", hide_default_value = true, value_name = "TEXT")]
    description: String,
    /// Print the full register command instead of the token
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
    /// Tokens or token IDs
    #[arg(value_name = "TOKEN")]
    tokens: Vec<String>,
    #[command(flatten)]
    plane: PlaneArgs,
}

pub async fn run(console: &Console, args: TokenArgs) -> anyhow::Result<()> {
    match args.command {
        TokenCommand::Create(args) => {
            args.options().check()?;
            args.check_scope(&console.program)?;
            let plane = PlaneClient::open(&args.plane)?;
            create(console, &plane, &args, jiff::Timestamp::now()).await.map_err(|error| plane.explain(error))
        }
        TokenCommand::List(args) => {
            let plane = PlaneClient::open(&args.plane)?;
            list(console, &plane.client, jiff::Timestamp::now()).await.map_err(|error| plane.explain(error))
        }
        TokenCommand::Delete(args) => {
            let ids = args.ids()?;
            let plane = PlaneClient::open(&args.plane)?;
            delete(console, &plane.client, &ids).await.map_err(|error| plane.explain(error))
        }
    }
}

impl CreateArgs {
    /// Refuses an unbound token that was not requested: by default the control plane approves none of its certificates.
    /// Scripts written for `karmadactl` keep working.
    fn check_scope(&self, program: &str) -> anyhow::Result<()> {
        let is_stated = self.cluster.is_some() || self.any_cluster || self.groups != [DEFAULT_GROUP];
        if is_stated || program.contains("karmada") {
            return Ok(());
        }
        bail!(
            "use --cluster NAME to create a token for one cluster. A token for any cluster needs --any-cluster, and a \
             control plane that runs with --agent-approval any or --compat"
        )
    }

    fn options(&self) -> TokenOptions {
        TokenOptions {
            ttl: self.ttl,
            usages: self.usages.clone(),
            groups: self.groups.clone(),
            cluster: self.cluster.clone(),
            cluster_namespace: self.cluster_namespace.clone(),
            description: self.description.clone(),
        }
    }
}

async fn create(console: &Console, plane: &PlaneClient, args: &CreateArgs, now: jiff::Timestamp) -> anyhow::Result<()> {
    let token = BootstrapToken::generate()?;
    // A token whose command cannot be printed must not be created.
    let command = match args.print_register_command {
        true => Some(register_command(console, plane, &token, args.cluster.as_deref())?),
        false => None,
    };
    store_token(&plane.client, &token, &args.options(), now).await.map_err(to_anyhow)?;
    console.line(command.unwrap_or_else(|| token.to_string()))?;
    Ok(())
}

fn register_command(
    console: &Console,
    plane: &PlaneClient,
    token: &BootstrapToken,
    cluster: Option<&str>,
) -> anyhow::Result<String> {
    let authority = plane.authority()?.context("no CA certificates found in kubeconfig")?;
    let server = plane.server().unwrap_or_default().replace("https://", "");
    let pins = key_pins(&authority)?.join(",");
    let cluster = cluster.map(|cluster| format!(" --cluster-name {cluster}")).unwrap_or_default();
    Ok(format!("{} register {server} --token {token} --discovery-token-ca-cert-hash {pins}{cluster}", console.program))
}

async fn list(console: &Console, client: &ClusterClient, now: jiff::Timestamp) -> anyhow::Result<()> {
    let tokens = list_tokens(client, console).await.map_err(to_anyhow)?;
    // Scripts expect Karmada's columns; the cluster is shown only where tokens are bound to one, which Karmada's are not.
    let has_bound = tokens.iter().any(|token| token.cluster.is_some());
    let rows = tokens.iter().map(|token| {
        let cluster = token.cluster.clone().unwrap_or_else(|| "<any>".to_owned());
        let cells = cells_of(token, now).into_iter().chain(has_bound.then_some(cluster)).map(Value::from);
        Row { cells: cells.collect(), object: Object::default() }
    });
    let names = ["TOKEN", "TTL", "EXPIRES", "USAGES", "DESCRIPTION", "EXTRA GROUPS"];
    let columns = names.into_iter().chain(has_bound.then_some("CLUSTER"));
    let columns = columns.map(|name| Column { name: name.to_owned(), priority: 0 });
    let table = Table { columns: columns.collect(), rows: rows.collect() };
    console.print(&table.print(&Look::default()))?;
    Ok(())
}

fn cells_of(stored: &StoredToken, now: jiff::Timestamp) -> [String; 6] {
    let (ttl, expires) = match stored.expires {
        Some(time) => (durations::short(time.duration_since(now)), object::time::format_seconds(time)),
        None => ("<forever>".into(), "<never>".into()),
    };
    let or_none = |text: &str| if text.is_empty() { "<none>".to_owned() } else { text.to_owned() };
    let usages = or_none(&stored.usages.join(","));
    [stored.token.to_string(), ttl, expires, usages, or_none(&stored.description), or_none(&stored.groups)]
}

impl DeleteArgs {
    fn ids(&self) -> anyhow::Result<Vec<String>> {
        if self.tokens.is_empty() {
            bail!("missing subcommand; 'token delete' is missing token of form \"^([a-z0-9]{{6}})$\"");
        }
        let invalid =
            || anyhow!("given token didn't match pattern \"[a-z0-9]{{6}}\" or \"[a-z0-9]{{6}}.[a-z0-9]{{16}}\"");
        self.tokens.iter().map(|text| parse_id(text).ok_or_else(invalid)).collect()
    }
}

async fn delete(console: &Console, client: &ClusterClient, ids: &[String]) -> anyhow::Result<()> {
    for id in ids {
        delete_token(client, id, console).await.map_err(to_anyhow)?;
        console.line(format!("bootstrap token {id:?} deleted"))?;
    }
    Ok(())
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

    #[test]
    fn a_token_for_any_cluster_must_be_requested() {
        let cases = [
            ("flotilla", "", false),
            ("flotilla", "--cluster=m1", true),
            ("flotilla", "--any-cluster", true),
            ("flotilla", "--groups=system:bootstrappers:a:b", true),
            ("karmadactl", "", true),
            ("kubectl karmada", "", true),
        ];
        for (program, line, is_allowed) in cases {
            assert_eq!(args(line).check_scope(program).is_ok(), is_allowed, "{program} token create {line}");
        }
        let refusal = args("").check_scope("flotilla").unwrap_err().to_string();
        assert!(refusal.contains("--cluster NAME") && refusal.contains("--any-cluster"), "{refusal}");
    }

    #[tokio::test]
    async fn a_token_is_created_listed_and_deleted() {
        let api = MemoryApi::default();
        let now: jiff::Timestamp = "2026-11-15T00:00:00Z".parse().unwrap();
        let plane = PlaneClient::given(api.client(), []);
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
    async fn a_token_for_one_cluster_is_listed_with_its_cluster() {
        let api = MemoryApi::default();
        let now: jiff::Timestamp = "2026-11-15T00:00:00Z".parse().unwrap();
        let plane = PlaneClient::given(api.client(), []);
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
    }

    #[tokio::test]
    async fn a_token_without_ttl_never_expires() {
        let plane = PlaneClient::given(MemoryApi::default().client(), []);
        let (console, out, _) = testing::console();
        let now = jiff::Timestamp::UNIX_EPOCH;
        create(&console, &plane, &args("--ttl=0 --groups=system:bootstrappers:a:b"), now).await.unwrap();
        list(&console, &plane.client, now).await.unwrap();
        assert!(out.text().contains("<forever>   <never>"), "{}", out.text());
        assert!(args("--usages=walking").options().check().is_err());
        assert!(args("--groups=admins").options().check().is_err());
    }
}
