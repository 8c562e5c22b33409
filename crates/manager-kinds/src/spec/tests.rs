//! Cases of instance specs with their verdicts.

use serde_json::{Value, json};

use super::*;

fn instance(spec: Value) -> Object {
    let mut object = crate::KARMADAS.object("karmada-system", "demo");
    object.set(&["spec"], spec);
    object
}

/// Expects the flags (joined), the ignored fields (each by a part of its text) and the refused ones.
#[track_caller]
fn check(spec: Value, flags: &str, ignored: &[&str], refused: &[&str]) {
    let reading = read(&instance(spec.clone()), Mode::InProcess);
    assert_eq!(reading.plane.flags.join(" "), flags, "{spec}");
    let errors: Vec<String> = reading.errors.iter().map(ToString::to_string).collect();
    for (found, expected) in [(&reading.ignored, ignored), (&errors, refused)] {
        assert_eq!(found.len(), expected.len(), "{found:?} / {expected:?}");
        for part in expected {
            assert!(found.iter().any(|text| text.contains(part)), "{found:?} lacks {part:?}");
        }
    }
}

fn component(name: &str, settings: Value) -> Value {
    json!({"components": {name: settings}})
}

fn args(name: &str, flag: &str, value: &str) -> Value {
    component(name, json!({"extraArgs": {flag: value}}))
}

#[test]
fn an_empty_spec_asks_for_nothing() {
    check(json!({}), "", &[], &[]);
    check(json!({"components": {}}), "", &[], &[]);
    check(json!({"components": {"etcd": {}}}), "", &[], &[]);
}

#[test]
fn each_field_has_a_verdict() {
    check(json!({"featureGates": {"Failover": true}}), "--feature-gates=Failover=true", &[], &[]);
    check(json!({"featureGates": {"NoSuch": true}}), "", &["spec.featureGates[NoSuch]"], &[]);
    let both = json!({"featureGates": {"Failover": true},
        "components": {"karmadaControllerManager": {"featureGates": {"Failover": false}}}});
    check(both, "--feature-gates=Failover=false", &[], &[]);
    let domain = json!({"hostCluster": {"networking": {"dnsDomain": "corp.local"}}});
    check(domain, "--tls-san=demo-karmada-apiserver.karmada-system.svc.corp.local", &[], &[]);
    check(json!({"hostCluster": {"secretRef": {"name": "x"}}}), "", &[], &["import it"]);
    check(json!({"privateRegistry": {"registry": "r"}}), "", &["uses no images"], &[]);
    let tarball = |url: &str| json!({"crdTarball": {"httpSource": {"url": url}}});
    check(tarball("https://h/crds.tar.gz"), "", &["nothing is downloaded"], &[]);
    check(tarball("file:///etc/passwd"), "", &["nothing is downloaded"], &["http:// or https://"]);
    let ca =
        |namespace: &str| json!({"customCertificate": {"apiServerCACert": {"namespace": namespace, "name": "ca"}}});
    check(ca("karmada-system"), "", &[], &[]);
    check(ca("kube-system"), "", &[], &["namespace of the instance"]);
    let days = |days: i64| json!({"customCertificate": {"leafCertValidityDays": days}});
    check(days(30), "--leaf-cert-validity-days=30", &[], &[]);
    check(days(3651), "", &[], &["must be 1 to 3650"]);
}

