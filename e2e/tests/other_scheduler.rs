//! A real karmada-scheduler with a name of its own on our control plane.

use std::fs::File;
use std::process::{Child, Command, Stdio};

use e2e::eventually::eventually;
use e2e::fleet::{CROSSING, READY, READY_REPLICAS, run, text};
use e2e::flotilla::{Flotilla, binary, programs};
use e2e::light_member::LightMember;
use e2e::member;

struct World {
    plane: Flotilla,
    members: [(&'static str, LightMember); 2],
}

impl World {
    fn start() -> Self {
        let plane = Flotilla::start_with(&["--cluster-success-threshold=1s", "--cluster-status-update-frequency=2s"]);
        let world = Self { plane, members: ["m1", "m2"].map(|name| (name, LightMember::start(&[]))) };
        for (name, member) in &world.members {
            let kubeconfig = member.kubeconfig.to_str().expect("a path in UTF-8");
            let joined = run(&binary(), &world.plane.kubeconfig, &["join", name, "--cluster-kubeconfig", kubeconfig]);
            assert!(joined.status.success(), "{}", text(&joined));
        }
        for (name, _) in &world.members {
            world.becomes(&["get", "cluster", name, READY], "True");
        }
        world
    }

    fn ask(&self, arguments: &[&str]) -> String {
        String::from_utf8_lossy(&self.plane.kubectl(arguments).stdout).trim().to_owned()
    }

    #[track_caller]
    fn becomes(&self, arguments: &[&str], expected: &str) {
        let mut answer = String::new();
        let waited = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            eventually(&format!("{arguments:?} is {expected:?}"), CROSSING, || {
                answer = self.ask(arguments);
                answer == expected
            });
        }));
        if let Err(panic) = waited {
            eprintln!("it is {answer:?}; bindings: {}", self.ask(&["get", "rb", "-A", "-o=yaml"]));
            std::panic::resume_unwind(panic);
        }
    }

    fn apply(&self, documents: &str) {
        let output = member::apply(&self.plane.kubeconfig, &["apply", "-f", "-"], documents);
        assert!(output.status.success(), "{}", text(&output));
    }
}

/// A Deployment of four replicas, divided by what is free, and its policy.
fn application(name: &str, scheduler: &str) -> String {
    format!(
        "
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: default}}
spec:
  replicas: 4
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      containers: [{{name: main, image: 'nginx:1.27', resources: {{requests: {{cpu: 10m, memory: 16Mi}}}}}}]
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {{name: {name}, namespace: default}}
spec:
  schedulerName: {scheduler}
  resourceSelectors: [{{apiVersion: apps/v1, kind: Deployment, name: {name}}}]
  placement:
    replicaScheduling:
      replicaSchedulingType: Divided
      replicaDivisionPreference: Weighted
      weightPreference: {{dynamicWeight: AvailableReplicas}}
"
    )
}

/// The real scheduler, stopped with the test.
struct OtherScheduler {
    child: Child,
    log: std::path::PathBuf,
}

impl OtherScheduler {
    fn start(world: &World) -> Self {
        let log = world.plane.data_dir.join("karmada-scheduler.log");
        let file = File::create(&log).expect("a log file");
        let mut command = Command::new(programs().join("karmada-scheduler"));
        command.arg("--kubeconfig").arg(&world.plane.kubeconfig);
        command.args(["--scheduler-name=other", "--leader-elect=false"]);
        command.args(["--metrics-bind-address=0", "--health-probe-bind-address=0"]);
        command.stdin(Stdio::null()).stdout(file.try_clone().expect("a second handle")).stderr(file);
        Self { child: command.spawn().expect("karmada-scheduler starts"), log }
    }
}

impl Drop for OtherScheduler {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the log of karmada-scheduler: {}", std::fs::read_to_string(&self.log).unwrap_or_default());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_karmada_scheduler_with_another_name_schedules_its_own_policies() {
    if !programs().join("karmada-scheduler").exists() {
        return test_skip::skip(format_args!(
            "karmada-scheduler is not in {}; `make test` builds it",
            programs().display()
        ));
    }
    let world = World::start();
    world.apply(&application("theirs", "other"));
    world.becomes(&["get", "rb", "theirs-deployment", "-o=jsonpath={.spec.schedulerName}"], "other");
    world.apply(&application("ours", "default-scheduler"));
    world.becomes(&["get", "deploy", "ours", READY_REPLICAS], "4");
    // Ours has scheduled a later binding and has left the other one alone.
    assert_eq!(world.ask(&["get", "rb", "theirs-deployment", "-o=jsonpath={.spec.clusters}"]), "");

    let _scheduler = OtherScheduler::start(&world);
    world.becomes(&["get", "deploy", "theirs", READY_REPLICAS], "4");
    for (binding, component) in [("theirs-deployment", "other"), ("ours-deployment", "default-scheduler")] {
        let selector = format!("--field-selector=reason=ScheduleBindingSucceed,involvedObject.name={binding}");
        let found = || world.ask(&["get", "events", &selector, "-o=jsonpath={.items[*].source.component}"]);
        eventually("the binding has an event", CROSSING, || !found().is_empty());
        assert!(found().split_whitespace().all(|by| by == component), "{binding}: {}", found());
    }
}
