//! The FlowSchemas and priority levels that every Kubernetes cluster has.

use object::conditions::{self, NewCondition};
use serde_json::{Value, json};

const GROUP: &str = "flowcontrol.apiserver.k8s.io";

/// Group, plural and object of each, for servers where they are missing.
pub fn objects() -> Vec<(&'static str, &'static str, Value)> {
    let levels = levels().into_iter().map(|level| (GROUP, "prioritylevelconfigurations", level));
    levels.chain(schemas().into_iter().map(|schema| (GROUP, "flowschemas", schema))).collect()
}

fn metadata(name: &str) -> Value {
    json!({"name": name, "generation": 1, "annotations": {"apf.kubernetes.io/autoupdate-spec": "true"}})
}

fn levels() -> Vec<Value> {
    let queue = |queues: u32, hand: u32| json!({"type": "Queue", "queuing": {"queues": queues, "handSize": hand, "queueLengthLimit": 50}});
    let limited = |name: &str, shares: u32, lendable: u32, response: Value| {
        json!({"metadata": metadata(name), "status": {}, "spec": {"type": "Limited", "limited": {
            "nominalConcurrencyShares": shares, "lendablePercent": lendable, "limitResponse": response}}})
    };
    let exempt = json!({"nominalConcurrencyShares": 0, "lendablePercent": 0});
    vec![
        json!({"metadata": metadata("exempt"), "status": {}, "spec": {"type": "Exempt", "exempt": exempt}}),
        limited("catch-all", 5, 0, json!({"type": "Reject"})),
        limited("system", 30, 33, queue(64, 6)),
        limited("node-high", 40, 25, queue(64, 6)),
        limited("leader-election", 10, 0, queue(16, 4)),
        limited("workload-high", 40, 50, queue(128, 6)),
        limited("workload-low", 100, 90, queue(128, 6)),
        limited("global-default", 20, 50, queue(128, 6)),
    ]
}

/// A FlowSchema under construction.
struct SchemaRow {
    name: &'static str,
    level: &'static str,
    precedence: u32,
    distinguisher: &'static str,
    subjects: Vec<Value>,
    resources: Vec<Value>,
    paths: Vec<Value>,
}

fn schemas() -> Vec<Value> {
    let group = |name: &str| json!({"kind": "Group", "group": {"name": name}});
    let user = |name: &str| json!({"kind": "User", "user": {"name": name}});
    let accounts = || json!({"kind": "ServiceAccount", "serviceAccount": {"namespace": "kube-system", "name": "*"}});
    let everyone = || vec![group("system:unauthenticated"), group("system:authenticated")];
    let everything = || {
        vec![json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"]})]
    };
    let every_path = || vec![json!({"verbs": ["*"], "nonResourceURLs": ["*"]})];
    let leases = |verbs: Value| json!({"verbs": verbs, "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "namespaces": ["*"]});
    let nodes = json!({"verbs": ["*"], "apiGroups": [""], "resources": ["nodes", "nodes/status"], "clusterScope": true, "namespaces": ["*"]});
    let probes = json!({"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]});
    let row = |name, level, precedence, distinguisher, subjects| SchemaRow {
        name,
        level,
        precedence,
        distinguisher,
        subjects,
        resources: everything(),
        paths: every_path(),
    };
    let leaders = vec![user("system:kube-controller-manager"), user("system:kube-scheduler"), accounts()];
    let rows = vec![
        row("exempt", "exempt", 1, "", vec![group("system:masters")]),
        SchemaRow { resources: Vec::new(), paths: vec![probes], ..row("probes", "exempt", 2, "", everyone()) },
        SchemaRow {
            resources: vec![leases(json!(["get", "create", "update"]))],
            paths: Vec::new(),
            ..row("system-leader-election", "leader-election", 100, "ByUser", leaders)
        },
        SchemaRow {
            resources: vec![nodes, leases(json!(["*"]))],
            paths: Vec::new(),
            ..row("system-node-high", "node-high", 400, "ByUser", vec![group("system:nodes")])
        },
        row("system-nodes", "system", 500, "ByUser", vec![group("system:nodes")]),
        row(
            "kube-controller-manager",
            "workload-high",
            800,
            "ByNamespace",
            vec![user("system:kube-controller-manager")],
        ),
        row("kube-scheduler", "workload-high", 800, "ByNamespace", vec![user("system:kube-scheduler")]),
        row("kube-system-service-accounts", "workload-high", 900, "ByNamespace", vec![accounts()]),
        row("service-accounts", "workload-low", 9_000, "ByUser", vec![group("system:serviceaccounts")]),
        row("global-default", "global-default", 9_900, "ByUser", everyone()),
        row("catch-all", "catch-all", 10_000, "ByUser", everyone()),
    ];
    rows.into_iter().map(SchemaRow::into_object).collect()
}

impl SchemaRow {
    fn into_object(self) -> Value {
        let mut rule = json!({"subjects": self.subjects});
        for (key, rules) in [("resourceRules", self.resources), ("nonResourceRules", self.paths)] {
            if !rules.is_empty() {
                rule[key] = rules.into();
            }
        }
        let mut spec = json!({
            "priorityLevelConfiguration": {"name": self.level},
            "matchingPrecedence": self.precedence,
            "rules": [rule],
        });
        if !self.distinguisher.is_empty() {
            spec["distinguisherMethod"] = json!({"type": self.distinguisher});
        }
        let found = format!(
            "This FlowSchema references the PriorityLevelConfiguration object named {:?} and it exists",
            self.level
        );
        let mut conditions = Vec::new();
        let dangling = NewCondition { kind: "Dangling", status: "False", reason: "Found", message: &found };
        conditions::edit_in(&mut conditions, dangling.kind, |condition| condition.write(&dangling));
        json!({"metadata": metadata(self.name), "spec": spec, "status": {"conditions": conditions}})
    }
}
