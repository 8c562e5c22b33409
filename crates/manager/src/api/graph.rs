//! An object with what exists because of it: policy, binding, works and clusters.

use std::sync::Arc;

use api::names::{binding_name, cluster_of_execution_namespace};
use api::work::{CLUSTER_RESOURCE_BINDINGS, LABEL_BINDING_ID, LABEL_CLUSTER_BINDING_ID, RESOURCE_BINDINGS, WORKS};
use cluster_client::{ClusterClient, ListOptions, ResourceRef};
use manager_api::*;
use object::{Object, Status, conditions};
use serde_json::Value;

use super::policies::policy_of;
use super::{ApiCaller, ManagerApi};

const DONE: &str = "Done";
const WAITING: &str = "Waiting";
const FAILED: &str = "Failed";

/// The objects of a graph.
struct Parts {
    template: Arc<Object>,
    binding: Option<Arc<Object>>,
    works: Vec<Arc<Object>>,
}

/// The state of an object by one of its conditions, and why it is not done.
fn by_condition(object: &Object, kind: &str) -> (&'static str, String) {
    match conditions::find(object, kind) {
        Some(found) if found.is_true() => (DONE, String::new()),
        Some(found) if found.is_false() => (FAILED, found.message().to_owned()),
        _ => (WAITING, String::new()),
    }
}

fn node(role: &str, object: &Object, (state, message): (&str, String)) -> GraphNode {
    GraphNode {
        id: format!("{role}/{}/{}", object.namespace(), object.name()),
        role: role.to_owned(),
        api_version: object.api_version().to_owned(),
        kind: object.kind().to_owned(),
        namespace: object.namespace().to_owned(),
        name: object.name().to_owned(),
        state: state.to_owned(),
        message,
    }
}

/// The object in a cluster, as its binding reports it.
fn in_cluster(cluster: &str, binding: &Object) -> GraphNode {
    let states = binding.items(&["status", "aggregatedStatus"]);
    let reported = states.iter().find(|state| state["clusterName"] == cluster).unwrap_or(&Value::Null);
    let is_applied = reported["applied"] == true;
    let state = match reported["health"].as_str() {
        Some("Unhealthy") => FAILED,
        Some("Healthy") => DONE,
        // Kinds without a rule for their health are done when they are applied.
        _ if is_applied => DONE,
        _ => WAITING,
    };
    GraphNode {
        id: format!("cluster//{cluster}"),
        role: "cluster".to_owned(),
        api_version: "cluster.karmada.io/v1alpha1".to_owned(),
        kind: "Cluster".to_owned(),
        name: cluster.to_owned(),
        state: state.to_owned(),
        message: reported["appliedMessage"].as_str().unwrap_or_default().to_owned(),
        ..GraphNode::default()
    }
}

fn graph(parts: &Parts) -> Graph {
    let mut graph = Graph::default();
    let template = node("template", &parts.template, (DONE, String::new()));
    let mut cause = template.id.clone();
    graph.nodes.push(template);
    let mut add = |from: &str, node: GraphNode| {
        let id = node.id.clone();
        graph.edges.push(GraphEdge { from: from.to_owned(), to: id.clone() });
        if !graph.nodes.iter().any(|known| known.id == id) {
            graph.nodes.push(node);
        }
        id
    };
    let holder = parts.binding.as_deref().unwrap_or(&parts.template);
    if let Some((kind, namespace, name)) = policy_of(holder) {
        let policy = GraphNode {
            id: format!("policy/{namespace}/{name}"),
            role: "policy".to_owned(),
            api_version: "policy.karmada.io/v1alpha1".to_owned(),
            kind: kind.to_owned(),
            namespace,
            name,
            state: DONE.to_owned(),
            message: String::new(),
        };
        cause = add(&cause, policy);
    }
    let Some(binding) = &parts.binding else { return graph };
    let binding_id = add(&cause, node("binding", binding, by_condition(binding, "Scheduled")));
    for work in &parts.works {
        let work_id = add(&binding_id, node("work", work, by_condition(work, "Applied")));
        if let Some(cluster) = cluster_of_execution_namespace(work.namespace()) {
            add(&work_id, in_cluster(cluster, binding));
        }
    }
    graph
}

