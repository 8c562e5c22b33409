//! Promoting from one API in memory to another.

use cluster_client::testing::MemoryApi;
use serde_json::Value;

use super::*;
use crate::console::testing;

fn promotion(kind: &str, name: &str) -> Promotion {
    Promotion {
        kind: kind.into(),
        name: name.into(),
        namespace: "default".into(),
        cluster: "m1".into(),
        with_policy: true,
        policy_name: None,
        with_dependencies: false,
        output: None,
        dry_run: false,
    }
}

fn deployment() -> Object {
    let value = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": "nginx", "namespace": "default", "generation": 4, "labels": {"app": "nginx"},
            "annotations": {"deployment.kubernetes.io/revision": "2"},
        },
        "spec": {"replicas": 2, "template": {"spec": {
            "containers": [{"name": "c", "image": "nginx", "envFrom": [{"configMapRef": {"name": "settings"}}]}],
        }}},
        "status": {"replicas": 2},
    });
    Object::from_value(value).unwrap()
}

fn deployments() -> GroupVersionResource {
    object::builtin::deployments()
}

fn config_maps() -> GroupVersionResource {
    object::builtin::config_maps()
}

fn config_map(name: &str) -> Object {
    Object::from_value(
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}),
    )
    .unwrap()
}

/// A member that runs the deployment, and a control plane that knows the kinds.
fn both() -> (MemoryApi, MemoryApi) {
    let (plane, member) = (MemoryApi::default(), MemoryApi::default());
    member.seed(&deployments(), deployment());
    member.seed(&config_maps(), config_map("settings"));
    let mut other = deployment();
    other.set_name("other");
    plane.seed(&deployments(), other);
    plane.seed(&config_maps(), config_map("unrelated"));
    (plane, member)
}

async fn run_it(plane: &MemoryApi, member: &MemoryApi, promotion: &Promotion) -> (String, String, Result<(), String>) {
    let (console, out, err) = testing::console();
    let result = promote(&console, &plane.client(), &member.client(), promotion).await;
    (out.text(), err.text(), result.map_err(|error| format!("{error:#}")))
}

async fn stored(api: &MemoryApi, target: ResourceRef) -> Option<Value> {
    api.client().find(target).await.unwrap().map(|object| object.to_value())
}

#[tokio::test]
async fn an_object_becomes_a_template_with_a_policy_that_keeps_it_where_it_is() {
    let (plane, member) = both();
    let (out, _, result) = run_it(&plane, &member, &promotion("deployment", "nginx")).await;
    result.unwrap();
    let policy = api::names::policy_name("default", "nginx", "apps/v1, Kind=Deployment");
    let expected = format!(
        "ResourceTemplate (default/nginx) is created successfully\n\
         PropagationPolicy (default/{policy}) is created successfully\n\
         Resource \"apps/v1, Resource=deployments\"(default/nginx) is promoted successfully\n"
    );
    assert_eq!(out, expected);
    let template = stored(&plane, ResourceRef::namespaced(&deployments(), "default", "nginx")).await.unwrap();
    assert_eq!(template["metadata"]["annotations"], json!({"work.karmada.io/conflict-resolution": "overwrite"}));
    assert_eq!((&template["spec"]["replicas"], &template["status"]), (&json!(2), &Value::Null));
    let policy =
        stored(&plane, ResourceRef::namespaced(&PROPAGATION_POLICIES.gvr(), "default", &policy)).await.unwrap();
    assert_eq!(policy["spec"]["placement"], json!({"clusterAffinity": {"clusterNames": ["m1"]}}));
    assert_eq!(policy["spec"]["preserveResourcesOnDeletion"], true);
}

#[tokio::test]
async fn existing_objects_of_the_control_plane_are_not_changed() {
    let (plane, member) = both();
    plane.seed(&deployments(), deployment());
    let (out, err, result) = run_it(&plane, &member, &promotion("deployment", "nginx")).await;
    result.unwrap();
    assert_eq!(out, "");
    assert!(err.contains("Resource \"apps/v1, Resource=deployments\"(default/nginx) already exist"), "{err}");
    assert!(!plane.calls().iter().any(|call| call.starts_with("create")), "{:?}", plane.calls());
}

#[tokio::test]
async fn a_policy_name_that_is_taken_stops_before_anything_is_made() {
    let (plane, member) = both();
    plane.seed(&PROPAGATION_POLICIES.gvr(), PROPAGATION_POLICIES.object("default", "mine"));
    let promotion = Promotion { policy_name: Some("mine".into()), ..promotion("deployment", "nginx") };
    let (_, _, result) = run_it(&plane, &member, &promotion).await;
    assert_eq!(
        result.unwrap_err(),
        "the PropagationPolicy(default/mine) already exist, please edit it to propagate resource"
    );
    assert!(stored(&plane, ResourceRef::namespaced(&deployments(), "default", "nginx")).await.is_none());
}

