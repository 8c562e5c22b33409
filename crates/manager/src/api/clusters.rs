//! `ClusterService`: the inventory, and the clusters of instances.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::cluster::CLUSTERS;
use api::work::RESOURCE_BINDINGS;
use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cluster_client::{ClusterClient, DeleteOptions, Endpoint, ListOptions, Patch, ResourceRef, WriteOptions};
use instances::import;
use manager_api::*;
use manager_kinds::access_rules::is_pull;
use manager_kinds::grants::{InstanceRole, PlatformRole};
use manager_kinds::{INSTANCE_NAMESPACE, MANAGED_CLUSTERS};
use object::builtin;
use object::request::User;
use object::{GroupVersionKind, GroupVersionResource, Object, Status, conditions};
use serde_json::{Value, json};
use transcode::call::Results;
use transcode::errors::failed_precondition;

use super::convert::{conditions_of, created, labels, quantities, statistic};
use super::instances::confirmed;
use super::lists::{ListRequest, page};
use super::{ApiCaller, ManagerApi};
use crate::access::Rights;

const FIELD_MANAGER: &str = "flotilla";
const KUBECONFIG_KEY: &str = "kubeconfig";
/// The taint that keeps new workloads off a cluster.
const CORDON: (&str, &str) = ("cluster.karmada.io/unschedulable", "NoSchedule");
/// Objects that a preview names.
const PREVIEW_MAX: usize = 100;

/// The zone of a cluster.
pub fn zone(cluster: &Object) -> String {
    let zones = cluster.items(&["spec", "zones"]).iter().filter_map(Value::as_str);
    let zones = zones.collect::<Vec<_>>().join(",");
    if zones.is_empty() { cluster.str_at(&["spec", "zone"]).to_owned() } else { zones }
}

pub(super) fn managed(cluster: &Object) -> ManagedCluster {
    let spec = |field: &str| cluster.str_at(&["spec", field]).to_owned();
    let status = |field: &str| cluster.str_at(&["status", field]).to_owned();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let given = cluster.get(&["spec", "labels"]).and_then(Value::as_object).into_iter().flatten();
    ManagedCluster {
        name: cluster.name().to_owned(),
        uid: cluster.uid().to_owned(),
        etag: cluster.resource_version().to_owned(),
        display_name: spec("displayName"),
        provider: spec("provider"),
        region: spec("region"),
        zone: spec("zone"),
        labels: given.map(|(key, value)| (key.clone(), text(value))).collect(),
        instances: cluster.items(&["spec", "instances"]).iter().map(text).collect(),
        kubernetes_version: status("kubernetesVersion"),
        system_id: status("systemID"),
        phase: status("phase"),
        conditions: conditions_of(cluster),
        joined_to: cluster
            .items(&["status", "joinedTo"])
            .iter()
            .map(|entry| Join { instance: text(&entry["instance"]), message: text(&entry["message"]) })
            .collect(),
        create_time: created(cluster),
        mode: if is_pull(cluster) { "Pull" } else { "Push" }.to_owned(),
    }
}

pub(super) fn joined(cluster: &Object) -> JoinedCluster {
    let spec = |field: &str| cluster.str_at(&["spec", field]).to_owned();
    let ready = conditions::find(cluster, "Ready");
    let summary = cluster.get(&["status", "resourceSummary"]);
    let taints: Vec<Taint> = cluster.items(&["spec", "taints"]).iter().map(taint).collect();
    JoinedCluster {
        name: cluster.name().to_owned(),
        uid: cluster.uid().to_owned(),
        etag: cluster.resource_version().to_owned(),
        provider: spec("provider"),
        region: spec("region"),
        zone: zone(cluster),
        labels: labels(cluster),
        unschedulable: taints.iter().any(|taint| (taint.key.as_str(), taint.effect.as_str()) == CORDON),
        taints,
        sync_mode: spec("syncMode"),
        kubernetes_version: cluster.str_at(&["status", "kubernetesVersion"]).to_owned(),
        ready: ready.is_some_and(|ready| ready.is_true()),
        message: ready.filter(|ready| !ready.is_true()).map(|ready| ready.message().to_owned()).unwrap_or_default(),
        nodes: statistic(cluster.get(&["status", "nodeSummary"])),
        allocatable: quantities(summary.and_then(|summary| summary.get("allocatable"))),
        allocated: quantities(summary.and_then(|summary| summary.get("allocated"))),
        create_time: created(cluster),
        removing: cluster.is_deleting(),
        version: String::new(),
    }
}

