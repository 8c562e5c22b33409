//! The API of the manager: gRPC with reflection, REST, and the permission of every RPC for every role.

#[path = "manager_api/guarantees.rs"]
mod guarantees;
#[path = "manager_api/threats.rs"]
mod threats;

use std::collections::BTreeMap;
use std::time::Duration;

use e2e::manager::{ManagerProcess, eventually, text};
use e2e::raw_client::{RawClient, RawResponse};
use serde_json::{Value, json};

const BASE: &str = "/flotilla/manager/v1alpha1";
const PASSWORD: &str = "a long enough password";

/// A manager with the instances east and west, and an administrator's client.
struct World {
    manager: ManagerProcess,
    anonymous: RawClient,
    admin: RawClient,
}

impl World {
    fn start() -> Self {
        let manager = ManagerProcess::start(&["--grpc-reflection"]);
        for name in ["east", "west"] {
            manager.create(name, json!({}), json!({}));
            manager.wait_for(name, "Completed");
        }
        let anonymous = RawClient::of(&manager.server);
        let mut world = Self { admin: anonymous.clone(), anonymous, manager };
        // The first administrator is bound with kubectl; all others through the API.
        world.apply("User", "root", json!({"displayName": "root"}));
        let spec = json!({"subject": {"kind": "User", "name": "root"}, "role": "platform-admin"});
        world.apply("Binding", "root", spec);
        let file = world.manager.directory.path().join("password.json");
        std::fs::write(&file, json!({"user": "root", "password": PASSWORD}).to_string()).expect("written");
        let set = || {
            let path = file.display().to_string();
            let done = world.manager.kubectl(&["create", "--raw", "/flotilla/manager/passwords", "-f", &path]);
            if done.status.success() { Ok(()) } else { Err(text(&done)) }
        };
        eventually(Duration::from_secs(10), set, || world.manager.server.log());
        world.admin = world.log_in("root");
        world
    }

    fn apply(&self, kind: &str, name: &str, spec: Value) {
        let object = json!({
            "apiVersion": "manager.flotilla.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec,
        });
        let applied = self.manager.apply(&object);
        assert!(applied.status.success(), "{}", text(&applied));
    }

    fn log_in(&self, user: &str) -> RawClient {
        let body = json!({"user": user, "password": PASSWORD});
        let mut found = None;
        let log_in = || {
            let answer = self.anonymous.post(&format!("{BASE}/sessions:login"), &body).expect("an answer");
            found = answer.json()["token"].as_str().map(str::to_owned);
            if found.is_some() { Ok(()) } else { Err(answer.body) }
        };
        eventually(Duration::from_secs(10), log_in, || self.manager.server.log());
        self.anonymous.with_token(&found.expect("a token"))
    }

    /// Creates a user with roles through the API, and returns its client.
    fn user(&self, name: &str, bindings: &[(&str, Value)]) -> RawClient {
        expect(self.admin.post(&format!("{BASE}/users"), &json!({"name": name})), 200);
        for (at, (role, target)) in bindings.iter().enumerate() {
            let subject = json!({"kind": "User", "name": name});
            let mut binding = json!({"name": format!("{name}-{at}"), "subject": subject, "role": role});
            if !target.is_null() {
                binding["target"] = target.clone();
            }
            expect(self.admin.post(&format!("{BASE}/bindings"), &binding), 200);
        }
        let set = || {
            let body = json!({"password": PASSWORD});
            let answer = self.admin.post(&format!("{BASE}/users/{name}:setPassword"), &body).expect("an answer");
            if answer.code == 200 { Ok(()) } else { Err(answer.body) }
        };
        eventually(Duration::from_secs(10), set, || self.manager.server.log());
        self.log_in(name)
    }
}

#[track_caller]
fn expect(answer: std::io::Result<RawResponse>, code: u16) -> Value {
    let answer = answer.expect("an answer");
    assert_eq!(answer.code, code, "{}", answer.body);
    answer.json()
}

