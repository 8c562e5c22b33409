//! Bindings of other systems: a source pushes additions and removals in order, or all its bindings at once.
//!
//! A source is a Webhook with `acceptsBindings`. It changes only bindings that it created, and grants roles on the platform
//! only if its Webhook allows that. When a push is missing, removals take effect and additions wait for a full push.

use std::collections::BTreeMap;
use std::sync::Arc;

use apiserver::extension::{Extension, ExtensionRequest};
use apiserver::respond::{self, Body};
use apiserver::server::Server;
use async_trait::async_trait;
use cluster_client::{ClusterClient, DeleteOptions, ListOptions, ResourceRef, WriteOptions};
use http::{Method, Response};
use jiff::Timestamp;
use manager_api::{PushBindingsRequest, PushBindingsResponse, PushedBinding};
use manager_kinds::BINDINGS;
use object::builtin;
use object::{GroupVersionKind, Object, Status};
use pki::token::{constant_time_eq, hash};
use reconcile::ObjectKey;
use serde_json::{Value, json};

use crate::bootstrap::CREDENTIAL_NAMESPACE;
use crate::webhooks::{SIGNATURE_HEADER, Webhooks, signature};

const PATH: &str = "/flotilla/manager/webhooks/bindings";
const FIELD_MANAGER: &str = "flotilla-manager";
/// Bindings in one push.
const BINDINGS_MAX: usize = 10_000;
/// The longest time between signing and arrival, in seconds.
const SIGNED_FOR: i64 = 300;
const INSTANCE_ROLES: [&str; 3] = ["admin", "edit", "view"];
const PLATFORM_ROLES: [&str; 4] = ["platform-admin", "instance-owner", "auditor", "iam-owner"];

/// Takes pushed bindings.
#[derive(Clone)]
pub struct BindingIntake {
    client: ClusterClient,
    webhooks: Webhooks,
    /// One push at a time: each depends on the sequence of the previous one.
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// The meaning of a push, given the sequence of the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// Already taken.
    Repeated,
    /// The next one, or a full one.
    Next,
    /// Others are missing.
    Gap,
}

fn order(last: i64, sequence: i64, is_full: bool) -> Order {
    match sequence {
        _ if sequence <= last => Order::Repeated,
        _ if is_full || sequence == last + 1 => Order::Next,
        _ => Order::Gap,
    }
}

impl BindingIntake {
    pub fn new(client: &ClusterClient, webhooks: &Webhooks) -> Self {
        Self { client: client.clone(), webhooks: webhooks.clone(), turn: Arc::default() }
    }

    /// Takes a push of a known source.
    pub async fn push(&self, request: PushBindingsRequest) -> Result<PushBindingsResponse, Status> {
        let source = self.source(&request.source)?;
        let add = self.specs(&source, &request.add)?;
        let remove = self.specs(&source, &request.remove)?;
        if request.sequence <= 0 {
            return Err(Status::bad_request("sequence: must be 1 or more"));
        }
        let _turn = self.turn.lock().await;
        let state = self.state(&request.source).await?;
        let last = state.as_ref().and_then(|state| state.str_at(&["data", "sequence"]).parse().ok()).unwrap_or(0);
        let order = order(last, request.sequence, request.full);
        let mut response =
            PushBindingsResponse { sequence: last, snapshot_needed: order == Order::Gap, ..Default::default() };
        if order == Order::Repeated {
            return Ok(response);
        }
        let own = self.own(&request.source).await?;
        if request.validate_only {
            let is_removed = |name: &&String| {
                remove.contains_key(*name) || (order == Order::Next && request.full && !add.contains_key(*name))
            };
            let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
            response.removed = count(own.keys().filter(is_removed).count());
            if order != Order::Gap {
                response.added = count(add.keys().filter(|name| !own.contains_key(*name)).count());
            }
            return Ok(response);
        }
        let is_kept = |name: &String| !request.full || add.contains_key(name);
        let removed = own.keys().filter(|name| remove.contains_key(*name) || (order == Order::Next && !is_kept(name)));
        for name in removed {
            match self.client.delete(ResourceRef::cluster(&BINDINGS.gvr(), name), DeleteOptions::default()).await {
                Err(status) if !status.is_not_found() => return Err(status),
                _ => response.removed += 1,
            }
        }
        if order == Order::Gap {
            return Ok(response);
        }
        for (name, spec) in add.into_iter().filter(|(name, _)| !own.contains_key(name)) {
            let mut binding = BINDINGS.object("", &name);
            binding.set(&["spec"], spec);
            let options = WriteOptions::managed_by(FIELD_MANAGER);
            match self.client.create(ResourceRef::all(&BINDINGS.gvr()), binding, options).await {
                Err(status) if !status.is_already_exists() => return Err(status),
                _ => response.added += 1,
            }
        }
        self.remember(&request.source, request.sequence).await?;
        response.sequence = request.sequence;
        Ok(response)
    }

