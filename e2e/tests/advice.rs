//! Every command in the advice of `flotilla why` is run as it is, in the situation it is meant for.
//!
//! `e2e/testdata/advice.txt` lists all of them; each must have been printed and run here. Words in capitals are for the user to
//! fill in; the situation says with what.

use e2e::eventually::eventually;
use e2e::fleet::text;
use e2e::member;
use e2e::pasted::{PasteShell, PrintedCommands, hints};
use e2e::testbed::{CROSSING, Testbed};
use serde_json::Value;

const NAMESPACES: &str = "
{apiVersion: v1, kind: Namespace, metadata: {name: shop}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: quiet, labels: {namespace.karmada.io/skip-auto-propagation: 'true'}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: full}}
";

/// A Deployment and a policy for it.
fn placed(name: &str, namespace: &str, placement: &str) -> String {
    format!("{}{}", deployment(name, namespace, ""), policy(name, namespace, placement))
}

/// `annotations` of its pods control what simulated nodes do with them.
fn deployment(name: &str, namespace: &str, annotations: &str) -> String {
    format!(
        "apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  replicas: 1
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}, annotations: {{{annotations}}}}}
    spec: {{containers: [{{name: web, image: 'nginx:1.27'}}]}}
---
"
    )
}

fn policy(name: &str, namespace: &str, placement: &str) -> String {
    format!(
        "apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  resourceSelectors: [{{apiVersion: apps/v1, kind: Deployment, name: {name}}}]
  placement: {{{placement}}}
---
"
    )
}

fn on(member: &str) -> String {
    format!("clusterAffinity: {{clusterNames: [{member}]}}")
}

struct Advice {
    bed: Testbed,
    shell: PasteShell,
    printed: PrintedCommands,
}

impl Advice {
    fn flotilla(&self, words: &str) -> String {
        self.shell.run(&format!("flotilla {words} --kubeconfig {}", self.plane()))
    }

    fn plane(&self) -> String {
        self.bed.config("karmada-apiserver").display().to_string()
    }

    fn why(&self, object: &str) -> Value {
        let output = self.shell.try_run(&format!("flotilla why {object} -o json --kubeconfig {}", self.plane()));
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| text(&output).into())
    }

    /// Waits until `why` answers with this reason, and runs the commands of its next step.
    #[track_caller]
    fn check(&self, object: &str, code: &str, filled: &[(&str, &str)]) {
        let mut answer = Value::Null;
        let asking = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            eventually(&format!("{object}: {code}"), CROSSING, || {
                answer = self.why(object);
                answer["reason"]["code"] == code
            });
        }));
        asking.unwrap_or_else(|_| panic!("{object}: no reason {code} in {answer:#}"));
        let commands = hints(answer["nextStep"].as_str().unwrap_or_default());
        assert!(!commands.is_empty(), "{answer:#}");
        for command in commands {
            let pasted = filled.iter().fold(command.clone(), |line, (word, value)| line.replace(word, value));
            self.shell.run(&pasted);
            self.printed.record(&command);
        }
    }
}

#[test]
fn the_advice_of_why_can_be_followed() {
    let bed = Testbed::up(&["--members=2", "--pull=", "--no-registry"]);
    let advice = Advice { bed, shell: PasteShell::default(), printed: PrintedCommands::listed("advice.txt") };
    advice.bed.apply(NAMESPACES);
    objects_that_are_not_propagated(&advice);
    policies_that_select_no_cluster(&advice);
    objects_that_a_member_rejects(&advice);
    workloads_that_do_not_run(&advice);
    workloads_that_leave_their_cluster(&advice);
    an_interpreter_that_fails(&advice);
    a_member_that_is_lost(&advice);
    let missing = advice.printed.missing();
    assert!(missing.is_empty(), "not printed and run: {missing:?}");
}

