//! Propagation under faults: members that are unavailable, slow or reject objects, and a control plane that is
//! killed.

use std::process::Command;
use std::time::{Duration, Instant};

use e2e::eventually::eventually;
use e2e::fleet::{CROSSING, Fleet};
use e2e::flotilla::Flotilla;
use e2e::member::{self, Member};

/// Enough for the kill to come while most of them are on their way.
const PLACEMENTS: usize = 400;

#[test]
fn faulty_members_do_not_delay_others() {
    let Some(mut fleet) = Fleet::start(&["member1", "member2"], &[]) else { return };
    everywhere(&fleet);
    a_rejection_by_one_member_is_reported_and_does_not_affect_others(&fleet);
    a_member_without_the_kind_is_excluded(&fleet);
    a_slow_member_does_not_slow_the_others(&fleet);
    a_member_catches_up_after_an_outage(&mut fleet);
}

#[test]
fn a_plane_killed_during_many_placements_loses_and_repeats_nothing() {
    let data = tempfile::tempdir().expect("a temporary directory");
    let Some(fleet) = Fleet::start_in(&["member1", "member2"], data.path()) else { return };
    everywhere(&fleet);
    let documents: String = (0..PLACEMENTS).map(|number| deployment(&format!("web-{number}"), "")).collect();
    fleet.create(&documents);
    let present = |fleet: &Fleet, name: &str| deployments(fleet.member(name));
    eventually("the placing has begun", CROSSING, || present(&fleet, "member1") > PLACEMENTS / 20);
    let Fleet { plane, members } = fleet;
    plane.kill();
    let fleet = Fleet { plane: Flotilla::start_in(data.path(), &[]), members };
    for name in ["member1", "member2"] {
        eventually("every deployment is in every member", CROSSING * 3, || present(&fleet, name) == PLACEMENTS);
        let generations = fleet.member(name).ask(&["get", "deploy", "-o=jsonpath={.items[*].metadata.generation}"]);
        let again = generations.split_whitespace().filter(|generation| *generation != "1").count();
        assert_eq!(again, 0, "{name}: objects were applied once");
    }
    let path = r#"-o=jsonpath={.items[*].status.conditions[?(@.type=="FullyApplied")].status}"#;
    let applied = || fleet.ask(&["get", "rb", path]).split_whitespace().filter(|status| *status == "True").count();
    fleet.eventually("every binding is applied", || applied() == PLACEMENTS);
}

/// The number of Deployments in a member. The server counts them: reading hundreds takes more CPU than placing one.
fn deployments(member: &Member) -> usize {
    let list = member.ask(&["get", "--raw=/apis/apps/v1/namespaces/default/deployments?limit=1"]);
    let list: serde_json::Value = serde_json::from_str(&list).unwrap_or_default();
    let rest = list["metadata"]["remainingItemCount"].as_u64().unwrap_or(0);
    list["items"].as_array().map_or(0, Vec::len) + rest as usize
}

fn deployment(name: &str, label: &str) -> String {
    format!(
        "
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: default, labels: {{app: web{label}}}}}
spec:
  replicas: 0
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      containers: [{{name: main, image: nginx}}]
---"
    )
}

fn everywhere(fleet: &Fleet) {
    fleet.apply(
        "
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: everywhere, namespace: default}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment}]
  placement: {clusterAffinity: {clusterNames: [member1, member2]}}
",
    );
}

fn arrives(fleet: &Fleet, member: &str, name: &str) {
    fleet.in_member(member, &["get", "deploy", name, "-o=name"], &format!("deployment.apps/{name}"));
}

fn applied_message(fleet: &Fleet, name: &str) -> String {
    let path = r#"-o=jsonpath={.status.aggregatedStatus[?(@.clusterName=="member1")].appliedMessage}"#;
    fleet.ask(&["get", "rb", &format!("{name}-deployment"), path])
}

