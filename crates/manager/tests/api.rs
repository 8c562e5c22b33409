//! A running manager over HTTPS: revocation of open streams, deliveries to webhooks, and pushed bindings.

#[path = "api/conventions.rs"]
mod conventions;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cluster_client::remote::config::Pem;
use cluster_client::{
    ClusterClient, DeleteOptions, Endpoint, ListOptions, Patch, RemoteConfig, ResourceRef, WatchCall, WriteOptions,
};
use futures::StreamExt;
use http::Request;
use manager::tokens::TokenRequest;
use manager::{Manager, ManagerOptions, PlaneFlags};
use manager_kinds::annotations::Mode;
use manager_kinds::grants::InstanceRole;
use manager_kinds::{BINDINGS, GROUPS, ROLES, USERS, WEBHOOKS, WORKSPACES, grants};
use object::request::User;
use object::{GroupVersionKind, GroupVersionResource, Object};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;

const WAIT: Duration = Duration::from_secs(60);

struct World {
    manager: Manager,
    admin: User,
    _directory: tempfile::TempDir,
}

async fn world() -> World {
    let directory = tempfile::tempdir().expect("a directory");
    let parse = |flags: PlaneFlags| Ok(control_plane::Options::new(flags.data_dir, flags.bind));
    let mut options = ManagerOptions::new(directory.path(), ([127, 0, 0, 1], 0).into(), Arc::new(parse));
    options.clusters.endpoints.allow_loopback = true;
    let manager = Manager::start(options).await.expect("the manager starts");
    World { manager, admin: User::new("root", &["system:masters"]), _directory: directory }
}

impl World {
    fn system(&self) -> ClusterClient {
        self.manager.operations.client_as(&self.admin).expect("a client")
    }

    async fn create(&self, resource: &api::Resource, name: &str, spec: Value) {
        let mut object = resource.object("", name);
        object.set(&["spec"], spec);
        let created = self.system().create(ResourceRef::all(&resource.gvr()), object, WriteOptions::default()).await;
        created.expect(name);
    }

    async fn instance(&self, name: &str) {
        let operations = &self.manager.operations;
        operations.create_instance(&self.admin, name, Mode::InProcess, json!({})).await.expect(name);
        operations.wait_until_ready(name, WAIT).await.expect(name);
    }

    async fn token(&self, user: &str) -> (String, String) {
        let user = User::new(user, &["system:authenticated"]);
        let request = TokenRequest { user: &user, instance: None, valid_for: WAIT };
        let (info, token) = self.manager.operations.tokens.issue(&request).await.expect("a token");
        (info.id, token)
    }

    /// A client over HTTPS with a token, or without credentials.
    fn remote(&self, token: &str, path: &str) -> ClusterClient {
        let mut config = RemoteConfig::new(format!("{}{path}", self.manager.operations.url));
        config.ca = Some(Pem::Text(self.manager.operations.ca_pem.clone().into_bytes()));
        config.credentials.token = Some(token.to_owned()).filter(|token| !token.is_empty());
        config.rate_limit = None;
        ClusterClient::connect(Endpoint::Remote(config)).expect("a client")
    }
}

