//! The reference of metrics lists what programs serve: a control plane, an agent and a manager are scraped, and their metrics compared with
//! the page in both directions.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use e2e::agent::Agent;
use e2e::etcd::steady_port;
use e2e::eventually::eventually;
use e2e::fleet::{READY, run, text};
use e2e::flotilla::{Flotilla, binary};
use e2e::light_member::LightMember;
use e2e::manager::ManagerProcess;
use e2e::member::apply;

/// Rules of CronFederatedHPAs are due once in a minute.
const LIMIT: Duration = Duration::from_secs(150);

/// A policy of higher priority takes the ConfigMap over.
const APPLICATION: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: main, image: 'nginx:1.27', resources: {requests: {cpu: 10m}}}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: default}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: low, namespace: default}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: web}, {apiVersion: v1, kind: ConfigMap, name: settings}]
  placement: {clusterAffinity: {clusterNames: [pushed, pulled]}}
"#;

const PREEMPTION: &str = "
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: high, namespace: default}
spec:
  priority: 10
  preemption: Always
  resourceSelectors: [{apiVersion: v1, kind: ConfigMap, name: settings}]
  placement: {clusterAffinity: {clusterNames: [pushed]}}
";

const AUTOSCALERS: &str = r#"
apiVersion: autoscaling.karmada.io/v1alpha1
kind: FederatedHPA
metadata: {name: web, namespace: default}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 1
  maxReplicas: 3
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]
---
apiVersion: autoscaling.karmada.io/v1alpha1
kind: CronFederatedHPA
metadata: {name: web, namespace: default}
spec:
  scaleTargetRef: {apiVersion: autoscaling.karmada.io/v1alpha1, kind: FederatedHPA, name: web}
  rules: [{name: more, schedule: "* * * * *", targetMinReplicas: 2}]
"#;

/// The type of a metric and its labels.
type Metrics = BTreeMap<String, (String, BTreeSet<String>)>;

/// Reads the tables of the page: name, type, labels, meaning.
fn documented() -> Metrics {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/metrics.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let mut found = Metrics::new();
    for row in rows {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let labels = cells[2].split(',').map(str::trim).filter(|label| !label.is_empty()).map(str::to_owned).collect();
        let name = cells[0].trim_end_matches('`').to_owned();
        assert!(found.insert(name.clone(), (cells[1].to_owned(), labels)).is_none(), "{name} is documented twice");
    }
    found
}

/// Reads Prometheus' text format.
fn served(scrape: &str, into: &mut Metrics) {
    let mut family = String::new();
    for line in scrape.lines() {
        if let Some(declared) = line.strip_prefix("# TYPE ") {
            let (name, kind) = declared.split_once(' ').unwrap_or_else(|| panic!("{line}"));
            name.clone_into(&mut family);
            into.entry(family.clone()).or_default().0 = kind.to_owned();
        } else if !line.starts_with('#') {
            let name = line.split(['{', ' ']).next().unwrap_or_default();
            assert!(name.starts_with(&family), "{line} has no type");
            let labels =
                line.split_once('{').and_then(|(_, rest)| rest.rsplit_once('}')).map_or("", |(labels, _)| labels);
            let known = &mut into.get_mut(&family).expect("a type").1;
            known.extend(label_names(labels).into_iter().filter(|label| label != "le"));
        }
    }
}

