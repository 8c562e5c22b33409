//! The kubeconfig of an agent for the control plane.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use object::yaml;
use serde_json::json;

use crate::register::signing::IssuedCertificate;

const CLUSTER: &str = "karmada-apiserver";

pub fn write(server: &str, name: &str, authority: &[u8], issued: &IssuedCertificate) -> String {
    let context = format!("{name}@{CLUSTER}");
    yaml::to_string(&json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": CLUSTER, "cluster": {
            "server": server, "certificate-authority-data": STANDARD.encode(authority)}}],
        "users": [{"name": name, "user": {
            "client-certificate-data": STANDARD.encode(&issued.certificate),
            "client-key-data": STANDARD.encode(&issued.key)}}],
        "contexts": [{"name": context, "context": {"cluster": CLUSTER, "user": name}}],
        "current-context": context,
    }))
}
