//! FederatedHPAs: replicas of templates, conditions, metrics in the status, and events.

use serde_json::{Value, json};

use crate::side::{Side, Sides, View, shown};

/// A workload with an autoscaler, and the state both sides must come to.
struct Case {
    name: &'static str,
    /// Usage and requests of the single container.
    cpu: (&'static str, &'static str),
    replicas: i64,
    placement: Placement,
    /// The spec of the autoscaler without its target.
    spec: Value,
    /// Replicas of the template and a reason in the conditions at the end.
    end: (i64, &'static str),
}

#[derive(Clone, Copy, PartialEq)]
enum Placement {
    /// Half of the replicas in each member.
    Divided,
    /// All replicas in each member.
    Duplicated,
    /// In a cluster that does not exist.
    Nowhere,
    /// Without a policy.
    Unbound,
}

fn cases() -> Vec<Case> {
    use Placement::{Divided, Duplicated, Nowhere, Unbound};
    let busy = ("90m", "100m");
    let idle = ("5m", "100m");
    let fair = ("50m", "100m");
    let cpu = || json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}});
    let between = |least: i64, most: i64| json!({"minReplicas": least, "maxReplicas": most, "metrics": [cpu()]});
    let with = |metrics: Value| json!({"minReplicas": 1, "maxReplicas": 4, "metrics": metrics});
    let pods = || json!({"type": "Pods", "pods": {"metric": {"name": "requests"}, "target": {"type": "AverageValue", "averageValue": "10"}}});
    let case = |name, cpu, replicas, placement, spec, end| Case { name, cpu, replicas, placement, spec, end };
    vec![
        case("grows", busy, 2, Divided, between(1, 6), (6, "TooManyReplicas")),
        case("grows-alike", busy, 2, Duplicated, between(1, 6), (6, "TooManyReplicas")),
        case("shrinks", idle, 4, Divided, between(2, 6), (2, "TooFewReplicas")),
        case("stays", fair, 2, Divided, between(1, 6), (2, "DesiredWithinRange")),
        case("defaulted", ("80m", "100m"), 2, Divided, json!({"maxReplicas": 3}), (2, "DesiredWithinRange")),
        case("above", fair, 4, Divided, between(1, 2), (2, "DesiredWithinRange")),
        case("below", fair, 2, Divided, between(4, 6), (4, "DesiredWithinRange")),
        case(
            "average",
            ("80m", "100m"),
            2,
            Divided,
            with(
                json!([{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "40m"}}}]),
            ),
            (4, "TooManyReplicas"),
        ),
        case(
            "container",
            busy,
            2,
            Divided,
            with(json!([{"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "main",
                "target": {"type": "Utilization", "averageUtilization": 50}}}])),
            (4, "TooManyReplicas"),
        ),
        case(
            "other-container",
            busy,
            2,
            Divided,
            with(json!([{"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "other",
                "target": {"type": "Utilization", "averageUtilization": 50}}}])),
            (2, "FailedGetContainerResourceMetric"),
        ),
        case(
            "slowly",
            busy,
            2,
            Divided,
            json!({"minReplicas": 1, "maxReplicas": 6, "metrics": [cpu()],
                "behavior": {"scaleUp": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 1800}]}}}),
            (3, "ScaleUpLimit"),
        ),
        case(
            "upwards",
            idle,
            2,
            Divided,
            json!({"minReplicas": 1, "maxReplicas": 6, "metrics": [cpu()],
                "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0, "selectPolicy": "Disabled"}}}),
            (2, "ScaleDownLimit"),
        ),
        case("unrequested", ("90m", "0"), 2, Divided, between(1, 6), (2, "FailedGetResourceMetric")),
        case("unmeasured", busy, 2, Divided, with(json!([pods()])), (2, "FailedGetPodsMetric")),
        case("partly", busy, 2, Divided, with(json!([pods(), cpu()])), (4, "TooManyReplicas")),
        case("partly-idle", idle, 2, Divided, with(json!([cpu(), pods()])), (2, "FailedGetPodsMetric")),
        case(
            "object",
            busy,
            2,
            Divided,
            with(
                json!([{"type": "Object", "object": {"metric": {"name": "hits"}, "target": {"type": "Value", "value": "10"},
                "describedObject": {"apiVersion": "v1", "kind": "Service", "name": "web"}}}]),
            ),
            (2, "FailedGetObjectMetric"),
        ),
        case("unbound", busy, 2, Unbound, between(1, 6), (2, "FailedGetBinding")),
        case("nowhere", busy, 2, Nowhere, between(1, 6), (2, "FailedGetTargetClusters")),
    ]
}

/// Autoscalers whose target is not there.
const LOST: &[(&str, &str, &str)] =
    &[("missing", "apps/v1", "Deployment"), ("unknown", "example.com/v1", "Widget"), ("unscalable", "v1", "ConfigMap")];

