//! The operations that entry points use, on a manager in this process.

use std::sync::Arc;
use std::time::Duration;

use cluster_client::{ListOptions, Patch, ResourceRef, WriteOptions};
use manager::{Manager, ManagerOptions, PlaneFlags};
use manager_kinds::annotations::Mode;
use manager_kinds::{BINDINGS, GROUPS, ROLES, USERS, WORKSPACES, grants};
use object::request::User;
use object::{GroupVersionResource, Object};
use serde_json::{Value, json};

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
    async fn create(&self, resource: &api::Resource, name: &str, spec: Value) {
        let mut object = resource.object("", name);
        object.set(&["spec"], spec);
        let client = self.manager.operations.client_as(&self.admin).expect("a client");
        client.create(ResourceRef::all(&resource.gvr()), object, WriteOptions::default()).await.expect(name);
    }

    async fn instance(&self, name: &str) {
        let operations = &self.manager.operations;
        operations.create_instance(&self.admin, name, Mode::InProcess, json!({})).await.expect(name);
        operations.wait_until_ready(name, WAIT).await.expect(name);
    }
}

fn namespaces() -> GroupVersionResource {
    GroupVersionResource::new("", "v1", "namespaces")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_is_created_used_and_deleted() {
    let world = world().await;
    let operations = &world.manager.operations;
    world.instance("east").await;
    let client = operations.instance_client(&world.admin, "east").await.expect("a client");
    let list = client.list(ResourceRef::all(&namespaces()), ListOptions::default()).await.expect("listed");
    assert!(list.items.iter().any(|namespace| namespace.name() == "karmada-system"));

    operations.set_suspended(&world.admin, "east", true).await.expect("suspended");
    operations.set_suspended(&world.admin, "east", false).await.expect("resumed");
    operations.restart_instance(&world.admin, "east").await.expect("restarted");
    operations.wait_until_ready("east", WAIT).await.expect("ready again");

    let issued = operations
        .issue_kubeconfig(&world.admin, "east", (Duration::from_secs(60), Default::default()))
        .await
        .expect("issued");
    assert!(issued.text.contains("/instances/east"), "{}", issued.text);
    let listed = operations.list_kubeconfigs(&world.admin, "east").await.expect("listed");
    assert_eq!(listed, std::slice::from_ref(&issued.token));
    operations.revoke_kubeconfig(&world.admin, &issued.token.id).await.expect("revoked");
    assert!(operations.revoke_kubeconfig(&world.admin, &issued.token.id).await.is_err());
    let long =
        operations.issue_kubeconfig(&world.admin, "east", (manager::tokens::VALID_MAX * 2, Default::default())).await;
    assert!(long.is_err_and(|status| status.code == 400));

    let preview = operations.preview_deletion(&world.admin, "east").await.expect("a preview");
    assert!(preview.clusters.is_empty() && !preview.keeps_plane && !preview.is_protected && !preview.is_unknown);
    operations.delete_instance(&world.admin, "east", false).await.expect("deleted");
    let gone = async {
        while operations.directory.find("east").is_some() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(WAIT, gone).await.expect("it is removed");
    world.manager.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn users_see_and_use_what_their_bindings_grant() {
    let world = world().await;
    let operations = &world.manager.operations;
    for name in ["east", "west"] {
        world.instance(name).await;
    }
    world.create(&USERS, "ann", json!({})).await;
    world.create(&WORKSPACES, "shop", json!({"instances": ["west"]})).await;
    world
        .create(&BINDINGS, "ann-shop", grants::binding_spec("User", "ann", "view", json!({"workspace": "shop"})))
        .await;
    let ann = User::new("ann", &["system:masters-like", "flotilla:instance:admin"]);
    let seen = async {
        while operations.visible_instances(&ann).is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(WAIT, seen).await.expect("the binding takes effect");
    let names: Vec<String> = operations.visible_instances(&ann).iter().map(|entry| entry.name()).collect();
    assert_eq!(names, ["west"]);
    assert_eq!(operations.instance_client(&ann, "east").await.err().map(|status| status.code), Some(404));
    assert_eq!(operations.delete_instance(&ann, "east", false).await.err().map(|status| status.code), Some(404));
    assert_eq!(operations.delete_instance(&ann, "west", false).await.err().map(|status| status.code), Some(403));
    assert_eq!(operations.restart_instance(&ann, "west").await.err().map(|status| status.code), Some(403));

    let client = operations.instance_client(&ann, "west").await.expect("a client");
    client.list(ResourceRef::all(&namespaces()), ListOptions::default()).await.expect("she may read");

    let issue = async |user| {
        let scope = (Duration::from_secs(60), Default::default());
        operations.issue_kubeconfig(user, "west", scope).await.expect("issued").token
    };
    let (of_ann, of_admin) = (issue(&ann).await, issue(&world.admin).await);
    let list = async |user, instance| operations.list_kubeconfigs(user, instance).await.expect("listed");
    assert_eq!(list(&ann, "west").await, std::slice::from_ref(&of_ann), "only her own");
    let all = list(&world.admin, "west").await;
    assert!(all.len() == 2 && all.contains(&of_ann) && all.contains(&of_admin), "{all:?}");
    assert!(list(&world.admin, "east").await.is_empty(), "those of other instances are not among them");
    assert!(operations.revoke_kubeconfig(&ann, &of_admin.id).await.is_err());
    operations.revoke_kubeconfig(&world.admin, &of_ann.id).await.expect("what it sees, it can revoke");
    assert!(list(&ann, "west").await.is_empty());

    let made = Object::new(&object::GroupVersionKind::new("", "v1", "Namespace"), None, "mine");
    let refused = client.create(ResourceRef::all(&namespaces()), made, WriteOptions::default()).await;
    assert_eq!(refused.err().map(|status| status.code), Some(403), "the instance's RBAC decides");
    world.manager.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_iam_owner_cannot_give_more_than_it_has() {
    let world = world().await;
    let operations = &world.manager.operations;
    let admins = json!({"members": ["root"]});
    world.create(&GROUPS, "admins", admins.clone()).await;
    world.create(&BINDINGS, "admins", grants::binding_spec("Group", "admins", "platform-admin", Value::Null)).await;
    world.create(&BINDINGS, "iam", grants::binding_spec("User", "ian", "iam-owner", Value::Null)).await;
    let ian = operations.client_as(&User::new("ian", &[])).expect("a client");
    let create = async |resource: &api::Resource, name: &str, spec: Value| {
        let mut object = resource.object("", name);
        object.set(&["spec"], spec);
        let created = ian.create(ResourceRef::all(&resource.gvr()), object, WriteOptions::default()).await;
        created.map(drop).map_err(|status| status.code)
    };
    let allowed = async {
        while create(&USERS, "new", json!({})).await == Err(403) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(WAIT, allowed).await.expect("the role takes effect");
    let bind = |role: &str| grants::binding_spec("User", "ian", role, Value::Null);
    assert_eq!(create(&BINDINGS, "auditor", bind("auditor")).await, Ok(()));
    assert_eq!(create(&BINDINGS, "root", bind("platform-admin")).await, Err(403));
    assert_eq!(create(&BINDINGS, "owner", bind("instance-owner")).await, Err(403));
    assert_eq!(create(&ROLES, "custom", json!({"grants": "platform-admin"})).await, Err(403));
    let joined = json!({"spec": {"members": ["root", "ian"]}});
    let target = ResourceRef::cluster(&GROUPS.gvr(), "admins");
    let patched = ian.patch(target, Patch::merge(joined), WriteOptions::default()).await;
    assert_eq!(patched.err().map(|status| status.code), Some(403), "nor join a privileged group");
    world.manager.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_is_checked_before_anything_is_stored() {
    let world = world().await;
    let operations = &world.manager.operations;
    for (kubeconfig, expected) in [
        ("users: [{name: u, user: {exec: {command: sh}}}]", "exec"),
        ("not: [valid", "YAML"),
        ("apiVersion: v1\nclusters: []", "context"),
    ] {
        let refused = operations.import_instance(&world.admin, "old", kubeconfig).await;
        let status = refused.expect_err(expected);
        assert!(status.code == 400 && status.message.contains(expected), "{status}");
    }
    assert!(operations.directory.list().is_empty());
    world.manager.stop().await;
}