#[test]
fn rest_serves_instances_objects_and_search() {
    let world = World::start();
    let admin = &world.admin;
    let get = |path: &str| expect(admin.get(&format!("{BASE}{path}")), 200);

    let list = get("/instances?page_size=1");
    assert_eq!((&list["total"], &list["instances"][0]["name"]), (&json!("2"), &json!("east")));
    let token = list["nextPageToken"].as_str().expect("a token");
    let next = get(&format!("/instances?pageSize=1&pageToken={token}"));
    assert_eq!((&next["instances"][0]["name"], &next["nextPageToken"]), (&json!("west"), &json!("")));
    // The token of another query, an unknown parameter and an unknown field are refused.
    for path in
        [&format!("/instances?filter=east&pageToken={token}"), "/instances?pagesize=1", "/instances?order_by=spec"]
    {
        expect(admin.get(&format!("{BASE}{path}")), 400);
    }
    assert_eq!(expect(admin.get("/apis/kairship.io/v1alpha1/instances"), 200)["total"], "2");

    // A create is checked, done once for one id, and updated by a mask.
    let wanted = json!({"name": "north", "displayName": "North", "labels": {"team": "a"}});
    expect(admin.post(&format!("{BASE}/instances?validateOnly=true"), &wanted), 200);
    expect(admin.get(&format!("{BASE}/instances/north")), 404);
    let created = expect(admin.post(&format!("{BASE}/instances?wait=true&requestId=1"), &wanted), 200);
    assert_eq!(created["state"], "STATE_RUNNING");
    let again = expect(admin.post(&format!("{BASE}/instances?wait=true&requestId=1"), &wanted), 200);
    assert_eq!(created["uid"], again["uid"]);
    expect(admin.post(&format!("{BASE}/instances"), &wanted), 409);
    let patch =
        |body: Value| admin.ask("PATCH", &format!("{BASE}/instances/north"), "application/json", &body.to_string());
    let changed = expect(patch(json!({"description": "cold"})), 200);
    assert_eq!((&changed["description"], &changed["displayName"]), (&json!("cold"), &json!("North")));
    expect(patch(json!({"description": "x", "etag": created["etag"]})), 409);

    // Objects of an instance, and reads that contain earlier writes.
    let configmaps = format!("{BASE}/instances/east/gvr/core/v1/namespaces/default/configmaps");
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "labels": {"app": "web"}}});
    let written = admin.post(&configmaps, &object).expect("an answer");
    assert_eq!(written.code, 200, "{}", written.body);
    let version =
        written.headers.lines().find_map(|line| line.strip_prefix("x-flotilla-version: ")).expect("a version");
    let query = format!("kind:cm label:app=web&include_objects=true&atLeast={version}").replace(' ', "%20");
    let found = get(&format!("/search?query={query}"));
    assert_eq!((&found["total"], &found["items"][0]["name"]), (&json!("1"), &json!("settings")), "{found}");
    assert_eq!(found["items"][0]["object"]["metadata"]["labels"]["app"], "web");
    assert_eq!(get("/search:suggest?text=settin")["suggestions"][0]["instance"], "east");
    expect(admin.get(&format!("{BASE}/search?query=nmae:x")), 400);
    let manifests = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: b}\n";
    let applied = admin.ask("POST", &format!("{BASE}/instances/east:batchApply"), "application/yaml", manifests);
    let applied = expect(applied, 200);
    assert_eq!((&applied["failed"], &applied["objects"][0]["kind"]), (&json!(0), &json!("Namespace")), "{applied}");
    expect(admin.get(&format!("{BASE}/instances/east/gvr/core/v1/namespaces/default/configmaps/none")), 404);
    guarantees::all(&world);

    // Deleting needs the name twice. A removed instance is gone from lists and from search.
    let delete = |query: &str| admin.ask("DELETE", &format!("{BASE}/instances/north{query}"), "application/json", "");
    assert_eq!(expect(delete(""), 400)["details"][0]["reason"], "FailedPrecondition");
    expect(delete("?confirmName=north"), 200);
    let gone = || match admin.get(&format!("{BASE}/instances/north")).expect("an answer").code {
        404 => Ok(()),
        code => Err(format!("still answered with {code}")),
    };
    eventually(Duration::from_secs(30), gone, || world.manager.server.log());

    // A stopped source is named, not left out silently.
    let spec = json!({"spec": {"components": {"karmadaAPIServer": {"replicas": 0}}}});
    let stopped = world.manager.kubectl(&[
        "-n",
        "karmada-system",
        "patch",
        "karmadas",
        "west",
        "--type=merge",
        "-p",
        &spec.to_string(),
    ]);
    assert!(stopped.status.success(), "{}", text(&stopped));
    let named = || {
        let found = get("/search?query=kind:cm");
        match found["unread"].as_array().is_some_and(|unread| unread.iter().any(|source| source["instance"] == "west"))
        {
            true => Ok(()),
            false => Err(found.to_string()),
        }
    };
    eventually(Duration::from_secs(30), named, || world.manager.server.log());
}