async fn eventually<F: Future<Output = bool>>(what: &str, check: impl Fn() -> F) {
    let deadline = Instant::now() + WAIT;
    while !check().await {
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A way to give a user rights on the instance east and to take them away.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Revoked {
    Binding,
    Token,
    User,
    Group,
    Role,
    Workspace,
    /// One of two roles, so that the user keeps the other.
    OneOfTwo,
}

impl World {
    async fn change(&self, resource: &api::Resource, name: &str, spec: Value) {
        let target = ResourceRef::cluster(&resource.gvr(), name);
        let patched = self.system().patch(target, Patch::merge(json!({"spec": spec})), WriteOptions::default()).await;
        patched.map(drop).expect(name);
    }

    async fn delete(&self, resource: &api::Resource, name: &str) {
        let target = ResourceRef::cluster(&resource.gvr(), name);
        self.system().delete(target, DeleteOptions::default()).await.map(drop).expect(name);
    }

    async fn grant(&self, user: &str, by: Revoked) {
        let east = json!({"instance": "east"});
        let spec = match by {
            Revoked::Group => {
                self.create(&GROUPS, user, json!({"members": [user]})).await;
                grants::binding_spec("Group", user, "view", east)
            }
            Revoked::Role => {
                self.create(&ROLES, user, json!({"grants": "view"})).await;
                grants::binding_spec("User", user, user, east)
            }
            Revoked::Workspace => {
                self.create(&WORKSPACES, user, json!({"instances": ["east"]})).await;
                grants::binding_spec("User", user, "view", json!({"workspace": user}))
            }
            Revoked::User => {
                self.create(&USERS, user, json!({})).await;
                grants::binding_spec("User", user, "view", east)
            }
            Revoked::OneOfTwo => {
                let kept = grants::binding_spec("User", user, "view", east.clone());
                self.create(&BINDINGS, &format!("{user}-kept"), kept).await;
                grants::binding_spec("User", user, "admin", east)
            }
            Revoked::Binding | Revoked::Token => grants::binding_spec("User", user, "view", east),
        };
        self.create(&BINDINGS, user, spec).await;
    }

    /// Takes the rights away, and returns the code of later requests.
    async fn revoke(&self, user: &str, token: &str, by: Revoked) -> Option<u16> {
        match by {
            Revoked::Binding | Revoked::OneOfTwo => self.delete(&BINDINGS, user).await,
            Revoked::Token => self.manager.operations.tokens.revoke(token).await.expect("revoked"),
            Revoked::User => self.change(&USERS, user, json!({"disabled": true})).await,
            Revoked::Group => self.change(&GROUPS, user, json!({"members": []})).await,
            Revoked::Role => self.delete(&ROLES, user).await,
            Revoked::Workspace => self.change(&WORKSPACES, user, json!({"instances": []})).await,
        }
        match by {
            Revoked::Token | Revoked::User => Some(401),
            Revoked::OneOfTwo => None,
            _ => Some(404),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn open_watches_end_within_a_second_after_any_right_or_credential_is_revoked() {
    let world = world().await;
    world.instance("east").await;
    let namespaces = GroupVersionResource::new("", "v1", "namespaces");
    for (number, by) in [
        Revoked::Binding,
        Revoked::Token,
        Revoked::User,
        Revoked::Group,
        Revoked::Role,
        Revoked::Workspace,
        Revoked::OneOfTwo,
    ]
    .into_iter()
    .enumerate()
    {
        let user = format!("ann-{number}");
        world.grant(&user, by).await;
        let acting = User::new(&user, &[]);
        let role = if by == Revoked::OneOfTwo { InstanceRole::Admin } else { InstanceRole::View };
        eventually("the binding takes effect", || async {
            let rights = &world.manager.operations.rights;
            let is_known = by != Revoked::User || rights.user_uid(&user).is_some();
            is_known && rights.instance_access(&acting, "east").role == Some(role)
        })
        .await;
        let (id, token) = world.token(&user).await;
        let client = world.remote(&token, "/instances/east");
        let call =
            WatchCall { gvr: namespaces.clone(), namespace: None, options: ListOptions::default(), as_table: false };
        let mut watch = client.watch(call).await.expect("a watch");
        assert!(watch.next().await.is_some(), "it sends the namespaces there are");
        let exported = world.remote(&token, "");
        let path = "/flotilla/manager/v1alpha1/instances/east/events:watch";
        let events = tokio::spawn(async move {
            exported.raw(Request::get(path).body(Bytes::new()).expect("a request")).await.map(drop)
        });
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(!events.is_finished(), "a stream of the API stays open");
        let began = Instant::now();
        let expected = world.revoke(&user, &id, by).await;
        let ended = tokio::time::timeout(WAIT, async { while watch.next().await.is_some() {} }).await;
        ended.expect("the watch ends");
        let _ = tokio::time::timeout(WAIT, events).await.expect("the stream of the API ends");
        assert!(began.elapsed() < Duration::from_secs(1), "{by:?}: {:?}", began.elapsed());
        let again = client.list(ResourceRef::all(&namespaces), ListOptions::default()).await;
        assert_eq!(again.err().map(|status| status.code), expected, "{by:?}");
    }
    world.manager.stop().await;
}

/// A request to a receiver of webhooks.
struct Delivered {
    path: String,
    signature: String,
    body: Value,
    text: String,
}

/// Receives deliveries over HTTP. The first is answered with 500, the second with a redirect to another path.
async fn receiver() -> (u16, mpsc::UnboundedReceiver<Delivered>) {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (sender, deliveries) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut count = 0;
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut read = Vec::new();
            let (head, length) = loop {
                let mut chunk = [0; 4096];
                let count = stream.read(&mut chunk).await.unwrap_or_default();
                read.extend_from_slice(&chunk[..count]);
                let text = String::from_utf8_lossy(&read).into_owned();
                let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                let length = header(head, "content-length").parse::<usize>().unwrap_or_default();
                if body.len() >= length || count == 0 {
                    break (head.to_owned(), length);
                }
            };
            let text = String::from_utf8_lossy(&read[read.len() - length..]).into_owned();
            let code = match count {
                0 => "500 Internal Server Error".to_owned(),
                1 => format!("307 Temporary Redirect\r\nlocation: http://127.0.0.1:{port}/elsewhere"),
                _ => "200 OK".to_owned(),
            };
            count += 1;
            let _ = stream.write_all(format!("HTTP/1.1 {code}\r\ncontent-length: 0\r\n\r\n").as_bytes()).await;
            let body = serde_json::from_str(&text).unwrap_or_default();
            let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
            let _ = sender.send(Delivered { path, signature: header(&head, "x-flotilla-signature"), body, text });
        }
    });
    (port, deliveries)
}

fn header(head: &str, name: &str) -> String {
    let mut lines = head.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
}

const KEY: &str = "a key with more than 16 characters";

fn signature(body: &str, at: i64) -> String {
    let signed = pki::token::hmac_sha256(KEY.as_bytes(), format!("{at}.{body}").as_bytes());
    format!("t={at},v1={signed}")
}

async fn signing_key(world: &World) {
    let mut secret = Object::new(&GroupVersionKind::new("", "v1", "Secret"), Some("karmada-system"), "iam");
    secret.set(&["stringData", "key"], KEY);
    let secrets = GroupVersionResource::new("", "v1", "secrets");
    let created =
        world.system().create(ResourceRef::within(&secrets, "karmada-system"), secret, WriteOptions::default()).await;
    created.expect("a Secret");
}

#[tokio::test(flavor = "multi_thread")]
async fn registrations_are_delivered_signed_and_again_after_a_failure() {
    let world = world().await;
    signing_key(&world).await;
    world.instance("east").await;
    let (port, mut deliveries) = receiver().await;
    let secret = json!({"namespace": "karmada-system", "name": "iam", "key": "key"});
    let spec = json!({"url": format!("http://127.0.0.1:{port}/hook"), "secretRef": secret});
    world.create(&WEBHOOKS, "iam", spec).await;
    let mut next = async || tokio::time::timeout(WAIT, deliveries.recv()).await.expect("in time").expect("a delivery");
    let (failed, redirected, first) = (next().await, next().await, next().await);
    assert!(failed.body["full"] == true && first.body["full"] == true);
    assert!(redirected.path == "/hook" && first.path == "/hook", "redirects are not followed");
    let at: i64 =
        first.signature.trim_start_matches("t=").split(',').next().and_then(|at| at.parse().ok()).expect("a time");
    assert_eq!(first.signature, signature(&first.text, at));
    let names = |list: &Value| -> Vec<String> {
        list.as_array()
            .into_iter()
            .flatten()
            .map(|entry| entry["name"].as_str().unwrap_or_default().to_owned())
            .collect()
    };
    assert_eq!(names(&first.body["changed"]), ["east"]);
    world.instance("west").await;
    let mut previous = first;
    loop {
        let change = next().await;
        assert_eq!(change.body["previous"], previous.body["id"]);
        assert_eq!(
            (names(&change.body["changed"]), change.body["full"].clone()),
            (vec!["west".to_owned()], json!(false))
        );
        if change.body["changed"][0]["state"] == "Running" {
            break;
        }
        previous = change;
    }
    world.manager.operations.delete_instance(&world.admin, "west", false).await.expect("deleted");
    assert_eq!(names(&next().await.body["removed"]), ["west"]);
    let root = world.remote(&world.token_of_admin().await, "");
    let log = root.get_json("/flotilla/manager/v1alpha1/webhooks/iam/deliveries").await.expect("the log");
    let shown = log["deliveries"].as_array().expect("deliveries");
    assert!(shown[0]["delivered"] == true && shown[0]["code"] == 200, "{log}");
    let last = &shown[shown.len() - 1];
    assert!(last["attempts"] == 3 && last["delivered"] == true, "the failed attempts and the last one: {last}");
    let again = format!(
        "/flotilla/manager/v1alpha1/webhooks/iam/deliveries/{}:redeliver",
        shown[0]["id"].as_str().unwrap_or_default()
    );
    let sent = root.raw(Request::post(again).body(Bytes::from_static(b"{}")).expect("a request")).await.expect("sent");
    assert!(sent.status().is_success());
    assert_eq!(names(&next().await.body["removed"]), ["west"]);
    world.manager.stop().await;
}

impl World {
    async fn token_of_admin(&self) -> String {
        self.create(&BINDINGS, "boss", grants::binding_spec("User", "boss", "platform-admin", json!(null))).await;
        let boss = User::new("boss", &[]);
        eventually("the binding takes effect", || async { self.manager.operations.is_platform_admin(&boss) }).await;
        self.token("boss").await.1
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_pushes_its_own_bindings_in_order_and_signed() {
    let world = world().await;
    signing_key(&world).await;
    world.create(&USERS, "ann", json!({})).await;
    let secret = json!({"namespace": "karmada-system", "name": "iam", "key": "key"});
    let spec = json!({"url": "http://127.0.0.1:1/", "secretRef": secret, "acceptsBindings": true, "disabled": false});
    world.create(&WEBHOOKS, "iam", spec).await;
    world.create(&BINDINGS, "own", grants::binding_spec("User", "ann", "view", json!({"instance": "x"}))).await;
    let anonymous = world.remote("", "");
    let now = jiff::Timestamp::now().as_second();
    let push = async |body: &str, signed: &str| {
        let request = Request::post("/flotilla/manager/webhooks/bindings").header("x-flotilla-signature", signed);
        let answer =
            anonymous.raw(request.body(Bytes::from(body.to_owned())).expect("a request")).await.expect("an answer");
        let value: Value = serde_json::from_slice(answer.body()).unwrap_or_default();
        (answer.status().as_u16(), value)
    };
    let body = |sequence: i64, full: bool, add: Value, remove: Value| {
        json!({"source": "iam", "sequence": sequence.to_string(), "full": full, "add": add, "remove": remove})
            .to_string()
    };
    let binding = |user: &str, role: &str, target: Value| json!({"subject": {"kind": "User", "name": user}, "role": role, "target": target});
    let (ann, bob) =
        (binding("ann", "edit", json!({"instance": "x"})), binding("bob", "view", json!({"instance": "x"})));
    let first = body(1, false, json!([ann]), json!([]));
    // Forged, old and unsigned pushes change nothing.
    for signed in
        ["", "t=1,v1=00", &signature("other", now), &signature(&first, now - 301), &signature(&first, now + 600)]
    {
        assert_eq!(push(&first, signed).await.0, 401, "{signed}");
    }
    let owned = async || -> BTreeMap<String, String> {
        let list =
            world.system().list_all(ResourceRef::all(&BINDINGS.gvr()), ListOptions::default()).await.expect("listed");
        let own = list.items.iter().filter(|binding| binding.str_at(&["spec", "source"]) == "iam");
        own.map(|b| (b.str_at(&["spec", "subject", "name"]).to_owned(), b.str_at(&["spec", "role"]).to_owned()))
            .collect()
    };
    assert!(owned().await.is_empty());
    let (code, answer) = push(&first, &signature(&first, now)).await;
    assert_eq!((code, answer["added"].as_i64(), answer["sequence"].as_str()), (200, Some(1), Some("1")), "{answer}");
    // A replay is dropped, a gap lets only removals through, and a full push ends it.
    assert_eq!(push(&first, &signature(&first, now)).await.1["added"], 0);
    let gap = body(3, false, json!([bob]), json!([ann]));
    let (_, answer) = push(&gap, &signature(&gap, now)).await;
    assert!(answer["snapshotNeeded"] == true && answer["added"] == 0 && answer["removed"] == 1, "{answer}");
    assert!(owned().await.is_empty());
    let full = body(4, true, json!([bob]), json!([]));
    push(&full, &signature(&full, now)).await;
    assert_eq!(owned().await, BTreeMap::from([("bob".to_owned(), "view".to_owned())]));
    // No role on the platform unless the webhook allows it, and no binding of others is touched.
    let platform = body(5, false, json!([binding("bob", "platform-admin", json!(null))]), json!([]));
    assert_eq!(push(&platform, &signature(&platform, now)).await.0, 403);
    let nothing = body(5, true, json!([]), json!([binding("ann", "view", json!({"instance": "x"}))]));
    assert_eq!(push(&nothing, &signature(&nothing, now)).await.0, 200);
    let own = world.system().find(ResourceRef::cluster(&BINDINGS.gvr(), "own")).await.expect("read");
    assert!(owned().await.is_empty() && own.is_some());
    world.manager.stop().await;
}