fn objects_that_are_not_propagated(advice: &Advice) {
    let made = member::apply(&advice.bed.config("member1"), &["apply", "-f", "-"], NAMESPACES);
    assert!(made.status.success(), "{}", text(&made));
    let made = member::apply(&advice.bed.config("member1"), &["apply", "-f", "-"], &deployment("own", "shop", ""));
    assert!(made.status.success(), "{}", text(&made));
    advice.check("deployment/own -n shop", "TemplateMissing", &[("CLUSTER", "member1")]);
    advice.bed.apply(&deployment("free", "shop", ""));
    advice.check("deployment/free -n shop", "NoPolicy", &[]);
    advice.check("cluster/member1", "ApiNotPropagated", &[]);
    advice.bed.apply(&placed("lonely", "quiet", &on("member2")));
    advice.check("deployment/lonely -n quiet", "NotApplied", &[]);
    advice.check("namespace/quiet", "NamespaceNotSynced", &[]);
    let left = advice.bed.ask("karmada-apiserver", &["get", "ns", "quiet", "-o=jsonpath={.metadata.labels}"]);
    assert!(!left.contains("skip-auto-propagation"), "{left}");
}

fn policies_that_select_no_cluster(advice: &Advice) {
    advice.bed.apply(&placed("typo", "shop", &on("memeber1")));
    advice.check("deployment/typo -n shop", "ClustersMissing", &[]);
    advice.check("propagationpolicy/typo -n shop", "ApiNotPropagated", &[]);
    advice.bed.apply(&placed("east", "shop", "clusterAffinity: {labelSelector: {matchLabels: {region: east}}}"));
    advice.check("deployment/east -n shop", "AffinityMismatch", &[]);
    advice.bed.apply(&placed(
        "wide",
        "shop",
        "spreadConstraints: [{spreadByField: region, minGroups: 1}, {spreadByField: cluster, minGroups: 1}]",
    ));
    advice.check("deployment/wide -n shop", "TopologyMissing", &[]);

    advice.flotilla("taint clusters member1 team=red:NoSchedule");
    advice.bed.apply(&placed("red", "shop", &on("member1")));
    advice.check("deployment/red -n shop", "Tainted", &[]);
    advice.flotilla("cordon member1");
    advice.bed.apply(&placed("calm", "shop", &on("member1")));
    advice.check("deployment/calm -n shop", "Tainted", &[]);
    advice.bed.wait("karmada-apiserver", &["get", "cluster", "member1", "-o=jsonpath={.spec.taints}"], "");
}

fn objects_that_a_member_rejects(advice: &Advice) {
    for (kind, name, metadata) in
        [("OverridePolicy", "wrong", "name: wrong, namespace: shop"), ("ClusterOverridePolicy", "worse", "name: worse")]
    {
        advice.bed.apply(&placed(name, "shop", &on("member1")));
        advice.bed.apply(&format!(
            "apiVersion: policy.karmada.io/v1alpha1
kind: {kind}
metadata: {{{metadata}}}
spec:
  resourceSelectors: [{{apiVersion: apps/v1, kind: Deployment, name: {name}}}]
  overrideRules: [{{overriders: {{plaintext: [{{path: /spec/replica, operator: replace, value: 2}}]}}}}]
"
        ));
        advice.check(&format!("deployment/{name} -n shop"), "OverrideFailed", &[]);
    }
    let quota = "{apiVersion: v1, kind: ResourceQuota, metadata: {name: none, namespace: full},
        spec: {hard: {count/deployments.apps: '0'}}}";
    advice.bed.wait("member1", &["get", "ns", "full", "-o=name"], "namespace/full");
    let made = member::apply(&advice.bed.config("member1"), &["apply", "-f", "-"], quota);
    assert!(made.status.success(), "{}", text(&made));
    advice.bed.wait(
        "member1",
        &["get", "quota", "-n=full", "none", "-o=jsonpath={.status.used}"],
        r#"{"count/deployments.apps":"0"}"#,
    );
    advice.bed.apply(&placed("many", "full", &on("member1")));
    advice.check("deployment/many -n full", "NotApplied", &[]);
}

fn workloads_that_do_not_run(advice: &Advice) {
    let problems = ["image-pull-error", "crash", "not-ready"];
    for simulate in problems {
        advice.bed.apply(&deployment(simulate, "shop", &format!("flotilla.dev/simulate: {simulate}")));
        advice.bed.apply(&policy(simulate, "shop", &on("member2")));
    }
    advice.bed.apply(&deployment("slow", "shop", "flotilla.dev/start-delay: 1h"));
    advice.bed.apply(&policy("slow", "shop", &on("member2")));
    advice.check("deployment/slow -n shop", "Unhealthy", &[]);
    for (simulate, pod) in problems.into_iter().zip(["cannot get image", "keeps crashing", "is not ready"]) {
        let object = format!("deployment/{simulate} -n shop");
        eventually(&format!("{object}: {pod}"), CROSSING, || {
            advice.why(&object)["pods"][0]["problem"].as_str().is_some_and(|problem| problem.contains(pod))
        });
        advice.check(&object, "Unhealthy", &[]);
    }
}

