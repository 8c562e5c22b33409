//! `WorkloadService`: workloads with their clusters.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use api::work::RESOURCE_BINDINGS;
use async_trait::async_trait;
use cluster_client::{ClusterClient, ListOptions, Patch, ResourceRef, WriteOptions};
use futures::future::join_all;
use jiff::Timestamp;
use manager_api::*;
use object::{GroupVersionResource, Object, Status, conditions, time};
use serde_json::{Value, json};
use transcode::errors::failed_precondition;

use super::convert::{created, labels};
use super::lists::{ListRequest, page};
use super::policies::{placed, policy_text};
use super::promotion::Promoted;
use super::{ApiCaller, ManagerApi};

const FIELD_MANAGER: &str = "flotilla-console";
const KINDS: [(&str, &str, &str); 5] = [
    ("apps", "deployments", "Deployment"),
    ("apps", "statefulsets", "StatefulSet"),
    ("apps", "daemonsets", "DaemonSet"),
    ("batch", "jobs", "Job"),
    ("batch", "cronjobs", "CronJob"),
];
/// Time for the answer of one cluster.
const CLUSTER_TIMEOUT: Duration = Duration::from_secs(10);

fn gvr(resource: &str) -> Result<GroupVersionResource, Status> {
    let found = KINDS.iter().find(|(_, plural, _)| *plural == resource);
    let names: Vec<&str> = KINDS.iter().map(|(_, plural, _)| *plural).collect();
    let (group, plural, _) =
        found.ok_or_else(|| Status::bad_request(format!("resource: must be one of {}", names.join(", "))))?;
    Ok(GroupVersionResource::new(*group, "v1", *plural))
}

fn resource_of(kind: &str) -> &'static str {
    KINDS.iter().find(|(_, _, known)| *known == kind).map_or("", |(_, plural, _)| plural)
}

fn message(workload: &Object, binding: Option<&Object>, version: String) -> Workload {
    let number = |path: &[&str]| workload.i64_at(path).unwrap_or_default();
    let (replicas, ready) = match workload.kind() {
        "DaemonSet" => (number(&["status", "desiredNumberScheduled"]), number(&["status", "numberReady"])),
        "Job" => (workload.i64_at(&["spec", "completions"]).unwrap_or(1), number(&["status", "succeeded"])),
        "CronJob" => (0, 0),
        _ => (workload.i64_at(&["spec", "replicas"]).unwrap_or(1), number(&["status", "readyReplicas"])),
    };
    let paused = ["paused", "suspend"].iter().any(|field| workload.bool_at(&["spec", field]) == Some(true));
    Workload {
        resource: resource_of(workload.kind()).to_owned(),
        kind: workload.kind().to_owned(),
        namespace: workload.namespace().to_owned(),
        name: workload.name().to_owned(),
        uid: workload.uid().to_owned(),
        etag: workload.resource_version().to_owned(),
        labels: labels(workload),
        replicas,
        ready_replicas: ready,
        paused,
        clusters: binding.map(clusters).unwrap_or_default(),
        create_time: created(workload),
        version,
        policy: binding.map(policy_text).unwrap_or_default(),
    }
}

fn clusters(binding: &Object) -> Vec<WorkloadCluster> {
    let states = binding.items(&["status", "aggregatedStatus"]);
    let shown = placed(binding).map(|(name, replicas)| {
        let state = states.iter().find(|state| state["clusterName"] == name).unwrap_or(&Value::Null);
        let text = |field: &str| state[field].as_str().unwrap_or_default().to_owned();
        let health = text("health");
        WorkloadCluster {
            name: name.to_owned(),
            replicas,
            applied: state["applied"].as_bool() == Some(true),
            health: if health.is_empty() { "Unknown".to_owned() } else { health },
            message: text("appliedMessage"),
        }
    });
    shown.collect()
}

/// Bindings by the object they place.
async fn bindings_of(client: &ClusterClient, namespace: &str) -> HashMap<(String, String, String), Arc<Object>> {
    let scope = match namespace {
        "" => ResourceRef::all(&RESOURCE_BINDINGS.gvr()),
        namespace => ResourceRef::within(&RESOURCE_BINDINGS.gvr(), namespace),
    };
    // Without the right to read bindings, workloads are shown without clusters.
    let list = client.list_all(scope, ListOptions::default()).await.map(|list| list.items).unwrap_or_default();
    let key = |binding: &Object| {
        let text = |field: &str| binding.str_at(&["spec", "resource", field]).to_owned();
        (text("kind"), text("namespace"), text("name"))
    };
    list.into_iter().map(|binding| (key(&binding), binding)).collect()
}

