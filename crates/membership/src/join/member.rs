//! The joining side of `join`: a namespace, service accounts, their permissions and their tokens in the member.

use cluster_client::{ClusterClient, ResourceRef};

use crate::credentials::{self, NAMESPACES, TOKEN_TIMEOUT, Token, service_account_of};
use crate::join::JoinOptions;
use crate::{MembershipError, Progress};

/// Credentials of the control plane in the member.
pub struct MemberCredentials {
    /// PEM; empty when unknown.
    pub ca_bundle: Vec<u8>,
    pub token: String,
    pub impersonator_token: String,
}

/// Returns the ID of a cluster: the UID of its kube-system namespace.
pub async fn cluster_id(client: &ClusterClient, endpoint: &str) -> Result<String, MembershipError> {
    let namespace = client.get(ResourceRef::cluster(&NAMESPACES.gvr(), "kube-system")).await;
    let endpoint = endpoint.to_owned();
    let namespace = namespace.map_err(|status| match cluster_client::is_unreachable(&status) {
        true => MembershipError::ReachMember { endpoint, status },
        false => MembershipError::ReadMemberId { endpoint, status },
    })?;
    Ok(namespace.uid().to_owned())
}

/// Creates everything the control plane needs in the cluster, and keeps what already exists.
pub async fn prepare(options: &JoinOptions, progress: &dyn Progress) -> Result<MemberCredentials, MembershipError> {
    let client = &options.member.client;
    let namespace = options.namespace.as_str();
    let failed = |source| MembershipError::MemberCredentials { cluster: options.name.clone(), source };
    credentials::ensure_namespace(client, namespace).await.map_err(failed)?;
    let (impersonator, token) = tokio::try_join!(
        credentials::impersonator_token(client, namespace),
        credentials::cluster_token(client, namespace, &options.name),
    )
    .map_err(failed)?;
    warn_of_expiry(progress, &impersonator, &format!("{namespace}/{}", service_account_of("impersonator")));
    warn_of_expiry(progress, &token, &format!("{namespace}/{}", service_account_of(&options.name)));
    let ca_bundle = token.authority.or_else(|| options.member.authority.clone()).unwrap_or_default();
    Ok(MemberCredentials { ca_bundle, token: token.text, impersonator_token: impersonator.text })
}

fn warn_of_expiry(progress: &dyn Progress, token: &Token, secret: &str) {
    let Some(expires) = &token.expires else { return };
    progress.warn(&format!(
        "the token secret {secret} was not populated within {TOKEN_TIMEOUT:?}, so the control plane uses a token that \
         expires at {expires}; join again before then, or start the cluster's kube-controller-manager"
    ));
}
