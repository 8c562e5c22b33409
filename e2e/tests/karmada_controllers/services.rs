//! MultiClusterServices: claims, bindings, Works, slices in consumers, conditions and events.

use serde_json::Value;

use crate::side::{MEMBERS, Side, Sides, View, objects, shown};

const SEPARATOR: &str = "\n---\n";

const WORKLOAD: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: 'nginx:1.27', ports: [{containerPort: 80}]}]}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web, namespace: default}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: web}]
  placement: {clusterAffinity: {clusterNames: [member1]}}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default, labels: {team: a}}
spec: {selector: {app: web}, ports: [{name: http, port: 80}]}
";

/// One that works, one without a Service, one with a cluster that is not there, one that is left to load balancers.
const SERVICES: &str = "
apiVersion: networking.karmada.io/v1alpha1
kind: MultiClusterService
metadata: {name: web, namespace: default}
spec:
  types: [CrossCluster]
  providerClusters: [{name: member1}]
  consumerClusters: [{name: member2}]
---
apiVersion: networking.karmada.io/v1alpha1
kind: MultiClusterService
metadata: {name: absent, namespace: default}
spec:
  types: [CrossCluster]
  providerClusters: [{name: member1}]
---
apiVersion: v1
kind: Service
metadata: {name: partial, namespace: default}
spec: {selector: {app: partial}, ports: [{name: http, port: 80}]}
---
apiVersion: networking.karmada.io/v1alpha1
kind: MultiClusterService
metadata: {name: partial, namespace: default}
spec:
  types: [CrossCluster]
  providerClusters: [{name: member1}, {name: nowhere}]
  consumerClusters: [{name: member2}]
---
apiVersion: networking.karmada.io/v1alpha1
kind: MultiClusterService
metadata: {name: balanced, namespace: default}
spec:
  types: [LoadBalancer]
  ports: [{name: http, port: 80}]
";

pub fn compare(sides: &Sides) -> Vec<String> {
    sides.apply(WORKLOAD);
    sides.wait("the workload runs", |side| {
        side.ask(&["get", "deploy", "web", "-o=jsonpath={.status.readyReplicas}"]) == "2"
    });
    sides.apply(SERVICES);
    sides.wait("slices are in the consumer", |side| dispatched(side) == 2);
    let mut found = titled("exposed", sides.compare(view));

    let both = r#"{"spec": {"consumerClusters": [{"name": "member1"}, {"name": "member2"}]}}"#;
    sides.kubectl(&["patch", "mcs", "web", "--type=merge", "-p", both]);
    sides.kubectl(&["scale", "deploy", "web", "--replicas=3"]);
    sides.wait("slices follow the pods", |side| dispatched(side) == 3);
    found.extend(titled("scaled", sides.compare(view)));

    let other_way =
        r#"{"spec": {"providerClusters": [{"name": "member2"}], "consumerClusters": [{"name": "member1"}]}}"#;
    sides.kubectl(&["patch", "mcs", "web", "--type=merge", "-p", other_way]);
    sides.wait("the slices of the former provider go", |side| dispatched(side) == 0);
    let mut turned = sides.compare(view);
    // A slice that changes while its cluster stops to be a provider is at times collected again by Karmada, and stays.
    turned.retain(|difference| {
        !is_left_by_karmada(difference, "Work web-SLICE") || !difference.contains("suspendDispatching")
    });
    found.extend(titled("turned", turned));

    sides.kubectl(&["delete", "mcs", "--all", "--namespace=default"]);
    // Karmada never removes the slices of a service with a provider that does not exist.
    let mut left = sides.compare(view);
    left.retain(|difference| !["partial-SLICE", "web-SLICE"].iter().any(|name| is_left_by_karmada(difference, name)));
    found.extend(titled("deleted", left));
    found
}

/// Returns true for a difference about `name` that is only in what Karmada has more than we.
fn is_left_by_karmada(difference: &str, name: &str) -> bool {
    difference.contains(name) && !difference.contains("  ours: ")
}

fn titled(phase: &str, differences: Vec<String>) -> Vec<String> {
    differences.into_iter().map(|difference| format!("MultiClusterServices, {phase}: {difference}")).collect()
}

/// The number of endpoints of other clusters in member2.
fn dispatched(side: &Side) -> usize {
    let label = "-l=endpointslice.kubernetes.io/managed-by=endpointslice-dispatch-controller.karmada.io";
    let addresses =
        side.members[1].ask(&["get", "endpointslices", label, "-o=jsonpath={.items[*].endpoints[*].addresses[0]}"]);
    addresses.split_whitespace().count()
}

fn view(side: &Side) -> View {
    let mut view = View::new();
    for kind in ["mcs", "services", "rb"] {
        for object in side.objects(&[kind, "--namespace=default"]) {
            add(&mut view, "plane", &object);
        }
    }
    for work in side.objects(&["works", "-A"]) {
        let manifest = &work["spec"]["workload"]["manifests"][0];
        if ["Service", "EndpointSlice", "MultiClusterService"].contains(&manifest["kind"].as_str().unwrap_or_default())
        {
            add(&mut view, work["metadata"]["namespace"].as_str().unwrap_or_default(), &work);
        }
    }
    for (name, member) in MEMBERS.iter().zip(&side.members) {
        for kind in ["services", "endpointslices"] {
            for object in objects(&member.kubeconfig, &[kind, "--namespace=default"]) {
                add(&mut view, name, &object);
            }
        }
    }
    side.add_events(&mut view, "MultiClusterService");
    view
}

fn add(view: &mut View, place: &str, object: &Value) {
    if object["metadata"]["name"] == "kubernetes" {
        return;
    }
    let text = shown(object);
    let name = crate::side::without_names(object["metadata"]["name"].as_str().unwrap_or_default());
    let title = format!("{} {name} in {place}", object["kind"].as_str().unwrap_or_default());
    let known = view.entry(title).or_default();
    // Several slices may have the same title; their generated names decide nothing here.
    let mut texts: Vec<&str> = known.split(SEPARATOR).filter(|text| !text.is_empty()).chain([text.as_str()]).collect();
    texts.sort_unstable();
    *known = texts.join(SEPARATOR);
}
