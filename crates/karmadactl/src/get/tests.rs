//! `get` against clusters whose answers are data.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use clap::Parser;
use cluster_client::{
    ApiCall, Backend, ClusterClient, Endpoint, Identity, ObjectList, Reply, WatchCall, WatchEvent, WatchEvents,
};
use object::{Object, Status};
use serde_json::{Value, json};

use super::*;
use crate::console::testing;

/// An API that answers paths with what it was given; other paths do not exist.
#[derive(Default)]
struct Canned {
    answers: BTreeMap<String, Value>,
    clusters: Vec<Arc<Object>>,
    events: Vec<WatchEvent>,
}

#[async_trait]
impl Backend for Canned {
    async fn call(&self, _: &Identity, _: ApiCall) -> Result<Reply, Status> {
        tokio::task::yield_now().await;
        let list = ObjectList { kind: "ClusterList".into(), items: self.clusters.clone(), ..ObjectList::default() };
        Ok(Reply::list(list))
    }

    async fn watch(&self, _: &Identity, _: WatchCall) -> Result<WatchEvents, Status> {
        tokio::task::yield_now().await;
        // The last event ends the watch for good.
        let mut events = self.events.clone();
        events.push(WatchEvent::Error(Status::new(403, "Forbidden", "that is all")));
        Ok(Box::pin(futures::stream::iter(events)))
    }

    async fn raw(&self, _: &Identity, request: http::Request<Bytes>) -> Result<http::Response<Bytes>, Status> {
        tokio::task::yield_now().await;
        let path = request.uri().to_string();
        let (code, body) = match self.answers.get(&path) {
            Some(answer) => (200, answer.clone()),
            None => (404, Status::new(404, "NotFound", format!("{path} not found")).to_value()),
        };
        let mut response = http::Response::new(Bytes::from(body.to_string()));
        *response.status_mut() = http::StatusCode::from_u16(code).unwrap();
        Ok(response)
    }
}

fn resources(list: &[(&str, &str, bool)]) -> Vec<Value> {
    list.iter()
        .map(|(plural, kind, namespaced)| {
            json!({"name": plural, "singularName": kind.to_lowercase(), "kind": kind, "namespaced": namespaced, "verbs": ["get", "list", "watch"]})
        })
        .collect()
}

fn table(rows: &[(&str, &str, bool)]) -> Value {
    let row = |(name, age, managed): &(&str, &str, bool)| {
        let labels = if *managed { json!({"karmada.io/managed": "true"}) } else { json!({"app": "x"}) };
        let meta = json!({"name": name, "namespace": "default", "labels": labels, "resourceVersion": "5"});
        json!({"cells": [name, "1/1", age, "extra"], "object": {"kind": "PartialObjectMetadata", "metadata": meta}})
    };
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": "7"},
        "columnDefinitions": [
            {"name": "Name", "priority": 0}, {"name": "Ready", "priority": 0}, {"name": "Age", "priority": 0},
            {"name": "Images", "priority": 1},
        ],
        "rows": rows.iter().map(row).collect::<Vec<_>>(),
    })
}

fn canned(answers: &[(&str, Value)]) -> Canned {
    let mut canned = Canned::default();
    let core = resources(&[("pods", "Pod", true), ("namespaces", "Namespace", false)]);
    let apps = resources(&[("deployments", "Deployment", true)]);
    for (path, answer) in [
        ("/api", json!({"kind": "APIVersions", "versions": ["v1"]})),
        (
            "/apis",
            json!({"kind": "APIGroupList", "groups": [{"name": "apps", "versions": [{"version": "v1"}], "preferredVersion": {"version": "v1"}}]}),
        ),
        ("/api/v1", json!({"kind": "APIResourceList", "resources": core})),
        ("/apis/apps/v1", json!({"kind": "APIResourceList", "resources": apps})),
    ] {
        canned.answers.insert(path.into(), answer);
    }
    canned.answers.extend(answers.iter().map(|(path, answer)| ((*path).to_owned(), answer.clone())));
    canned
}