/// Names in `a="b",c="d,e"`: what is outside of quotes and before an equals sign.
fn label_names(labels: &str) -> Vec<String> {
    let unescaped = labels.replace("\\\"", "");
    let outside: String = unescaped.split('"').step_by(2).collect();
    outside.split([',', '=']).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// The Service by which the scheduler finds the estimator of a member.
fn estimator(cluster: &str, port: u16) -> String {
    format!(
        "
apiVersion: v1
kind: Service
metadata: {{name: karmada-scheduler-estimator-{cluster}, namespace: karmada-system}}
spec: {{type: ExternalName, externalName: localhost, ports: [{{port: 10352, targetPort: {port}}}]}}
"
    )
}

struct ScrapedFleet {
    plane: Flotilla,
    manager: ManagerProcess,
    pushed: LightMember,
    _pulled: LightMember,
    _agent: Agent,
    agent_metrics: String,
    _directory: tempfile::TempDir,
}

impl ScrapedFleet {
    fn start() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let webhook = directory.path().join("webhook.config");
        let config = "{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}], users: [{name: a}], \
            clusters: [{name: a, cluster: {server: 'https://127.0.0.1:9', insecure-skip-tls-verify: true}}]}";
        std::fs::write(&webhook, config).expect("written");
        let webhook = format!("--audit-webhook-config-file={}", webhook.display());
        let plane = Flotilla::start_with(&[
            &webhook,
            "--feature-gates=PropagationPolicyPreemption=true",
            "--cluster-status-update-frequency=1s",
            "--horizontal-pod-autoscaler-sync-period=1s",
            "--enable-scheduler-estimator",
            "--quota-backend-bytes=1Gi",
        ]);
        let (pushed, pulled) = (LightMember::start(&[]), LightMember::start(&[]));
        let (port, estimators) = (steady_port(), steady_port());
        let flags = [
            format!("--metrics-bind-address=127.0.0.1:{port}"),
            format!("--estimator-bind-address=127.0.0.1:{estimators}"),
        ];
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let agent = Agent::ours_outside(&plane.kubeconfig, ("pulled", &pulled.kubeconfig), &flags);
        let member = pushed.kubeconfig.to_str().expect("UTF-8");
        let joined = run(&binary(), &plane.kubeconfig, &["join", "pushed", "--cluster-kubeconfig", member]);
        assert!(joined.status.success(), "{}", text(&joined));
        let fleet = Self {
            plane,
            manager: ManagerProcess::start(&[]),
            pushed,
            _pulled: pulled,
            _agent: agent,
            agent_metrics: format!("http://127.0.0.1:{port}/metrics"),
            _directory: directory,
        };
        for cluster in ["pushed", "pulled"] {
            eventually(&format!("{cluster} is ready"), LIMIT, || {
                fleet.ask(&["get", "cluster", cluster, READY]) == "True"
            });
        }
        fleet.apply(&estimator("pulled", estimators));
        fleet
    }

    fn ask(&self, arguments: &[&str]) -> String {
        String::from_utf8_lossy(&self.plane.kubectl(arguments).stdout).trim().to_owned()
    }

    fn apply(&self, documents: &str) {
        let output = apply(&self.plane.kubeconfig, &["apply", "-f", "-"], documents);
        assert!(output.status.success(), "{}", text(&output));
    }

    fn in_pushed(&self, arguments: &[&str], expected: &str) {
        eventually(&format!("{arguments:?} says {expected}"), LIMIT, || self.pushed.ask(arguments) == expected);
    }

    /// Does what metrics of rare events count.
    fn exercise(&self) {
        self.apply(APPLICATION);
        self.in_pushed(&["get", "configmap", "settings", "-o=name"], "configmap/settings");
        self.apply(PREEMPTION);
        let claim = r"-o=jsonpath={.metadata.labels.propagationpolicy\.karmada\.io/name}{.metadata.annotations.propagationpolicy\.karmada\.io/name}";
        eventually("the policy of higher priority has it", LIMIT, || {
            self.ask(&["get", "configmap", "settings", claim]).contains("high")
        });
        assert!(
            self.plane.kubectl(&["patch", "configmap", "settings", "-p", r#"{"data":{"a":"b"}}"#]).status.success()
        );
        self.in_pushed(&["get", "configmap", "settings", "-o=jsonpath={.data.a}"], "b");
        assert!(self.plane.kubectl(&["delete", "configmap", "settings"]).status.success());
        self.in_pushed(&["get", "configmap", "settings", "--ignore-not-found", "-o=name"], "");
        self.in_pushed(&["get", "deployment", "web", "-o=jsonpath={.status.readyReplicas}"], "2");
        self.estimate();
        self.apply(AUTOSCALERS);
        let taint = run(&binary(), &self.plane.kubeconfig, &["taint", "clusters", "pushed", "away=now:NoExecute"]);
        assert!(taint.status.success(), "{}", text(&taint));
    }

    /// The estimator of the agent answers as soon as it knows the nodes of its member.
    fn estimate(&self) {
        let mut replicas = 2;
        eventually("an estimator answers", LIMIT, || {
            replicas = 5 - replicas;
            self.ask(&["scale", "deployment", "web", &format!("--replicas={replicas}")]);
            self.scrape().contains_key("karmada_scheduler_estimator_estimating_plugin_execution_duration_seconds")
        });
    }

    fn scrape(&self) -> Metrics {
        let mut found = Metrics::new();
        served(&self.ask(&["get", "--raw", "/metrics"]), &mut found);
        served(&text(&self.manager.kubectl(&["get", "--raw", "/metrics"])), &mut found);
        let agent = Command::new("curl").args(["--silent", "--fail", &self.agent_metrics]).output().expect("curl runs");
        assert!(agent.status.success(), "{}", text(&agent));
        served(&text(&agent), &mut found);
        found
    }
}

#[test]
fn the_reference_lists_exactly_the_metrics_that_are_served() {
    let documented = documented();
    let fleet = ScrapedFleet::start();
    fleet.exercise();
    let mut found = Metrics::new();
    let complete = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        eventually("every documented metric is served", LIMIT, || {
            found = fleet.scrape();
            documented.keys().all(|name| found.contains_key(name))
        });
    }));
    let absent: Vec<&String> = documented.keys().filter(|name| !found.contains_key(*name)).collect();
    assert!(complete.is_ok(), "documented, but not served: {absent:?}");
    let unknown: Vec<&String> = found.keys().filter(|name| !documented.contains_key(*name)).collect();
    assert!(unknown.is_empty(), "served, but not in docs/reference/metrics.md: {unknown:?}");
    for (name, (kind, labels)) in &documented {
        assert_eq!((kind, labels), (&found[name].0, &found[name].1), "{name}: type or labels");
    }
}

#[test]
fn names_of_labels_are_read_outside_of_quotes() {
    assert_eq!(label_names(r#"a="b",c="d,e=f",g="\"h\"""#), ["a", "c", "g"]);
    assert!(label_names("").is_empty());
}