/// Adds the version that a patch is for.
fn with_version(mut patch: Value, etag: &str) -> Value {
    if !etag.is_empty() {
        patch["metadata"]["resourceVersion"] = etag.into();
    }
    patch
}

/// Refuses a write of another version than the one that was read.
pub(super) fn require_version(resource: &api::Resource, object: &Object, etag: &str) -> Result<(), Status> {
    match etag.is_empty() || etag == object.resource_version() {
        true => Ok(()),
        false => Err(Status::stale(&resource.gvr().group_resource(), object.name())),
    }
}

fn taint(value: &Value) -> Taint {
    let text = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
    Taint { key: text("key"), value: text("value"), effect: text("effect") }
}

fn taint_value(taint: &Taint) -> Value {
    let mut value = json!({"key": taint.key, "effect": taint.effect});
    if !taint.value.is_empty() {
        value["value"] = taint.value.clone().into();
    }
    value
}

fn secrets() -> GroupVersionResource {
    builtin::secrets()
}

/// Name of the Secret with the kubeconfig of a cluster.
fn secret_name(cluster: &str) -> String {
    format!("{cluster}-kubeconfig")
}

/// Returns true for a cluster whose kubeconfig the manager stored when it was registered.
fn has_own_secret(cluster: &Object) -> bool {
    let reference = |field: &str| cluster.str_at(&["spec", "secretRef", field]);
    reference("namespace") == INSTANCE_NAMESPACE
        && reference("name") == secret_name(cluster.name())
        && ["", KUBECONFIG_KEY].contains(&reference("key"))
}

fn kubeconfig_secret(cluster: &str, kubeconfig: &str) -> Object {
    let kind = GroupVersionKind::new("", "v1", "Secret");
    let mut secret = Object::new(&kind, Some(INSTANCE_NAMESPACE), &secret_name(cluster));
    secret.set(&["data", KUBECONFIG_KEY], STANDARD.encode(kubeconfig));
    secret
}

/// Returns whether a user sees all clusters of the inventory, or those of instances it administers.
pub(super) fn sees_cluster(rights: &Rights, user: &User, cluster: &Object) -> bool {
    let platform = rights.platform_roles(user);
    if platform.contains(&PlatformRole::Admin) || platform.contains(&PlatformRole::InstanceOwner) {
        return true;
    }
    let mut instances = cluster.items(&["spec", "instances"]).iter().filter_map(Value::as_str);
    instances.any(|name| rights.instance_access(user, name).role == Some(InstanceRole::Admin))
}

impl ManagerApi {
    pub(super) fn sees_cluster(&self, user: &User, cluster: &Object) -> bool {
        sees_cluster(&self.operations.rights, user, cluster)
    }

    pub(super) fn administers(&self, caller: &ApiCaller, instance: &str) -> bool {
        self.operations.rights.instance_access(&caller.user, instance).role == Some(InstanceRole::Admin)
    }

    pub(super) async fn managed_cluster(&self, caller: &ApiCaller, name: &str) -> Result<Arc<Object>, Status> {
        let missing = || Status::not_found(&MANAGED_CLUSTERS.gvr().group_resource(), name);
        let found = self.system.find(ResourceRef::cluster(&MANAGED_CLUSTERS.gvr(), name)).await?;
        found.filter(|cluster| self.sees_cluster(&caller.user, cluster)).ok_or_else(missing)
    }