/// The roles that have each permission. P platform admin, O instance owner, U auditor, I IAM owner, a e v roles on the instance east, n m
/// w the same in its namespace shop, x a role on the instance west, s no role.
const MATRIX: &[(&str, &str)] = &[
    ("public", "POUIaevnmwxs"),
    ("self", "POUIaevnmwxs"),
    ("search", "POUIaevnmwxs"),
    ("instances.list", "POUIaevnmwxs"),
    ("instances.get", "POUIaevnmw"),
    ("instances.read", "POaev"),
    ("instances.use", "POaevnmw"),
    ("instances.manage", "POa"),
    ("instances.create", "PO"),
    ("instances.delete", "PO"),
    ("clusters.manage", "POa"),
    ("objects.read", "POaevnmw"),
    ("objects.write", "POaenm"),
    ("objects.promote", "POan"),
    ("secrets.read", "POaenm"),
    ("explain", "POaevnmw"),
    ("audit.read", "PUa"),
    ("integration.read", "PUI"),
    ("integration.push", "PI"),
    ("webhooks.manage", "P"),
    ("inventory.read", "POa"),
    ("inventory.write", "PO"),
    ("iam.manage", "PI"),
    ("bindings.manage", "POIa"),
];

/// Ends of paths that are streams.
const STREAMS: [&str; 2] = [":watch", ":export"];

fn operations(document: &Value) -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().expect("paths") {
        for (verb, operation) in item.as_object().expect("methods") {
            let permission = operation["x-flotilla-permission"].as_str().expect("a permission").to_owned();
            found.push((verb.to_uppercase(), path.clone(), permission));
        }
    }
    found
}

/// A path with values for its parameters; every instance is east.
fn filled(path: &str) -> String {
    let mut out = String::new();
    for part in path.split('/') {
        let (before, rest) = part.split_once('{').unwrap_or((part, ""));
        let value = match rest.split_once('}') {
            None => String::new(),
            Some((name, rest)) => {
                let is_instance = name == "instance"
                    || (path.contains("/instances/{name}") && name == "name")
                    || name.starts_with("instance.")
                    || name.starts_with("settings.");
                format!("{}{rest}", if is_instance { "east" } else { "x" })
            }
        };
        out.push_str(&format!("{before}{value}/"));
    }
    out.trim_end_matches('/').to_owned()
}