fn a_rejection_by_one_member_is_reported_and_does_not_affect_others(fleet: &Fleet) {
    let rule = "
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-forbidden}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}]
  validations: [{expression: \"!('forbidden' in object.metadata.labels)\", message: forbidden by policy}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-forbidden}
spec: {policyName: no-forbidden, validationActions: [Deny]}
";
    let applied = member::apply(fleet.member("member1").kubeconfig(), &["apply", "-f", "-"], rule);
    assert!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));
    let refused = || {
        // A policy takes effect with a delay.
        let probe = deployment("probe", ", forbidden: 'yes'");
        !member::apply(fleet.member("member1").kubeconfig(), &["create", "--dry-run=server", "-f", "-"], &probe)
            .status
            .success()
    };
    fleet.eventually("the member denies", refused);
    fleet.apply(&deployment("denied", ", forbidden: 'yes'"));
    arrives(fleet, "member2", "denied");
    fleet.eventually("the binding reports the reason", || {
        applied_message(fleet, "denied").contains("forbidden by policy")
    });
    assert!(fleet.kubectl(&["label", "deploy", "denied", "forbidden-"]).status.success());
    arrives(fleet, "member1", "denied");
    fleet.eventually("the binding is content", || applied_message(fleet, "denied").is_empty());
}

fn a_member_without_the_kind_is_excluded(fleet: &Fleet) {
    fleet.apply(
        "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.example.io}
spec:
  group: example.io
  names: {kind: Boat, plural: boats, singular: boat, listKind: BoatList}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
",
    );
    fleet.eventually("the kind is served", || {
        fleet.ask(&["api-resources", "--api-group=example.io", "-o=name"]) == "boats.example.io"
    });
    fleet.apply(
        "
apiVersion: example.io/v1
kind: Boat
metadata: {name: ark, namespace: default}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: boats, namespace: default}
spec:
  resourceSelectors: [{apiVersion: example.io/v1, kind: Boat}]
  placement: {clusterAffinity: {clusterNames: [member1]}}
",
    );
    let path = r#"-o=jsonpath={.status.conditions[?(@.type=="Scheduled")].message}"#;
    fleet.eventually("the binding reports that the member lacks the API", || {
        fleet.ask(&["get", "rb", "ark-boat", path]).contains("did not have the API resource")
    });
}

fn a_slow_member_does_not_slow_the_others(fleet: &Fleet) {
    let pid = fleet.member("member2").api.api_pid();
    signal(pid, "-STOP");
    let start = Instant::now();
    fleet.create(&(0..50).map(|number| deployment(&format!("quick-{number}"), "")).collect::<String>());
    let quick = || {
        let names = fleet.member("member1").ask(&["get", "deploy", "-o=name"]);
        names.lines().filter(|name| name.contains("/quick-")).count()
    };
    fleet.eventually("the fast member has them all", || quick() == 50);
    let took = start.elapsed();
    signal(pid, "-CONT");
    arrives(fleet, "member2", "quick-49");
    // Far below any request timeout of the slow member.
    assert!(took < Duration::from_secs(30), "the fast member waited {took:?}");
}

fn a_member_catches_up_after_an_outage(fleet: &mut Fleet) {
    let uid = |fleet: &Fleet| fleet.member("member2").ask(&["get", "deploy", "quick-0", "-o=jsonpath={.metadata.uid}"]);
    let before = uid(fleet);
    fleet.members[1].api.end_api();
    fleet.apply(&deployment("meanwhile", ""));
    assert!(fleet.kubectl(&["delete", "deploy", "quick-1"]).status.success());
    arrives(fleet, "member1", "meanwhile");
    fleet.in_member("member1", &["get", "deploy", "quick-1", "--ignore-not-found", "-o=name"], "");
    fleet.members[1].api.start_api_again();
    arrives(fleet, "member2", "meanwhile");
    fleet.in_member("member2", &["get", "deploy", "quick-1", "--ignore-not-found", "-o=name"], "");
    assert_eq!(uid(fleet), before, "nothing was deleted by mistake");
}

fn signal(pid: u32, signal: &str) {
    let sent = Command::new("kill").args([signal, &pid.to_string()]).status().expect("kill runs");
    assert!(sent.success());
}