#[tokio::test]
async fn missing_objects_are_named() {
    let (plane, member) = both();
    let (_, _, result) = run_it(&plane, &member, &promotion("deployment", "web")).await;
    assert_eq!(
        result.unwrap_err(),
        "failed to get resource in cluster(m1). err: the deployment or web don't exist in cluster(m1)"
    );
}

#[tokio::test]
async fn print_only_creates_nothing() {
    let (plane, member) = both();
    let promotion = Promotion { output: Some(Format::Yaml), ..promotion("deployment", "nginx") };
    let (out, _, result) = run_it(&plane, &member, &promotion).await;
    result.unwrap();
    let (template, policy) = out.split_once("---\n").unwrap();
    assert!(template.starts_with("apiVersion: apps/v1\nkind: Deployment\n"), "{template}");
    assert!(policy.starts_with("apiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\n"), "{policy}");
    assert!(!plane.calls().iter().any(|call| call.starts_with("create")));
}

#[tokio::test]
async fn dependencies_are_promoted_too() {
    let (plane, member) = both();
    let promotion = Promotion { with_dependencies: true, ..promotion("deployment", "nginx") };
    let (out, err, result) = run_it(&plane, &member, &promotion).await;
    result.unwrap_or_else(|error| panic!("{error}\n{err}"));
    assert!(out.starts_with("use default interpreter\nDependency resource \"/v1, Resource=configmaps\"(default/settings) is promoted successfully\n"), "{out}");
    assert!(stored(&plane, ResourceRef::namespaced(&config_maps(), "default", "settings")).await.is_some());
}

#[tokio::test]
async fn dependencies_are_reverted_together_on_failure() {
    let (plane, member) = both();
    let mut nginx = deployment();
    let container = json!([{"name": "c", "envFrom": [{"configMapRef": {"name": "settings"}}, {"configMapRef": {"name": "unrelated"}}]}]);
    nginx.set(&["spec", "template", "spec", "containers"], container);
    member.seed(&deployments(), nginx);
    member.seed(&config_maps(), config_map("unrelated"));
    let promotion = Promotion { with_dependencies: true, ..promotion("deployment", "nginx") };
    let (out, err, result) = run_it(&plane, &member, &promotion).await;
    result.unwrap();
    assert!(out.contains("(default/settings) is reverted successfully\n"), "{out}");
    assert!(err.contains("(default/unrelated) already exist"), "{err}");
    assert!(out.ends_with("(default/nginx) is promoted successfully\n"), "{out}");
    assert!(stored(&plane, ResourceRef::namespaced(&config_maps(), "default", "settings")).await.is_none());
}

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    args: PromoteArgs,
}

fn parse(line: &str) -> PromoteArgs {
    let words = ["promote"].into_iter().chain(line.split_whitespace());
    <Line as clap::Parser>::try_parse_from(words).map(|line| line.args).unwrap()
}

#[test]
fn several_objects_are_named_or_selected() {
    for (line, kind, names) in [
        ("deploy web -C m1", "deploy", &["web"][..]),
        ("deploy web db -C m1", "deploy", &["web", "db"]),
        ("deploy/web -C m1", "deploy", &["web"]),
        ("deploy --all -C m1", "deploy", &[]),
        ("cm -l app=web -C m1", "cm", &[]),
    ] {
        let (found, all) = parse(line).objects().unwrap_or_else(|error| panic!("{line}: {error}"));
        assert_eq!((found.as_str(), all.iter().map(String::as_str).collect::<Vec<_>>().as_slice()), (kind, names));
    }
    for line in ["", "deploy", "deploy/", "deploy web --all"] {
        assert!(parse(line).objects().unwrap_err().to_string().starts_with("incorrect command format"), "{line}");
    }
}

#[tokio::test]
async fn a_selection_skips_managed_objects() {
    let (_, member) = both();
    let mut managed = config_map("managed");
    managed.set_label(api::cluster::LABEL_MANAGED, "true");
    member.seed(&config_maps(), managed);
    let names = parse("configmaps --all").list(&member.client(), &promotion("configmaps", "")).await.unwrap();
    assert!(names.contains(&"settings".to_owned()) && !names.contains(&"managed".to_owned()), "{names:?}");
}
