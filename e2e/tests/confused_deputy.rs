//! A user with `edit` in one namespace tries to reach further through objects the control plane acts on.
//!
//! Everything runs: the server, two members and their agents. Each row is a document the user sends, and the state that
//! must hold after the controllers had time to act.

use std::path::{Path, PathBuf};

use e2e::fleet::{run, text};
use e2e::flotilla::{binary, kubectl};
use e2e::light_fleet::LightFleet;
use e2e::member;

const TENANT: &str = "tenant";

/// The document a user sends, and a part of the refusal; empty if it is accepted and must have no effect.
struct Attack {
    title: &'static str,
    document: &'static str,
    refusal: &'static str,
}

const ATTACKS: &[Attack] = &[
    Attack {
        title: "credentials of a cluster",
        document: "{apiVersion: work.karmada.io/v1alpha2, kind: ResourceBinding, metadata: {name: exf, namespace: tenant},
            spec: {resource: {apiVersion: v1, kind: Secret, namespace: karmada-cluster, name: m1}, clusters: [{name: m2}]}}",
        refusal: "spec.resource.namespace",
    },
    Attack {
        title: "a bootstrap token",
        document: "{apiVersion: work.karmada.io/v1alpha2, kind: ResourceBinding, metadata: {name: token, namespace: tenant},
            spec: {resource: {apiVersion: v1, kind: Secret, namespace: kube-system, name: bootstrap-token-abcdef},
              clusters: [{name: m2}]}}",
        refusal: "spec.resource.namespace",
    },
    Attack {
        title: "a Secret of another tenant by requiredBy",
        document: "{apiVersion: work.karmada.io/v1alpha2, kind: ResourceBinding, metadata: {name: req, namespace: tenant},
            spec: {resource: {apiVersion: v1, kind: Secret, namespace: other, name: topsecret},
              requiredBy: [{namespace: tenant, name: x, clusters: [{name: m2}]}]}}",
        refusal: "spec.resource.namespace",
    },
    Attack {
        title: "the Work of a namespace",
        document: "{apiVersion: work.karmada.io/v1alpha2, kind: ResourceBinding,
            metadata: {name: take, namespace: tenant, finalizers: [karmada.io/binding-controller]},
            spec: {resource: {apiVersion: v1, kind: Namespace, name: victim}, clusters: [{name: m1}]}}",
        refusal: "spec.resource.namespace",
    },
    Attack {
        title: "the Work of a namespace, as if it were in the tenant's",
        document: "{apiVersion: work.karmada.io/v1alpha2, kind: ResourceBinding,
            metadata: {name: take, namespace: tenant, finalizers: [karmada.io/binding-controller]},
            spec: {resource: {apiVersion: v1, kind: Namespace, namespace: tenant, name: victim}, clusters: [{name: m1}]}}",
        refusal: "spec.resource.kind",
    },
    Attack {
        title: "a Work written by hand",
        document: "{apiVersion: work.karmada.io/v1alpha1, kind: Work, metadata: {name: w, namespace: karmada-es-m2},
            spec: {workload: {manifests: []}}}",
        refusal: "forbidden",
    },
    Attack {
        title: "a policy that selects another namespace",
        document: "{apiVersion: policy.karmada.io/v1alpha1, kind: PropagationPolicy, metadata: {name: p, namespace: tenant},
            spec: {resourceSelectors: [{apiVersion: v1, kind: Secret, namespace: other}],
              placement: {clusterAffinity: {clusterNames: [m2]}}}}",
        refusal: "namespace of resource selector must be the same",
    },
    Attack {
        title: "overrides of another namespace",
        document: "{apiVersion: policy.karmada.io/v1alpha1, kind: OverridePolicy, metadata: {name: o, namespace: tenant},
            spec: {resourceSelectors: [{apiVersion: v1, kind: Secret, namespace: other}], overrideRules: []}}",
        refusal: "namespace of resource selector must be the same",
    },
    Attack {
        title: "a binding of the whole cluster",
        document: "{apiVersion: work.karmada.io/v1alpha2, kind: ClusterResourceBinding, metadata: {name: c},
            spec: {resource: {apiVersion: v1, kind: Namespace, name: victim}, clusters: [{name: m1}]}}",
        refusal: "forbidden",
    },
    Attack {
        title: "a policy of the whole cluster",
        document: "{apiVersion: policy.karmada.io/v1alpha1, kind: ClusterPropagationPolicy, metadata: {name: c},
            spec: {resourceSelectors: [{apiVersion: v1, kind: Secret}], placement: {}}}",
        refusal: "forbidden",
    },
    Attack {
        title: "a rebalance of others' workloads",
        document: "{apiVersion: apps.karmada.io/v1alpha1, kind: WorkloadRebalancer, metadata: {name: r},
            spec: {workloads: [{apiVersion: apps/v1, kind: Deployment, name: x, namespace: other}]}}",
        refusal: "forbidden",
    },
    Attack {
        title: "an interpreter of others' objects",
        document: "{apiVersion: config.karmada.io/v1alpha1, kind: ResourceInterpreterCustomization, metadata: {name: i},
            spec: {target: {apiVersion: v1, kind: Secret}, customizations: {}}}",
        refusal: "forbidden",
    },
    Attack {
        title: "a remedy",
        document: "{apiVersion: remedy.karmada.io/v1alpha1, kind: Remedy, metadata: {name: r}, spec: {actions: [TrafficControl]}}",
        refusal: "forbidden",
    },
    Attack {
        title: "a quota",
        document: "{apiVersion: policy.karmada.io/v1alpha1, kind: FederatedResourceQuota, metadata: {name: q, namespace: tenant},
            spec: {overall: {cpu: 1}}}",
        refusal: "forbidden",
    },
    Attack {
        title: "taints of clusters",
        document: "{apiVersion: policy.karmada.io/v1alpha1, kind: ClusterTaintPolicy, metadata: {name: t}, spec: {taints: [{key: x, effect: NoSchedule}]}}",
        refusal: "forbidden",
    },
    // Accepted: the object becomes another one on its way to the member.
    Attack {
        title: "overrides that turn an object into another",
        document: "{apiVersion: policy.karmada.io/v1alpha1, kind: OverridePolicy, metadata: {name: turn, namespace: tenant},
            spec: {resourceSelectors: [{apiVersion: v1, kind: ConfigMap, name: turned}], overrideRules: [{overriders: {plaintext: [
              {path: /metadata/namespace, operator: replace, value: victim}]}}]}}",
        refusal: "",
    },
    Attack {
        title: "the object for the overrides",
        document: "{apiVersion: v1, kind: ConfigMap, metadata: {name: turned, namespace: tenant}}",
        refusal: "",
    },
    Attack {
        title: "its policy",
        document: "{apiVersion: policy.karmada.io/v1alpha1, kind: PropagationPolicy, metadata: {name: own, namespace: tenant},
            spec: {resourceSelectors: [{apiVersion: v1, kind: ConfigMap}], placement: {clusterAffinity: {clusterNames: [m2]}}}}",
        refusal: "",
    },
    // Accepted: the object takes along what it refers to, and a binding says that this is another's.
    Attack {
        title: "an object with dependencies",
        document: "{apiVersion: apps/v1, kind: Deployment, metadata: {name: deps, namespace: tenant}, spec: {replicas: 1,
            selector: {matchLabels: {app: deps}}, template: {metadata: {labels: {app: deps}}, spec: {
              containers: [{name: c, image: nginx, envFrom: [{secretRef: {name: owndep}}, {secretRef: {name: topsecret}}]}],
              volumes: [{name: v, secret: {secretName: topsecret}}]}}}}",
        refusal: "",
    },
    Attack {
        title: "its own dependency",
        document: "{apiVersion: v1, kind: Secret, metadata: {name: owndep, namespace: tenant}, stringData: {a: b}}",
        refusal: "",
    },
    Attack {
        title: "a policy that propagates dependencies",
        document: "{apiVersion: policy.karmada.io/v1alpha1, kind: PropagationPolicy, metadata: {name: deps, namespace: tenant},
            spec: {propagateDeps: true, resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: deps}],
              placement: {clusterAffinity: {clusterNames: [m2]}}}}",
        refusal: "",
    },
    Attack {
        title: "a binding whose recorded dependency is another's",
        document: "{apiVersion: work.karmada.io/v1alpha2, kind: ResourceBinding, metadata: {name: deps2, namespace: tenant,
            annotations: {resourcebinding.karmada.io/dependencies:
              '[{\"apiVersion\":\"v1\",\"kind\":\"Secret\",\"namespace\":\"other\",\"name\":\"topsecret\"}]'}},
            spec: {resource: {apiVersion: apps/v1, kind: Deployment, namespace: tenant, name: deps}, propagateDeps: true,
              clusters: [{name: m2}]}}",
        refusal: "",
    },
    // In scope, with the id of another's binding: its deletion must not delete the other's Works.
    Attack {
        title: "another's permanent id",
        document: "{apiVersion: work.karmada.io/v1alpha2, kind: ResourceBinding, metadata: {name: id, namespace: tenant,
            labels: {resourcebinding.karmada.io/permanent-id: VICTIM_ID}, finalizers: [karmada.io/binding-controller]},
            spec: {resource: {apiVersion: v1, kind: ConfigMap, namespace: tenant, name: marker}, clusters: [{name: m2}]}}",
        refusal: "",
    },
    Attack {
        title: "an honest object, which goes through the same controllers later",
        document: "{apiVersion: v1, kind: ConfigMap, metadata: {name: marker, namespace: tenant}}",
        refusal: "",
    },
];

