//! The propagated objects: plain Deployments, and a policy that propagates them everywhere.

use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::fleet::plane::BenchPlane;
use crate::fleet::real_member::Member;
use crate::fleet::{create, eventually, get, make_namespace};

const NAMESPACE_WAIT: Duration = Duration::from_secs(60);

pub fn deployments(namespace: &str) -> String {
    format!("/apis/apps/v1/namespaces/{namespace}/deployments")
}

pub fn policies(namespace: &str) -> String {
    format!("/apis/policy.karmada.io/v1alpha1/namespaces/{namespace}/propagationpolicies")
}

/// Creates a namespace that is synced everywhere, and a policy that propagates its Deployments everywhere.
pub async fn prepare(plane: &BenchPlane, members: &[Member], namespace: &str) -> anyhow::Result<()> {
    make_namespace(plane.target(), namespace).await.context("a namespace")?;
    let policy = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "everywhere", "namespace": namespace},
        "spec": {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}],
            "placement": {"clusterAffinity": {"clusterNames": members.iter().map(|m| &m.name).collect::<Vec<_>>()}},
        },
    });
    create(plane.target(), &policies(namespace), &policy).await.context("a policy")?;
    for member in members {
        let path = format!("/api/v1/namespaces/{namespace}");
        let is_there = eventually(NAMESPACE_WAIT, async || get(member.target(), &path).await.is_ok()).await;
        ensure!(is_there, "the namespace did not reach {}", member.name);
    }
    Ok(())
}

pub fn deployment(name: &str, replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{
                    "name": "nginx", "image": "nginx:1.27", "ports": [{"containerPort": 80}],
                    "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}},
                }]},
            },
        },
    })
}
