//! Other clients with the same binary: kube-rs, the Python client, and Go programs.

use std::process::Command;
use std::time::Duration;

use e2e::flotilla::{Flotilla, programs};
use futures::{StreamExt, TryStreamExt};
use kube::api::{
    Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::json;

#[tokio::test]
async fn kube_rs_creates_lists_watches_patches_and_deletes() {
    let server = Flotilla::start();
    let kubeconfig = Kubeconfig::read_from(&server.kubeconfig).expect("a kubeconfig");
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let client = kube::Client::try_from(config.expect("a config")).expect("a client");
    let version = client.apiserver_version().await.expect("a version");
    assert_eq!(version.minor, "36");

    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
    let maps: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &resource);
    let made = DynamicObject::new("rust", &resource).data(json!({"data": {"a": "1"}}));
    let made = maps.create(&PostParams::default(), &made).await.expect("created");
    let since = made.metadata.resource_version.clone().expect("a version");

    let watching = maps.watch(&WatchParams::default().fields("metadata.name=rust").timeout(20), &since).await;
    let mut watching = watching.expect("a watch").boxed();
    let patch = json!({"data": {"a": "2"}});
    let patched = maps.patch("rust", &PatchParams::default(), &Patch::Merge(&patch)).await.expect("patched");
    assert_eq!(patched.data["data"]["a"], "2");
    let applied = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "rust"}, "data": {"b": "3"}});
    maps.patch("rust", &PatchParams::apply("kube-rs"), &Patch::Apply(&applied)).await.expect("applied");
    maps.delete("rust", &DeleteParams::default()).await.expect("deleted");

    let mut seen = Vec::new();
    let all = async {
        while let Some(event) = watching.try_next().await.expect("the watch continues") {
            match event {
                WatchEvent::Modified(_) => seen.push("modified"),
                WatchEvent::Deleted(_) => return seen.push("deleted"),
                _ => {}
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), all).await.expect("events arrive");
    assert_eq!(seen, ["modified", "modified", "deleted"]);
    let left = maps.list(&ListParams::default().fields("metadata.name=rust")).await.expect("listed");
    assert!(left.items.is_empty());
}

#[test]
fn the_python_client_works() {
    let python = std::env::var("FLOTILLA_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let has_client = Command::new(&python).args(["-c", "import kubernetes"]).output().is_ok_and(|o| o.status.success());
    if !has_client {
        test_skip::skip(format_args!("{python} has no package kubernetes; `make test` installs it"));
        return;
    }
    let server = Flotilla::start();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/client.py");
    let ran = Command::new(&python).arg(script).arg(&server.kubeconfig).output().expect("python runs");
    let said = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{said}\n{}", server.log());
    assert!(said.contains("the python client is content"), "{said}");
}

/// client-go with protobuf only, informers, leader election, controller-runtime and Karmada's own clients.
#[test]
fn go_clients_work() {
    let program = programs().join("wire");
    if !program.exists() {
        test_skip::skip(format_args!("wire is not in {}; `make test` builds it", programs().display()));
        return;
    }
    let server = Flotilla::start();
    let ran = Command::new(program).env("KUBECONFIG", &server.kubeconfig).output().expect("the program runs");
    let said = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{said}\n{}", server.log());
    assert_eq!(said.lines().filter(|line| line.starts_with("ok ")).count(), 9, "{said}");
}
