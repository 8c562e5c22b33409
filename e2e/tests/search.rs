//! Resources of members, read through the control plane with real kubectl: a real push-mode member, and a pull-mode
//! member that cannot be dialed.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use e2e::agent::Agent;
use e2e::eventually::eventually;
use e2e::fleet::{run, text};
use e2e::flotilla::{Flotilla, binary, kubectl, programs};
use e2e::light_fleet::{QUICK_AGENT, QUICK_PLANE};
use e2e::light_member::LightMember;
use e2e::member::{self, Member};
use e2e::replicas::Replicas;
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(90);
const READY: &str = r#"-o=jsonpath={.status.conditions[?(@.type=="Ready")].status}"#;
const PROXY: &str = "/apis/search.karmada.io/v1alpha1/proxying/karmada/proxy";
const CACHE: &str = "/apis/search.karmada.io/v1alpha1/search/cache";
const FOUND: &str = r#"-o=jsonpath={range .items[*]}{.metadata.annotations.resource\.karmada\.io/cached-from-cluster}:{.metadata.name} {end}"#;

const REGISTRY: &str = "
apiVersion: search.karmada.io/v1alpha1
kind: ResourceRegistry
metadata: {name: everything}
spec:
  targetCluster: {clusterNames: [pushed, pulled]}
  resourceSelectors:
  - {apiVersion: v1, kind: ConfigMap}
  - {apiVersion: v1, kind: Pod}
  - {apiVersion: v1, kind: Node}
  - {apiVersion: apps/v1, kind: Deployment}
";

fn config_map(name: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}, labels: {{app: search}}}}, data: {{k: v}}}}\n---\n"
    )
}

struct SearchFleet {
    plane: Flotilla,
    pushed: Member,
    pulled: LightMember,
    agent: Option<Agent>,
    /// A kubeconfig whose server is the search proxy.
    proxy: PathBuf,
}

impl SearchFleet {
    fn start() -> Option<Self> {
        let (plane, pushed, pulled) = std::thread::scope(|scope| {
            let pushed = scope.spawn(|| Member::start("pushed", 1));
            let pulled = scope.spawn(|| LightMember::start(&[]));
            let plane = Flotilla::start_with(QUICK_PLANE);
            (plane, pushed.join().expect("a member starts"), pulled.join().expect("a member starts"))
        });
        let pushed = pushed?;
        let kubeconfig = pushed.kubeconfig().to_str().expect("a path in UTF-8");
        let joined = run(&binary(), &plane.kubeconfig, &["join", "pushed", "--cluster-kubeconfig", kubeconfig]);
        assert!(joined.status.success(), "{}", text(&joined));
        let flags = [QUICK_AGENT, &["--cluster-api-endpoint", "https://127.0.0.1:9"]].concat();
        let agent = Agent::ours_outside(&plane.kubeconfig, ("pulled", &pulled.kubeconfig), &flags);
        let proxy = plane.data_dir.join("proxy.config");
        let config = std::fs::read_to_string(&plane.kubeconfig).expect("a kubeconfig");
        let port = format!(":{}", plane.port());
        std::fs::write(&proxy, config.replace(&port, &format!("{port}{PROXY}"))).expect("written");
        let fleet = Self { plane, pushed, pulled, agent: Some(agent), proxy };
        for cluster in ["pushed", "pulled"] {
            fleet.until(&format!("{cluster} is ready"), || {
                fleet.on_plane(&["get", "cluster", cluster, READY]) == "True"
            });
        }
        Some(fleet)
    }

