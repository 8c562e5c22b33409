//! The kubeconfig an agent reaches the control plane with.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use object::yaml;
use serde_json::json;

use crate::register::signing::Keyed;

const CLUSTER: &str = "karmada-apiserver";

pub fn write(server: &str, name: &str, authority: &[u8], keyed: &Keyed) -> String {
    let context = format!("{name}@{CLUSTER}");
    yaml::to_string(&json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": CLUSTER, "cluster": {
            "server": server, "certificate-authority-data": STANDARD.encode(authority)}}],
        "users": [{"name": name, "user": {
            "client-certificate-data": STANDARD.encode(&keyed.certificate),
            "client-key-data": STANDARD.encode(&keyed.key)}}],
        "contexts": [{"name": context, "context": {"cluster": CLUSTER, "user": name}}],
        "current-context": context,
    }))
}
