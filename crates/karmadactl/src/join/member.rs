//! What `join` does in the cluster that joins: a namespace, service accounts, their rights and their tokens.

use agent::credentials::{self, TOKEN_PATIENCE, Token};
use anyhow::{Context, anyhow};
use cluster_client::{ClusterClient, ResourceRef};

use crate::console::Console;
use crate::join::{Joining, MemberAccess};

pub use agent::credentials::{
    CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, NAMESPACES, SECRETS, SERVICE_ACCOUNTS, ensure_namespace, role_of,
    service_account_of,
};

/// What the control plane needs to act in the cluster.
pub struct Credentials {
    /// PEM; empty when none is known.
    pub ca_bundle: Vec<u8>,
    pub token: String,
    pub impersonator_token: String,
}

/// What tells a cluster from every other: the UID of its kube-system namespace.
pub async fn cluster_id(client: &ClusterClient, endpoint: &str) -> anyhow::Result<String> {
    let namespace = client.get(ResourceRef::cluster(&NAMESPACES.gvr(), "kube-system")).await;
    let namespace = namespace.map_err(|status| match cluster_client::is_unreachable(&status) {
        true => anyhow!("cannot reach the joining cluster at {endpoint}: {status}; check --cluster-kubeconfig"),
        false => anyhow!("cannot read the ID of the joining cluster at {endpoint}: {status}"),
    })?;
    Ok(namespace.uid().to_owned())
}

/// Makes everything the control plane needs in the cluster, keeping what is there already.
pub async fn prepare(console: &Console, joining: &Joining, access: &MemberAccess) -> anyhow::Result<Credentials> {
    let client = &access.client;
    let namespace = joining.namespace.as_str();
    ensure_namespace(client, namespace).await?;
    let (impersonator, token) = tokio::try_join!(
        credentials::impersonator_token(client, namespace),
        credentials::cluster_token(client, namespace, &joining.name),
    )
    .with_context(|| format!("failed to get serviceAccount secret from cluster({})", joining.name))?;
    warn_of_end(console, &impersonator, &format!("{namespace}/{}", service_account_of("impersonator")));
    warn_of_end(console, &token, &format!("{namespace}/{}", service_account_of(&joining.name)));
    let ca_bundle = token.authority.or_else(|| access.authority.clone()).unwrap_or_default();
    Ok(Credentials { ca_bundle, token: token.text, impersonator_token: impersonator.text })
}

fn warn_of_end(console: &Console, token: &Token, secret: &str) {
    let Some(expires) = &token.expires else { return };
    console.warn(format!(
        "nobody filled the token secret {secret} within {TOKEN_PATIENCE:?}, so the control plane uses a token that \
         expires at {expires}; join again before then, or start the cluster's kube-controller-manager"
    ));
}