/// Objects of others, and their policy.
const OTHERS: &str = "
{apiVersion: v1, kind: Namespace, metadata: {name: tenant}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: other}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: victim}}
---
{apiVersion: v1, kind: Secret, metadata: {name: topsecret, namespace: other}, stringData: {password: x}}
---
{apiVersion: v1, kind: Secret, metadata: {name: bootstrap-token-abcdef, namespace: kube-system}, stringData: {token-id: abcdef}}
---
{apiVersion: v1, kind: Secret, metadata: {name: m1, namespace: karmada-cluster}, stringData: {token: x}}
---
{apiVersion: policy.karmada.io/v1alpha1, kind: PropagationPolicy, metadata: {name: p, namespace: other},
  spec: {resourceSelectors: [{apiVersion: v1, kind: Secret}], placement: {clusterAffinity: {clusterNames: [m1]}}}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: low, namespace: tenant}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: low, namespace: tenant},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit},
  subjects: [{kind: ServiceAccount, name: low, namespace: tenant}]}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: viewer, namespace: tenant}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: viewer},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view},
  subjects: [{kind: ServiceAccount, name: viewer, namespace: tenant}]}
";

/// A kubeconfig of a ServiceAccount of the tenant.
fn account(fleet: &LightFleet, directory: &Path, name: &str) -> PathBuf {
    let token = fleet.ask(&["create", "token", name, "-n", TENANT]);
    assert!(!token.is_empty(), "no token for {name}");
    let [server, ca] = ["server", "certificate-authority-data"]
        .map(|field| fleet.ask(&["config", "view", "--raw", &format!("-o=jsonpath={{.clusters[0].cluster.{field}}}")]));
    let file = directory.join(format!("{name}.config"));
    let config = format!(
        "{{apiVersion: v1, kind: Config, current-context: c, contexts: [{{name: c, context: {{cluster: c, user: u}}}}],
          clusters: [{{name: c, cluster: {{server: '{server}', certificate-authority-data: '{ca}'}}}}],
          users: [{{name: u, user: {{token: '{token}'}}}}]}}"
    );
    std::fs::write(&file, config).expect("a file");
    file
}

