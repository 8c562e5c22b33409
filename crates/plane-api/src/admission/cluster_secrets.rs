//! Limits references to the secrets of Clusters to callers with permission to read them.
//!
//! The control plane sends the token in a Cluster's secret to the address the Cluster names. A caller that could write the
//! address or the reference of the secret, but not read the secret, would have it sent to themselves.

use api::cluster::CLUSTERS;
use api::names::CLUSTER_NAMESPACE;
use apiserver::admission::{Admission, AdmissionScope, Attributes};
use apiserver::context::Context;
use apiserver::request::RequestInfo;
use async_trait::async_trait;
use object::builtin;
use object::request::Verb;
use object::{Object, Status};

use super::agents;

/// The fields that name secrets, with the ending of the name that registration gives them.
const REFERENCES: [(&str, &str); 2] = [("secretRef", ""), ("impersonatorSecretRef", "-impersonator")];
/// The fields that define where a secret is sent, and which server is trusted there.
const DESTINATION: [&str; 4] = ["apiEndpoint", "insecureSkipTLSVerification", "proxyURL", "proxyHeader"];

pub struct ClusterSecretAccess;

#[async_trait]
impl Admission for ClusterSecretAccess {
    fn name(&self) -> &'static str {
        "ClusterSecretAccess"
    }

    async fn validate(
        &self,
        scope: AdmissionScope<'_>,
        ctx: &Context,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Status> {
        let resource = attributes.resource.kind.group_resource();
        let is_cluster = resource == CLUSTERS.gvr().group_resource();
        let Some(cluster) = attributes.written(object).filter(|_| is_cluster) else { return Ok(()) };
        let own = agents::cluster_of(&ctx.user.name, &ctx.user.groups);
        // An agent registers before its secrets exist: where it may create them, they are its own.
        let verbs: &[Verb] = if own.is_some() { &[Verb::Get, Verb::Create] } else { &[Verb::Get] };
        for sent in sent_secrets(cluster, attributes.old, own) {
            let mut may = false;
            for verb in verbs {
                let asked = RequestInfo {
                    namespace: sent.namespace.clone(),
                    name: sent.name.clone(),
                    ..RequestInfo::on(builtin::secrets(), *verb)
                };
                may |= scope.auth.authorize(scope.resources, &ctx.user, &asked).await.is_ok();
            }
            if !may {
                let why = format!(
                    "spec.{} names secret {}/{}, which user {:?} cannot read: the control plane would send it to the \
                     address in spec.apiEndpoint",
                    sent.field, sent.namespace, sent.name, ctx.user.name
                );
                return Err(Status::forbidden(&resource, cluster.name(), why));
            }
        }
        Ok(())
    }
}

/// A secret that a write makes the control plane send somewhere.
#[derive(Debug, PartialEq, Eq)]
struct SentSecret {
    field: &'static str,
    namespace: String,
    name: String,
}

/// The secrets whose reference or destination a write changes. An agent may name those that are kept for its own cluster,
/// which it writes itself.
fn sent_secrets(cluster: &Object, old: Option<&Object>, agent_of: Option<&str>) -> Vec<SentSecret> {
    let is_moved = DESTINATION.iter().any(|field| is_changed(cluster, old, field));
    let sent = REFERENCES.iter().filter_map(|(field, ending)| {
        let part = |name: &str| cluster.str_at(&["spec", field, name]).to_owned();
        let secret = SentSecret { field, namespace: part("namespace"), name: part("name") };
        let is_own = |agent: &str| secret.namespace == CLUSTER_NAMESPACE && secret.name == format!("{agent}{ending}");
        let is_sent = !secret.name.is_empty() && (is_moved || is_changed(cluster, old, field));
        (is_sent && !agent_of.is_some_and(is_own)).then_some(secret)
    });
    sent.collect()
}

fn is_changed(cluster: &Object, old: Option<&Object>, field: &str) -> bool {
    let value = |object: &Object| object.get(&["spec", field]).cloned();
    old.is_none_or(|old| value(old) != value(cluster))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn cluster(spec: Value) -> Object {
        Object::from_value(json!({"metadata": {"name": "m5"}, "spec": spec})).expect("an object")
    }

    fn spec(namespace: &str, name: &str) -> Value {
        let reference = |name: String| json!({"namespace": namespace, "name": name});
        json!({"apiEndpoint": "https://m5", "secretRef": reference(name.to_owned()),
            "impersonatorSecretRef": reference(format!("{name}-impersonator"))})
    }

    #[track_caller]
    fn check(new: Value, old: Option<Value>, agent_of: Option<&str>, expected: &[&str]) {
        let (new, old) = (cluster(new), old.map(cluster));
        let found = sent_secrets(&new, old.as_ref(), agent_of);
        let found: Vec<String> = found.iter().map(|secret| format!("{}/{}", secret.namespace, secret.name)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn references_are_checked_when_they_or_their_destination_change() {
        let both = ["karmada-cluster/m1", "karmada-cluster/m1-impersonator"];
        check(spec("karmada-cluster", "m1"), None, None, &both);
        check(spec("karmada-cluster", "m1"), Some(spec("karmada-cluster", "m1")), None, &[]);
        check(spec("karmada-cluster", "m1"), Some(spec("karmada-cluster", "m2")), None, &both);
        check(json!({"apiEndpoint": "https://m5"}), None, None, &[]);
        for (field, value) in [
            ("apiEndpoint", json!("https://elsewhere")),
            ("insecureSkipTLSVerification", json!(true)),
            ("proxyURL", json!("http://elsewhere")),
        ] {
            let mut moved = spec("karmada-cluster", "m1");
            moved[field] = value;
            check(moved, Some(spec("karmada-cluster", "m1")), None, &both);
        }
        let mut tainted = spec("karmada-cluster", "m1");
        tainted["taints"] = json!([{"key": "x", "effect": "NoSchedule"}]);
        check(tainted, Some(spec("karmada-cluster", "m1")), None, &[]);
    }

    #[test]
    fn agents_name_the_secrets_of_their_own_cluster_only() {
        check(spec("karmada-cluster", "m5"), None, Some("m5"), &[]);
        check(spec("other", "m5"), None, Some("m5"), &["other/m5", "other/m5-impersonator"]);
        let others = ["karmada-cluster/m1", "karmada-cluster/m1-impersonator"];
        check(spec("karmada-cluster", "m1"), None, Some("m5"), &others);
    }
}