fn workloads_that_leave_their_cluster(advice: &Advice) {
    advice.bed.run_ok(&["fault", "member1", "unschedulable"]);
    advice.bed.apply(&placed("stuck", "shop", &on("member1")));
    advice.check("deployment/stuck -n shop", "Tainted", &[]);
    advice.bed.run_ok(&["fault", "member1", "heal"]);
    advice.bed.wait("karmada-apiserver", &["get", "cluster", "member1", "-o=jsonpath={.spec.taints}"], "");

    let one = "spreadConstraints: [{spreadByField: cluster, minGroups: 1, maxGroups: 1}]";
    advice.bed.apply(&placed("mobile", "shop", one));
    let cluster = ["get", "rb", "mobile-deployment", "-n=shop", "-o=jsonpath={.spec.clusters[*].name}"];
    let mut first = String::new();
    eventually("mobile is scheduled", CROSSING, || {
        first = advice.bed.ask("karmada-apiserver", &cluster);
        !first.is_empty()
    });
    advice.flotilla(&format!("taint clusters {first} away=now:NoExecute"));
    let other = if first == "member1" { "member2" } else { "member1" };
    advice.bed.wait("karmada-apiserver", &cluster, other);
    advice.flotilla(&format!("taint clusters {first} away:NoExecute-"));
    advice.check("deployment/mobile -n shop", "NoFailback", &[]);
}

/// A customization whose retention fails: an update is not applied.
fn an_interpreter_that_fails(advice: &Advice) {
    let customization = "apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterCustomization
metadata: {name: broken}
spec:
  target: {apiVersion: apps/v1, kind: Deployment}
  customizations:
    retention: {luaScript: 'function Retain(desired, observed) error(\"no\") end'}
";
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("customization.yaml");
    std::fs::write(&file, customization).expect("a file");
    advice.bed.apply(&placed("changed", "shop", &on("member1")));
    advice.bed.wait("member1", &["get", "deploy", "changed", "-n=shop", "-o=jsonpath={.spec.replicas}"], "1");
    advice.bed.apply(customization);
    // The customization takes effect a moment after it was accepted: the object is changed until it is refused.
    let scale = |replicas: u32| {
        let words = ["scale", "deploy", "changed", "-n=shop", &format!("--replicas={replicas}")];
        assert!(advice.bed.kubectl("karmada-apiserver", &words).status.success());
    };
    let mut replicas = 1;
    eventually("the interpreter fails", CROSSING, || {
        replicas += 1;
        scale(replicas);
        advice.why("deployment/changed -n shop")["reason"]["failure"] == "Interpreter"
    });
    advice.check("deployment/changed -n shop", "NotApplied", &[("FILE", &file.display().to_string())]);
    advice.flotilla("delete resourceinterpretercustomization broken");
}

fn a_member_that_is_lost(advice: &Advice) {
    let secret =
        advice.bed.ask("karmada-apiserver", &["get", "cluster", "member2", "-o=jsonpath={.spec.secretRef.name}"]);
    // "stale" in base64.
    let patch = r#"{"data":{"token":"c3RhbGU="}}"#;
    let words = ["patch", "secret", &secret, "-n=karmada-cluster", "--type=merge", "-p", patch];
    assert!(advice.bed.kubectl("karmada-apiserver", &words).status.success());
    advice.bed.apply(&placed("denied", "shop", &on("member2")));
    advice.check("deployment/denied -n shop", "NotApplied", &[]);
    advice.flotilla("unjoin member1");
    advice.bed.apply(&placed("alone", "shop", ""));
    let file = advice.bed.config("member1").display().to_string();
    advice.check("deployment/alone -n shop", "NoClusters", &[("NAME", "member1"), ("FILE", &file)]);
}