fn client(canned: Canned) -> ClusterClient {
    let endpoint = Endpoint::Direct { server: Arc::new(canned), identity: Identity::default() };
    ClusterClient::connect(endpoint).unwrap()
}

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments?limit=500";
const PODS: &str = "/api/v1/namespaces/default/pods?limit=500";

/// A control plane with two members, of which the second cannot be reached.
fn plane() -> PlaneClient {
    let mut plane = canned(&[
        (DEPLOYMENTS, table(&[("nginx", "5m", false)])),
        (
            "/apis/apps/v1/namespaces/default/deployments/nginx",
            json!({"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "nginx", "managedFields": []}, "spec": {"replicas": 2}}),
        ),
    ]);
    let cluster = |name: &str| Arc::new(api::cluster::CLUSTERS.object("", name));
    plane.clusters = vec![cluster("m2"), cluster("m1")];
    let m1 = canned(&[
        (DEPLOYMENTS, table(&[("nginx", "4m", true), ("own", "9d", false)])),
        (PODS, table(&[("nginx-1", "3m", false)])),
    ]);
    PlaneClient::given(client(plane), [("m1", client(m1)), ("m2", client(Canned::default()))])
}

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: GetArgs,
}

async fn check(line: &str, plane: &PlaneClient) -> (String, String, String) {
    let args = Line::parse_from(["get"].into_iter().chain(line.split_whitespace())).args;
    let (console, out, err) = testing::console();
    let result = match args.check() {
        Ok(()) => get(&console, plane, &args).await,
        error => error,
    };
    let error = result.err().map(|error| error.to_string()).unwrap_or_default();
    (out.text(), err.text(), error)
}

#[tokio::test]
async fn rows_of_all_clusters_are_in_one_table() {
    let (out, _, error) = check("deployments -s all -C m1", &plane()).await;
    assert_eq!(error, "");
    let expected = "\
NAME    CLUSTER   READY   AGE   ADOPTION
nginx   Karmada   1/1     5m    -
nginx   m1        1/1     4m    Y
own     m1        1/1     9d    N
";
    assert_eq!(out, expected);
}

#[tokio::test]
async fn adoption_of_pods_is_shown_in_the_wide_form_only() {
    let (narrow, _, _) = check("pods -s members -C m1", &plane()).await;
    assert_eq!(narrow, "NAME      CLUSTER   READY   AGE\nnginx-1   m1        1/1     3m\n");
    let (wide, _, _) = check("po -s members -C m1 -o wide", &plane()).await;
    assert_eq!(wide, "");
    let (wide, _, _) = check("pod -s members -C m1 -o wide", &plane()).await;
    assert_eq!(
        wide,
        "NAME      CLUSTER   READY   AGE   IMAGES   ADOPTION\nnginx-1   m1        1/1     3m    extra    N\n"
    );
}

#[tokio::test]
async fn an_unreachable_cluster_hides_no_other() {
    let (out, _, error) = check("deployments -s members", &plane()).await;
    assert!(out.contains("nginx   m1"), "{out}");
    let expected = "basic connection test to cluster(m2) failed, please check authorization or network: /api not found";
    assert_eq!(error, expected);
}

#[tokio::test]
async fn several_types_are_distinguished_by_kind() {
    let (out, _, _) = check("deployments,pods -s members -C m1", &plane()).await;
    assert_eq!(
        out,
        "NAME          CLUSTER   READY   AGE\npod/nginx-1   m1        1/1     3m\n\n\
         NAME                    CLUSTER   READY   AGE   ADOPTION\ndeployment.apps/nginx   m1        1/1     4m    Y\n\
         deployment.apps/own     m1        1/1     9d    N\n"
    );
}

#[tokio::test]
async fn a_type_one_cluster_lacks_hides_no_other() {
    let (out, _, error) = check("deployments,gizmos -s members -C m1", &plane()).await;
    assert!(out.contains("nginx   m1"), "{out}");
    assert_eq!(error, "cluster(m1): the server doesn't have a resource type \"gizmos\"");
}

#[tokio::test]
async fn one_object_prints_without_a_list_around_it() {
    let (out, _, _) = check("deployment/nginx -o yaml", &plane()).await;
    assert_eq!(out, "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: nginx\nspec:\n  replicas: 2\n");
    let (out, _, _) = check("deployment nginx -o jsonpath={.spec.replicas}", &plane()).await;
    assert_eq!(out, "2");
}

#[tokio::test]
async fn errors_have_the_text_of_karmadactl() {
    let cases = [
        ("deployments -s members -C m3,m4", "clusters don't exist: m3,m4"),
        ("gizmos", "cluster(Karmada): the server doesn't have a resource type \"gizmos\""),
        ("deployment other", "cluster(Karmada): /apis/apps/v1/namespaces/default/deployments/other not found"),
        (
            "deployments --output-watch-events",
            "--output-watch-events option can only be used with --watch or --watch-only",
        ),
        ("deployment nginx -A", "a resource cannot be retrieved by name across all namespaces"),
    ];
    for (line, expected) in cases {
        assert_eq!(check(line, &plane()).await.2, expected, "{line}");
    }
    let (out, _, error) = check("deployment other --ignore-not-found", &plane()).await;
    assert_eq!((out.as_str(), error.as_str()), ("", ""));
}

#[tokio::test]
async fn an_empty_result_is_reported_and_is_no_error() {
    let mut empty = canned(&[(DEPLOYMENTS, table(&[])), ("/api/v1/namespaces?limit=500", table(&[]))]);
    empty.clusters = Vec::new();
    let plane = PlaneClient::given(client(empty), []);
    assert_eq!(check("deployments", &plane).await.1, "No resources found in default namespace.\n");
    assert_eq!(check("namespaces", &plane).await.1, "No resources found\n");
    assert_eq!(check("deployments -s members", &plane).await.1, "No member Clusters found in Karmada control plane\n");
}

#[tokio::test]
async fn a_watch_shows_the_list_and_then_changes() {
    let mut m1 = canned(&[(DEPLOYMENTS, table(&[("nginx", "4m", true)]))]);
    let mut change = table(&[("other", "0s", false)]);
    // Later events of a server do not repeat the columns.
    change["columnDefinitions"] = Value::Null;
    m1.events = vec![WatchEvent::Added(Arc::new(Object::from_value(change).unwrap()))];
    let mut top = canned(&[]);
    top.clusters = vec![Arc::new(api::cluster::CLUSTERS.object("", "m1"))];
    let plane = PlaneClient::given(client(top), [("m1", client(m1))]);
    let (out, _, error) = check("deployments -s members -w --output-watch-events", &plane).await;
    assert_eq!(error, "cluster(m1): that is all");
    let expected = "\
EVENT   NAME    CLUSTER   READY   AGE   ADOPTION
ADDED   nginx   m1        1/1     4m    Y
ADDED   other   m1        1/1     0s    N
";
    assert_eq!(out, expected);
}

#[tokio::test]
async fn a_sort_path_without_any_match_is_an_error() {
    const SORTED: &str = "/apis/apps/v1/namespaces/default/deployments?limit=500&includeObject=Object";
    let plane = || {
        let rows = table(&[("b", "5m", false), ("a", "4m", false)]);
        PlaneClient::given(client(canned(&[(SORTED, rows)])), [])
    };
    let (out, _, error) = check("deployments --sort-by .metadata.name", &plane()).await;
    assert_eq!(error, "");
    let names: Vec<&str> = out.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["a", "b"], "{out}");
    let (_, _, error) = check("deployments --sort-by .metadata.nam", &plane()).await;
    assert_eq!(error, "--sort-by: couldn't find any field with path \".metadata.nam\" in the list of objects");
}
