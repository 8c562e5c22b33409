//! Metrics of members on the control plane, and FederatedHPAs that scale by them: with real kubectl, a push-mode member and a
//! pull-mode member that cannot be dialed.

use std::process::Output;
use std::time::Duration;

use e2e::agent::Agent;
use e2e::eventually::eventually;
use e2e::fleet::{run, text};
use e2e::flotilla::{Flotilla, binary};
use e2e::light_fleet::{QUICK_AGENT, QUICK_PLANE};
use e2e::light_member::LightMember;
use e2e::member::apply;

const LIMIT: Duration = Duration::from_secs(90);
const READY: &str = r#"-o=jsonpath={.status.conditions[?(@.type=="Ready")].status}"#;
const REPLICAS: &str = "-o=jsonpath={.spec.replicas}";

/// Metrics are read every second, pods count at once, and nothing waits before it shrinks.
const QUICK_AUTOSCALER: &[&str] = &[
    "--horizontal-pod-autoscaler-sync-period=1s",
    "--horizontal-pod-autoscaler-downscale-stabilization=2s",
    "--horizontal-pod-autoscaler-cpu-initialization-period=0s",
    "--horizontal-pod-autoscaler-initial-readiness-delay=0s",
];

const WEB: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
      annotations: {flotilla.dev/usage-cpu: 90m}
    spec:
      containers:
      - {name: main, image: example.com/web, resources: {requests: {cpu: 100m}}}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: web}]
  placement:
    clusterAffinity: {clusterNames: [pushed, pulled]}
    replicaScheduling:
      replicaSchedulingType: Divided
      replicaDivisionPreference: Weighted
      weightPreference:
        staticWeightList:
        - {targetCluster: {clusterNames: [pushed]}, weight: 1}
        - {targetCluster: {clusterNames: [pulled]}, weight: 1}
"#;

/// The second one names a target in a namespace that is not its own.
const AUTOSCALERS: &str = r#"
apiVersion: autoscaling.karmada.io/v1alpha1
kind: FederatedHPA
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 1
  maxReplicas: 6
  metrics:
  - type: Resource
    resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}
---
apiVersion: autoscaling.karmada.io/v1alpha1
kind: FederatedHPA
metadata: {name: thief, namespace: kube-public}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 20
  maxReplicas: 20
"#;

/// Raises the lower bound at the next full minute.
const CRON: &str = r#"
apiVersion: autoscaling.karmada.io/v1alpha1
kind: CronFederatedHPA
metadata: {name: minutely}
spec:
  scaleTargetRef: {apiVersion: autoscaling.karmada.io/v1alpha1, kind: FederatedHPA, name: web}
  rules: [{name: more, schedule: "* * * * *", targetMinReplicas: 4}]
"#;

struct ScalingFleet {
    plane: Flotilla,
    agent: Option<Agent>,
    _members: [LightMember; 2],
}

impl ScalingFleet {
    fn start() -> Self {
        let (plane, pushed, pulled) = std::thread::scope(|scope| {
            let pushed = scope.spawn(|| LightMember::start(&[]));
            let pulled = scope.spawn(|| LightMember::start(&[]));
            let plane = Flotilla::start_with(&[QUICK_PLANE, QUICK_AUTOSCALER].concat());
            (plane, pushed.join().expect("a member starts"), pulled.join().expect("a member starts"))
        });
        let kubeconfig = pushed.kubeconfig.to_str().expect("a path in UTF-8");
        let joined = run(&binary(), &plane.kubeconfig, &["join", "pushed", "--cluster-kubeconfig", kubeconfig]);
        assert!(joined.status.success(), "{}", text(&joined));
        let flags = [QUICK_AGENT, &["--cluster-api-endpoint", "https://127.0.0.1:9"]].concat();
        let agent = Agent::ours_outside(&plane.kubeconfig, ("pulled", &pulled.kubeconfig), &flags);
        let fleet = Self { plane, agent: Some(agent), _members: [pushed, pulled] };
        for cluster in ["pushed", "pulled"] {
            fleet.until(&format!("{cluster} is ready"), || fleet.ask(&["get", "cluster", cluster, READY]) == "True");
        }
        fleet
    }

    fn kubectl(&self, arguments: &[&str]) -> Output {
        self.plane.kubectl(arguments)
    }

    fn ask(&self, arguments: &[&str]) -> String {
        String::from_utf8_lossy(&self.kubectl(arguments).stdout).trim().to_owned()
    }

    fn apply(&self, documents: &str) {
        let output = apply(&self.plane.kubeconfig, &["apply", "-f", "-"], documents);
        assert!(output.status.success() && !text(&output).contains("no effect"), "{}", text(&output));
    }

