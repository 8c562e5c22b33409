//! Names for shell completion, asked from the control plane or a member.

use std::time::Duration;

use cluster_client::{ApiResources, ClusterClient, ListOptions, ResourceRef};
use object::request::Verb;

use crate::plane::{PlaneArgs, PlaneClient};
use crate::resources;

/// A shell waits for an answer; without one there are no candidates.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Most names that are offered.
const NAMES_MAX: u64 = 500;

/// The flags of the typed line that select what is asked.
#[derive(Clone, Debug, Default)]
pub struct TypedFlags {
    pub plane: PlaneArgs,
    pub namespace: Option<String>,
    /// The member of `-C`.
    pub cluster: Option<String>,
}

/// The names that are completed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    Kinds,
    /// The names of the objects of a kind.
    Names(String),
    Namespaces,
    Clusters,
}

/// Returns the candidates; none if the control plane does not answer.
pub async fn candidates(flags: &TypedFlags, wanted: &Wanted) -> Vec<String> {
    let found = tokio::time::timeout(TIMEOUT, ask(flags, wanted)).await;
    found.ok().and_then(Result::ok).unwrap_or_default()
}

async fn ask(flags: &TypedFlags, wanted: &Wanted) -> anyhow::Result<Vec<String>> {
    let plane = PlaneClient::open(&flags.plane)?;
    let client = match flags.cluster.as_deref().filter(|_| *wanted != Wanted::Clusters) {
        Some(cluster) => plane.member(cluster)?,
        None => plane.client.clone(),
    };
    let namespace = flags.namespace.clone().unwrap_or_else(|| plane.namespace.clone());
    match wanted {
        Wanted::Kinds => kinds(&client).await,
        Wanted::Names(kind) => names(&client, kind, &namespace).await,
        Wanted::Namespaces => names(&client, "namespaces", "").await,
        Wanted::Clusters => names(&client, "clusters.cluster.karmada.io", "").await,
    }
}

async fn kinds(client: &ClusterClient) -> anyhow::Result<Vec<String>> {
    let known = ApiResources::discover(client).await?;
    let listed = known.resources.iter().filter(|resource| resource.has_verb(Verb::List));
    let mut kinds: Vec<String> = listed.map(|resource| resource.gvr.resource.clone()).collect();
    kinds.sort();
    kinds.dedup();
    Ok(kinds)
}

async fn names(client: &ClusterClient, kind: &str, namespace: &str) -> anyhow::Result<Vec<String>> {
    let known = ApiResources::discover(client).await?;
    let Some(resource) = resources::find(kind, &known) else { return Ok(Vec::new()) };
    let place = match resource.namespaced {
        true => ResourceRef::within(&resource.gvr, namespace),
        false => ResourceRef::all(&resource.gvr),
    };
    let options = ListOptions { limit: Some(NAMES_MAX), ..ListOptions::default() };
    let list = client.list(place, options).await?;
    Ok(list.items.iter().map(|object| object.name().to_owned()).collect())
}