impl Case {
    fn workload(&self) -> Vec<Value> {
        let name = self.name;
        let requests = match self.cpu.1 {
            "0" => json!({}),
            cpu => json!({"requests": {"cpu": cpu}}),
        };
        let template = json!({
            "metadata": {"labels": {"app": name}, "annotations": {"flotilla.dev/usage-cpu": self.cpu.0}},
            "spec": {"containers": [{"name": "main", "image": "example.com/web", "resources": requests}]},
        });
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"replicas": self.replicas, "selector": {"matchLabels": {"app": name}}, "template": template}});
        let names =
            if self.placement == Placement::Nowhere { json!(["nowhere"]) } else { json!(["member1", "member2"]) };
        let mut placement = json!({"clusterAffinity": {"clusterNames": names}});
        if self.placement == Placement::Divided {
            let weight = |name: &str| json!({"targetCluster": {"clusterNames": [name]}, "weight": 1});
            placement["replicaScheduling"] = json!({"replicaSchedulingType": "Divided",
                "replicaDivisionPreference": "Weighted",
                "weightPreference": {"staticWeightList": [weight("member1"), weight("member2")]}});
        }
        let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"placement": placement,
                "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": name}]}});
        if self.placement == Placement::Unbound { vec![deployment] } else { vec![deployment, policy] }
    }

    fn autoscaler(&self) -> Value {
        autoscaler(self.name, ("apps/v1", "Deployment"), &self.spec)
    }

    /// Pods in all members before an autoscaler acts.
    fn pods(&self) -> i64 {
        match self.placement {
            Placement::Divided => self.replicas,
            Placement::Duplicated => 2 * self.replicas,
            Placement::Nowhere | Placement::Unbound => 0,
        }
    }

    fn has_ended(&self, autoscalers: &[Value], deployments: &[Value]) -> bool {
        let named = |objects: &[Value]| objects.iter().find(|found| found["metadata"]["name"] == self.name).cloned();
        let (replicas, reason) = self.end;
        let status = named(autoscalers).unwrap_or_default()["status"].clone();
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        named(deployments).unwrap_or_default()["spec"]["replicas"] == replicas
            && conditions.iter().any(|condition| condition["reason"] == reason)
            && !conditions.iter().any(|condition| condition["reason"] == "SucceededRescale")
    }
}

fn autoscaler(name: &str, (version, kind): (&str, &str), spec: &Value) -> Value {
    let mut spec = spec.clone();
    spec["scaleTargetRef"] = json!({"apiVersion": version, "kind": kind, "name": name});
    json!({"apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": "FederatedHPA",
        "metadata": {"name": name, "namespace": "default"}, "spec": spec})
}

fn list(items: Vec<Value>) -> String {
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

pub fn compare(sides: &Sides) -> Vec<String> {
    let cases = cases();
    sides.apply(&list(cases.iter().flat_map(Case::workload).collect()));
    let pods: i64 = cases.iter().map(Case::pods).sum();
    sides.wait("the usage of all pods is known", |side| {
        let known = side.objects(&["pods.metrics.k8s.io", "--namespace=default"]);
        known.iter().filter(|usage| usage["metadata"]["labels"]["app"] != "web").count() as i64 == pods
    });
    let mut autoscalers: Vec<Value> = cases.iter().map(Case::autoscaler).collect();
    let spec = json!({"maxReplicas": 2});
    autoscalers.extend(LOST.iter().map(|(name, version, kind)| autoscaler(name, (version, kind), &spec)));
    sides.apply(&list(autoscalers));
    sides.wait("every autoscaler has come to its end", |side| {
        let autoscalers = side.objects(&["fhpa", "--namespace=default"]);
        let deployments = side.objects(&["deploy", "--namespace=default"]);
        let running = cases.iter().find(|case| !case.has_ended(&autoscalers, &deployments));
        if let Some(case) = running {
            eprintln!("{} is not at its end", case.name);
        }
        running.is_none()
    });
    let differences = sides.compare(view);
    differences.into_iter().map(|difference| format!("FederatedHPAs: {difference}")).collect()
}

fn view(side: &Side) -> View {
    let mut view = View::new();
    for autoscaler in side.objects(&["fhpa", "--namespace=default"]) {
        view.insert(format!("FederatedHPA {}", autoscaler["metadata"]["name"]), shown(&autoscaler));
    }
    for deployment in side.objects(&["deploy", "--namespace=default"]) {
        let title = format!("replicas of {}", deployment["metadata"]["name"]);
        view.insert(title, deployment["spec"]["replicas"].to_string());
    }
    side.add_events(&mut view, "FederatedHPA");
    view
}