fn key(workload: &Object) -> (String, String, String) {
    (workload.kind().to_owned(), workload.namespace().to_owned(), workload.name().to_owned())
}

/// The name of a workload in a request.
pub(super) struct Named<'a> {
    pub instance: &'a str,
    pub namespace: &'a str,
    pub resource: &'a str,
    pub name: &'a str,
}

/// Options of a write to a workload: as a dry run, and with a precondition on its version.
#[derive(Clone, Copy, Default)]
pub(super) struct WriteMode<'a> {
    pub validate_only: bool,
    pub etag: &'a str,
}

/// Returns the selector of the pods of a workload.
pub(super) fn pod_selector(resource: &str, workload: &Object) -> Result<String, Status> {
    let labels = workload.get(&["spec", "selector", "matchLabels"]).and_then(Value::as_object);
    let labels = labels.ok_or_else(|| failed_precondition(format!("{resource} have no selector of pods")))?;
    let pairs = labels.iter().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
    Ok(pairs.collect::<Vec<_>>().join(","))
}

/// Reads the same path in several clusters at once, with the caller's rights in each.
pub(super) async fn read_in_clusters<'a>(
    client: &ClusterClient,
    clusters: &'a [WorkloadCluster],
    path: &str,
) -> Vec<(&'a str, Result<Value, Status>)> {
    let reads = clusters.iter().map(|cluster| async move {
        let path = format!("/apis/cluster.karmada.io/v1alpha1/clusters/{}/proxy{path}", cluster.name);
        let read = tokio::time::timeout(CLUSTER_TIMEOUT, client.get_json(&path)).await;
        let timeout = || Err(Status::timeout("the cluster did not answer in time"));
        (cluster.name.as_str(), read.unwrap_or_else(|_| timeout()))
    });
    join_all(reads).await
}

impl ManagerApi {
    pub(super) async fn workload(
        &self,
        caller: &ApiCaller,
        named: &Named<'_>,
    ) -> Result<(ClusterClient, Workload, Arc<Object>), Status> {
        let gvr = gvr(named.resource)?;
        let client = self.operations.instance_client(&caller.user, named.instance).await?;
        let found = client.get(ResourceRef::namespaced(&gvr, named.namespace, named.name)).await?;
        let bindings = bindings_of(&client, named.namespace).await;
        let version = self.version_of(named.instance, found.resource_version());
        let shown = message(&found, bindings.get(&key(&found)).map(|binding| &**binding), version);
        Ok((client, shown, found))
    }

    pub(super) async fn patch_workload(
        &self,
        caller: &ApiCaller,
        named: &Named<'_>,
        mut patch: Value,
        mode: WriteMode<'_>,
    ) -> Result<Workload, Status> {
        if !mode.etag.is_empty() {
            patch["metadata"]["resourceVersion"] = mode.etag.into();
        }
        self.write_workload(caller, named, Patch::merge(patch), mode).await
    }

    async fn write_workload(
        &self,
        caller: &ApiCaller,
        named: &Named<'_>,
        patch: Patch,
        mode: WriteMode<'_>,
    ) -> Result<Workload, Status> {
        let gvr = gvr(named.resource)?;
        let client = self.operations.instance_client(&caller.user, named.instance).await?;
        let target = ResourceRef::namespaced(&gvr, named.namespace, named.name);
        let options = WriteOptions { dry_run: mode.validate_only, ..WriteOptions::managed_by(FIELD_MANAGER) };
        let patched = client.patch(target, patch, options).await?;
        let bindings = bindings_of(&client, named.namespace).await;
        let version = self.version_of(named.instance, patched.resource_version());
        Ok(message(&patched, bindings.get(&key(&patched)).map(|binding| &**binding), version))
    }

    /// Changes a workload by operations of a JSON patch.
    pub(super) async fn replace_in_workload(
        &self,
        caller: &ApiCaller,
        named: &Named<'_>,
        operations: &[Value],
        mode: WriteMode<'_>,
    ) -> Result<Workload, Status> {
        let mut operations = operations.to_vec();
        if !mode.etag.is_empty() {
            // The API refuses the write of another version.
            let version = json!({"op": "replace", "path": "/metadata/resourceVersion", "value": mode.etag});
            operations.insert(0, version);
        }
        self.write_workload(caller, named, Patch::json(operations.into()), mode).await
    }

