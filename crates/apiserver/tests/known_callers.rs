//! Memory and requests of one user are limited, also of a caller that another program has identified, such as a user of a manager.

mod admission_world;

use std::sync::Arc;
use std::time::Duration;

use admission_world::{CONFIGMAPS, World};
use apiserver::admission::{Admission, AdmissionScope, Attributes};
use apiserver::context::Context;
use apiserver::http::{Peer, RequestBody, handle_as};
use apiserver::respond::Body;
use async_trait::async_trait;
use http::{Request, Response};
use object::request::User;
use object::{Object, Status};
use serde_json::json;

/// Far above the number of responses that fit into the memory of one user.
const RESPONSES: usize = 120;
/// Long enough that several requests wait at the same time.
const WAIT: Duration = Duration::from_secs(2);

async fn ask(world: &World, request: Request<RequestBody>) -> Response<Body> {
    let peer = Arc::new(Peer {
        address: "127.0.0.1:1".parse().expect("an address"),
        certificates: Vec::new(),
        server_name: None,
    });
    handle_as(world.server.clone(), peer, Arc::new(User::new("tenant", &[])), request).await
}

async fn get(world: &World, path: &str) -> Response<Body> {
    ask(world, Request::get(path).body(RequestBody::Whole(Default::default())).expect("a request")).await
}

async fn post(world: &World, path: &str, body: String) -> u16 {
    ask(world, Request::post(path).body(RequestBody::Whole(body.into())).expect("a request")).await.status().as_u16()
}

/// Gives the user rights on a resource.
async fn may(world: &World, group: &str, resource: &str, verbs: &[&str]) {
    let rbac = "rbac.authorization.k8s.io";
    let rule = json!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
    world
        .make(&format!("/apis/{rbac}/v1/clusterroles"), json!({"metadata": {"name": resource}, "rules": [rule]}))
        .await;
    let binding = json!({"metadata": {"name": resource}, "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": resource},
        "subjects": [{"apiGroup": rbac, "kind": "User", "name": "tenant"}]});
    world.make(&format!("/apis/{rbac}/v1/clusterrolebindings"), binding).await;
}

/// Sends a request `count` times while all responses are held, and returns how many were served and how many refused.
async fn flood(world: &World, path: &str, count: usize) -> (usize, usize) {
    let mut held = Vec::new();
    let mut refused = 0;
    for _ in 0..count {
        let response = get(world, path).await;
        match response.status().as_u16() {
            200 => held.push(response),
            429 => refused += 1,
            code => panic!("{path}: {code}"),
        }
    }
    (held.len(), refused)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_known_caller_has_limits_too() {
    let world = World::new().await;
    may(&world, "", "configmaps", &["get"]).await;
    let text: String = (0..700_000).map(|at| char::from(b'a' + (at * 7 % 26) as u8)).collect();
    world.make(CONFIGMAPS, json!({"metadata": {"name": "large"}, "data": {"text": text}})).await;

    let large = format!("{CONFIGMAPS}/large");
    let (served, refused) = flood(&world, &large, RESPONSES).await;
    assert!(served > 10 && refused > 0, "{served} responses of 0.7 MB are held, {refused} were refused");
    assert_eq!(get(&world, &large).await.status(), 200, "what was sent is counted no more");
}

/// A step at which requests wait, as they do for a slow webhook.
struct Waits;

#[async_trait]
impl Admission for Waits {
    fn name(&self) -> &'static str {
        "Waits"
    }

    async fn validate(
        &self,
        _: AdmissionScope<'_>,
        _: &Context,
        attributes: &Attributes<'_>,
        _: Option<&Object>,
    ) -> Result<(), Status> {
        if attributes.resource.kind.plural == "controllerrevisions" {
            tokio::time::sleep(WAIT).await;
        }
        Ok(())
    }
}

/// A body of 0.7 MB with small maps is a tree of more than 60 MB.
#[tokio::test(flavor = "multi_thread")]
async fn one_user_holds_few_large_trees_at_the_same_time() {
    let world = Arc::new(World::serving(kinds::builtin(), vec![Box::new(Waits)]).await);
    may(&world, "apps", "controllerrevisions", &["create"]).await;
    let maps = "{\"\":0},".repeat(100_000);
    let body = format!("{{\"metadata\":{{\"name\":\"NAME\"}},\"revision\":1,\"data\":{{\"a\":[{maps}{{}}]}}}}");
    let asked = (0..6).map(|number| {
        let (world, body) = (Arc::clone(&world), body.replace("NAME", &format!("r{number}")));
        tokio::spawn(async move { post(&world, "/apis/apps/v1/namespaces/team/controllerrevisions", body).await })
    });
    let mut codes = Vec::new();
    for asked in asked.collect::<Vec<_>>() {
        codes.push(asked.await.expect("an answer"));
    }
    let refused = codes.iter().filter(|code| **code == 429).count();
    assert!((3..6).contains(&refused), "the others have no memory left: {codes:?}");
    assert_ne!(
        post(&world, "/apis/apps/v1/namespaces/team/controllerrevisions", body.replace("NAME", "last")).await,
        429
    );
}
