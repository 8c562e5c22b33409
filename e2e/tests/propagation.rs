//! The common propagation samples end to end: templates and policies on our control plane, real Kubernetes clusters
//! as members.

use e2e::fleet::{Fleet, text};

/// One fleet for all samples: starting three clusters takes longer than any of them.
#[test]
fn the_common_samples_work_on_real_members() {
    let Some(fleet) = Fleet::start(&["member1", "member2", "member3"], &[]) else { return };
    duplicated_nginx_runs_everywhere_and_reports_its_status(&fleet);
    replicas_are_divided_by_weight_and_rescaled(&fleet);
    overrides_change_image_and_labels_in_one_member(&fleet);
    a_definition_and_its_resource_arrive(&fleet);
    namespaces_follow(&fleet);
    dependencies_follow(&fleet);
    a_policy_with_weights_of_zero_names_an_order(&fleet);
    members_answer_through_the_proxy_as_the_caller(&fleet);
    deletions_and_changes_in_a_member_are_reverted(&fleet);
    suspended_dispatch_waits(&fleet);
    a_deleted_policy_keeps_resources_and_a_deleted_template_removes_them(&fleet);
    an_application_moves_from_a_member_that_is_removed(&fleet);
}

fn deployment(name: &str, replicas: u32) -> String {
    format!(
        "
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: default, labels: {{app: {name}}}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      containers: [{{name: main, image: 'nginx:1.27'}}]
---"
    )
}

fn policy(name: &str, rest: &str) -> String {
    format!(
        "
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {{name: {name}, namespace: default}}
spec:
  resourceSelectors: [{{apiVersion: apps/v1, kind: Deployment, name: {name}}}]
{rest}
---"
    )
}

const REPLICAS: &str = "-o=jsonpath={.spec.replicas}";
const READY: &str = "-o=jsonpath={.status.readyReplicas}";

fn duplicated_nginx_runs_everywhere_and_reports_its_status(fleet: &Fleet) {
    fleet.apply(&deployment("nginx", 2));
    fleet.apply(&policy("nginx", "  placement: {clusterAffinity: {clusterNames: [member1, member2]}}"));
    for member in ["member1", "member2"] {
        fleet.in_member(member, &["get", "deploy", "nginx", READY], "2");
    }
    fleet.on_plane(&["get", "deploy", "nginx", READY], "4");
    fleet.on_plane(&["get", "rb", "nginx-deployment", "-o=jsonpath={.spec.clusters[*].name}"], "member1 member2");
    let conditions = r#"-o=jsonpath={.status.conditions[?(@.type=="FullyApplied")].status}"#;
    fleet.on_plane(&["get", "rb", "nginx-deployment", conditions], "True");
    fleet.on_plane(
        &["get", "work", "-n", "karmada-es-member1", "nginx-687f7fb96f", "-o=name"],
        "work.work.karmada.io/nginx-687f7fb96f",
    );
    assert_eq!(
        fleet.member("member3").ask(&["get", "deploy", "nginx", "-o=name"]),
        "",
        "it is not propagated to member3"
    );
}

fn replicas_are_divided_by_weight_and_rescaled(fleet: &Fleet) {
    fleet.apply(&deployment("divided", 9));
    fleet.apply(&policy(
        "divided",
        "  placement:
    clusterAffinity: {clusterNames: [member1, member2]}
    replicaScheduling:
      replicaSchedulingType: Divided
      replicaDivisionPreference: Weighted
      weightPreference:
        staticWeightList:
        - {targetCluster: {clusterNames: [member1]}, weight: 2}
        - {targetCluster: {clusterNames: [member2]}, weight: 1}",
    ));
    fleet.in_member("member1", &["get", "deploy", "divided", READY], "6");
    fleet.in_member("member2", &["get", "deploy", "divided", READY], "3");
    fleet.on_plane(&["get", "deploy", "divided", READY], "9");
    assert!(fleet.kubectl(&["scale", "deploy", "divided", "--replicas=3"]).status.success());
    fleet.in_member("member1", &["get", "deploy", "divided", READY], "2");
    fleet.in_member("member2", &["get", "deploy", "divided", READY], "1");
    fleet.on_plane(&["get", "deploy", "divided", READY], "3");
}

fn overrides_change_image_and_labels_in_one_member(fleet: &Fleet) {
    fleet.apply(
        "
apiVersion: policy.karmada.io/v1alpha1
kind: OverridePolicy
metadata: {name: nginx, namespace: default}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: nginx}]
  overrideRules:
  - targetCluster: {clusterNames: [member2]}
    overriders:
      imageOverrider: [{component: Registry, operator: add, value: registry.example}]
      labelsOverrider: [{operator: add, value: {place: second}}]
