//! `image list` and `image remove`: the images of a registry.

use std::sync::Arc;

use ::karmadactl::console::Console;
use ::oci_registry::client::Client;
use ::oci_registry::name::Reference;
use anyhow::{Context, bail};
use clap::Args;

use super::ConnectionArgs;
use super::members::RegistryArgs;

#[derive(Args)]
pub struct ListArgs {
    #[command(flatten)]
    registry: RegistryArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
}

#[derive(Args)]
pub struct RemoveArgs {
    /// Images, as printed by `image list`.
    #[arg(required = true, value_name = "IMAGE")]
    images: Vec<String>,
    #[command(flatten)]
    registry: RegistryArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Prints one image per line, so that scripts can use it.
pub async fn list(console: &Console, args: &ListArgs) -> anyhow::Result<()> {
    let client = args.connection.client()?;
    let registry = args.registry.address()?;
    let repositories = client.catalog(&registry).await.with_context(|| args.registry.unreachable(&registry))?;
    if repositories.is_empty() {
        console.note(format!("no images found in {registry}"));
    }
    for repository in repositories {
        for tag in tags(&client, &registry, &repository).await? {
            console.line(format_args!("{registry}/{repository}:{tag}"))?;
        }
    }
    Ok(())
}

async fn tags(client: &Arc<Client>, registry: &str, repository: &str) -> anyhow::Result<Vec<String>> {
    let image: Reference = format!("{registry}/{repository}").parse()?;
    let found = client.remote(&image).await?.tags().await;
    found.with_context(|| format!("cannot list the tags of {repository}"))
}

/// Removes tags; `flotilla registry gc` frees the space, which the registry also does every hour.
pub async fn remove(console: &Console, args: &RemoveArgs) -> anyhow::Result<()> {
    let client = args.connection.client()?;
    let registry = args.registry.address()?;
    for text in &args.images {
        let with_registry =
            if text.starts_with(&format!("{registry}/")) { text.clone() } else { format!("{registry}/{text}") };
        let image: Reference = with_registry.parse().with_context(|| format!("{text} is not an image reference"))?;
        let remote = client.remote(&image).await.with_context(|| args.registry.unreachable(&registry))?;
        if let Err(error) = remote.delete_manifest(&image.selector()).await {
            let known = remote.tags().await.unwrap_or_default();
            bail!("cannot remove {image}: {error}; its tags are: {}", known.join(", "));
        }
        console.line(format_args!("{image} is removed"))?;
    }
    Ok(())
}