#[test]
fn components_are_translated_ignored_or_refused() {
    let local = |data: Value| json!({"components": {"etcd": {"local": {"volumeData": data}}}});
    check(local(json!({"emptyDir": {}})), "", &["always durable"], &[]);
    check(local(json!({"hostPath": {"path": "/data"}})), "", &["data directory"], &[]);
    let claim = |spec: Value| local(json!({"volumeClaim": {"spec": spec}}));
    let storage = |size: Value| claim(json!({"resources": {"requests": {"storage": size}}}));
    check(storage(json!("1Gi")), "--quota-backend-bytes=1073741824", &[], &[]);
    check(storage(json!(20_000_000)), "--quota-backend-bytes=20000000", &[], &[]);
    check(storage(json!("15Mi")), "", &[], &["requests.storage: Invalid value: \"15Mi\": must be at least 16Mi"]);
    check(storage(json!("-1Gi")), "", &[], &["at least 16Mi"]);
    check(storage(json!("much")), "", &[], &["requests.storage"]);
    check(claim(json!({"accessModes": ["ReadWriteOnce"]})), "", &["without a request of storage"], &[]);
    let classed = json!({"storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}});
    check(claim(classed), "--quota-backend-bytes=1073741824", &["storageClassName"], &[]);
    let etcd = |external: Value| json!({"components": {"etcd": {"external": external}}});
    check(etcd(json!({"endpoints": []})), "", &[], &["at least one"]);
    check(etcd(json!({"endpoints": ["https://e:2379"]})), "", &[], &["ca.crt"]);
    check(etcd(json!({"endpoints": ["http://e:2379"]})), "", &[], &[]);
    check(json!({"components": {"etcd": {"local": {}, "external": {"endpoints": []}}}}), "", &[], &["exclude"]);
    check(component("karmadaAPIServer", json!({"certSANs": ["a.example"]})), "--tls-san=a.example", &[], &[]);
    check(component("karmadaAPIServer", json!({"replicas": 3})), "", &["runs once"], &[]);
    check(component("karmadaAPIServer", json!({"sidecarContainers": []})), "", &["no pod"], &[]);
    let subnet = |text: &str| component("karmadaAPIServer", json!({"serviceSubnet": text}));
    check(subnet("10.96.0.0/12"), "--service-cluster-ip-range=10.96.0.0/12", &[], &[]);
    check(
        component("karmadaControllerManager", json!({"controllers": ["*", "-hpa"]})),
        "--controllers=*,-hpa",
        &[],
        &[],
    );
    check(component("karmadaDescheduler", json!({})), "--descheduler=true", &[], &[]);
    check(component("karmadaMetricsAdapter", json!({})), "", &["part of the control plane"], &[]);
    check(component("karmadaScheduler", json!({"imageTag": "v1.19.0"})), "", &["Karmada 1.18"], &[]);
    check(component("karmadaScheduler", json!({"imageTag": "v1.18.2"})), "", &[], &[]);
    check(component("karmadaAPIServer", json!({"imageTag": "v1.36.2"})), "", &[], &[]);
    check(component("karmadaAPIServer", json!({"imageTag": "v1.37.0"})), "", &["Kubernetes 1.36"], &[]);
    check(component("karmadaScheduler", json!({"imageTag": "mine"})), "", &["names no release"], &[]);
    check(component("karmadaScheduler", json!({"imageTag": "latest"})), "", &[], &[]);
    check(json!({"components": {"etcd": {"local": {"imageTag": "3.6.6-0"}}}}), "", &[], &[]);
    let memory = |limit: &str| component("karmadaAPIServer", json!({"resources": {"limits": {"memory": limit}}}));
    check(memory("1Gi"), "--max-inflight-memory=256", &[], &[]);
    check(memory("1Mi"), "--max-inflight-memory=64", &[], &[]);
    check(memory("1Ti"), "--max-inflight-memory=512", &[], &[]);
    check(component("karmadaAPIServer", json!({"loadBalancerClass": "a/b/c"})), "", &["no Service"], &["a/b/c"]);
    let elsewhere = json!({"endpoints": ["https://e:2379"], "secretRef": {"namespace": "kube-system", "name": "e"}});
    check(etcd(elsewhere), "", &[], &["namespace of the instance"]);
    check(component("karmadaWebhook", json!({"podDisruptionBudgetConfig": {}})), "", &[], &["exactly one"]);
    check(component("karmadaWebhook", json!({"podDisruptionBudgetConfig": {"minAvailable": 1}})), "", &[], &[]);
    let stopped = read(&instance(component("karmadaAPIServer", json!({"replicas": 0}))), Mode::InProcess);
    assert!(stopped.plane.is_stopped);
    let port = read(&instance(component("karmadaAPIServer", json!({"serviceType": "NodePort"}))), Mode::InProcess);
    assert!(port.plane.has_own_port);
}

#[test]
fn extra_args_are_translated_by_component() {
    let manager = "karmadaControllerManager";
    check(args(manager, "cluster-monitor-period", "7s"), "--cluster-monitor-period=7s", &[], &[]);
    let timeout = "--default-not-ready-toleration-seconds=30 --default-unreachable-toleration-seconds=30";
    check(args(manager, "failover-eviction-timeout", "30s"), timeout, &[], &[]);
    check(args(manager, "kube-api-qps", "40"), "", &["no such flag"], &[]);
    check(args("karmadaAPIServer", "event-ttl", "2h"), "--event-ttl=7200", &[], &[]);
    check(args("karmadaAPIServer", "event-ttl", "long"), "", &[], &["invalid duration"]);
    check(args("karmadaAPIServer", "audit-log-path", "/var/log/a"), "", &[], &["names a file"]);
    check(args("karmadaAPIServer", "encryption-provider-config", "/x"), "", &[], &["stored in clear"]);
    check(args("karmadaAPIServer", "etcd-prefix", "/a"), "", &["not an etcd"], &[]);
    check(args("karmadaScheduler", "plugins", "*,-ClusterLocality"), "--plugins=*,-ClusterLocality", &[], &[]);
    check(args("karmadaScheduler", "enable-scheduler-estimator", "true"), "", &[], &[]);
    check(args("karmadaSearch", "anything", "1"), "", &["no such flag", "search is part"], &[]);
    let gates = |component: &str, list: &str| args(component, "feature-gates", list);
    check(gates(manager, "Failover=true, NoSuch=true"), "--feature-gates=Failover=true", &["NoSuch"], &[]);
    check(gates("karmadaAPIServer", "AllAlpha=true"), "", &["AllAlpha"], &[]);
    check(gates(manager, "Failover"), "", &[], &["NAME=true or NAME=false"]);
    check(args("karmadaAPIServer", "tls-sni-cert-key", "/a,/b"), "", &[], &["names a file"]);
    check(args("karmadaAPIServer", "audit-log-maxage", "3"), "", &["no audit log"], &[]);
}

#[test]
fn settings_of_an_imported_instance_have_no_effect() {
    let spec = component("karmadaControllerManager", json!({"controllers": ["*"]}));
    let reading = read(&instance(spec), Mode::Imported);
    assert_eq!(reading.plane, PlaneSpec::default());
    assert!(reading.ignored[0].contains("configured where it runs"), "{:?}", reading.ignored);
    let days = json!({"customCertificate": {"leafCertValidityDays": 30}});
    let reading = read(&instance(days), Mode::Imported);
    assert!(reading.plane.flags.is_empty() && reading.ignored[0].contains("its own certificates"), "{reading:?}");
}

#[test]
fn annotations_without_effect_on_an_imported_instance_are_told() {
    for key in annotations::WITHOUT_EFFECT_ON_IMPORTS {
        let mut imported = instance(json!({}));
        imported.set_annotation(key, "1h");
        let ignored = read(&imported, Mode::Imported).ignored;
        assert!(ignored.iter().any(|text| text.contains(key)), "{key}: {ignored:?}");
        assert!(read(&imported, Mode::InProcess).ignored.is_empty(), "{key}");
    }
}

#[test]
fn a_change_of_what_is_taken_from_others_is_noticed() {
    let etcd = |endpoint: &str, secret: &str| json!({"components": {"etcd": {"external": {"endpoints": [endpoint], "secretRef": {"name": secret}}}}});
    let prefixed = |prefix: &str| {
        let mut spec = etcd("https://e:2379", "e");
        spec["components"]["karmadaAPIServer"] = json!({"extraArgs": {"etcd-prefix": prefix}});
        spec
    };
    let ca = |name: &str| json!({"customCertificate": {"apiServerCACert": {"name": name}}});
    let check = |old: &Value, new: &Value, expected: bool| {
        let found = refers_elsewhere(&instance(old.clone()), &instance(new.clone()));
        assert_eq!(found, expected, "{old} {new}");
    };
    let own = etcd("https://e:2379", "e");
    for other in [etcd("https://f:2379", "e"), etcd("https://e:2379", "f"), prefixed("/flotilla/other")] {
        check(&own, &other, true);
    }
    check(&prefixed("/flotilla/own"), &prefixed("/flotilla/other"), true);
    check(&json!({}), &ca("other"), true);
    check(&ca("own"), &ca("other"), true);
    check(&own, &own, false);
    check(
        &own,
        &{
            let mut paused = own.clone();
            paused["suspend"] = true.into();
            paused
        },
        false,
    );
    let mut imported = instance(json!({}));
    imported.set_annotation(annotations::MODE, "imported");
    imported.set_annotation(annotations::IMPORT_KUBECONFIG, "own-import");
    let mut other = imported.clone();
    other.set_annotation(annotations::IMPORT_KUBECONFIG, "other-import");
    assert!(refers_elsewhere(&imported, &other) && !refers_elsewhere(&imported, &imported));
}