",
    );
    let image = "-o=jsonpath={.spec.template.spec.containers[0].image}";
    fleet.in_member("member2", &["get", "deploy", "nginx", image], "registry.example/nginx:1.27");
    fleet.in_member("member2", &["get", "deploy", "nginx", "-o=jsonpath={.metadata.labels.place}"], "second");
    fleet.in_member("member1", &["get", "deploy", "nginx", image], "nginx:1.27");
    assert!(fleet.kubectl(&["delete", "overridepolicy", "nginx"]).status.success());
    fleet.in_member("member2", &["get", "deploy", "nginx", image], "nginx:1.27");
    fleet.in_member("member2", &["get", "deploy", "nginx", "-o=jsonpath={.metadata.labels.place}"], "");
}

fn a_definition_and_its_resource_arrive(fleet: &Fleet) {
    fleet.apply(
        "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: guestbooks.example.io}
spec:
  group: example.io
  names: {kind: Guestbook, plural: guestbooks, singular: guestbook, listKind: GuestbookList}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, properties: {size: {type: integer}}}}
---
apiVersion: policy.karmada.io/v1alpha1
kind: ClusterPropagationPolicy
metadata: {name: guestbooks}
spec:
  resourceSelectors: [{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, name: guestbooks.example.io}]
  placement: {clusterAffinity: {clusterNames: [member1]}}
",
    );
    fleet.in_member(
        "member1",
        &["get", "crd", "guestbooks.example.io", "-o=name"],
        "customresourcedefinition.apiextensions.k8s.io/guestbooks.example.io",
    );
    fleet.eventually("the definition is served on the plane", || {
        fleet.ask(&["api-resources", "--api-group=example.io", "-o=name"]) == "guestbooks.example.io"
    });
    fleet.apply(
        "
apiVersion: example.io/v1
kind: Guestbook
metadata: {name: visitors, namespace: default}
spec: {size: 3}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: visitors, namespace: default}
spec:
  resourceSelectors: [{apiVersion: example.io/v1, kind: Guestbook}]
  placement: {clusterAffinity: {clusterNames: [member1]}}
",
    );
    fleet.in_member("member1", &["get", "guestbook", "visitors", "-o=jsonpath={.spec.size}"], "3");
}

fn namespaces_follow(fleet: &Fleet) {
    assert!(fleet.kubectl(&["create", "namespace", "team-a"]).status.success());
    for member in &fleet.members {
        fleet.in_member(&member.name, &["get", "ns", "team-a", "-o=name"], "namespace/team-a");
    }
}

fn dependencies_follow(fleet: &Fleet) {
    fleet.apply(
        "
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: default}
data: {color: blue}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: configured, namespace: default}
spec:
  replicas: 1
  selector: {matchLabels: {app: configured}}
  template:
    metadata: {labels: {app: configured}}
    spec:
      containers:
      - name: main
        image: nginx
        envFrom: [{configMapRef: {name: settings}}]
---",
    );
    fleet.apply(&policy(
        "configured",
        "  propagateDeps: true\n  placement: {clusterAffinity: {clusterNames: [member2]}}",
    ));
    fleet.in_member("member2", &["get", "cm", "settings", "-o=jsonpath={.data.color}"], "blue");
    assert!(fleet.kubectl(&["patch", "cm", "settings", "-p", r#"{"data":{"color":"red"}}"#]).status.success());
    fleet.in_member("member2", &["get", "cm", "settings", "-o=jsonpath={.data.color}"], "red");
    assert_eq!(fleet.member("member1").ask(&["get", "cm", "settings", "-o=name"]), "");
}

/// The policy of the pull-mode guide: all on the first cluster, the others only if it is lost.
fn a_policy_with_weights_of_zero_names_an_order(fleet: &Fleet) {
    fleet.apply(&deployment("my-app", 3));
    fleet.apply(&policy(
        "my-app",
        "  placement:
    clusterAffinity: {clusterNames: [member1, member2, member3]}
    replicaScheduling:
      replicaDivisionPreference: Weighted
      replicaSchedulingType: Divided
      weightPreference:
        staticWeightList:
        - {targetCluster: {clusterNames: [member3]}, weight: 1}
        - {targetCluster: {clusterNames: [member2]}, weight: 0}
        - {targetCluster: {clusterNames: [member1]}, weight: 0}
    spreadConstraints: [{maxGroups: 1, minGroups: 1, spreadByField: cluster}]
  failover:
    application:
      decisionConditions: {tolerationSeconds: 60}
      purgeMode: Gracefully",
    ));
    fleet.in_member("member3", &["get", "deploy", "my-app", READY], "3");
    fleet.on_plane(
        &["get", "rb", "my-app-deployment", "-o=jsonpath={.spec.clusters}"],
        r#"[{"name":"member3","replicas":3}]"#,
    );
}

fn members_answer_through_the_proxy_as_the_caller(fleet: &Fleet) {
    let path = |member: &str, rest: &str| format!("/apis/cluster.karmada.io/v1alpha1/clusters/{member}/proxy{rest}");
    let listed = fleet.ask(&["get", "--raw", &path("member1", "/apis/apps/v1/namespaces/default/deployments/nginx")]);
    assert!(listed.contains("karmada.io/managed"), "{listed}");
    let created = e2e::member::apply(
        &fleet.plane.kubeconfig,
        &["create", "--raw", &path("member1", "/api/v1/namespaces/default/configmaps"), "-f", "-"],
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"through-the-proxy"}}"#,
    );
    assert!(created.status.success(), "{}", text(&created));
    fleet.in_member("member1", &["get", "cm", "through-the-proxy", "-o=name"], "configmap/through-the-proxy");
    let missing = fleet.kubectl(&["get", "--raw", &path("missing", "/api")]);
    assert!(!missing.status.success() && text(&missing).contains("missing"), "{}", text(&missing));
}