    /// Returns the webhook of a source that may push.
    fn source(&self, name: &str) -> Result<Arc<Object>, Status> {
        let found = self.webhooks.objects.get(&ObjectKey::new("", name));
        let accepts = |webhook: &Arc<Object>| {
            webhook.bool_at(&["spec", "acceptsBindings"]) == Some(true)
                && webhook.bool_at(&["spec", "disabled"]) != Some(true)
        };
        let refused =
            || Status::new(403, "Forbidden", format!("source: no enabled webhook {name:?} has acceptsBindings"));
        found.filter(accepts).ok_or_else(refused)
    }

    /// Returns the bindings by their names. The name depends on the content, so that a repeated addition is the same binding.
    fn specs(&self, source: &Object, pushed: &[PushedBinding]) -> Result<BTreeMap<String, Value>, Status> {
        if pushed.len() > BINDINGS_MAX {
            return Err(Status::bad_request(format!("a push has at most {BINDINGS_MAX} bindings")));
        }
        let grants_platform = source.bool_at(&["spec", "grantsPlatformRoles"]) == Some(true);
        pushed.iter().map(|binding| spec_of(source.name(), grants_platform, binding)).collect()
    }

    async fn own(&self, source: &str) -> Result<BTreeMap<String, Arc<Object>>, Status> {
        let list = self.client.list_all(ResourceRef::all(&BINDINGS.gvr()), ListOptions::default()).await?;
        let own = list.items.into_iter().filter(|binding| binding.str_at(&["spec", "source"]) == source);
        Ok(own.map(|binding| (binding.name().to_owned(), binding)).collect())
    }

    async fn state(&self, source: &str) -> Result<Option<Arc<Object>>, Status> {
        self.client.find(state_of(source)).await
    }

    async fn remember(&self, source: &str, sequence: i64) -> Result<(), Status> {
        let gvk = GroupVersionKind::new("", "v1", "ConfigMap");
        let mut state = Object::new(&gvk, Some(CREDENTIAL_NAMESPACE), &format!("bindings-{source}"));
        state.set(&["data", "sequence"], sequence.to_string());
        self.client.apply(state_of(source), state, FIELD_MANAGER).await.map(drop)
    }

    /// Checks the signature of a push and takes it.
    async fn push_signed(&self, signed: &str, body: &[u8]) -> Result<PushBindingsResponse, Status> {
        let request: PushBindingsRequest = serde_json::from_slice(body)
            .map_err(|error| Status::bad_request(format!("the body is not a push: {error}")))?;
        let source = self.source(&request.source).map_err(|_| Status::unauthorized())?;
        let key = self.webhooks.key_of(&source).await.map_err(|problem| {
            tracing::warn!(source = source.name(), problem, "a push of bindings cannot be checked");
            Status::unauthorized()
        })?;
        let at = signed.strip_prefix("t=").and_then(|rest| rest.split(',').next()?.parse::<i64>().ok());
        let at = at.ok_or_else(Status::unauthorized)?;
        let is_signed = constant_time_eq(signature(&key, at, body).as_bytes(), signed.as_bytes());
        if !is_signed || Timestamp::now().as_second().abs_diff(at) > SIGNED_FOR.unsigned_abs() {
            return Err(Status::unauthorized());
        }
        self.push(request).await
    }
}