    async fn patch_managed(&self, name: &str, patch: Value, dry_run: bool) -> Result<Arc<Object>, Status> {
        let options = WriteOptions { dry_run, ..WriteOptions::managed_by(FIELD_MANAGER) };
        self.system.patch(ResourceRef::cluster(&MANAGED_CLUSTERS.gvr(), name), Patch::merge(patch), options).await
    }

    /// Reaches the cluster of a kubeconfig.
    async fn try_kubeconfig(&self, kubeconfig: &str) -> Result<ValidateKubeconfigResponse, Status> {
        let invalid = |problem: String| Status::bad_request(format!("kubeconfig: {problem}"));
        let mut remote = import::read_kubeconfig(kubeconfig).map_err(invalid)?;
        self.operations.endpoints.check(&remote.server).await.map_err(invalid)?;
        remote.addresses = self.operations.endpoints.addresses();
        let server = remote.server.clone();
        let client = ClusterClient::connect(Endpoint::Remote(remote)).map_err(|error| invalid(error.to_string()))?;
        let unreachable = |status: Status| failed_precondition(format!("{server} cannot be used: {status}"));
        let version = client.get_json("/version").await.map_err(unreachable)?;
        let namespaces = builtin::namespaces();
        let system = client.find(ResourceRef::cluster(&namespaces, "kube-system")).await.map_err(unreachable)?;
        Ok(ValidateKubeconfigResponse {
            kubernetes_version: version["gitVersion"].as_str().unwrap_or_default().to_owned(),
            system_id: system.map(|system| system.uid().to_owned()).unwrap_or_default(),
            server,
        })
    }

    async fn patch_joined(
        &self,
        caller: &ApiCaller,
        (instance, name): (&str, &str),
        patch: Value,
        dry_run: bool,
    ) -> Result<JoinedCluster, Status> {
        let client = self.operations.instance_client(&caller.user, instance).await?;
        let options = WriteOptions { dry_run, ..WriteOptions::managed_by(FIELD_MANAGER) };
        let target = ResourceRef::cluster(&CLUSTERS.gvr(), name);
        let patched = client.patch(target, Patch::merge(patch), options).await?;
        let version = self.version_of(instance, patched.resource_version());
        Ok(JoinedCluster { version, ..joined(&patched) })
    }

    async fn joined_cluster(&self, caller: &ApiCaller, instance: &str, name: &str) -> Result<Arc<Object>, Status> {
        let client = self.operations.instance_client(&caller.user, instance).await?;
        client.get(ResourceRef::cluster(&CLUSTERS.gvr(), name)).await
    }

    async fn clusters_of(&self, caller: &ApiCaller, instance: &str) -> Result<Vec<Arc<Object>>, Status> {
        let client = self.operations.instance_client(&caller.user, instance).await?;
        let list = client.list_all(ResourceRef::all(&CLUSTERS.gvr()), ListOptions::default()).await?;
        Ok(list.items)
    }

    /// Takes a cluster out of an instance: through the inventory, or in the instance when it was joined in another way.
    pub(super) async fn unjoin(
        &self,
        caller: &ApiCaller,
        (instance, name): (&str, &str),
        dry_run: bool,
    ) -> Result<(), Status> {
        let cluster = self.system.find(ResourceRef::cluster(&MANAGED_CLUSTERS.gvr(), name)).await?;
        let instances = cluster.iter().flat_map(|cluster| cluster.items(&["spec", "instances"]));
        let instances: Vec<&Value> = instances.collect();
        if !instances.iter().any(|joined| **joined == instance) {
            let client = self.operations.instance_client(&caller.user, instance).await?;
            let target = ResourceRef::cluster(&CLUSTERS.gvr(), name);
            let options = DeleteOptions { dry_run, ..DeleteOptions::default() };
            return client.delete(target, options).await.map(drop);
        }
        let rest: Vec<&Value> = instances.into_iter().filter(|joined| **joined != instance).collect();
        self.patch_managed(name, json!({"spec": {"instances": rest}}), dry_run).await.map(drop)
    }

