//! `ExplainService`: the explanations of an instance, in the caller's rights.

use std::collections::BTreeMap;

use api::cluster::CLUSTERS;
use api::work::RESOURCE_BINDINGS;
use async_trait::async_trait;
use cluster_client::{ListOptions, ResourceRef};
use manager_api::*;
use object::percent::encode;
use object::{Status, conditions};
use transcode::Raw;
use transcode::call::{HttpBody, Results};
use transcode::errors::failed_precondition;

use super::resources::send;
use super::{ApiCaller, ManagerApi};

/// An instance without these paths is no Flotilla.
pub(super) fn explained(status: Status) -> Status {
    match status.is_not_served() {
        true => failed_precondition("the control plane of this instance does not explain its decisions"),
        false => status,
    }
}

/// The query that names an object.
pub(super) fn subject(api_version: &str, kind: &str, namespace: &str, name: &str) -> String {
    let parameters = [("apiVersion", api_version), ("kind", kind), ("namespace", namespace), ("name", name)];
    parameters.map(|(key, value)| format!("{key}={}", encode(value))).join("&")
}

#[async_trait]
impl ExplainService<ApiCaller> for ManagerApi {
    async fn why(&self, caller: &ApiCaller, request: WhyRequest) -> Result<Raw, Status> {
        let client = self.operations.instance_client(&caller.user, &request.instance).await?;
        let WhyRequest { api_version, kind, namespace, name, .. } = &request;
        let path = format!("/flotilla/v1alpha1/why?{}", subject(api_version, kind, namespace, name));
        send(&client, "GET", &path, None).await.map(Raw::json).map_err(explained)
    }

    async fn plan(&self, caller: &ApiCaller, request: PlanRequest) -> Result<Raw, Status> {
        let objects = super::resources::manifests(&request.manifests.unwrap_or_default().data)?;
        let client = self.operations.instance_client(&caller.user, &request.instance).await?;
        let items: Vec<_> = objects.into_iter().map(|object| object.into_value()).collect();
        let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items});
        let body = HttpBody { content_type: "application/json".to_owned(), data: list.to_string().into_bytes() };
        send(&client, "POST", "/flotilla/v1alpha1/plan", Some(&body)).await.map(Raw::json).map_err(explained)
    }

    async fn simulate_failover(&self, caller: &ApiCaller, request: SimulateFailoverRequest) -> Result<Raw, Status> {
        let client = self.operations.instance_client(&caller.user, &request.instance).await?;
        let path = format!("/flotilla/v1alpha1/failover?cluster={}", encode(&request.cluster));
        send(&client, "GET", &path, None).await.map(Raw::json).map_err(explained)
    }

    async fn get_topology(&self, caller: &ApiCaller, request: GetTopologyRequest) -> Result<Topology, Status> {
        let client = self.operations.instance_client(&caller.user, &request.instance).await?;
        let clusters = client.list_all(ResourceRef::all(&CLUSTERS.gvr()), ListOptions::default()).await?;
        let bindings = client.list_all(ResourceRef::all(&RESOURCE_BINDINGS.gvr()), ListOptions::default()).await?;
        let mut placed: BTreeMap<&str, (i64, i64)> = BTreeMap::new();
        for binding in &bindings.items {
            for target in binding.items(&["spec", "clusters"]) {
                let entry = placed.entry(target["name"].as_str().unwrap_or_default()).or_default();
                *entry = (entry.0 + 1, entry.1 + target["replicas"].as_i64().unwrap_or_default());
            }
        }
        let shown = clusters.items.iter().map(|cluster| {
            let (workloads, replicas) = placed.get(cluster.name()).copied().unwrap_or_default();
            let spec = |field: &str| cluster.str_at(&["spec", field]).to_owned();
            TopologyCluster {
                name: cluster.name().to_owned(),
                provider: spec("provider"),
                region: spec("region"),
                zone: super::clusters::zone(cluster),
                ready: conditions::is_true(cluster, "Ready"),
                workloads,
                replicas,
            }
        });
        let version = self.version_of(&request.instance, &bindings.resource_version);
        Ok(Topology { clusters: shown.collect(), version })
    }

    async fn watch_timeline(
        &self,
        caller: &ApiCaller,
        request: WatchTimelineRequest,
    ) -> Result<Results<TimelineStep>, Status> {
        self.watch_steps(caller, &request).await
    }

    async fn list_history(
        &self,
        caller: &ApiCaller,
        request: ListHistoryRequest,
    ) -> Result<ListHistoryResponse, Status> {
        self.history(caller, &request).await
    }

    async fn get_graph(&self, caller: &ApiCaller, request: GetGraphRequest) -> Result<Graph, Status> {
        self.graph_of(caller, &request).await
    }

    async fn get_timeline(&self, caller: &ApiCaller, request: GetTimelineRequest) -> Result<Raw, Status> {
        let client = self.operations.instance_client(&caller.user, &request.instance).await?;
        let GetTimelineRequest { api_version, kind, namespace, name, .. } = &request;
        let path = format!("/flotilla/v1alpha1/timeline?{}", subject(api_version, kind, namespace, name));
        send(&client, "GET", &path, None).await.map(Raw::json).map_err(explained)
    }
}
