//! Service account tokens for pods: requested on demand, cached, and renewed before they expire.

use std::collections::BTreeMap;
use std::sync::Arc;

use cluster_client::{ClusterClient, ResourceRef, WriteOptions};
use jiff::{SignedDuration, Timestamp};
use object::builtin;
use object::request::Subresource;
use object::{GroupVersionKind, Object};
use parking_lot::Mutex;
use reconcile::Clock;
use serde_json::{Value, json};

use crate::pod::{COMPONENT, list, text};
use crate::volumes::files::Tokens;
use crate::volumes::token_seconds;

/// A token is renewed after this percentage of its lifetime.
const RENEWED_AT_PERCENT: i64 = 80;

/// Pod, volume and path of a token.
type TokenKey = (String, String, String);

pub(crate) struct TokenKeeper {
    clock: Arc<dyn Clock>,
    kept: Mutex<BTreeMap<TokenKey, CachedToken>>,
}

struct CachedToken {
    token: String,
    renew_at: Timestamp,
}

impl TokenKeeper {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, kept: Mutex::default() }
    }

    /// Returns the tokens of a pod's volume, by path.
    pub async fn tokens_of(&self, client: &ClusterClient, pod: &Object, volume: &Value) -> Result<Tokens, String> {
        let sources = volume.get("projected").map(|p| list(p, "sources")).unwrap_or_default();
        let mut tokens = Tokens::new();
        for source in sources.iter().filter_map(|source| source.get("serviceAccountToken")) {
            let path = text(source, "path").to_owned();
            let place = (pod.uid().to_owned(), text(volume, "name").to_owned(), path.clone());
            let token = match self.current(&place) {
                Some(token) => token,
                None => self.renew(client, pod, source, place).await?,
            };
            tokens.insert(path, token);
        }
        Ok(tokens)
    }

    fn current(&self, place: &TokenKey) -> Option<String> {
        let now = self.clock.now();
        self.kept.lock().get(place).filter(|kept| now < kept.renew_at).map(|kept| kept.token.clone())
    }

    async fn renew(
        &self,
        client: &ClusterClient,
        pod: &Object,
        source: &Value,
        place: TokenKey,
    ) -> Result<String, String> {
        let account = Some(pod.str_at(&["spec", "serviceAccountName"])).filter(|n| !n.is_empty()).unwrap_or("default");
        let gvk = GroupVersionKind::new("authentication.k8s.io", "v1", "TokenRequest");
        let mut request = Object::new(&gvk, Some(pod.namespace()), account);
        let audience = text(source, "audience");
        let audiences: Vec<&str> = if audience.is_empty() { Vec::new() } else { vec![audience] };
        request.set(
            &["spec"],
            json!({"audiences": audiences, "expirationSeconds": token_seconds(source),
                "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": pod.name(), "uid": pod.uid()}}),
        );
        let target = ResourceRef::namespaced(&builtin::service_accounts(), pod.namespace(), account)
            .subresource(Subresource::Token);
        let answer = client.create(target, request, WriteOptions::managed_by(COMPONENT)).await;
        let answer = answer.map_err(|e| format!("failed to fetch token: {e}"))?;
        let token = answer.str_at(&["status", "token"]).to_owned();
        let now = self.clock.now();
        let seconds = object::time::parse(answer.str_at(&["status", "expirationTimestamp"]))
            .map_or(token_seconds(source), |expires| expires.duration_since(now).as_secs());
        let renew_at = now + SignedDuration::from_secs(seconds.max(0) * RENEWED_AT_PERCENT / 100);
        self.kept.lock().insert(place, CachedToken { token: token.clone(), renew_at });
        Ok(token)
    }

    pub fn forget(&self, uid: &str) {
        self.kept.lock().retain(|(pod, _, _), _| pod != uid);
    }
}