    async fn set_cordon(
        &self,
        caller: &ApiCaller,
        at: (&str, &str),
        is_on: bool,
        (etag, dry_run): (&str, bool),
    ) -> Result<JoinedCluster, Status> {
        let cluster = self.joined_cluster(caller, at.0, at.1).await?;
        require_version(&CLUSTERS, &cluster, etag)?;
        let mut taints: Vec<Taint> = cluster.items(&["spec", "taints"]).iter().map(taint).collect();
        taints.retain(|taint| (taint.key.as_str(), taint.effect.as_str()) != CORDON);
        if is_on {
            taints.push(Taint { key: CORDON.0.to_owned(), value: String::new(), effect: CORDON.1.to_owned() });
        }
        let taints: Vec<Value> = taints.iter().map(taint_value).collect();
        let version = cluster.resource_version();
        let patch = json!({"metadata": {"resourceVersion": version}, "spec": {"taints": taints}});
        self.patch_joined(caller, at, patch, dry_run).await
    }
}

#[async_trait]
impl ClusterService<ApiCaller> for ManagerApi {
    async fn list_managed_clusters(
        &self,
        caller: &ApiCaller,
        request: ListManagedClustersRequest,
    ) -> Result<ListManagedClustersResponse, Status> {
        let list = self.system.list_all(ResourceRef::all(&MANAGED_CLUSTERS.gvr()), ListOptions::default()).await?;
        let visible = list.items.into_iter().filter(|cluster| self.sees_cluster(&caller.user, cluster)).collect();
        let found = page(
            &self.page_key,
            visible,
            &ListRequest {
                filter: &request.filter,
                order_by: &request.order_by,
                page_size: request.page_size,
                page_token: &request.page_token,
                page: request.page,
                include_total: request.include_total,
                scope: format!("kindless inventory {}", caller.user.name),
            },
        )?;
        Ok(ListManagedClustersResponse {
            clusters: found.items.iter().map(|cluster| managed(cluster)).collect(),
            next_page_token: found.next_page_token,
            total: found.total,
            version: format!("manager:{}", list.resource_version),
        })
    }

    async fn get_managed_cluster(
        &self,
        caller: &ApiCaller,
        request: GetManagedClusterRequest,
    ) -> Result<ManagedCluster, Status> {
        self.managed_cluster(caller, &request.name).await.map(|cluster| managed(&cluster))
    }

    async fn register_cluster(&self, _: &ApiCaller, request: RegisterClusterRequest) -> Result<ManagedCluster, Status> {
        let wanted = request.cluster.unwrap_or_default();
        let mut cluster = MANAGED_CLUSTERS.object("", &wanted.name);
        let has_kubeconfig = match wanted.mode.as_str() {
            "Pull" if !request.kubeconfig.is_empty() => {
                return Err(Status::bad_request("kubeconfig: is not for pull clusters"));
            }
            "Pull" => {
                cluster.set(&["spec", "mode"], "Pull");
                false
            }
            "" | "Push" => {
                self.try_kubeconfig(&request.kubeconfig).await?;
                let name = secret_name(&wanted.name);
                let secret = json!({"namespace": INSTANCE_NAMESPACE, "name": name, "key": KUBECONFIG_KEY});
                cluster.set(&["spec", "secretRef"], secret);
                true
            }
            _ => return Err(Status::bad_request("mode: must be Push or Pull")),
        };
        let texts = [
            ("displayName", &wanted.display_name),
            ("provider", &wanted.provider),
            ("region", &wanted.region),
            ("zone", &wanted.zone),
        ];
        for (field, value) in texts.into_iter().filter(|(_, value)| !value.is_empty()) {
            cluster.set(&["spec", field], value.as_str());
        }
        cluster.set(&["spec", "labels"], json!(wanted.labels));
        cluster.set(&["spec", "instances"], json!(wanted.instances));
        let options = |dry_run| WriteOptions { dry_run, ..WriteOptions::managed_by(FIELD_MANAGER) };
        let collection = ResourceRef::all(&MANAGED_CLUSTERS.gvr());
        let checked = self.system.create(collection.clone(), cluster.clone(), options(true)).await?;
        if request.validate_only {
            return Ok(managed(&checked));
        }
        if has_kubeconfig {
            let secret = kubeconfig_secret(&wanted.name, &request.kubeconfig);
            self.system.create(ResourceRef::within(&secrets(), INSTANCE_NAMESPACE), secret, options(false)).await?;
        }
        let created = self.system.create(collection, cluster, options(false)).await;
        if created.is_err() && has_kubeconfig {
            let target = ResourceRef::namespaced(&secrets(), INSTANCE_NAMESPACE, &secret_name(&wanted.name));
            // The cluster was refused; a Secret without one would be left behind.
            let _ = self.system.delete(target, DeleteOptions::default()).await;
        }
        created.map(|cluster| managed(&cluster))
    }

