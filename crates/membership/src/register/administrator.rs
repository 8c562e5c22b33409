//! Registers a cluster with an administrator's access to the control plane: a token for this cluster is created, used
//! and deleted.

use std::time::Duration;

use api::Resource;
use cluster_client::{ClusterClient, ResourceRef};
use tokio::time::Instant;

use crate::register::discovery::CaVerification;
use crate::register::{RegisterOptions, Registered, register};
use crate::token::{BootstrapToken, TokenOptions, create_token, delete_token, key_pins};
use crate::{MembershipError, Progress};

const CONFIG_MAPS: Resource = Resource::namespaced("", "v1", "ConfigMap", "configmaps");
const POLL: Duration = Duration::from_millis(50);
/// Lifetime of the token, should its deletion fail.
const TOKEN_TTL: Duration = Duration::from_secs(600);
const SIGNING_TIMEOUT: Duration = Duration::from_secs(10);

/// Registers a cluster. `authority` is the CA of the control plane, in PEM.
pub async fn register_as_administrator(
    options: &RegisterOptions,
    control_plane: &ClusterClient,
    authority: &[u8],
    progress: &dyn Progress,
) -> Result<Registered, MembershipError> {
    let pins = CaVerification::Pins(key_pins(authority)?);
    let token = create_token(control_plane, &token_options(options), jiff::Timestamp::now()).await?;
    let registered = async {
        wait_until_signed(control_plane, &token).await?;
        register(options, &token, &pins, progress).await
    };
    let registered = registered.await;
    // The token expires on its own.
    if let Err(error) = delete_token(control_plane, &token.id, progress).await {
        progress.warn(&format!("{error}; the token expires in {TOKEN_TTL:?}"));
    }
    registered
}

fn token_options(options: &RegisterOptions) -> TokenOptions {
    TokenOptions {
        ttl: TOKEN_TTL,
        cluster: Some(options.name.clone()),
        cluster_namespace: options.namespace.clone(),
        description: format!("registration of cluster {}", options.name),
        ..TokenOptions::default()
    }
}

/// Waits until the control plane has signed cluster-info with the token: registration verifies this signature, and
/// retries at a longer interval.
async fn wait_until_signed(plane: &ClusterClient, token: &BootstrapToken) -> Result<(), MembershipError> {
    let key = format!("jws-kubeconfig-{}", token.id);
    let target = ResourceRef::namespaced(&CONFIG_MAPS.gvr(), "kube-public", "cluster-info");
    let deadline = Instant::now() + SIGNING_TIMEOUT;
    loop {
        let info = plane.find(target.clone()).await?;
        if info.is_some_and(|info| !info.str_at(&["data", &key]).is_empty()) {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(MembershipError::NotSigned { id: token.id.clone(), wait: SIGNING_TIMEOUT });
        }
        tokio::time::sleep(POLL).await;
    }
}