#[test]
fn every_rpc_is_allowed_to_the_roles_of_the_matrix_only() {
    let world = World::start();
    let east = json!({"instance": "east"});
    let shop = json!({"instance": "east", "namespace": "shop"});
    let mut callers: BTreeMap<char, RawClient> = BTreeMap::new();
    for (letter, role, target) in [
        ('P', "platform-admin", Value::Null),
        ('O', "instance-owner", Value::Null),
        ('U', "auditor", Value::Null),
        ('I', "iam-owner", Value::Null),
        ('a', "admin", east.clone()),
        ('e', "edit", east.clone()),
        ('v', "view", east.clone()),
        ('n', "admin", shop.clone()),
        ('m', "edit", shop.clone()),
        ('w', "view", shop.clone()),
        ('x', "view", json!({"instance": "west"})),
    ] {
        callers.insert(
            letter,
            world.user(&format!("user-{}", letter.to_lowercase().to_string() + role), &[(role, target)]),
        );
    }
    callers.insert('s', world.user("stranger", &[]));
    let document = expect(world.admin.get("/openapi/manager/v3"), 200);
    let operations = operations(&document);
    assert!(operations.len() > 100, "{} operations", operations.len());
    // A token of an instance is not one of the manager.
    let foreign = world.manager.directory.path().join("east.config");
    std::fs::copy(world.manager.admin_kubeconfig("east"), &foreign).expect("copied");
    let issued = e2e::flotilla::kubectl(&foreign, &["create", "token", "default", "-n", "default"]);
    assert!(issued.status.success(), "{}", text(&issued));
    let foreign = world.anonymous.with_token(String::from_utf8_lossy(&issued.stdout).trim());
    let (mut checked, mut recorded) = (0, 0);
    for (verb, path, permission) in &operations {
        let row = MATRIX.iter().find(|(name, _)| name == permission);
        let (_, allowed) = row.unwrap_or_else(|| panic!("{permission} is not in the matrix"));
        let target = filled(path);
        let is_stream = STREAMS.iter().any(|end| target.ends_with(end));
        let is_on_instance = target.contains("/instances/east");
        let ask = |client: &RawClient| {
            client.ask(
                verb,
                &target,
                "application/json",
                if verb == "POST" || verb == "PUT" || verb == "PATCH" { "{}" } else { "" },
            )
        };
        for broken in [&world.anonymous, &world.anonymous.with_token("flm_aaaaaaaaaaaa_x"), &foreign] {
            if permission != "public" {
                assert_eq!(ask(broken).expect("an answer").code, 401, "{verb} {target}");
            }
        }
        for (letter, client) in &callers {
            let is_allowed = allowed.contains(*letter);
            // Streams that are allowed do not end, and the token must stay valid for the other calls.
            if (is_stream || path.ends_with("/sessions:logout")) && is_allowed {
                continue;
            }
            let answer = ask(client).expect("an answer");
            let is_refused = answer.code == 403 && answer.body.contains("needs the permission");
            let hides = is_on_instance && "xs".contains(*letter);
            let problem = format!("{verb} {target} {permission} as {letter}: {} {}", answer.code, answer.body);
            match (is_allowed, hides) {
                // The password of the request is wrong on purpose.
                (true, _) if path.ends_with(":changePassword") => assert!(!is_refused, "{problem}"),
                (true, _) => assert!(!is_refused && answer.code != 401, "{problem}"),
                (false, true) => assert_eq!(answer.code, 404, "{problem}"),
                (false, false) => assert!(answer.code == 403 && is_refused, "{problem}"),
            }
            checked += 1;
            // The other way to call it is a read.
            let is_read = verb == "GET" || path.ends_with("/search");
            let is_recorded = matches!(answer.code, 401 | 403) || (!is_read && answer.code >= 400);
            recorded += usize::from(*letter == 's' && is_recorded);
        }
    }
    assert!(checked > 1000, "{checked} calls");
    threats::every_call_left_one_entry(&world, "stranger", recorded);
}

#[test]
fn instances_are_backed_up_and_restored_and_leave_audit_entries_and_samples() {
    let world = World::start();
    let admin = &world.admin;
    let owner = world.user("olga", &[("admin", json!({"instance": "east"}))]);
    let east = format!("{BASE}/instances/east");
    let maps = format!("{east}/gvr/core/v1/namespaces/default/configmaps");
    let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    expect(owner.post(&maps, &map("before")), 200);
    let backup = expect(owner.post(&format!("{east}/backups"), &json!({})), 200);
    let id = backup["id"].as_str().expect("an id").to_owned();
    expect(owner.post(&maps, &map("after")), 200);
    let listed = expect(owner.get(&format!("{east}/backups")), 200);
    assert_eq!((&listed["backups"][0]["id"], listed["backups"].as_array().map(Vec::len)), (&backup["id"], Some(1)));
    assert_eq!(owner.get(&format!("{east}/backups/{id}:export")).expect("an answer").code, 200);
    for wrong in ["none", "..%2f..%2fx", "%2e%2e"] {
        let answer = owner.post(&format!("{east}/backups/{wrong}:restore"), &json!({"confirmName": "east"}));
        assert!([400, 404].contains(&answer.expect("an answer").code), "{wrong}");
    }
    expect(owner.post(&format!("{east}/backups/{id}:restore"), &json!({})), 400);
    // The administrator of one instance cannot create another, and has no backups of others.
    expect(owner.post(&format!("{east}/backups/{id}:restore"), &json!({"newName": "copy"})), 403);
    expect(admin.post(&format!("{BASE}/instances/west/backups/{id}:restore"), &json!({"confirmName": "west"})), 404);

    expect(owner.post(&format!("{east}/backups/{id}:restore"), &json!({"confirmName": "east"})), 200);
    let restored = || {
        let gone = owner.get(&format!("{maps}/after")).expect("an answer");
        let kept = owner.get(&format!("{maps}/before")).expect("an answer");
        if (gone.code, kept.code) == (404, 200) { Ok(()) } else { Err(format!("{} {}", gone.body, kept.body)) }
    };
    eventually(Duration::from_secs(60), restored, || world.manager.server.log());
    let safe_mode = || expect(admin.get("/instances/east/flotilla/v1alpha1/safe-mode"), 200)["on"].clone();
    assert_eq!(safe_mode(), true);
    expect(owner.post(&format!("{east}:confirmRestore"), &json!({})), 200);
    assert_eq!(safe_mode(), false);
    expect(admin.post(&format!("{east}/backups/{id}:restore"), &json!({"newName": "copy"})), 200);
    world.manager.wait_for("copy", "Completed");
    expect(admin.get(&format!("{BASE}/instances/copy/gvr/core/v1/namespaces/default/configmaps/before")), 200);

    // Every write left an entry; the administrator of an instance sees those of the instance only.
    let audit = |client: &RawClient, query: &str| expect(client.get(&format!("{BASE}/audit?{query}")), 200);
    let found = audit(&owner, "contains=RestoreBackup&instance=east&user=olga");
    assert!(found["entries"][0]["user"] == "olga" && found["entries"][0]["code"] == 200, "{found}");
    let all = audit(admin, "pageSize=500");
    let entries = all["entries"].as_array().expect("entries");
    let has = |action: &str| entries.iter().any(|entry| entry["action"].as_str().unwrap_or_default().contains(action));
    assert!(has("BackupService/CreateBackup"), "{all}");
    assert!(
        has("ResourceService/CreateResource") && has("SessionService/Login") && !all.to_string().contains(PASSWORD)
    );
    let own = audit(&owner, "pageSize=500");
    assert!(own["entries"].as_array().is_some_and(|own| own.iter().all(|entry| entry["instance"] == "east")), "{own}");
    let refused = audit(admin, "refused=true&contains=RestoreBackup");
    assert!(refused["entries"].as_array().is_some_and(|entries| entries.iter().any(|entry| entry["code"] == 403)));

    let sampled = || {
        let samples = expect(owner.get(&format!("{east}/metrics/samples?series=process_resident_memory_bytes")), 200);
        let values = samples["series"][0]["values"].as_array().cloned().unwrap_or_default();
        if values.is_empty() { Err(samples.to_string()) } else { Ok(()) }
    };
    eventually(Duration::from_secs(30), sampled, || world.manager.server.log());
    expect(owner.get(&format!("{east}/metrics/samples?seconds=-1")), 400);
}