    /// The members that report usage of the pods, sorted.
    fn measured_in(&self) -> String {
        let clusters =
            r#"-o=jsonpath={range .items[*]}{.metadata.annotations.resource\.karmada\.io/query-from-cluster} {end}"#;
        let found = self.ask(&["get", "pods.metrics.k8s.io", "-l", "app=web", clusters]);
        let mut clusters: Vec<&str> = found.split_whitespace().collect();
        clusters.sort_unstable();
        clusters.join(" ")
    }

    #[track_caller]
    fn until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let waited = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| eventually(what, LIMIT, &mut holds)));
        if let Err(panic) = waited {
            let log = self.plane.log();
            let lines: Vec<&str> = log.lines().collect();
            eprintln!("the plane's log:\n{}", lines[lines.len().saturating_sub(40)..].join("\n"));
            eprintln!("{}", text(&self.kubectl(&["get", "clusters,deploy,rb,fhpa,cronfhpa", "-A", "-o", "wide"])));
            eprintln!("{}", text(&self.kubectl(&["get", "fhpa", "-o", "yaml"])));
            std::panic::resume_unwind(panic);
        }
    }
}

#[test]
fn load_in_members_is_shown_and_scales_the_template() {
    let mut fleet = ScalingFleet::start();
    fleet.apply(WEB);
    fleet.until("both members report usage", || fleet.measured_in() == "pulled pushed");
    let top = text(&fleet.kubectl(&["top", "pods", "-l", "app=web"]));
    assert_eq!(top.lines().filter(|line| line.contains(" 90m ")).count(), 2, "{top}");
    let nodes = fleet.kubectl(&["top", "nodes"]);
    assert!(nodes.status.success() && text(&nodes).lines().count() > 2, "{}", text(&nodes));
    check_rights(&fleet);

    fleet.apply(AUTOSCALERS);
    fleet.until("the template grows", || fleet.ask(&["get", "deploy", "web", REPLICAS]) == "6");
    fleet.until("the replicas are in both members", || {
        fleet.measured_in() == "pulled pulled pulled pushed pushed pushed"
    });
    let events = fleet.ask(&["get", "events", "-o=jsonpath={.items[?(@.reason==\"SuccessfulRescale\")].message}"]);
    assert!(events.contains("cpu resource utilization (percentage of request) above target"), "{events}");

    let idle = r#"{"spec": {"template": {"metadata": {"annotations": {"flotilla.dev/usage-cpu": "5m"}}}}}"#;
    fleet.kubectl(&["patch", "deploy", "web", "--type=merge", "-p", idle]);
    fleet.until("the template shrinks", || fleet.ask(&["get", "deploy", "web", REPLICAS]) == "1");
    fleet.apply(CRON);
    fleet.until("the rule raises the bound and the template follows", || {
        fleet.ask(&["get", "deploy", "web", REPLICAS]) == "4"
    });
    assert_eq!(fleet.ask(&["get", "fhpa", "web", "-o=jsonpath={.spec.minReplicas}"]), "4");
    let able = r#"-o=jsonpath={.status.conditions[?(@.type=="AbleToScale")].reason}"#;
    assert_eq!(fleet.ask(&["get", "fhpa", "thief", "-n", "kube-public", able]), "FailedGetScaleTargetRef");
    check_metrics(&fleet);

    fleet.until("both members have pods", || fleet.measured_in() == "pulled pulled pushed pushed");
    drop(fleet.agent.take());
    fleet.until("a lost member is left out", || fleet.measured_in() == "pushed pushed");
}

/// Usage needs permissions on the metrics group.
fn check_rights(fleet: &ScalingFleet) {
    let refused = fleet.kubectl(&["top", "pods", "--as=guest"]);
    assert!(text(&refused).contains("pods.metrics.k8s.io is forbidden"), "{}", text(&refused));
    let created = fleet.kubectl(&["create", "rolebinding", "guest", "--clusterrole=view", "--user=guest"]);
    assert!(created.status.success(), "{}", text(&created));
    fleet.until("a viewer sees usage", || fleet.kubectl(&["top", "pods", "--as=guest"]).status.success());
}

fn check_metrics(fleet: &ScalingFleet) {
    let metrics = fleet.ask(&["get", "--raw", "/metrics"]);
    for name in [
        "federatedhpa_process_duration_seconds_count{result=\"success\"}",
        "federatedhpa_pull_metrics_duration_seconds_count{result=\"success\",metricType=\"ResourceMetric\"}",
    ] {
        assert!(metrics.contains(name), "{name}");
    }
}
