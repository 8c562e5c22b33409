//! The downward API: fields of the pod and resource amounts of its containers.

use object::Object;
use object::quantity::{Quantity, QuantityFormat};
use serde_json::Value;

use crate::pod::{container, qos_class, text};

/// Facts about a pod's node and network for the downward API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DownwardFacts {
    pub node_name: String,
    pub host_ip: String,
    pub pod_ips: Vec<String>,
    /// The default limits of containers without any.
    pub node_cpu_millis: i64,
    pub node_memory_bytes: i64,
}

/// Returns the value of a `fieldRef`.
pub(crate) fn field(pod: &Object, facts: &DownwardFacts, path: &str) -> Result<String, String> {
    if let Some((map, key)) = subscript(path) {
        let value = match map {
            "metadata.labels" => pod.label(key),
            "metadata.annotations" => pod.annotation(key),
            _ => return Err(format!("fieldPath {path:?} is not supported")),
        };
        return Ok(value.unwrap_or_default().to_owned());
    }
    Ok(match path {
        "metadata.name" => pod.name().to_owned(),
        "metadata.namespace" => pod.namespace().to_owned(),
        "metadata.uid" => pod.uid().to_owned(),
        "metadata.labels" => lines(pod.labels()),
        "metadata.annotations" => lines(pod.annotations()),
        "spec.nodeName" => facts.node_name.clone(),
        "spec.serviceAccountName" => pod.str_at(&["spec", "serviceAccountName"]).to_owned(),
        "status.hostIP" | "status.hostIPs" => facts.host_ip.clone(),
        "status.podIP" => facts.pod_ips.first().cloned().unwrap_or_default(),
        "status.podIPs" => facts.pod_ips.join(","),
        "status.qosClass" => qos_class(pod).to_owned(),
        _ => return Err(format!("fieldPath {path:?} is not supported")),
    })
}

/// Splits `metadata.labels['key']` into its two parts.
fn subscript(path: &str) -> Option<(&str, &str)> {
    let (map, rest) = path.split_once("['")?;
    Some((map, rest.strip_suffix("']")?))
}

/// Formats sorted `key="value"` lines, as in downward API files.
fn lines<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut lines: Vec<String> = pairs.map(|(key, value)| format!("{key}={value:?}")).collect();
    lines.sort();
    lines.join("\n")
}

/// Returns the value of a `resourceFieldRef` in units of its divisor, rounded up. `default` is the requesting
/// container.
pub(crate) fn resource(
    pod: &Object,
    facts: &DownwardFacts,
    reference: &Value,
    default: &str,
) -> Result<String, String> {
    let named = text(reference, "containerName");
    let name = if named.is_empty() { default } else { named };
    let (_, container) = container(pod, name).ok_or_else(|| format!("container {name:?} not found"))?;
    let resource = text(reference, "resource");
    let (kind, amount) = resource.split_once('.').ok_or_else(|| format!("unsupported resource {resource:?}"))?;
    let at = |kind: &str| container.get("resources").and_then(|r| r.get(kind)).and_then(|m| m.get(amount));
    let value = at(kind).and_then(Value::as_str).and_then(|text| Quantity::parse(text).ok());
    let is_cpu = amount == "cpu";
    let value = value.unwrap_or_else(|| match (kind, is_cpu) {
        ("limits", true) => Quantity::from_milli(facts.node_cpu_millis, QuantityFormat::DecimalSi),
        ("limits", false) if amount == "memory" => Quantity::new(facts.node_memory_bytes, QuantityFormat::BinarySi),
        _ => Quantity::new(0, QuantityFormat::DecimalSi),
    });
    let divisor = Some(text(reference, "divisor")).filter(|text| !text.is_empty() && *text != "0");
    let divisor = divisor.map_or(Ok(Quantity::new(1, QuantityFormat::DecimalSi)), Quantity::parse);
    let divisor = divisor.map_err(|e| format!("divisor: {e}"))?;
    let (value, divisor) =
        if is_cpu { (value.milli_value(), divisor.milli_value()) } else { (value.value(), divisor.value()) };
    Ok(divided_up(value, divisor.max(1)).to_string())
}

fn divided_up(value: i64, divisor: i64) -> i64 {
    value / divisor + i64::from(value % divisor > 0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::pod::pod_of;

    fn pod() -> Object {
        let mut pod = pod_of(json!({"serviceAccountName": "robot", "containers": [{"name": "a",
            "resources": {"limits": {"cpu": "1500m", "memory": "64Mi"}}}]}));
        pod.set_annotation("note", "two\nlines");
        pod
    }

    #[track_caller]
    fn check_field(path: &str, expected: Result<&str, ()>) {
        let facts = DownwardFacts { pod_ips: vec!["10.0.0.2".into(), "fd::2".into()], ..Default::default() };
        assert_eq!(field(&pod(), &facts, path).map_err(drop), expected.map(str::to_owned), "{path}");
    }

    #[test]
    fn pod_fields_are_resolved() {
        check_field("metadata.name", Ok("web"));
        check_field("metadata.labels['app']", Ok("web"));
        check_field("metadata.labels['none']", Ok(""));
        check_field("metadata.annotations", Ok("note=\"two\\nlines\""));
        check_field("spec.serviceAccountName", Ok("robot"));
        check_field("status.podIPs", Ok("10.0.0.2,fd::2"));
        check_field("spec.volumes", Err(()));
    }

    #[track_caller]
    fn check_resource(reference: Value, expected: &str) {
        let facts = DownwardFacts { node_cpu_millis: 2000, node_memory_bytes: 1 << 30, ..Default::default() };
        assert_eq!(resource(&pod(), &facts, &reference, "a").as_deref(), Ok(expected), "{reference}");
    }

    #[test]
    fn amounts_are_in_units_of_their_divisor_and_rounded_up() {
        check_resource(json!({"resource": "limits.cpu"}), "2");
        check_resource(json!({"resource": "limits.cpu", "divisor": "1m"}), "1500");
        check_resource(json!({"resource": "limits.memory", "divisor": "1Mi"}), "64");
        check_resource(json!({"resource": "limits.memory", "divisor": "0"}), "67108864");
        check_resource(json!({"resource": "requests.cpu"}), "0");
    }
}