    async fn set_paused(
        &self,
        caller: &ApiCaller,
        named: Named<'_>,
        is_paused: bool,
        mode: WriteMode<'_>,
    ) -> Result<Workload, Status> {
        let field = match named.resource {
            "deployments" => "paused",
            "jobs" | "cronjobs" => "suspend",
            other => return Err(failed_precondition(format!("{other} cannot be paused"))),
        };
        self.patch_workload(caller, &named, json!({"spec": {field: is_paused}}), mode).await
    }
}

#[async_trait]
impl WorkloadService<ApiCaller> for ManagerApi {
    async fn list_workloads(
        &self,
        caller: &ApiCaller,
        request: ListWorkloadsRequest,
    ) -> Result<ListWorkloadsResponse, Status> {
        let client = self.operations.instance_client(&caller.user, &request.instance).await?;
        let wanted = super::query::Query::parse(&request.filter, Timestamp::now())?.kinds;
        let (mut workloads, mut version) = (Vec::new(), String::new());
        for (group, plural, kind) in KINDS {
            let is_wanted = |name: &String| {
                let name = name.to_lowercase();
                plural.starts_with(&name) || kind.eq_ignore_ascii_case(&name) || super::search::is_short(&name, plural)
            };
            if !wanted.is_empty() && !wanted.iter().any(is_wanted) {
                continue;
            }
            let gvr = GroupVersionResource::new(group, "v1", plural);
            let scope = match request.namespace.as_str() {
                "" => ResourceRef::all(&gvr),
                namespace => ResourceRef::within(&gvr, namespace),
            };
            let list = client.list_all(scope, ListOptions::default()).await?;
            version = self.version_of(&request.instance, &list.resource_version);
            workloads.extend(list.items);
        }
        let list = ListRequest {
            filter: &request.filter,
            order_by: &request.order_by,
            page_size: request.page_size,
            page_token: &request.page_token,
            page: request.page,
            include_total: request.include_total,
            scope: format!("workloads {} {} {}", caller.user.name, request.instance, request.namespace),
        };
        let found = page(&self.page_key, workloads, &list)?;
        let bindings = bindings_of(&client, &request.namespace).await;
        let shown = found.items.iter().map(|workload| {
            let binding = bindings.get(&key(workload)).map(|binding| &**binding);
            message(workload, binding, self.version_of(&request.instance, workload.resource_version()))
        });
        Ok(ListWorkloadsResponse {
            workloads: shown.collect(),
            next_page_token: found.next_page_token,
            total: found.total,
            version,
        })
    }

    async fn get_workload(&self, caller: &ApiCaller, request: GetWorkloadRequest) -> Result<Workload, Status> {
        let GetWorkloadRequest { instance, namespace, resource, name, .. } = &request;
        let (_, workload, _) = self.workload(caller, &Named { instance, namespace, resource, name }).await?;
        Ok(workload)
    }

    async fn list_workload_pods(
        &self,
        caller: &ApiCaller,
        request: ListWorkloadPodsRequest,
    ) -> Result<ListWorkloadPodsResponse, Status> {
        let ListWorkloadPodsRequest { instance, namespace, resource, name } = &request;
        let named = Named { instance, namespace, resource, name };
        let (client, workload, object) = self.workload(caller, &named).await?;
        let selector = pod_selector(resource, &object)?;
        self.operations.prepare_member_user(&caller.user, instance).await?;
        let path = format!("/api/v1/namespaces/{namespace}/pods?labelSelector={}", object::percent::encode(&selector));
        let mut response = ListWorkloadPodsResponse::default();
        for (cluster, read) in read_in_clusters(&client, &workload.clusters, &path).await {
            match read {
                Ok(list) => {
                    let items = list["items"].as_array().cloned().unwrap_or_default();
                    response
                        .pods
                        .extend(items.into_iter().filter_map(Object::from_value).map(|found| pod(cluster, &found)));
                }
                Err(status) => response.unread.push(Unread {
                    instance: instance.clone(),
                    cluster: cluster.to_owned(),
                    reason: status.message,
                }),
            }
        }
        Ok(response)
    }

