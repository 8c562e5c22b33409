//! Cases of the Pod Security Standards: each rule, its versions, and the labels of namespaces.

use serde_json::{Value, json};

use super::*;

fn pod(change: Value, container: Value) -> Value {
    let mut spec = json!({"containers": [{"name": "c", "image": "i"}]});
    for (key, value) in change.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    for (key, value) in container.as_object().into_iter().flatten() {
        spec["containers"][0][key] = value.clone();
    }
    spec
}

#[track_caller]
fn check(at: &str, spec: Value, expected: &str) {
    let (level, version) = at.split_once(':').expect("level:version");
    let at = LevelVersion {
        level: parse_level(level).expect("a level"),
        version: parse_version(version).expect("a version"),
    };
    assert_eq!(describe(&violations(at, &Value::Null, &spec)), expected, "{at} {spec}");
}

#[test]
fn each_baseline_rule_names_the_violating_containers() {
    let security = |context: Value| pod(json!({}), json!({"securityContext": context}));
    check("privileged:latest", security(json!({"privileged": true})), "");
    for (spec, expected) in [
        (pod(json!({}), json!({})), ""),
        (
            security(json!({"privileged": true})),
            "privileged (container \"c\" must not set securityContext.privileged=true)",
        ),
        (
            pod(json!({"hostNetwork": true, "hostIPC": true}), json!({})),
            "host namespaces (hostNetwork=true, hostIPC=true)",
        ),
        (
            pod(json!({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}), json!({})),
            "hostPath volumes (volume \"v\")",
        ),
        (
            pod(json!({}), json!({"ports": [{"hostPort": 80, "containerPort": 80}]})),
            "hostPort (container \"c\" uses hostPort 80)",
        ),
        (
            security(json!({"capabilities": {"add": ["SYS_ADMIN", "CHOWN"]}})),
            "non-default capabilities (container \"c\" must not include \"SYS_ADMIN\" in securityContext.capabilities.add)",
        ),
        (
            security(json!({"procMount": "Unmasked"})),
            "procMount (container \"c\" must not set securityContext.procMount to \"Unmasked\")",
        ),
        (
            security(json!({"seLinuxOptions": {"type": "x", "user": "u"}})),
            "seLinuxOptions (container \"c\" set forbidden securityContext.seLinuxOptions: type \"x\"; user may not be set)",
        ),
        (
            pod(json!({"securityContext": {"sysctls": [{"name": "kernel.msgmax"}]}}), json!({})),
            "forbidden sysctls (kernel.msgmax)",
        ),
        (
            pod(json!({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}), json!({})),
            "seccompProfile (pod must not set securityContext.seccompProfile.type to \"Unconfined\")",
        ),
        (
            security(json!({"appArmorProfile": {"type": "Unconfined"}})),
            "forbidden AppArmor profile (container \"c\" must not set AppArmor profile type to \"Unconfined\")",
        ),
        (
            security(json!({"windowsOptions": {"hostProcess": true}})),
            "hostProcess (container \"c\" must not set securityContext.windowsOptions.hostProcess=true)",
        ),
        (
            pod(json!({}), json!({"livenessProbe": {"httpGet": {"host": "h", "port": 1}}})),
            "probe or lifecycle host (container \"c\" uses probe or lifecycle host \"h\")",
        ),
    ] {
        check("baseline:latest", spec, expected);
    }
}

#[test]
fn restricted_adds_rules_and_replaces_included_ones() {
    check(
        "restricted:latest",
        pod(json!({"volumes": [{"name": "v", "hostPath": {"path": "/"}}, {"name": "s", "secret": {}}]}), json!({})),
        "allowPrivilegeEscalation != false (container \"c\" must set securityContext.allowPrivilegeEscalation=false), \
         unrestricted capabilities (container \"c\" must set securityContext.capabilities.drop=[\"ALL\"]), \
         restricted volume types (volume \"v\" uses restricted volume type \"hostPath\"), \
         runAsNonRoot != true (pod or container \"c\" must set securityContext.runAsNonRoot=true), \
         seccompProfile (pod or container \"c\" must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")",
    );
    let hardened = pod(
        json!({"securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}}}),
        json!({"securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}}}),
    );
    check("restricted:latest", hardened, "");
}

#[test]
fn older_versions_have_older_rules() {
    let sysctl = |name: &str| pod(json!({"securityContext": {"sysctls": [{"name": name}]}}), json!({}));
    check(
        "baseline:v1.26",
        sysctl("net.ipv4.ip_local_reserved_ports"),
        "forbidden sysctls (net.ipv4.ip_local_reserved_ports)",
    );
    check("baseline:v1.27", sysctl("net.ipv4.ip_local_reserved_ports"), "");
    check("baseline:v1.99", sysctl("net.ipv4.tcp_rmem"), "");
    let probe = pod(json!({}), json!({"livenessProbe": {"tcpSocket": {"host": "h", "port": 1}}}));
    check("baseline:v1.33", probe, "");
    let own_users = pod(json!({"hostUsers": false}), json!({"securityContext": {"procMount": "Unmasked"}}));
    check("baseline:v1.35", own_users.clone(), "");
    check(
        "baseline:v1.34",
        own_users,
        "procMount (container \"c\" must not set securityContext.procMount to \"Unmasked\")",
    );
    check("restricted:v1.7", pod(json!({"securityContext": {"runAsNonRoot": true}}), json!({})), "");
}

#[track_caller]
fn check_labels(labels: Value, expected: [&str; 3], errors: &[&str]) {
    let namespace = Object::from_value(json!({"metadata": {"labels": labels}})).expect("a map");
    let (policy, found) = PodSecurityPolicy::of_namespace(&namespace);
    assert_eq!([policy.enforce, policy.audit, policy.warn].map(|mode| mode.to_string()), expected, "{labels}");
    assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), errors, "{labels}");
}

#[test]
fn labels_of_a_namespace_set_the_levels() {
    let none = ["privileged:latest"; 3];
    check_labels(json!({}), none, &[]);
    let enforced = ["restricted:v1.30", "privileged:latest", "restricted:v1.30"];
    check_labels(
        json!({"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/enforce-version": "v1.30"}),
        enforced,
        &[],
    );
    check_labels(
        json!({"pod-security.kubernetes.io/enforce": "x", "pod-security.kubernetes.io/warn-version": "1.2"}),
        ["restricted:latest", "privileged:latest", "privileged:latest"],
        &[
            "metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"x\": must be one of privileged, baseline, restricted",
            "metadata.labels[pod-security.kubernetes.io/warn-version]: Invalid value: \"1.2\": must be \"latest\" or \"v1.x\"",
        ],
    );
    check_labels(
        json!({"pod-security.kubernetes.io/enforce": "baseline", "pod-security.kubernetes.io/warn": "privileged"}),
        ["baseline:latest", "privileged:latest", "privileged:latest"],
        &[],
    );
}

#[test]
fn only_new_images_and_containers_are_checked_again() {
    let pod = |containers: Value, more: Value| {
        Object::from_value(json!({"spec": {"containers": containers, "ephemeralContainers": more}})).expect("a map")
    };
    let before = pod(json!([{"name": "c", "image": "a"}]), json!([]));
    for (after, expected) in [
        (pod(json!([{"name": "c", "image": "a", "env": []}]), json!([])), false),
        (pod(json!([{"name": "c", "image": "b"}]), json!([])), true),
        (pod(json!([{"name": "c", "image": "a"}]), json!([{"name": "e", "image": "x"}])), true),
    ] {
        assert_eq!(is_significant_update(&after, &before), expected, "{}", after.to_value());
    }
}
