//! Clusters as they are prepared and refused.

use super::*;

fn cluster(spec: Value) -> Object {
    let value = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": {"name": "m1"}, "spec": spec});
    Object::from_value(value).expect("an object")
}

fn context() -> WriteContext {
    WriteContext {
        now: "2026-01-02T03:04:05Z".parse().expect("a time"),
        user: "admin".to_owned(),
        uid: String::new(),
        groups: Vec::new(),
        extra: Vec::new(),
    }
}

fn check(spec: Value, expected: &[&str]) {
    let errors: Vec<String> = rules::validate(&cluster(spec.clone())).iter().map(ToString::to_string).collect();
    assert_eq!(errors, expected, "{spec}");
}

#[test]
fn a_new_cluster_gets_nine_models_and_its_zone_becomes_zones() {
    let strategy = ClusterStrategy { models: true };
    let mut object = cluster(json!({"syncMode": "Push", "zone": "a", "taints": [{"key": "k", "effect": "NoExecute"}]}));
    strategy.prepare_create(&mut object, &context());
    let models = object.items(&["spec", "resourceModels"]);
    assert_eq!(models.len(), 9);
    assert_eq!(models[0]["ranges"][1], json!({"name": "memory", "min": "0", "max": "4Gi"}));
    assert_eq!(models[8]["ranges"][0], json!({"name": "cpu", "min": "128", "max": "9223372036854775807"}));
    assert_eq!(object.get(&["spec", "zones"]), Some(&json!(["a"])));
    assert_eq!(object.get(&["spec", "zone"]), None);
    assert_eq!(object.items(&["spec", "taints"])[0]["timeAdded"], "2026-01-02T03:04:05Z");
    assert_eq!(strategy.validate_create(&object), Vec::new());
}

#[test]
fn given_models_are_put_in_order_and_without_gaps_at_the_ends() {
    let strategy = ClusterStrategy { models: true };
    let range = |min: &str, max: &str| json!([{"name": "cpu", "min": min, "max": max}]);
    let mut object = cluster(json!({"syncMode": "Push", "resourceModels": [
        {"grade": 2, "ranges": range("2", "4")}, {"grade": 1, "ranges": range("1", "2")},
    ]}));
    strategy.prepare_create(&mut object, &context());
    let models = object.items(&["spec", "resourceModels"]);
    assert_eq!(models[0], json!({"grade": 1, "ranges": range("0", "2")}));
    assert_eq!(models[1], json!({"grade": 2, "ranges": range("2", "9223372036854775807")}));
    assert_eq!(strategy.validate_create(&object), Vec::new());
}

#[test]
fn without_the_feature_no_models_appear() {
    let mut object = cluster(json!({"syncMode": "Push"}));
    ClusterStrategy { models: false }.prepare_create(&mut object, &context());
    assert_eq!(object.get(&["spec", "resourceModels"]), None);
}

#[test]
fn clusters_are_refused_with_the_messages_of_karmada() {
    check(json!({"syncMode": "Push", "apiEndpoint": "https://10.0.0.1:6443"}), &[]);
    check(
        json!({}),
        &[
            "spec.syncMode: Required value",
            "spec.syncMode: Unsupported value: \"\": supported values: \"Pull\", \"Push\"",
        ],
    );
    check(
        json!({"syncMode": "Push", "apiEndpoint": "localhost"}),
        &[
            "spec.apiEndpoint: Invalid value: \"\": host must be provided; desired format: hostname, hostname:port, IP or IP:port",
        ],
    );
    check(
        json!({"syncMode": "Push", "apiEndpoint": "https://u@h?q#f"}),
        &[
            "spec.apiEndpoint: Invalid value: \"u\": user information is not permitted in the URL",
            "spec.apiEndpoint: Invalid value: \"f\": fragments are not permitted in the URL",
            "spec.apiEndpoint: Invalid value: \"q\": query parameters are not permitted in the URL",
        ],
    );
    check(json!({"syncMode": "Pull", "secretRef": {"name": "s"}}), &["spec.secretRef.namespace: Required value"]);
    check(
        json!({"syncMode": "Push", "proxyURL": "ftp://p"}),
        &["spec.proxyURL: Invalid value: \"ftp://p\": unsupported scheme \"ftp\", must be http, https, or socks5"],
    );
    check(
        json!({"syncMode": "Push", "taints": [{"key": "k", "effect": "PreferNoSchedule"}]}),
        &[
            "spec.taints[0].effect: Unsupported value: \"PreferNoSchedule\": supported values: \"NoSchedule\", \"NoExecute\"",
        ],
    );
}