/// Objects that the caller may not read are named, and the graph ends there.
fn readable<T: Default>(read: Result<T, Status>, unread: &mut Vec<Unread>, instance: &str) -> Result<T, Status> {
    match read {
        Err(status) if status.code == 403 => {
            unread.push(Unread { instance: instance.to_owned(), cluster: String::new(), reason: status.message });
            Ok(T::default())
        }
        read => read,
    }
}

async fn works_of(client: &ClusterClient, binding: &Object) -> Result<Vec<Arc<Object>>, Status> {
    let label = if binding.namespace().is_empty() { LABEL_CLUSTER_BINDING_ID } else { LABEL_BINDING_ID };
    let Some(id) = binding.label(label) else { return Ok(Vec::new()) };
    let options = ListOptions { label_selector: Some(format!("{label}={id}")), ..ListOptions::default() };
    client.list_all(ResourceRef::all(&WORKS.gvr()), options).await.map(|list| list.items)
}

impl ManagerApi {
    pub(super) async fn graph_of(&self, caller: &ApiCaller, request: &GetGraphRequest) -> Result<Graph, Status> {
        let client = self.operations.instance_client(&caller.user, &request.instance).await?;
        let GetGraphRequest { instance, api_version, kind, namespace, name } = request;
        let template = super::policies::template(&client, (api_version, kind), (namespace, name)).await?;
        let binding = binding_name(template.kind(), template.name());
        let target = match template.namespace() {
            "" => ResourceRef::cluster(&CLUSTER_RESOURCE_BINDINGS.gvr(), &binding),
            namespace => ResourceRef::namespaced(&RESOURCE_BINDINGS.gvr(), namespace, &binding),
        };
        let mut unread = Vec::new();
        let binding = readable(client.find(target).await, &mut unread, instance)?;
        let works = match &binding {
            Some(binding) => readable(works_of(&client, binding).await, &mut unread, instance)?,
            None => Vec::new(),
        };
        Ok(Graph { unread, ..graph(&Parts { template, binding, works }) })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Arc<Object> {
        Arc::new(Object::from_value(value).expect("an object"))
    }

    fn edges(graph: &Graph) -> Vec<String> {
        graph.edges.iter().map(|edge| format!("{} {}", edge.from, edge.to)).collect()
    }

    #[test]
    fn a_graph_leads_from_the_object_to_its_clusters() {
        let template = object(json!({"kind": "Deployment", "metadata": {"namespace": "shop", "name": "web"}}));
        let binding = object(json!({
            "kind": "ResourceBinding",
            "metadata": {"namespace": "shop", "name": "web-deployment", "annotations": {
                "propagationpolicy.karmada.io/namespace": "shop", "propagationpolicy.karmada.io/name": "all"}},
            "status": {
                "conditions": [{"type": "Scheduled", "status": "True"}],
                "aggregatedStatus": [{"clusterName": "m1", "applied": true, "health": "Healthy"}],
            },
        }));
        let work = |cluster: &str, status: &str| {
            let applied = json!([{"type": "Applied", "status": status, "message": "refused"}]);
            object(json!({"kind": "Work", "status": {"conditions": applied},
                "metadata": {"namespace": format!("karmada-es-{cluster}"), "name": "web"}}))
        };
        let works = vec![work("m1", "True"), work("m2", "False")];
        let graph = graph(&Parts { template: Arc::clone(&template), binding: Some(binding), works });
        assert_eq!(
            edges(&graph),
            [
                "template/shop/web policy/shop/all",
                "policy/shop/all binding/shop/web-deployment",
                "binding/shop/web-deployment work/karmada-es-m1/web",
                "work/karmada-es-m1/web cluster//m1",
                "binding/shop/web-deployment work/karmada-es-m2/web",
                "work/karmada-es-m2/web cluster//m2",
            ]
        );
        let state = |id: &str| graph.nodes.iter().find(|node| node.id == id).map(|node| node.state.as_str());
        assert_eq!(state("cluster//m1"), Some(DONE));
        assert_eq!(state("cluster//m2"), Some(WAITING));
        assert_eq!(state("work/karmada-es-m2/web"), Some(FAILED));
        let alone = super::graph(&Parts { template, binding: None, works: Vec::new() });
        assert_eq!((alone.nodes.len(), alone.edges.len()), (1, 0));
    }
}