fn state_of(source: &str) -> ResourceRef {
    let gvr = builtin::config_maps();
    ResourceRef::namespaced(&gvr, CREDENTIAL_NAMESPACE, &format!("bindings-{source}"))
}

fn spec_of(source: &str, grants_platform: bool, binding: &PushedBinding) -> Result<(String, Value), Status> {
    let role = binding.role.as_str();
    let is_platform = PLATFORM_ROLES.contains(&role);
    if !is_platform && !INSTANCE_ROLES.contains(&role) {
        return Err(Status::bad_request(format!("role: {role:?} is not a built-in role")));
    }
    let subject = binding.subject.clone().unwrap_or_default();
    let target = binding.target.clone().unwrap_or_default();
    let fields = [
        ("folder", &target.folder),
        ("workspace", &target.workspace),
        ("instance", &target.instance),
        ("namespace", &target.namespace),
    ];
    let target: BTreeMap<&str, &String> = fields.into_iter().filter(|(_, value)| !value.is_empty()).collect();
    // Without a target every role applies to the whole platform.
    if (is_platform || target.is_empty()) && !grants_platform {
        let text = format!("role: the source {source} may not grant {role} on the whole platform");
        return Err(Status::new(403, "Forbidden", text));
    }
    let mut spec = json!({"subject": {"kind": subject.kind, "name": subject.name}, "role": role, "source": source});
    if !target.is_empty() {
        spec["target"] = json!(target);
    }
    let id = hash(&spec.to_string());
    Ok((format!("{source}-{}", &id[..24]), spec))
}

/// `POST /flotilla/manager/webhooks/bindings`: a push that is signed with the key of its source.
pub struct SignedPushEndpoint {
    pub intake: BindingIntake,
}

#[async_trait]
impl Extension for SignedPushEndpoint {
    fn handles(&self, path: &str) -> bool {
        path == PATH
    }

    fn judges_callers(&self) -> bool {
        true
    }

    fn is_public(&self) -> bool {
        true
    }

    async fn serve(&self, _server: &Arc<Server>, request: ExtensionRequest) -> Result<Response<Body>, Status> {
        if request.incoming.method != Method::POST {
            return Err(Status::method_not_served());
        }
        let signed = request.incoming.headers.get(SIGNATURE_HEADER).and_then(|value| value.to_str().ok());
        let signed = signed.ok_or_else(Status::unauthorized)?.to_owned();
        let body = request.incoming.body.read().await?;
        let answer = self.intake.push_signed(&signed, &body).await?;
        let text = serde_json::to_string(&answer).map_err(Status::internal)?;
        Ok(respond::text(200, "application/json", text))
    }
}

#[cfg(test)]
mod tests {
    use manager_api::{Subject, Target};

    use super::*;

    #[test]
    fn pushes_are_taken_once_and_in_order() {
        for (last, sequence, is_full, expected) in [
            (0, 1, false, Order::Next),
            (4, 5, false, Order::Next),
            (4, 6, false, Order::Gap),
            (4, 6, true, Order::Next),
            (4, 4, true, Order::Repeated),
            (4, 1, false, Order::Repeated),
        ] {
            assert_eq!(order(last, sequence, is_full), expected, "{last} {sequence} {is_full}");
        }
    }

    #[track_caller]
    fn check(role: &str, instance: &str, grants_platform: bool, expected: Result<(), u16>) {
        let binding = PushedBinding {
            subject: Some(Subject { kind: "User".into(), name: "ann".into() }),
            role: role.into(),
            target: Some(Target { instance: instance.into(), ..Target::default() }),
        };
        let found = spec_of("iam", grants_platform, &binding);
        assert_eq!(found.as_ref().map(|_| ()).map_err(|status| status.code), expected, "{role} {instance}");
        if let Ok((name, spec)) = found {
            assert!(name.starts_with("iam-") && spec["source"] == "iam");
        }
    }

    #[test]
    fn a_source_grants_on_the_platform_only_where_it_is_allowed() {
        check("edit", "east", false, Ok(()));
        check("edit", "", false, Err(403));
        check("platform-admin", "", false, Err(403));
        check("platform-admin", "", true, Ok(()));
        check("own-role", "east", true, Err(400));
    }
}