    async fn validate_kubeconfig(
        &self,
        _: &ApiCaller,
        request: ValidateKubeconfigRequest,
    ) -> Result<ValidateKubeconfigResponse, Status> {
        self.try_kubeconfig(&request.kubeconfig).await
    }

    async fn update_managed_cluster(
        &self,
        _: &ApiCaller,
        request: UpdateManagedClusterRequest,
    ) -> Result<ManagedCluster, Status> {
        let wanted = request.cluster.unwrap_or_default();
        let mask = request.update_mask.unwrap_or_default().paths;
        let mut patch = json!({"spec": {}});
        for field in &mask {
            let (name, value) = match field.as_str() {
                "display_name" => ("displayName", json!(wanted.display_name)),
                "provider" => ("provider", json!(wanted.provider)),
                "region" => ("region", json!(wanted.region)),
                "zone" => ("zone", json!(wanted.zone)),
                "labels" => ("labels", json!(wanted.labels)),
                "instances" => ("instances", json!(wanted.instances)),
                "name" | "etag" => continue,
                other => return Err(Status::bad_request(format!("updateMask: {other} cannot be changed"))),
            };
            patch["spec"][name] = value;
        }
        if !wanted.etag.is_empty() {
            patch["metadata"]["resourceVersion"] = wanted.etag.clone().into();
        }
        self.patch_managed(&wanted.name, patch, request.validate_only).await.map(|cluster| managed(&cluster))
    }

    async fn delete_managed_cluster(
        &self,
        caller: &ApiCaller,
        request: DeleteManagedClusterRequest,
    ) -> Result<(), Status> {
        confirmed(&request.name, &request.confirm_name)?;
        let cluster = self.managed_cluster(caller, &request.name).await?;
        require_version(&MANAGED_CLUSTERS, &cluster, &request.etag)?;
        let joined = cluster.items(&["status", "joinedTo"]).len() + cluster.items(&["spec", "instances"]).len();
        if joined > 0 {
            return Err(failed_precondition(format!("the cluster {} is joined to an instance", request.name)));
        }
        let target = ResourceRef::cluster(&MANAGED_CLUSTERS.gvr(), &request.name);
        let options = DeleteOptions { dry_run: request.validate_only, ..DeleteOptions::default() };
        self.system.delete(target, options).await?;
        if request.validate_only || !has_own_secret(&cluster) {
            return Ok(());
        }
        let secret = ResourceRef::namespaced(&secrets(), INSTANCE_NAMESPACE, &secret_name(&request.name));
        match self.system.delete(secret, DeleteOptions::default()).await {
            Err(status) if !status.is_not_found() => Err(status),
            _ => Ok(()),
        }
    }

