//! The file of `init --config`: kind KarmadaInitConfig of config.karmada.io/v1alpha1.

use std::path::Path;

use anyhow::{Context, bail};
use serde_json::Value;

use crate::init::refused::reason_of_field;
use crate::init::{InitArgs, text_of};

/// Fields whose value is a map of the user's own keys.
const MAPS: [&str; 2] = ["spec.etcd.local.nodeSelectorLabels", "spec.components.karmadaAPIServer.nodeSelector"];

/// Reads the file into the arguments. Empty values change nothing.
pub fn read(args: &mut InitArgs, path: &Path) -> anyhow::Result<()> {
    apply(args, &text_of(path)?).with_context(|| format!("--config {}", path.display()))
}

fn apply(args: &mut InitArgs, text: &str) -> anyhow::Result<()> {
    let file: Value = serde_saphyr::from_str(text)?;
    let (version, kind) = (file["apiVersion"].as_str(), file["kind"].as_str());
    if (version, kind) != (Some("config.karmada.io/v1alpha1"), Some("KarmadaInitConfig")) {
        bail!("apiVersion must be config.karmada.io/v1alpha1, and kind KarmadaInitConfig");
    }
    let mut fields = Vec::new();
    flatten("spec", &file["spec"], &mut fields);
    // The tag belongs to the repository.
    fields.sort();
    for (path, value) in fields {
        set(args, &path, &value)?;
    }
    Ok(())
}

/// Collects all values that are not empty, with their paths.
fn flatten(path: &str, value: &Value, fields: &mut Vec<(String, FieldValue)>) {
    match value {
        Value::Object(map) if !MAPS.contains(&path) => {
            map.iter().for_each(|(key, value)| flatten(&format!("{path}.{key}"), value, fields));
        }
        Value::Null => {}
        value => {
            let value = FieldValue::of(value);
            if !value.0.is_empty() {
                fields.push((path.to_owned(), value));
            }
        }
    }
}

/// The value of a field, as the list of texts a flag has.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct FieldValue(Vec<String>);

impl FieldValue {
    fn of(value: &Value) -> Self {
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        // A flag of a component: {name: event-ttl, value: "60"}.
        let item = |value: &Value| match (value["name"].as_str(), &value["value"]) {
            (Some(name), given) => format!("--{}={}", name.trim_start_matches("--"), text(given).trim_matches('"')),
            (None, _) => text(value),
        };
        let list = match value {
            Value::Array(items) => items.iter().map(item).collect(),
            Value::Object(map) => map.iter().map(|(key, value)| format!("{key}={}", text(value))).collect(),
            Value::Number(number) if number.as_i64() == Some(0) => Vec::new(),
            other => vec![text(other)],
        };
        Self(list.into_iter().filter(|text: &String| !text.is_empty()).collect())
    }

    fn one(&self) -> String {
        self.0.first().cloned().unwrap_or_default()
    }

    fn number<N: std::str::FromStr>(&self, path: &str) -> anyhow::Result<N> {
        self.one().parse().ok().with_context(|| format!("{path}: {:?} is not a valid number", self.one()))
    }
}

fn set(args: &mut InitArgs, path: &str, value: &FieldValue) -> anyhow::Result<()> {
    let field = path.strip_prefix("spec.").unwrap_or(path);
    match field {
        "certificates.caCertFile" => args.ca_cert_file = Some(value.one().into()),
        "certificates.caKeyFile" => args.ca_key_file = Some(value.one().into()),
        "certificates.externalDNS" => args.cert_external_dns.clone_from(&value.0),
        "certificates.externalIP" => args.cert_external_ip.clone_from(&value.0),
        "etcd.local.dataPath" => args.etcd_data = value.one(),
        "etcd.local.nodeSelectorLabels" => args.etcd_node_selector_labels.clone_from(&value.0),
        "etcd.local.pvcSize" => args.etcd_pvc_size = value.one(),
        "etcd.local.storageMode" => args.etcd_storage_mode = one_of(path, value, &["hostPath", "PVC", "emptyDir"])?,
        "etcd.local.storageClassesName" => args.storage_classes_name = Some(value.one()),
        "etcd.external.endpoints" => args.external_etcd_servers.clone_from(&value.0),
        "etcd.external.caFile" => args.external_etcd_ca_cert_path = Some(value.one().into()),
        "etcd.external.certFile" => args.external_etcd_client_cert_path = Some(value.one().into()),
        "etcd.external.keyFile" => args.external_etcd_client_key_path = Some(value.one().into()),
        "etcd.external.keyPrefix" => args.external_etcd_key_prefix = value.one(),
        "hostCluster.kubeconfig" => args.kubeconfig = Some(value.one().into()),
        "hostCluster.context" => args.context = Some(value.one()),
        "hostCluster.domain" => args.host_cluster_domain = value.one(),
        "images.imagePullPolicy" => args.image_pull_policy = one_of(path, value, &["Always", "Never", "IfNotPresent"])?,
        "images.imagePullSecrets" => args.image_pull_secrets.clone_from(&value.0),
        "images.privateRegistry.registry" => args.private_image_registry = Some(value.one()),
        "components.karmadaAPIServer.repository" => args.karmada_apiserver_image = value.one(),
        "components.karmadaAPIServer.tag" => {
            args.karmada_apiserver_image = format!("{}:{}", without_tag(&args.karmada_apiserver_image), value.one());
        }
        "components.karmadaAPIServer.replicas" => args.karmada_apiserver_replicas = value.number(path)?,
        "components.karmadaAPIServer.nodeSelector" => args.etcd_node_selector_labels.clone_from(&value.0),
        "components.karmadaAPIServer.extraArgs" => args.karmada_apiserver_extra_args.clone_from(&value.0),
        "components.karmadaAPIServer.advertiseAddress" => {
            args.karmada_apiserver_advertise_address = Some(value.one());
        }
        "components.karmadaAPIServer.networking.namespace" => args.namespace = value.one(),
        "components.karmadaAPIServer.networking.port" => args.port = value.number(path)?,
        "karmadaDataPath" => args.karmada_data = value.one().into(),
        "waitComponentReadyTimeout" => args.wait_component_ready_timeout = value.number(path)?,
        _ => match reason_of_field(path) {
            Some(reason) => bail!("{path} cannot be used: {reason}"),
            None => bail!("{path}: unknown field"),
        },
    }
    Ok(())
}

fn one_of(path: &str, value: &FieldValue, allowed: &[&str]) -> anyhow::Result<String> {
    let text = value.one();
    if !allowed.contains(&text.as_str()) {
        bail!("{path}: {text:?} must be one of {}", allowed.join(", "));
    }
    Ok(text)
}

/// Returns the image without its tag; a colon before the last slash belongs to a port.
fn without_tag(image: &str) -> &str {
    match image.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => name,
        _ => image,
    }
}

#[cfg(test)]
pub mod testing {
    pub fn apply(args: &mut super::InitArgs, text: &str) -> anyhow::Result<()> {
        super::apply(args, text)
    }
}