fn deletions_and_changes_in_a_member_are_reverted(fleet: &Fleet) {
    let member = fleet.member("member1");
    let uid = ["get", "deploy", "nginx", "-o=jsonpath={.metadata.uid}"];
    let before = member.ask(&uid);
    assert!(member.kubectl(&["delete", "deploy", "nginx"]).status.success());
    fleet.eventually(
        "the deleted deployment is made again",
        || !matches!(member.ask(&uid), now if now.is_empty() || now == before),
    );
    assert!(member.kubectl(&["scale", "deploy", "nginx", "--replicas=7"]).status.success());
    fleet.in_member("member1", &["get", "deploy", "nginx", REPLICAS], "2");
}

fn suspended_dispatch_waits(fleet: &Fleet) {
    fleet.apply(&deployment("later", 1));
    fleet.apply(&policy(
        "later",
        "  suspension: {dispatching: true}\n  placement: {clusterAffinity: {clusterNames: [member1]}}",
    ));
    let reason = r#"-o=jsonpath={.items[?(@.metadata.annotations.resourcebinding\.karmada\.io/name=="later-deployment")].status.conditions[?(@.type=="Dispatching")].status}"#;
    fleet.on_plane(&["get", "work", "-n", "karmada-es-member1", reason], "False");
    assert_eq!(fleet.member("member1").ask(&["get", "deploy", "later", "-o=name"]), "");
    let resume = r#"{"spec":{"suspension":{"dispatching":false}}}"#;
    assert!(fleet.kubectl(&["patch", "pp", "later", "--type=merge", "-p", resume]).status.success());
    fleet.in_member("member1", &["get", "deploy", "later", READY], "1");
}

fn a_deleted_policy_keeps_resources_and_a_deleted_template_removes_them(fleet: &Fleet) {
    assert!(fleet.kubectl(&["delete", "pp", "divided"]).status.success());
    assert_ne!(fleet.member("member1").ask(&["get", "deploy", "divided", "-o=name"]), "");
    assert_ne!(fleet.ask(&["get", "rb", "divided-deployment", "-o=name"]), "", "a binding outlives its policy");
    assert!(fleet.kubectl(&["delete", "deploy", "divided"]).status.success());
    for member in ["member1", "member2"] {
        fleet.in_member(member, &["get", "deploy", "divided", "--ignore-not-found", "-o=name"], "");
    }
    fleet.on_plane(&["get", "rb", "divided-deployment", "--ignore-not-found", "-o=name"], "");
}

fn an_application_moves_from_a_member_that_is_removed(fleet: &Fleet) {
    let output = fleet.flotilla(&["unjoin", "member3", "--wait", "60s"]);
    assert!(output.status.success(), "{}", text(&output));
    fleet.in_member("member2", &["get", "deploy", "my-app", READY], "3");
    fleet.on_plane(&["get", "cluster", "member3", "--ignore-not-found", "-o=name"], "");
    fleet.in_member("member3", &["get", "deploy", "my-app", "--ignore-not-found", "-o=name"], "");
    fleet.on_plane(&["get", "ns", "karmada-es-member3", "--ignore-not-found", "-o=name"], "");
}