    #[track_caller]
    fn until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let waited = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| eventually(what, LIMIT, &mut holds)));
        if let Err(panic) = waited {
            let log = self.plane.log();
            let lines: Vec<&str> = log.lines().collect();
            eprintln!("the plane's log:\n{}", lines[lines.len().saturating_sub(40)..].join("\n"));
            eprintln!("clusters:\n{}", self.on_plane(&["get", "clusters", "-o", "wide"]));
            std::panic::resume_unwind(panic);
        }
    }

    fn on_plane(&self, arguments: &[&str]) -> String {
        String::from_utf8_lossy(&self.plane.kubectl(arguments).stdout).trim().to_owned()
    }

    /// Runs kubectl through the search proxy.
    fn through(&self, arguments: &[&str]) -> Output {
        kubectl(&self.proxy, arguments)
    }

    fn ask(&self, arguments: &[&str]) -> String {
        text(&self.through(arguments)).trim().to_owned()
    }

    #[track_caller]
    fn expect_kubectl(&self, arguments: &[&str]) -> String {
        let output = self.through(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    #[track_caller]
    fn refused(&self, arguments: &[&str], why: &str) {
        let output = self.through(arguments);
        assert!(!output.status.success() && text(&output).contains(why), "{arguments:?}: {}", text(&output));
    }

    fn apply(&self, documents: &str) -> String {
        let output = member::apply(&self.plane.kubeconfig, &["apply", "-f", "-"], documents);
        assert!(output.status.success(), "{}", text(&output));
        text(&output)
    }

    /// Returns `MEMBER:NAME` of everything found by `search/cache`.
    fn found(&self, path: &str) -> Vec<String> {
        let said = self.on_plane(&["get", "--raw", &format!("{CACHE}/{path}")]);
        let list: Value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"));
        let named = |item: &Value| {
            let metadata = &item["metadata"];
            let member = metadata["annotations"]["resource.karmada.io/cached-from-cluster"].as_str();
            format!("{}:{}", member.unwrap_or("?"), metadata["name"].as_str().unwrap_or("?"))
        };
        list["items"].as_array().expect("items").iter().map(named).collect()
    }
}

#[test]
fn kubectl_reads_and_writes_what_members_have_through_the_plane() {
    let Some(mut fleet) = SearchFleet::start() else { return };
    discovery_lists_the_search_endpoints(&fleet);
    without_a_registry_the_plane_answers_for_itself(&fleet);
    fleet.apply(REGISTRY);
    let (both, one, other) = (config_map("both"), config_map("only-pushed"), config_map("only-pulled"));
    let made = member::apply(fleet.pushed.kubeconfig(), &["apply", "-f", "-"], &[both.clone(), one].concat());
    assert!(made.status.success(), "{}", text(&made));
    fleet.pulled.apply(&[both, other].concat());
    search_finds_by_path_and_labels(&fleet);
    lists_are_merged_and_paged(&fleet);
    gets_name_their_member_or_report_why_not(&fleet);
    watches_cover_all_members(&fleet);
    writes_go_to_the_member_that_has_the_object(&fleet);
    streams_and_scales_reach_the_member(&fleet);
    permissions_are_those_of_the_caller(&fleet);
    a_lost_member_does_not_block_requests(&mut fleet);
}

fn discovery_lists_the_search_endpoints(fleet: &SearchFleet) {
    let said = fleet.on_plane(&["get", "--raw", "/apis/search.karmada.io/v1alpha1"]);
    let list: Value = serde_json::from_str(&said).expect("JSON");
    let verbs = |name: &str| {
        let found = list["resources"].as_array().expect("resources").iter().find(|resource| resource["name"] == name);
        found.unwrap_or_else(|| panic!("{name} in {said}"))["verbs"].to_string()
    };
    assert_eq!(verbs("search"), r#"["get"]"#);
    assert_eq!(verbs("proxying"), r#"["create","delete","get","patch","update"]"#);
    assert!(verbs("resourceregistries").contains("watch"));
}

fn without_a_registry_the_plane_answers_for_itself(fleet: &SearchFleet) {
    assert!(fleet.plane.kubectl(&["create", "configmap", "of-the-plane"]).status.success());
    assert_eq!(fleet.expect_kubectl(&["get", "configmap", "of-the-plane", "-o=name"]), "configmap/of-the-plane");
    assert_eq!(fleet.found("api/v1/configmaps"), Vec::<String>::new());
    let unknown = fleet.plane.kubectl(&["get", "--raw", &format!("{CACHE}/api/v1/unheard-of")]);
    assert!(text(&unknown).contains("InternalError"), "{}", text(&unknown));
    let store =
        "  backendStore: {openSearch: {addresses: ['https://10.0.0.1:9200'], secretRef: {namespace: a, name: b}}}\n";
    let registry = format!("{}{store}", REGISTRY.trim_start());
    // The control plane would send objects of members there, so the caller must be able to read them.
    let create = |more: &[&str]| {
        let arguments = [&["create", "--dry-run=server", "-f", "-"], more].concat();
        member::apply(&fleet.plane.kubeconfig, &arguments, &registry)
    };
    let tried = create(&[]);
    assert!(tried.status.success() && !text(&tried).contains("Warning"), "{}", text(&tried));
    for line in [
        "create clusterrole registries --verb=create --resource=resourceregistries.search.karmada.io",
        "create clusterrolebinding registries --clusterrole=registries --user=bob",
    ] {
        assert!(fleet.plane.kubectl(&line.split(' ').collect::<Vec<_>>()).status.success(), "{line}");
    }
    let refused = create(&["--as=bob"]);
    assert!(!refused.status.success() && text(&refused).contains("clusters/proxy"), "{}", text(&refused));
}

fn search_finds_by_path_and_labels(fleet: &SearchFleet) {
    let labelled = "api/v1/namespaces/default/configmaps?labelSelector=app%3Dsearch";
    let expected = ["pulled:both", "pulled:only-pulled", "pushed:both", "pushed:only-pushed"];
    fleet.until("search finds the objects of both members", || fleet.found(labelled) == expected);
    assert_eq!(fleet.found("api/v1/namespaces/default/configmaps/both"), ["pulled:both", "pushed:both"]);
    assert_eq!(fleet.found("api/v1/namespaces/default/configmaps/missing"), Vec::<String>::new());
    assert!(fleet.found("api/v1/nodes").iter().any(|node| node == "pushed:node-0"));
    let list = fleet.on_plane(&["get", "--raw", &format!("{CACHE}/api/v1/namespaces/default/configmaps/both")]);
    assert!(list.starts_with(r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{},"items":["#), "{list}");
}

fn lists_are_merged_and_paged(fleet: &SearchFleet) {
    let expected = "pulled:both pulled:only-pulled pushed:both pushed:only-pushed";
    for chunk in ["--chunk-size=0", "--chunk-size=1", "--chunk-size=3", "--chunk-size=500"] {
        assert_eq!(fleet.expect_kubectl(&["get", "configmaps", "-l", "app=search", chunk, FOUND]), expected, "{chunk}");
    }
    assert_eq!(fleet.expect_kubectl(&["get", "configmaps", "-A", "-l", "app=search", FOUND]), expected);
    let by_name = ["get", "configmaps", "--field-selector=metadata.name=both", FOUND];
    assert_eq!(fleet.expect_kubectl(&by_name), "pulled:both pushed:both");
    let table = fleet.expect_kubectl(&["get", "configmaps", "-l", "app=search"]);
    let words: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words[0], ["NAME", "CLUSTER", "DATA", "AGE"], "{table}");
    let rows: Vec<&[&str]> = words[1..].iter().map(|row| &row[..3]).collect();
    let expected = [["both", "pulled", "1"], ["only-pulled", "pulled", "1"], ["both", "pushed", "1"]];
    assert_eq!(rows[..3], expected, "{table}");
    let nodes = fleet.expect_kubectl(&["get", "nodes"]);
    assert!(nodes.contains("node-0") && nodes.contains("STATUS") && nodes.lines().count() >= 3, "{nodes}");
    fleet.refused(&["get", "configmaps", "--field-selector=data.k=v"], "is not a known field selector");
}

fn gets_name_their_member_or_report_why_not(fleet: &SearchFleet) {
    let member = r"-o=jsonpath={.metadata.annotations.resource\.karmada\.io/cached-from-cluster}";
    assert_eq!(fleet.expect_kubectl(&["get", "configmap", "only-pulled", member]), "pulled");
    assert_eq!(fleet.expect_kubectl(&["get", "configmap", "only-pushed", member]), "pushed");
    let table = fleet.expect_kubectl(&["get", "configmap", "only-pushed"]);
    assert!(
        table.starts_with("NAME          CLUSTER   DATA") && table.contains("only-pushed   pushed    1"),
        "{table}"
    );
    fleet.refused(&["get", "configmap", "both"], "ambiguous objects in clusters [pulled, pushed]");
    fleet.refused(&["get", "configmap", "missing"], "configmaps \"missing\" not found");
    // Objects of the control plane itself are not returned.
    fleet.refused(&["get", "configmap", "of-the-plane"], "not found");
    assert!(fleet.expect_kubectl(&["get", "resourceregistries", "-o=name"]).ends_with("/everything"));
}

fn watches_cover_all_members(fleet: &SearchFleet) {
    let mut watch = Command::new(programs().join("kubectl"))
        .arg("--kubeconfig")
        .arg(&fleet.proxy)
        .args(["get", "configmaps", "-l", "app=search", "-w", "--no-headers"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("kubectl runs");
    // Each row has the name and the member.
    let rows = BufReader::new(watch.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    let mut rows = rows.map(|row| row.split_whitespace().take(2).collect::<Vec<_>>().join(" "));
    let initial: Vec<String> = rows.by_ref().take(4).collect();
    assert_eq!(initial, ["both pulled", "only-pulled pulled", "both pushed", "only-pushed pushed"]);
    fleet.pulled.apply(&config_map("later-pulled"));
    assert_eq!(rows.next().as_deref(), Some("later-pulled pulled"));
    let made = member::apply(fleet.pushed.kubeconfig(), &["apply", "-f", "-"], &config_map("later-pushed"));
    assert!(made.status.success(), "{}", text(&made));
    assert_eq!(rows.next().as_deref(), Some("later-pushed pushed"));
    fleet.pulled.expect_kubectl(&["delete", "configmap", "later-pulled"]);
    assert_eq!(rows.next().as_deref(), Some("later-pulled pulled"), "its deletion");
    watch.kill().expect("ends");
    watch.wait().expect("ended");
}

fn writes_go_to_the_member_that_has_the_object(fleet: &SearchFleet) {
    fleet.refused(&["create", "configmap", "new"], "create is not supported on resources of kind \"configmaps\"");
    fleet.refused(&["delete", "configmap", "both"], "ambiguous objects in clusters [pulled, pushed]");
    let many = fleet.plane.kubectl(&["delete", "--raw", &format!("{PROXY}/api/v1/namespaces/default/configmaps")]);
    assert!(text(&many).contains("deletecollection is not supported"), "{}", text(&many));
    for (name, data) in [("only-pulled", r#"{"data":{"k":"patched"}}"#), ("only-pushed", r#"{"data":{"k":"too"}}"#)] {
        fleet.expect_kubectl(&["patch", "configmap", name, "--type=merge", "-p", data]);
    }
    let value = ["get", "configmap", "only-pulled", "-o=jsonpath={.data.k}"];
    assert_eq!(fleet.pulled.ask(&value), "patched");
    assert_eq!(fleet.expect_kubectl(&value), "patched", "the written value is read back");
    assert_eq!(fleet.pushed.ask(&["get", "configmap", "only-pushed", "-o=jsonpath={.data.k}"]), "too");
    // An object is written back unchanged: with the combined resourceVersion and the cluster annotation.
    let shown = fleet.expect_kubectl(&["get", "configmap", "only-pulled", "-o=json"]);
    assert!(shown.contains("cached-from-cluster"), "{shown}");
    let replaced = member::apply(&fleet.proxy, &["replace", "-f", "-"], &shown.replace("patched", "replaced"));
    assert!(replaced.status.success(), "{}", text(&replaced));
    assert_eq!(fleet.pulled.ask(&value), "replaced");
    let stamp = r"-o=jsonpath={.metadata.annotations.resource\.karmada\.io/cached-from-cluster}";
    assert_eq!(fleet.pulled.ask(&["get", "configmap", "only-pulled", stamp]), "", "the stamp stays here");
    let again = member::apply(&fleet.proxy, &["replace", "-f", "-"], &shown);
    assert!(text(&again).contains("the object has been modified"), "an old version is refused: {}", text(&again));
    fleet.expect_kubectl(&["label", "configmap", "only-pulled", "done=yes"]);
    assert_eq!(fleet.pulled.ask(&["get", "configmap", "only-pulled", "-o=jsonpath={.metadata.labels.done}"]), "yes");
    fleet.expect_kubectl(&["delete", "configmap", "later-pushed"]);
    assert_eq!(fleet.pushed.ask(&["get", "configmap", "later-pushed", "--ignore-not-found", "-o=name"]), "");
}

fn streams_and_scales_reach_the_member(fleet: &SearchFleet) {
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: main, image: nginx}]}}";
    fleet.pulled.apply(pod);
    let phase = ["get", "pod", "web", "-o=jsonpath={.status.phase}"];
    fleet.until("the pod runs and is seen to", || fleet.ask(&phase) == "Running");
    assert!(fleet.expect_kubectl(&["logs", "web"]).contains("started nginx in pod default/web"));
    assert_eq!(fleet.expect_kubectl(&["exec", "web", "--", "sh", "-c", "echo said from within"]), "said from within");
    let deployed = fleet.pushed.kubectl(&["create", "deployment", "scaled", "--image=nginx"]);
    assert!(deployed.status.success(), "{}", text(&deployed));
    fleet.until("the deployment is seen", || fleet.through(&["get", "deployment", "scaled"]).status.success());
    fleet.expect_kubectl(&["scale", "deployment", "scaled", "--replicas=3"]);
    assert_eq!(fleet.pushed.ask(&["get", "deployment", "scaled", "-o=jsonpath={.spec.replicas}"]), "3");
    assert!(
        fleet.expect_kubectl(&["rollout", "status", "deployment", "scaled", "--timeout=60s"]).contains("successfully")
    );
}

/// Rights of users on the control plane: ways to search, and the members whose proxy they may use.
const PLANE_RIGHTS: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: searching}
rules:
- {apiGroups: [search.karmada.io], resources: [proxying/proxy], verbs: ['*']}
- {apiGroups: [search.karmada.io], resources: [search/api, search/apis], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: searching}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: searching}
subjects: [{kind: User, name: ada}, {kind: User, name: bob}, {kind: User, name: carl}, {kind: User, name: eve}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: all-members}
rules: [{apiGroups: [cluster.karmada.io], resources: [clusters/proxy], verbs: ['*']}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: all-members}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: all-members}
subjects: [{kind: User, name: ada}, {kind: User, name: carl}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: pulled-only}
rules: [{apiGroups: [cluster.karmada.io], resources: [clusters/proxy], resourceNames: [pulled], verbs: ['*']}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: pulled-only}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: pulled-only}
subjects: [{kind: User, name: bob}]
";

/// Rights of users in a member.
fn member_rights(name: &str, kind: &str, namespace: &str, rule: &str, users: &[&str]) -> String {
    let place = if namespace.is_empty() { String::new() } else { format!(", namespace: {namespace}") };
    let subjects: Vec<String> = users.iter().map(|user| format!("{{kind: User, name: {user}}}")).collect();
    let api = "apiVersion: rbac.authorization.k8s.io/v1";
    format!(
        "{api}\nkind: {kind}\nmetadata: {{name: {name}{place}}}\nrules: [{{apiGroups: [''], resources: [configmaps], {rule}}}]\n---\n\
         {api}\nkind: {kind}Binding\nmetadata: {{name: {name}{place}}}\n\
         roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: {kind}, name: {name}}}\nsubjects: [{}]\n---\n",
        subjects.join(", ")
    )
}

fn permissions_are_those_of_the_caller(fleet: &SearchFleet) {
    let forbidden = "cannot get resource \"proxying/proxy\" in API group \"search.karmada.io\"";
    fleet.refused(&["--as=stranger", "get", "configmaps"], "orbidden");
    let asked = fleet.plane.kubectl(&["--as=stranger", "get", "--raw", &format!("{PROXY}/api/v1/configmaps")]);
    assert!(text(&asked).contains(forbidden), "{}", text(&asked));
    let asked = fleet.plane.kubectl(&["--as=stranger", "get", "--raw", &format!("{CACHE}/api/v1/configmaps")]);
    assert!(text(&asked).contains("cannot get resource \"search/api\""), "{}", text(&asked));
    fleet.apply(PLANE_RIGHTS);
    let reads = "verbs: [get, list, watch]";
    let shop = "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}\n---\n";
    let in_shop = config_map("in-shop").replace("metadata: {", "metadata: {namespace: shop, ");
    let one = "resourceNames: [only-pulled], verbs: [get]";
    fleet.pulled.apply(
        &[
            shop.to_owned(),
            in_shop,
            member_rights("ada", "Role", "shop", reads, &["ada"]),
            member_rights("bob", "ClusterRole", "", reads, &["bob"]),
            member_rights("carl", "Role", "default", one, &["carl"]),
        ]
        .concat(),
    );
    let rights = member_rights("ada", "ClusterRole", "", reads, &["ada", "bob"]);
    let made = member::apply(fleet.pushed.kubeconfig(), &["apply", "-f", "-"], &rights);
    assert!(made.status.success(), "{}", text(&made));

    // Bob may read everything in `pushed`, but not through this control plane. Eve may search, and has no member.
    let of_ada = "pulled:in-shop pushed:both pushed:only-pushed";
    let of_bob = "pulled:both pulled:only-pulled pulled:in-shop";
    for (user, expected) in [("ada", of_ada), ("bob", of_bob)] {
        callers_see_the_same_as_in_the_members(fleet, user, expected);
    }
    let list = format!("{PROXY}/api/v1/configmaps?labelSelector=app%3Dsearch");
    for user in ["carl", "eve"] {
        fleet.refused(&["--as", user, "get", "configmaps", "-A"], "no cluster with cached objects allows it");
        let found = fleet.plane.kubectl(&["--as", user, "get", "--raw", &format!("{CACHE}/api/v1/configmaps")]);
        assert!(text(&found).contains("no cluster with cached objects allows it"), "{}", text(&found));
        let watched = fleet.plane.kubectl(&["--as", user, "get", "--raw", &format!("{list}&watch=true")]);
        assert!(text(&watched).contains("no cluster with cached objects allows it"), "{}", text(&watched));
    }
    let named = |user: &str, name: &str| fleet.through(&["--as", user, "get", "configmap", name, "-o=name"]);
    for (user, name, is_shown) in [
        ("ada", "only-pushed", true),
        ("ada", "only-pulled", false),
        // Of the two, ada may read one.
        ("ada", "both", true),
        ("bob", "only-pulled", true),
        ("bob", "only-pushed", false),
        ("carl", "only-pulled", true),
        ("carl", "both", false),
        ("eve", "only-pulled", false),
    ] {
        let got = named(user, name);
        assert_eq!(got.status.success(), is_shown, "{user} {name}: {}", text(&got));
        assert!(is_shown || text(&got).contains("rror from server"), "{}", text(&got));
    }
    // The control plane itself knows ada, and so does each member.
    let own = fleet.plane.kubectl(&["--as=ada", "get", "--raw", &format!("{PROXY}/api/v1/secrets")]);
    assert!(text(&own).contains("User \"ada\" cannot list resource \"secrets\""), "{}", text(&own));
    let patch = ["--type=merge", "-p", r#"{"data":{"k":"x"}}"#];
    fleet.refused(&[&["--as=ada", "patch", "configmap", "only-pushed"][..], &patch].concat(), "annot patch");
    a_watch_ends_when_rights_change(fleet, &list);
}

/// Cached lists, pages of any size and `search/cache` show exactly what the members themselves show to the user.
fn callers_see_the_same_as_in_the_members(fleet: &SearchFleet, user: &str, expected: &str) {
    let wanted = ["get", "configmaps", "-A", "-l", "app=search", FOUND];
    let with = |chunk: &str| fleet.ask(&[&["--as", user][..], &wanted, &[chunk]].concat());
    fleet.until(&format!("the members let the control plane impersonate {user}"), || {
        with("--chunk-size=500") == expected
    });
    for chunk in ["--chunk-size=0", "--chunk-size=1", "--chunk-size=2"] {
        assert_eq!(with(chunk), expected, "{user} {chunk}");
    }
    let names = |list: &Value| -> Vec<String> {
        let items = list["items"].as_array().into_iter().flatten();
        items.map(|item| item["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let mut live = Vec::new();
    for cluster in ["pulled", "pushed"] {
        let base = format!("/apis/cluster.karmada.io/v1alpha1/clusters/{cluster}/proxy/api/v1");
        // A user without the right to list all namespaces lists each.
        for place in ["", "/namespaces/default", "/namespaces/shop"] {
            let path = format!("{base}{place}/configmaps?labelSelector=app%3Dsearch");
            let listed = fleet.plane.kubectl(&["--as", user, "get", "--raw", &path]);
            let Ok(list) = serde_json::from_slice::<Value>(&listed.stdout) else { continue };
            live.extend(names(&list).into_iter().map(|name| format!("{cluster}:{name}")));
            if place.is_empty() {
                break;
            }
        }
    }
    assert_eq!(live.join(" "), expected, "live answers for {user}");
    let path = format!("{CACHE}/api/v1/configmaps?labelSelector=app%3Dsearch");
    let cached = fleet.plane.kubectl(&["--as", user, "get", "--raw", &path]);
    let cached: Value = serde_json::from_slice(&cached.stdout).expect("a list");
    let plain: Vec<&str> = expected.split([':', ' ']).skip(1).step_by(2).collect();
    assert_eq!(names(&cached), plain, "search/cache for {user}");
}

fn a_watch_ends_when_rights_change(fleet: &SearchFleet, list: &str) {
    let mut watch = Command::new(programs().join("kubectl"))
        .arg("--kubeconfig")
        .arg(&fleet.plane.kubeconfig)
        .args(["--as=ada", "get", "--raw", &format!("{list}&watch=true&timeoutSeconds=60")])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("kubectl runs");
    let lines = BufReader::new(watch.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    let mut events = lines.map(|line| {
        let event: Value = serde_json::from_str(&line).expect("an event");
        let name = event["object"]["metadata"]["name"].as_str().or(event["object"]["reason"].as_str());
        format!("{} {}", event["type"].as_str().unwrap_or_default(), name.unwrap_or_default())
    });
    let initial: Vec<String> = events.by_ref().take(3).collect();
    assert_eq!(initial, ["ADDED in-shop", "ADDED both", "ADDED only-pushed"]);
    // Of two new objects one is in a namespace that ada may read.
    fleet.pulled.apply(&config_map("hidden"));
    fleet.pulled.apply(&config_map("shown").replace("metadata: {", "metadata: {namespace: shop, "));
    assert_eq!(events.next().as_deref(), Some("ADDED shown"));
    fleet.pulled.expect_kubectl(&["delete", "configmap", "hidden"]);
    fleet.pulled.expect_kubectl(&["delete", "configmap", "shown", "-n", "shop"]);
    assert_eq!(events.next().as_deref(), Some("DELETED shown"));
    fleet.pulled.expect_kubectl(&["delete", "rolebinding", "ada", "-n", "shop"]);
    assert_eq!(events.next().as_deref(), Some("ERROR Expired"), "the client lists again");
    let path = ["--as=ada", "get", "--raw", list];
    let again = fleet.plane.kubectl(&path);
    assert!(again.status.success() && !text(&again).contains("in-shop"), "{}", text(&again));
    watch.wait().expect("it ended");
}

fn a_lost_member_does_not_block_requests(fleet: &mut SearchFleet) {
    fleet.agent = None;
    let list = ["get", "configmaps", "-l", "app=search", FOUND];
    fleet.until("objects of the lost member are no longer shown", || {
        let start = Instant::now();
        let said = fleet.expect_kubectl(&list);
        assert!(start.elapsed() < Duration::from_secs(20), "no list hangs");
        said == "pushed:both pushed:only-pushed"
    });
    assert_eq!(fleet.expect_kubectl(&["get", "configmap", "both", "-o=name"]), "configmap/both", "one is left");
    assert!(fleet.plane.kubectl(&["delete", "resourceregistry", "everything"]).status.success());
    fleet.until("without a registry the plane answers for itself", || {
        fleet.ask(&["get", "configmap", "of-the-plane", "-o=name"]) == "configmap/of-the-plane"
    });
}

#[test]
fn every_replica_serves_members_connected_to_another() {
    let Some(replicas) = Replicas::start(2, 1, &[]) else { return };
    let member = LightMember::start(&[]);
    let nowhere = ["--cluster-api-endpoint", "https://127.0.0.1:9"];
    let _agent = Agent::ours_outside(&replicas.get(0).kubeconfig, ("pulled", &member.kubeconfig), &nowhere);
    let registry = REGISTRY.replace("[pushed, pulled]", "[pulled]");
    let made = member::apply(&replicas.get(1).kubeconfig, &["apply", "-f", "-"], &registry);
    assert!(made.status.success(), "{}", text(&made));
    member.apply(&config_map("everywhere"));
    let path = format!("{CACHE}/api/v1/namespaces/default/configmaps/everywhere");
    for (number, replica) in replicas.running() {
        eventually(&format!("replica {number} has a copy"), LIMIT, || {
            text(&replica.kubectl(&["get", "--raw", &path])).contains(r#"cached-from-cluster":"pulled"#)
        });
        let changed = format!("{PROXY}/api/v1/namespaces/default/configmaps/everywhere");
        assert!(text(&replica.kubectl(&["get", "--raw", &changed])).contains("everywhere"));
    }
}