#[test]
fn callers_get_and_keep_only_what_their_roles_allow() {
    let world = World::start();
    let viewer = world.user("vera", &[("view", json!({"instance": "west"}))]);
    let stranger = world.user("stan", &[]);
    for instance in ["east", "west"] {
        let path = format!("{BASE}/instances/{instance}/gvr/core/v1/namespaces/default/configmaps");
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "canary"}});
        expect(world.admin.post(&path, &object), 200);
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "stringData": {"a": threats::CANARY}});
        expect(world.admin.post(&path.replace("configmaps", "secrets"), &secret), 200);
    }
    // Totals, facets and suggestions count only what a caller may see.
    for (client, total) in [(&world.admin, "2"), (&viewer, "1"), (&stranger, "0")] {
        let found = expect(client.get(&format!("{BASE}/search?query=kind:cm%20name:canary")), 200);
        assert_eq!(found["total"], total, "{found}");
        assert!(total == "2" || !found.to_string().contains("east"), "{found}");
    }
    assert_eq!(expect(stranger.get(&format!("{BASE}/search:suggest?text=canary")), 200)["suggestions"], json!([]));
    assert_eq!(expect(viewer.get(&format!("{BASE}/instances")), 200)["total"], "1");
    // An instance that exists and one that does not are the same to a stranger.
    let missing = |name: &str| {
        let answer = stranger.get(&format!("{BASE}/instances/{name}")).expect("an answer");
        (answer.code, answer.body.replace(name, "NAME"))
    };
    assert_eq!(missing("east"), missing("none"));
    // Secrets are shown without content, also to callers that may reveal them.
    let secrets = format!("{BASE}/instances/west/gvr/core/v1/namespaces/default/secrets");
    for path in [secrets.clone(), format!("{secrets}/key")] {
        let shown = world.admin.get(&path).expect("an answer");
        assert!(shown.code == 200 && !shown.body.contains("Y2FuYXJ5"), "{}", shown.body);
    }
    let reveal = format!("{BASE}/instances/west/namespaces/default/secrets/key:reveal");
    assert_eq!(expect(world.admin.post(&reveal, &json!({})), 200)["data"]["a"], "Y2FuYXJ5LXZhbHVl");
    expect(viewer.post(&reveal, &json!({})), 403);

    threats::all(&world, &threats::Users { viewer: &viewer, stranger: &stranger });

    no_role_reaches_further(&world);

    // A removed binding ends an open watch.
    let mut watch = viewer.connect().expect("connected");
    let path = format!("{BASE}/instances/west/gvr/core/v1/namespaces/default/configmaps:watch");
    watch.send(&viewer.request_text("GET", &path, "connection: close\r\n", "")).expect("sent");
    expect(world.admin.ask("DELETE", &format!("{BASE}/bindings/vera-0"), "application/json", ""), 200);
    watch.wait_closed(Duration::from_secs(15)).expect("the watch ends");
    expect(viewer.get(&format!("{BASE}/instances/west")), 404);
}