    async fn restart_workload(&self, caller: &ApiCaller, request: RestartWorkloadRequest) -> Result<Workload, Status> {
        let RestartWorkloadRequest { instance, namespace, resource, name, validate_only, etag } = &request;
        let mode = WriteMode { validate_only: *validate_only, etag };
        if !["deployments", "statefulsets", "daemonsets"].contains(&resource.as_str()) {
            return Err(failed_precondition(format!("{resource} cannot be restarted")));
        }
        let now = time::format_seconds(Timestamp::now());
        let annotations = json!({"kubectl.kubernetes.io/restartedAt": now});
        let patch = json!({"spec": {"template": {"metadata": {"annotations": annotations}}}});
        self.patch_workload(caller, &Named { instance, namespace, resource, name }, patch, mode).await
    }

    async fn pause_workload(&self, caller: &ApiCaller, request: PauseWorkloadRequest) -> Result<Workload, Status> {
        let PauseWorkloadRequest { instance, namespace, resource, name, validate_only, etag } = &request;
        let mode = WriteMode { validate_only: *validate_only, etag };
        self.set_paused(caller, Named { instance, namespace, resource, name }, true, mode).await
    }

    async fn resume_workload(&self, caller: &ApiCaller, request: ResumeWorkloadRequest) -> Result<Workload, Status> {
        let ResumeWorkloadRequest { instance, namespace, resource, name, validate_only, etag } = &request;
        let mode = WriteMode { validate_only: *validate_only, etag };
        self.set_paused(caller, Named { instance, namespace, resource, name }, false, mode).await
    }

    async fn scale_workload(&self, caller: &ApiCaller, request: ScaleWorkloadRequest) -> Result<Workload, Status> {
        let ScaleWorkloadRequest { instance, namespace, resource, name, replicas, validate_only, etag } = &request;
        let mode = WriteMode { validate_only: *validate_only, etag };
        if *replicas < 0 {
            return Err(Status::bad_request("replicas: must not be negative"));
        }
        if !["deployments", "statefulsets"].contains(&resource.as_str()) {
            return Err(failed_precondition(format!("{resource} cannot be scaled")));
        }
        let patch = json!({"spec": {"replicas": replicas}});
        self.patch_workload(caller, &Named { instance, namespace, resource, name }, patch, mode).await
    }

    async fn rollback_workload(
        &self,
        caller: &ApiCaller,
        request: RollbackWorkloadRequest,
    ) -> Result<Workload, Status> {
        self.rollback(caller, &request).await
    }

    async fn list_promotable(
        &self,
        caller: &ApiCaller,
        request: ListPromotableRequest,
    ) -> Result<ListPromotableResponse, Status> {
        self.promotable(caller, &request).await
    }

    async fn preview_promotion(
        &self,
        caller: &ApiCaller,
        request: PreviewPromotionRequest,
    ) -> Result<Promotion, Status> {
        let PreviewPromotionRequest { instance, cluster, namespace, resource, name, skip_dependencies } = &request;
        let with_dependencies = !skip_dependencies;
        self.preview(caller, &Promoted { instance, cluster, namespace, resource, name, with_dependencies }).await
    }

    async fn promote_workload(&self, caller: &ApiCaller, request: PromoteWorkloadRequest) -> Result<Promotion, Status> {
        let PromoteWorkloadRequest { instance, cluster, namespace, resource, name, .. } = &request;
        let with_dependencies = !request.skip_dependencies;
        let promoted = Promoted { instance, cluster, namespace, resource, name, with_dependencies };
        match request.validate_only {
            true => self.preview(caller, &promoted).await,
            false => self.promote(caller, &promoted).await,
        }
    }
}

fn pod(cluster: &str, pod: &Object) -> WorkloadPod {
    let restarts =
        pod.items(&["status", "containerStatuses"]).iter().filter_map(|status| status["restartCount"].as_i64());
    WorkloadPod {
        cluster: cluster.to_owned(),
        name: pod.name().to_owned(),
        phase: pod.str_at(&["status", "phase"]).to_owned(),
        ready: conditions::is_true(pod, "Ready"),
        node: pod.str_at(&["spec", "nodeName"]).to_owned(),
        restarts: i32::try_from(restarts.sum::<i64>()).unwrap_or(i32::MAX),
        create_time: created(pod),
    }
}