    async fn put_credentials(
        &self,
        caller: &ApiCaller,
        request: PutCredentialsRequest,
    ) -> Result<CredentialState, Status> {
        let cluster = self.managed_cluster(caller, &request.name).await?;
        if is_pull(&cluster) {
            return Err(failed_precondition(
                "a pull cluster has no kubeconfig: its agent has a credential of its instance",
            ));
        }
        let reached = self.try_kubeconfig(&request.kubeconfig).await?;
        let known = cluster.str_at(&["status", "systemID"]);
        if !known.is_empty() && known != reached.system_id {
            return Err(failed_precondition("the kubeconfig is for another cluster; the old one is kept"));
        }
        let reference = |field: &str| cluster.str_at(&["spec", "secretRef", field]);
        let key = Some(reference("key")).filter(|key| !key.is_empty()).unwrap_or(KUBECONFIG_KEY);
        let patch = json!({"data": {key: STANDARD.encode(&request.kubeconfig)}});
        let target = ResourceRef::namespaced(&secrets(), reference("namespace"), reference("name"));
        // The manager writes what it keeps for the cluster itself; any other Secret needs the rights of the caller.
        let client = match has_own_secret(&cluster) {
            true => self.system.clone(),
            false => self.operations.client_as(&caller.user).map_err(Status::internal)?,
        };
        let options = WriteOptions { dry_run: request.validate_only, ..WriteOptions::managed_by(FIELD_MANAGER) };
        client.patch(target, Patch::merge(patch), options).await?;
        Ok(CredentialState { fingerprint: pki::token::hash(&request.kubeconfig), valid: true, message: String::new() })
    }

    async fn get_credential_state(
        &self,
        caller: &ApiCaller,
        request: GetCredentialStateRequest,
    ) -> Result<CredentialState, Status> {
        let cluster = self.managed_cluster(caller, &request.name).await?;
        let valid = conditions::find(&cluster, "CredentialsValid");
        Ok(CredentialState {
            fingerprint: cluster.str_at(&["status", "credential", "fingerprint"]).to_owned(),
            valid: valid.is_some_and(|valid| valid.is_true()),
            message: valid.map(|valid| valid.message().to_owned()).unwrap_or_default(),
        })
    }

    async fn list_joined_clusters(
        &self,
        caller: &ApiCaller,
        request: ListJoinedClustersRequest,
    ) -> Result<ListJoinedClustersResponse, Status> {
        let client = self.operations.instance_client(&caller.user, &request.instance).await?;
        let list = client.list_all(ResourceRef::all(&CLUSTERS.gvr()), ListOptions::default()).await?;
        let found = page(
            &self.page_key,
            list.items,
            &ListRequest {
                filter: &request.filter,
                order_by: &request.order_by,
                page_size: request.page_size,
                page_token: &request.page_token,
                page: request.page,
                include_total: request.include_total,
                scope: format!("kindless clusters {} {}", caller.user.name, request.instance),
            },
        )?;
        Ok(ListJoinedClustersResponse {
            clusters: found.items.iter().map(|cluster| joined(cluster)).collect(),
            next_page_token: found.next_page_token,
            total: found.total,
            version: self.version_of(&request.instance, &list.resource_version),
        })
    }

    async fn get_joined_cluster(
        &self,
        caller: &ApiCaller,
        request: GetJoinedClusterRequest,
    ) -> Result<JoinedCluster, Status> {
        self.joined_cluster(caller, &request.instance, &request.name).await.map(|cluster| joined(&cluster))
    }

    async fn join_cluster(&self, caller: &ApiCaller, request: JoinClusterRequest) -> Result<ManagedCluster, Status> {
        self.entry(&request.instance)?;
        // An instance has all rights in its clusters: its administrators take no cluster they cannot see.
        let cluster = self.managed_cluster(caller, &request.name).await?;
        let mut instances = cluster.items(&["spec", "instances"]).to_vec();
        if !instances.iter().any(|name| name == request.instance.as_str()) {
            instances.push(request.instance.clone().into());
        }
        let version = cluster.resource_version();
        let patch = json!({"metadata": {"resourceVersion": version}, "spec": {"instances": instances}});
        self.patch_managed(&request.name, patch, request.validate_only).await.map(|cluster| managed(&cluster))
    }

