//! A verdict for every field of the schema: the test fails for a field without one, and for one that behaves otherwise.

use Verdict::{Applied, Ignored, Refused, Stored};
use serde_json::{Map, Value, json};
use validation::schema::Schemas;

use super::*;

/// The effect of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Verdict {
    /// Honoured, or translated to a setting of the control plane.
    Applied,
    /// Has no effect, which a warning and the condition say.
    Ignored,
    Refused,
    /// Says only how pods run.
    Stored,
}

/// Fields below which all settings belong together.
const WHOLE: &[&str] = &[
    "affinity",
    "emptyDir",
    "extraVolumeMounts",
    "extraVolumes",
    "hostPath",
    "resources",
    "sidecarContainers",
    "tolerations",
    "topologySpreadConstraints",
    "volumeClaim",
];

/// Path, verdict, and a value with that effect. COMPONENT is any component; rows with its name go before.
const VERDICTS: &[(&str, Verdict, &str)] = &[
    ("hostCluster.apiEndpoint", Stored, r#""https://10.0.0.1:6443""#),
    ("hostCluster.secretRef.namespace", Refused, r#""a""#),
    ("hostCluster.secretRef.name", Refused, r#""a""#),
    ("hostCluster.networking.dnsDomain", Applied, r#""corp.local""#),
    ("privateRegistry.registry", Ignored, r#""registry.example""#),
    ("featureGates", Applied, r#"{"Failover": true}"#),
    ("featureGates", Ignored, r#"{"NoSuch": true}"#),
    ("crdTarball.httpSource.url", Ignored, r#""https://h/crds.tar.gz""#),
    ("crdTarball.httpSource.url", Refused, r#""file:///etc/passwd""#),
    ("crdTarball.httpSource.proxy.proxyURL", Ignored, r#""https://proxy""#),
    ("crdTarball.httpSource.proxy.proxyURL", Refused, r#""socks5://proxy""#),
    ("crdTarball.crdDownloadPolicy", Ignored, r#""Always""#),
    ("customCertificate.apiServerCACert.namespace", Refused, r#""elsewhere""#),
    ("customCertificate.apiServerCACert.name", Applied, r#""ca""#),
    ("customCertificate.leafCertValidityDays", Applied, "30"),
    ("suspend", Applied, "true"),
    ("components.COMPONENT.imageRepository", Stored, r#""r/i""#),
    ("components.COMPONENT.imageTag", Stored, r#""1.0.0""#),
    ("components.COMPONENT.imageTag", Ignored, r#""mine""#),
    ("components.COMPONENT.imagePullPolicy", Stored, r#""Always""#),
    ("components.COMPONENT.replicas", Stored, "1"),
    ("components.COMPONENT.replicas", Ignored, "2"),
    ("components.COMPONENT.replicas", Refused, "-1"),
    ("components.karmadaAPIServer.replicas", Applied, "0"),
    ("components.COMPONENT.labels", Stored, r#"{"a": "b"}"#),
    ("components.COMPONENT.annotations", Stored, r#"{"a": "b"}"#),
    ("components.COMPONENT.resources", Stored, r#"{"requests": {"cpu": "1"}}"#),
    ("components.karmadaAPIServer.resources", Applied, r#"{"limits": {"memory": "1Gi"}}"#),
    ("components.karmadaControllerManager.resources", Applied, r#"{"limits": {"memory": "1Gi"}}"#),
    ("components.COMPONENT.priorityClassName", Stored, r#""system-node-critical""#),
    ("components.COMPONENT.tolerations", Stored, "[]"),
    ("components.COMPONENT.affinity", Stored, "{}"),
    ("components.COMPONENT.nodeSelector", Stored, r#"{"a": "b"}"#),
    ("components.COMPONENT.topologySpreadConstraints", Stored, "[]"),
    ("components.COMPONENT.podDisruptionBudgetConfig.minAvailable", Stored, "1"),
    ("components.COMPONENT.podDisruptionBudgetConfig.maxUnavailable", Stored, "1"),
    ("components.etcd.local.volumeData.volumeClaim", Ignored, "{}"),
    ("components.etcd.local.volumeData.volumeClaim", Ignored, r#"{"spec": {"storageClassName": "fast"}}"#),
    (
        "components.etcd.local.volumeData.volumeClaim",
        Applied,
        r#"{"spec": {"resources": {"requests": {"storage": "2Gi"}}}}"#,
    ),
    (
        "components.etcd.local.volumeData.volumeClaim",
        Refused,
        r#"{"spec": {"resources": {"requests": {"storage": "2Mi"}}}}"#,
    ),
    ("components.etcd.local.volumeData.hostPath", Ignored, r#"{"path": "/data"}"#),
    ("components.etcd.local.volumeData.emptyDir", Ignored, "{}"),
    ("components.etcd.local.serverCertSANs", Stored, r#"["a"]"#),
    ("components.etcd.local.peerCertSANs", Stored, r#"["a"]"#),
    ("components.etcd.external.endpoints", Applied, r#"["http://e:2379"]"#),
    ("components.etcd.external.caData", Refused, r#""a""#),
    ("components.etcd.external.certData", Refused, r#""a""#),
    ("components.etcd.external.keyData", Refused, r#""a""#),
    ("components.etcd.external.secretRef.namespace", Refused, r#""elsewhere""#),
    ("components.etcd.external.secretRef.name", Applied, r#""e""#),
    ("components.karmadaAPIServer.serviceSubnet", Applied, r#""10.96.0.0/12""#),
    ("components.karmadaAPIServer.serviceType", Applied, r#""NodePort""#),
    ("components.karmadaAPIServer.loadBalancerClass", Ignored, r#""a.example/b""#),
    ("components.karmadaAPIServer.loadBalancerClass", Refused, r#""a b""#),
    ("components.karmadaAPIServer.serviceAnnotations", Ignored, r#"{"a": "b"}"#),
    ("components.karmadaAPIServer.extraArgs", Applied, r#"{"event-ttl": "2h"}"#),
    ("components.karmadaAPIServer.extraArgs", Ignored, r#"{"goaway-chance": "0.1"}"#),
    ("components.karmadaAPIServer.extraArgs", Refused, r#"{"client-ca-file": "/a"}"#),
    ("components.karmadaAPIServer.extraVolumes", Ignored, "[]"),
    ("components.karmadaAPIServer.extraVolumeMounts", Ignored, "[]"),
    ("components.karmadaAPIServer.sidecarContainers", Ignored, "[]"),
    ("components.karmadaAPIServer.certSANs", Applied, r#"["a.example"]"#),
    ("components.karmadaAPIServer.featureGates", Applied, r#"{"Failover": true}"#),
    ("components.karmadaAPIServer.featureGates", Ignored, r#"{"SizeMemoryBackedVolumes": true}"#),
    ("components.karmadaAggregatedAPIServer.certSANs", Applied, r#"["a.example"]"#),
    ("components.karmadaAggregatedAPIServer.featureGates", Ignored, r#"{"Failover": true}"#),
    ("components.kubeControllerManager.controllers", Ignored, r#"["namespace"]"#),
    ("components.kubeControllerManager.featureGates", Ignored, r#"{"A": true}"#),
    ("components.karmadaControllerManager.controllers", Applied, r#"["*", "-hpaScaleTargetMarker"]"#),
    ("components.karmadaControllerManager.extraArgs", Applied, r#"{"cluster-monitor-period": "7s"}"#),
    ("components.karmadaControllerManager.featureGates", Applied, r#"{"Failover": true}"#),
    ("components.karmadaScheduler.extraArgs", Applied, r#"{"scheduler-name": "other"}"#),
    ("components.karmadaScheduler.featureGates", Applied, r#"{"Failover": true}"#),
    ("components.karmadaWebhook.extraArgs", Applied, r#"{"allow-no-execute-taint-policy": "true"}"#),
    ("components.karmadaDescheduler.extraArgs", Applied, r#"{"descheduling-interval": "1m"}"#),
    ("components.COMPONENT.extraArgs", Ignored, r#"{"no-such-flag": "1"}"#),
];

/// Collects the paths of the fields below an object.
fn collect(schema: &Value, path: &str, paths: &mut Vec<String>) {
    let name = path.rsplit('.').next().unwrap_or_default();
    match schema["properties"].as_object() {
        Some(fields) if !fields.is_empty() && !WHOLE.contains(&name) => {
            for (field, schema) in fields {
                collect(schema, &format!("{path}.{field}"), paths);
            }
        }
        _ => paths.push(path.trim_start_matches('.').to_owned()),
    }
}

/// The path with COMPONENT in place of a component.
fn general(path: &str) -> String {
    let parts: Vec<&str> = path.split('.').collect();
    match &parts[..] {
        ["components", "etcd", "local", rest @ ..] | ["components", _, rest @ ..] => {
            format!("components.COMPONENT.{}", rest.join("."))
        }
        _ => path.to_owned(),
    }
}

fn rows(path: &str) -> Vec<(Verdict, Value)> {
    let parse = |value: &str| serde_json::from_str(value).expect("a value");
    let of = |wanted: &str| -> Vec<(Verdict, Value)> {
        let rows = VERDICTS.iter().filter(|(row, ..)| *row == wanted);
        rows.map(|(_, verdict, value)| (*verdict, parse(value))).collect()
    };
    let own = of(path);
    if own.is_empty() { of(&general(path)) } else { own }
}

/// A spec with a value at a path; without a value, the object around it.
fn spec_with(path: &str, value: Option<Value>) -> Object {
    let mut parts: Vec<&str> = path.split('.').collect();
    let last = parts.pop().expect("a path has a field");
    let mut inner = Map::new();
    if let Some(value) = value {
        inner.insert(last.to_owned(), value);
    }
    // An external etcd needs its servers.
    if path.starts_with("components.etcd.external.secretRef") {
        let outer = json!({"endpoints": ["http://e:2379"], "secretRef": inner});
        return instance(json!({"components": {"etcd": {"external": outer}}}));
    }
    let nested = parts.iter().rev().fold(Value::Object(inner), |inner, part| json!({*part: inner}));
    instance(nested)
}

fn instance(spec: Value) -> Object {
    let mut object = crate::KARMADAS.object("karmada-system", "demo");
    object.set(&["spec"], spec);
    object
}

#[track_caller]
fn check(path: &str, verdict: Verdict, value: &Value) {
    let about = format!("{path} = {value} must be {verdict:?}");
    let with = read(&spec_with(path, Some(value.clone())), Mode::InProcess);
    let without = read(&spec_with(path, None), Mode::InProcess);
    let full = format!("spec.{path}");
    let is_about = |text: &str| {
        let named = text.split([':', '[']).next().unwrap_or_default();
        named.starts_with("spec.") && (full.starts_with(named) || named.starts_with(&format!("{full}.")))
    };
    let is_warned = with.ignored.iter().any(|text| is_about(text));
    let is_refused = with.errors.iter().any(|error| is_about(error.path.as_str()));
    let is_applied = with.plane != without.plane;
    match verdict {
        Applied => assert!(is_applied && !is_refused, "{about}: {with:?}"),
        Ignored => assert!(is_warned && !is_applied && !is_refused, "{about}: {with:?}"),
        Refused => assert!(is_refused, "{about}: {with:?}"),
        Stored => assert!(with.ignored == without.ignored && !is_applied && !is_refused, "{about}: {with:?}"),
    }
    let imported = read(&spec_with(path, Some(value.clone())), Mode::Imported);
    let is_inert = imported.plane == PlaneSpec { is_suspended: imported.plane.is_suspended, ..PlaneSpec::default() };
    assert!(is_inert, "{path} of an imported instance: {imported:?}");
    let is_known = !imported.ignored.is_empty() || !imported.errors.is_empty();
    assert!(is_known || verdict == Stored || path == "suspend", "{path} of an imported instance has no verdict");
}

#[test]
fn every_field_has_the_verdict_of_the_table() {
    let tables = [include_str!("../../schemas/operator.schema")];
    let schema = Schemas::with_shared(&tables).openapi("Karmada");
    let mut paths = Vec::new();
    collect(&schema["properties"]["spec"], "", &mut paths);
    assert!(paths.len() > 150, "the schema has its fields: {}", paths.len());
    for path in &paths {
        let rows = rows(path);
        assert!(!rows.is_empty(), "spec.{path} has no verdict");
        for (verdict, value) in rows {
            check(path, verdict, &value);
        }
    }
    for (path, ..) in VERDICTS {
        let is_known = paths.iter().any(|known| known == path || general(known) == *path);
        assert!(is_known, "{path} is not a field of the schema");
    }
}