#[test]
fn edit_in_one_namespace_reaches_no_other() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let fleet = LightFleet::start(directory.path(), &["m1", "m2"], None, &[]);
    fleet.apply(OTHERS);
    let low = account(&fleet, directory.path(), "low");
    fleet.in_cluster("m1", &["get", "secret", "topsecret", "-n=other", "-o=name"], "secret/topsecret");
    fleet.in_cluster("m1", &["get", "ns", "victim", "-o=name"], "namespace/victim");
    let id = "-o=jsonpath={.metadata.labels.resourcebinding\\.karmada\\.io/permanent-id}";
    let victim_id = fleet.ask(&["get", "rb", "topsecret-secret", "-n=other", id]);
    assert!(!victim_id.is_empty(), "the binding of topsecret has no id");

    for Attack { title, document, refusal } in ATTACKS {
        let output = member::apply(&low, &["create", "-f", "-"], &document.replace("VICTIM_ID", &victim_id));
        match *refusal {
            "" => assert!(output.status.success(), "{title}: {}", text(&output)),
            part => {
                assert!(!output.status.success(), "{title} was accepted");
                assert!(text(&output).contains(part), "{title}: {}", text(&output));
            }
        }
    }
    // The controllers have processed the accepted ones when the honest object has arrived.
    fleet.in_cluster("m2", &["get", "cm", "marker", "-n=tenant", "-o=name"], "configmap/marker");
    fleet.in_cluster("m2", &["get", "secret", "owndep", "-n=tenant", "-o=name"], "secret/owndep");
    let gone = kubectl(&low, &["delete", "rb", "id", "-n=tenant", "--wait=true", "--timeout=60s"]);
    assert!(gone.status.success(), "{}", text(&gone));
    fleet.in_cluster("m2", &["get", "cm", "turned", "-n=victim", "--ignore-not-found", "-o=name"], "");
    let left = [
        ("m1", ["secret", "topsecret", "-n=other"], "secret/topsecret"),
        ("m1", ["ns", "victim", "-n=other"], "namespace/victim"),
        ("m2", ["secret", "topsecret", "-n=other"], ""),
        ("m2", ["secret", "topsecret", "-n=tenant"], ""),
        ("m2", ["secret", "m1", "-n=karmada-cluster"], ""),
        ("m2", ["secret", "bootstrap-token-abcdef", "-n=kube-system"], ""),
    ];
    for (city, [kind, name, namespace], expected) in left {
        let arguments = ["get", kind, name, namespace, "--ignore-not-found", "-o=name"];
        assert_eq!(fleet.member(city).member.ask(&arguments), expected, "{city}: {kind} {name}");
    }
    promotion_acts_with_the_rights_of_its_user(&fleet, &low);
}

