//! Revisions of workloads in a member, and the way back to one, through the API of the manager.

use std::process::Output;
use std::time::Duration;

use e2e::light_member::LightMember;
use e2e::manager::{ManagerProcess, eventually, text};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(90);
const BASE: &str = "/flotilla/manager/v1alpha1/instances/east/namespaces/default/workloads";
/// Kind and resource of the workloads with revisions.
const WORKLOADS: [(&str, &str); 3] =
    [("Deployment", "deployments"), ("StatefulSet", "statefulsets"), ("DaemonSet", "daemonsets")];

/// A manager with the instance east, which has one member.
struct World {
    manager: ManagerProcess,
    member: LightMember,
    endpoint: String,
}

impl World {
    fn start() -> Self {
        let member = LightMember::start(&["--nodes", "1"]);
        let manager = ManagerProcess::start(&["--allow-loopback-endpoints"]);
        manager.create("east", json!({}), json!({}));
        let instance = manager.wait_for("east", "Completed");
        let endpoint = instance["status"]["endpoint"].as_str().expect("an endpoint").to_owned();
        let kubeconfig = std::fs::read_to_string(&member.kubeconfig).expect("a kubeconfig");
        let metadata = json!({"name": "m1", "namespace": "default"});
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"kubeconfig": kubeconfig}});
        let spec = json!({"instances": ["east"], "secretRef": {"namespace": "default", "name": "m1"}});
        let cluster = json!({"apiVersion": "manager.flotilla.dev/v1alpha1", "kind": "ManagedCluster", "metadata": {"name": "m1"}, "spec": spec});
        for object in [secret, cluster] {
            let applied = manager.apply(&object);
            assert!(applied.status.success(), "{}", text(&applied));
        }
        Self { manager, member, endpoint }
    }

    /// Runs kubectl against the instance.
    fn east(&self, arguments: &[&str]) -> Output {
        self.manager.kubectl(&[&["--server", self.endpoint.as_str()][..], arguments].concat())
    }

    fn apply(&self, object: &Value) {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), object.to_string()).expect("written");
        let applied = self.east(&["apply", "-f", &file.path().display().to_string()]);
        assert!(applied.status.success(), "{}", text(&applied));
    }

    /// The image of each revision in the member, the newest first, and the number of the current one.
    fn history(&self, resource: &str) -> (Vec<String>, i64) {
        let found = self.manager.kubectl(&["get", "--raw", &format!("{BASE}/{resource}/web/history")]);
        let found: Value = serde_json::from_slice(&found.stdout).unwrap_or_default();
        let revisions = found["revisions"].as_array().cloned().unwrap_or_default();
        let number =
            |revision: &Value| revision["revision"].as_str().and_then(|number| number.parse().ok()).unwrap_or(0);
        let current = revisions.iter().find(|revision| revision["current"] == true).map_or(0, number);
        let image = |revision: &Value| revision["images"][0].as_str().unwrap_or_default().to_owned();
        (revisions.iter().map(image).collect(), current)
    }

    #[track_caller]
    fn until_history(&self, resource: &str, images: &[&str], current: i64) {
        let check = || {
            let found = self.history(resource);
            if found.0 == images && found.1 == current { Ok(()) } else { Err(format!("{resource}: {found:?}")) }
        };
        eventually(LIMIT, check, || self.manager.server.log());
    }

    fn roll_back(&self, resource: &str, body: &Value) -> Output {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), body.to_string()).expect("written");
        let url = format!("{BASE}/{resource}/web:rollback");
        self.manager.kubectl(&["create", "--raw", &url, "-f", &file.path().display().to_string()])
    }

    fn image(&self, resource: &str) -> String {
        text(&self.east(&["get", resource, "web", "-o=jsonpath={.spec.template.spec.containers[0].image}"]))
    }
}

fn workload(kind: &str, image: &str) -> Value {
    let labels = json!({"app": kind.to_lowercase()});
    let containers = json!([{"name": "web", "image": image}]);
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": containers}});
    let mut spec = json!({"selector": {"matchLabels": labels}, "template": template});
    if kind == "StatefulSet" {
        spec["serviceName"] = "web".into();
    }
    json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web", "namespace": "default"}, "spec": spec})
}

fn policy() -> Value {
    let selectors = WORKLOADS.map(|(kind, _)| json!({"apiVersion": "apps/v1", "kind": kind}));
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "all", "namespace": "default"},
        "spec": {"resourceSelectors": selectors, "placement": {"clusterAffinity": {"clusterNames": ["m1"]}}},
    })
}

#[test]
fn workloads_go_back_to_revisions_that_a_member_keeps() {
    let world = World::start();
    world.apply(&policy());
    WORKLOADS.iter().for_each(|(kind, _)| world.apply(&workload(kind, "web:1")));
    for (kind, resource) in WORKLOADS {
        world.until_history(resource, &["web:1"], 1);
        let none = world.roll_back(resource, &json!({}));
        assert!(!none.status.success(), "{resource}: {}", text(&none));
        world.apply(&workload(kind, "web:2"));
        world.until_history(resource, &["web:2", "web:1"], 2);

        let checked = world.roll_back(resource, &json!({"validateOnly": true}));
        assert!(checked.status.success(), "{resource}: {}", text(&checked));
        assert_eq!(world.image(resource), "web:2", "{resource}: a check changes nothing");
        let rolled = world.roll_back(resource, &json!({"revision": 1, "cluster": "m1"}));
        assert!(rolled.status.success(), "{resource}: {}", text(&rolled));
        assert_eq!(world.image(resource), "web:1", "{resource}");
        // The revision of the former template gets a new number.
        world.until_history(resource, &["web:1", "web:2"], 3);
        let missing = world.roll_back(resource, &json!({"revision": 7}));
        assert!(!missing.status.success(), "{resource}: {}", text(&missing));
        let template = text(&world.east(&["get", resource, "web", "-o=jsonpath={.spec.template}"]));
        assert!(!template.contains("$patch") && !template.contains("hash"), "{resource}: {template}");
        let in_member =
            || world.member.ask(&["get", resource, "web", "-o=jsonpath={.spec.template.spec.containers[0].image}"]);
        let check = || if in_member() == "web:1" { Ok(()) } else { Err(in_member()) };
        eventually(LIMIT, check, || world.manager.server.log());
    }
}