/// Callers with rights over accounts, the inventory or one instance try to get those of others.
fn no_role_reaches_further(world: &World) {
    let iam = world.user("ivan", &[("iam-owner", Value::Null)]);
    let owner = world.user("olga", &[("instance-owner", Value::Null)]);
    let admin = world.user("adam", &[("admin", json!({"instance": "west"}))]);
    let post = |client: &RawClient, path: &str, body: &Value, code: u16| {
        let answer = client.post(path, body).expect("an answer");
        assert_eq!(answer.code, code, "{path} {body}: {}", answer.body);
    };

    // A user manager sets up accounts, but not those of users with more rights, nor one that would have them.
    let (users, password) = (format!("{BASE}/users"), json!({"password": PASSWORD}));
    let set_up = || {
        let answer = iam.post(&users, &json!({"name": "plain"})).expect("an answer");
        // The rights of a new user manager come a moment later.
        if [200, 409].contains(&answer.code) { Ok(()) } else { Err(answer.body) }
    };
    eventually(Duration::from_secs(10), set_up, || world.manager.server.log());
    for name in ["root", "olga"] {
        post(&iam, &format!("{users}/{name}:setPassword"), &password, 403);
        expect(iam.ask("DELETE", &format!("{users}/{name}"), "application/json", ""), 403);
    }
    let ghost = json!({"name": "ghost", "subject": {"kind": "User", "name": "ghost"}, "role": "platform-admin"});
    post(&world.admin, &format!("{BASE}/bindings"), &ghost, 200);
    post(&iam, &users, &json!({"name": "ghost"}), 403);

    // The Secret of a cluster is read and written by the manager, so a caller that names it needs both rights.
    let clusters = "/apis/manager.flotilla.dev/v1alpha1/managedclusters";
    let seen = || {
        let answer = owner.get(clusters).expect("an answer");
        if answer.code == 200 { Ok(()) } else { Err(answer.body) }
    };
    eventually(Duration::from_secs(10), seen, || world.manager.server.log());
    let cluster = |namespace: &str, name: &str| {
        let secret = json!({"namespace": namespace, "name": name, "key": "record"});
        json!({"apiVersion": "manager.flotilla.dev/v1alpha1", "kind": "ManagedCluster", "metadata": {"name": "m9"},
            "spec": {"secretRef": secret}})
    };
    post(&owner, clusters, &cluster("flotilla-credentials", "token-abcdefghijkl"), 403);
    post(&owner, clusters, &cluster("karmada-system", "east-karmada-admin-config"), 403);
    post(&world.admin, clusters, &cluster("karmada-system", "m9-other"), 201);

    // The administrator of an instance takes no cluster, storage or certificate of others for it.
    post(&admin, &format!("{BASE}/instances/west/clusters/m9:join"), &json!({}), 404);
    let spec = json!({"spec": {"customCertificate": {"apiServerCACert": {"name": "east-ca"}}}});
    for (client, code) in [(&admin, 403), (&world.admin, 200)] {
        let path = format!("{BASE}/instances/west?updateMask=spec&validateOnly=true");
        let answer = client.ask("PATCH", &path, "application/json", &spec.to_string()).expect("an answer");
        assert_eq!(answer.code, code, "{}", answer.body);
    }
    let mut manifest =
        json!({"apiVersion": "operator.karmada.io/v1alpha1", "kind": "Karmada", "metadata": {"name": "west"}});
    manifest["spec"] = spec["spec"].clone();
    let path = format!("{BASE}/instances/west/manifest");
    expect(admin.ask("PUT", &path, "application/json", &manifest.to_string()), 403);
    let title = json!({"displayName": "West"}).to_string();
    expect(
        admin.ask("PATCH", &format!("{BASE}/instances/west?updateMask=displayName"), "application/json", &title),
        200,
    );
}