    async fn update_joined_cluster(
        &self,
        caller: &ApiCaller,
        request: UpdateJoinedClusterRequest,
    ) -> Result<JoinedCluster, Status> {
        let wanted = request.cluster.unwrap_or_default();
        let mut patch = json!({"spec": {}});
        for field in &request.update_mask.unwrap_or_default().paths {
            match field.as_str() {
                "labels" => patch["metadata"]["labels"] = json!(wanted.labels),
                "provider" => patch["spec"]["provider"] = json!(wanted.provider),
                "region" => patch["spec"]["region"] = json!(wanted.region),
                "zone" => patch["spec"]["zones"] = json!([wanted.zone]),
                "taints" => patch["spec"]["taints"] = wanted.taints.iter().map(taint_value).collect(),
                "name" | "etag" => {}
                other => return Err(Status::bad_request(format!("updateMask: {other} cannot be changed"))),
            }
        }
        if !wanted.etag.is_empty() {
            patch["metadata"]["resourceVersion"] = wanted.etag.clone().into();
        }
        self.patch_joined(caller, (&request.instance, &wanted.name), patch, request.validate_only).await
    }

    async fn preview_removal(
        &self,
        caller: &ApiCaller,
        request: PreviewRemovalRequest,
    ) -> Result<RemovalPreview, Status> {
        self.joined_cluster(caller, &request.instance, &request.name).await?;
        let client = self.operations.instance_client(&caller.user, &request.instance).await?;
        let bindings = client.list_all(ResourceRef::all(&RESOURCE_BINDINGS.gvr()), ListOptions::default()).await?;
        let mut preview = RemovalPreview::default();
        for binding in &bindings.items {
            let clusters = binding.items(&["spec", "clusters"]);
            if !clusters.iter().any(|cluster| cluster["name"] == request.name.as_str()) {
                continue;
            }
            preview.total += 1;
            let list = if clusters.len() > 1 { &mut preview.moved } else { &mut preview.only_here };
            if list.len() < PREVIEW_MAX {
                let text = |field: &str| binding.str_at(&["spec", "resource", field]);
                list.push(format!("{} {}/{}", text("kind"), text("namespace"), text("name")));
            }
        }
        Ok(preview)
    }

    async fn remove_joined_cluster(
        &self,
        caller: &ApiCaller,
        request: RemoveJoinedClusterRequest,
    ) -> Result<(), Status> {
        confirmed(&request.name, &request.confirm_name)?;
        if !request.etag.is_empty() {
            let cluster = self.joined_cluster(caller, &request.instance, &request.name).await?;
            require_version(&CLUSTERS, &cluster, &request.etag)?;
        }
        self.unjoin(caller, (&request.instance, &request.name), request.validate_only).await
    }

    async fn cordon_cluster(&self, caller: &ApiCaller, request: CordonClusterRequest) -> Result<JoinedCluster, Status> {
        let mode = (request.etag.as_str(), request.validate_only);
        self.set_cordon(caller, (&request.instance, &request.name), true, mode).await
    }

    async fn uncordon_cluster(
        &self,
        caller: &ApiCaller,
        request: UncordonClusterRequest,
    ) -> Result<JoinedCluster, Status> {
        let mode = (request.etag.as_str(), request.validate_only);
        self.set_cordon(caller, (&request.instance, &request.name), false, mode).await
    }

    async fn set_taints(&self, caller: &ApiCaller, request: SetTaintsRequest) -> Result<JoinedCluster, Status> {
        let taints: Vec<Value> = request.taints.iter().map(taint_value).collect();
        let patch = with_version(json!({"spec": {"taints": taints}}), &request.etag);
        self.patch_joined(caller, (&request.instance, &request.name), patch, request.validate_only).await
    }

