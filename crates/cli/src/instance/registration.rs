//! `flotilla instance token` and `agents`: clusters that register themselves in pull mode.

use std::time::Duration;

use ::karmadactl::console::Console;
use anyhow::bail;
use clap::Args;
use cluster_client::{ClusterClient, escape};
use http::Method;
use serde_json::{Value, json};

use super::connection::send;
use super::{duration, path_of, print_columns};

#[derive(Args)]
pub struct TokenArgs {
    /// Name of the instance
    name: String,
    /// Create a token with which this cluster registers itself, and print the command to run with access to the cluster.
    #[arg(short = 'C', long, value_name = "NAME", conflicts_with = "delete")]
    cluster: Option<String>,
    /// Validity of the token.
    #[arg(long, default_value = "24h", value_parser = duration, value_name = "DURATION")]
    expires: Duration,
    /// Delete the token with this id.
    #[arg(long, value_name = "ID")]
    delete: Option<String>,
}

#[derive(Args)]
pub struct AgentsArgs {
    /// Name of the instance
    name: String,
    /// Approve the request with this name.
    #[arg(long, value_name = "REQUEST")]
    approve: Option<String>,
}

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().to_owned()
}

pub async fn token(console: &Console, client: &ClusterClient, args: TokenArgs) -> anyhow::Result<()> {
    let path = format!("{}/registration-tokens", path_of(&args.name));
    if let Some(id) = &args.delete {
        send(client, Method::DELETE, &format!("{path}/{}", escape(id)), None).await?;
        return Ok(console.line(format_args!("token {id} is deleted"))?);
    }
    if let Some(cluster) = &args.cluster {
        let body = json!({"cluster": cluster, "expirationSeconds": args.expires.as_secs().to_string()});
        let created = send(client, Method::POST, &path, Some(body)).await?;
        let command = text(&created, "command");
        if command.is_empty() {
            bail!("the manager returned no command");
        }
        return Ok(console.line(command)?);
    }
    let found = send(client, Method::GET, &path, None).await?;
    let mut rows = vec![["ID", "CLUSTER", "EXPIRES"].map(str::to_owned)];
    for token in found["tokens"].as_array().into_iter().flatten() {
        rows.push([text(token, "id"), text(token, "cluster"), text(token, "expireTime")]);
    }
    print_columns(console, &rows)
}

pub async fn agents(console: &Console, client: &ClusterClient, args: AgentsArgs) -> anyhow::Result<()> {
    let instance = path_of(&args.name);
    if let Some(request) = &args.approve {
        let path = format!("{instance}/agents/{}:approve", escape(request));
        let approved = send(client, Method::POST, &path, Some(json!({}))).await?;
        return Ok(console.line(format_args!("the agent of cluster {} is approved", text(&approved, "cluster")))?);
    }
    let found = send(client, Method::GET, &format!("{instance}/agents:pending"), None).await?;
    let mut rows = vec![["REQUEST", "CLUSTER", "REQUESTER", "CREATED"].map(str::to_owned)];
    for agent in found["agents"].as_array().into_iter().flatten() {
        rows.push([text(agent, "name"), text(agent, "cluster"), text(agent, "requester"), text(agent, "createTime")]);
    }
    print_columns(console, &rows)
}