/// A promotion reads from a member and writes to the control plane: what the user may do in neither does not happen.
fn promotion_acts_with_the_rights_of_its_user(fleet: &LightFleet, low: &Path) {
    let policies = || fleet.ask(&["get", "propagationpolicies,clusterpropagationpolicies", "-A", "-o=name"]);
    let before = policies();
    for object in
        [["secret", "topsecret", "-n=other"], ["namespace", "victim", "-n=tenant"], ["secret", "m1", "-n=tenant"]]
    {
        let output = run(&binary(), low, &[&["promote"], &object[..], &["-C=m1"]].concat());
        assert!(!output.status.success(), "{object:?} was promoted: {}", text(&output));
        assert!(text(&output).to_lowercase().contains("forbidden"), "{object:?}: {}", text(&output));
    }
    assert_eq!(policies(), before);
}

#[test]
fn view_does_not_read_secrets_through_works() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let fleet = LightFleet::start(directory.path(), &["m1"], None, &[]);
    fleet.apply(OTHERS);
    fleet.in_cluster("m1", &["get", "secret", "topsecret", "-n=other", "-o=name"], "secret/topsecret");
    for (name, scope) in [("viewer", "-A"), ("low", "-n=tenant")] {
        let config = account(&fleet, directory.path(), name);
        for works in ["works.work.karmada.io", "works.work.karmada.io/status"] {
            let asked = kubectl(&config, &["auth", "can-i", "list", works, scope]);
            assert!(String::from_utf8_lossy(&asked.stdout).starts_with("no"), "{name}: {}", text(&asked));
        }
        let read = kubectl(&config, &["get", "works", scope]);
        assert!(text(&read).contains("Forbidden"), "{name}: {}", text(&read));
        // Other rights that the roles of Karmada grant remain.
        let bindings = kubectl(&config, &["get", "resourcebindings", "-n=tenant"]);
        assert!(bindings.status.success(), "{name}: {}", text(&bindings));
    }
}