    async fn set_labels(&self, caller: &ApiCaller, request: SetLabelsRequest) -> Result<JoinedCluster, Status> {
        let cluster = self.joined_cluster(caller, &request.instance, &request.name).await?;
        let mut wanted = json!(request.labels);
        for (key, _) in cluster.labels().filter(|(key, _)| !request.labels.contains_key(*key)) {
            wanted[key] = Value::Null;
        }
        let patch = with_version(json!({"metadata": {"labels": wanted}}), &request.etag);
        self.patch_joined(caller, (&request.instance, &request.name), patch, request.validate_only).await
    }

    async fn list_locations(
        &self,
        caller: &ApiCaller,
        request: ListLocationsRequest,
    ) -> Result<ListLocationsResponse, Status> {
        let mut places: BTreeMap<(String, String, String), Vec<String>> = BTreeMap::new();
        for cluster in self.clusters_of(caller, &request.instance).await? {
            let spec = |field: &str| cluster.str_at(&["spec", field]).to_owned();
            let place = (spec("provider"), spec("region"), zone(&cluster));
            places.entry(place).or_default().push(cluster.name().to_owned());
        }
        let shown = places.into_iter().map(|((provider, region, zone), clusters)| Location {
            provider,
            region,
            zone,
            clusters,
        });
        Ok(ListLocationsResponse { locations: shown.collect() })
    }

    async fn list_cluster_labels(
        &self,
        caller: &ApiCaller,
        request: ListClusterLabelsRequest,
    ) -> Result<ListClusterLabelsResponse, Status> {
        let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for cluster in self.clusters_of(caller, &request.instance).await? {
            for (key, value) in cluster.labels() {
                all.entry(key.to_owned()).or_default().insert(value.to_owned());
            }
        }
        let shown = all.into_iter().map(|(key, values)| LabelValues { key, values: values.into_iter().collect() });
        Ok(ListClusterLabelsResponse { labels: shown.collect() })
    }

    async fn watch_managed_clusters(
        &self,
        caller: &ApiCaller,
        request: WatchManagedClustersRequest,
    ) -> Result<Results<ManagedClusterEvent>, Status> {
        self.watch_inventory(caller, &request).await
    }

    async fn rotate_credentials(
        &self,
        caller: &ApiCaller,
        request: RotateCredentialsRequest,
    ) -> Result<CredentialState, Status> {
        self.rotate(caller, &request).await
    }

    async fn watch_joined_clusters(
        &self,
        caller: &ApiCaller,
        request: WatchJoinedClustersRequest,
    ) -> Result<Results<JoinedClusterEvent>, Status> {
        self.watch_clusters(caller, &request.instance).await
    }

    async fn create_registration_token(
        &self,
        caller: &ApiCaller,
        request: CreateRegistrationTokenRequest,
    ) -> Result<RegistrationToken, Status> {
        self.new_registration_token(caller, &request).await
    }

    async fn list_registration_tokens(
        &self,
        caller: &ApiCaller,
        request: ListRegistrationTokensRequest,
    ) -> Result<ListRegistrationTokensResponse, Status> {
        let tokens = self.registration_tokens(caller, &request.instance).await?;
        Ok(ListRegistrationTokensResponse { tokens })
    }

    async fn delete_registration_token(
        &self,
        caller: &ApiCaller,
        request: DeleteRegistrationTokenRequest,
    ) -> Result<(), Status> {
        self.remove_registration_token(caller, &request).await
    }

    async fn list_pending_agents(
        &self,
        caller: &ApiCaller,
        request: ListPendingAgentsRequest,
    ) -> Result<ListPendingAgentsResponse, Status> {
        let agents = self.pending_agents(caller, &request.instance).await?;
        Ok(ListPendingAgentsResponse { agents })
    }

    async fn approve_agent(&self, caller: &ApiCaller, request: ApproveAgentRequest) -> Result<PendingAgent, Status> {
        self.approve(caller, &request).await
    }
}
