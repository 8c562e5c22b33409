//! Restricts the agents of pull clusters to their own cluster, whatever rights they were given at registration.
//!
//! `karmadactl register` must let agents create Clusters, secrets and leases, and a right to create cannot name the
//! object. As for the kubelets of Kubernetes, the server itself checks the writer and the object.

use apiserver::admission::{Admission, AdmissionScope, Attributes, Operation};
use apiserver::cache::Filter;
use apiserver::context::Context;
use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use object::{Object, Status};
use pki::csr::Csr;

const GROUP: &str = "system:karmada:agents";
const USER_PREFIX: &str = "system:karmada:agent:";
/// Gives agents their rights while they register; not an agent.
const RIGHTS_GIVER: &str = "rbac-generator";
const TOKEN_PREFIX: &str = "system:bootstrap:";
/// Group of the tokens that were made for one cluster, by its name.
const TOKEN_GROUP_PREFIX: &str = "system:bootstrappers:karmada:cluster:";

pub struct AgentRestriction;

#[async_trait]
impl Admission for AgentRestriction {
    fn name(&self) -> &'static str {
        "AgentRestriction"
    }

    async fn validate(
        &self,
        _scope: AdmissionScope<'_>,
        ctx: &Context,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Status> {
        let Some(cluster) = cluster_of(&ctx.user.name, &ctx.user.groups) else { return Ok(()) };
        let resource = attributes.resource.kind.group_resource();
        let write = Write {
            group: &resource.group,
            resource: &resource.resource,
            namespace: attributes.namespace,
            name: object.map_or(attributes.name, Object::name),
            object: object.filter(|_| attributes.subresource.is_none()),
        };
        let refusal = match refusal(cluster, &write) {
            None if attributes.operation == Operation::Create => registered_as(attributes, &write).await?,
            refusal => refusal,
        };
        match refusal {
            Some(why) => Err(Status::forbidden(&resource, attributes.name_in_refusals(object), why)),
            None => Ok(()),
        }
    }
}

/// The cluster whose agent a user is, or is to become by a token that was made for it.
pub fn cluster_of<'a>(user: &'a str, groups: &'a [String]) -> Option<&'a str> {
    if user.starts_with(TOKEN_PREFIX) {
        return groups.iter().find_map(|group| group.strip_prefix(TOKEN_GROUP_PREFIX));
    }
    let cluster = user.strip_prefix(USER_PREFIX).filter(|cluster| *cluster != RIGHTS_GIVER)?;
    groups.iter().any(|group| group == GROUP).then_some(cluster)
}

/// A write by an agent.
struct Write<'a> {
    group: &'a str,
    resource: &'a str,
    namespace: &'a str,
    name: &'a str,
    /// As it would be; not for subresources and deletes.
    object: Option<&'a Object>,
}

/// Why the agent of a cluster may not write this.
fn refusal(cluster: &str, write: &Write<'_>) -> Option<String> {
    let impersonator = format!("{cluster}-impersonator");
    let is_own = match (write.group, write.resource) {
        ("cluster.karmada.io", "clusters") => write.name == cluster,
        ("", "secrets") => write.name == cluster || write.name == impersonator,
        ("coordination.k8s.io", "leases") => write.name == cluster || write.name == format!("karmada-agent-{cluster}"),
        ("work.karmada.io", "works") => write.namespace == api::names::execution_namespace(cluster),
        ("certificates.k8s.io", "certificatesigningrequests") => {
            write.object.is_none_or(|request| asks_for_own(cluster, request))
        }
        _ => true,
    };
    if !is_own {
        return Some(format!("the agent of cluster {cluster} may write only what belongs to its own cluster"));
    }
    let spec = write.object.filter(|_| write.resource == "clusters")?;
    // A Cluster names the secret that is sent to the endpoint it names: with another's, that would be given away.
    for (field, own) in [("secretRef", cluster), ("impersonatorSecretRef", impersonator.as_str())] {
        let named = spec.str_at(&["spec", field, "name"]);
        if !named.is_empty() && named != own {
            return Some(format!("the agent of cluster {cluster} may name in {field} only the secret {own}"));
        }
    }
    // Pushed to, its endpoint would be called with the rights of the control plane.
    match spec.str_at(&["spec", "syncMode"]) {
        "Pull" => None,
        _ => Some(format!("the agent of cluster {cluster} may register it with syncMode Pull only")),
    }
}

/// A cluster is registered once, under one name. An agent cannot check this itself, as it sees no other Cluster.
async fn registered_as(attributes: &Attributes<'_>, write: &Write<'_>) -> Result<Option<String>, Status> {
    let Some(cluster) = write.object.filter(|_| write.resource == "clusters") else { return Ok(None) };
    let id = cluster.str_at(&["spec", "id"]);
    if id.is_empty() {
        return Ok(None);
    }
    let cache = &attributes.resource.cache;
    cache.fresh().await?;
    let known = cache.entries(&Filter::default()).into_iter().map(|entry| entry.decode());
    let same = known.into_iter().find(|other| other.name() != cluster.name() && other.str_at(&["spec", "id"]) == id);
    Ok(same.map(|other| format!("this cluster is registered already, with name {}", other.name())))
}

/// Agents renew their own certificates. A request in another name could only be approved manually, by mistake.
fn asks_for_own(cluster: &str, request: &Object) -> bool {
    let csr = STANDARD.decode(request.str_at(&["spec", "request"])).ok().and_then(|text| Csr::from_pem(&text).ok());
    csr.is_some_and(|csr| {
        let subject = csr.subject();
        subject.common_name.strip_prefix(USER_PREFIX) == Some(cluster) && subject.organizations == [GROUP]
    })
}

#[cfg(test)]
mod tests {
    use pki::csr::create_csr;
    use pki::key::PrivateKey;
    use pki::subject::{AlternativeNames, CertificateSubject};
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn agents_are_known_by_name_and_group() {
        let groups = [GROUP.to_owned()];
        assert_eq!(cluster_of("system:karmada:agent:m1", &groups), Some("m1"));
        assert_eq!(cluster_of("system:karmada:agent:rbac-generator", &groups), None);
        assert_eq!(cluster_of("system:karmada:agent:m1", &[]), None, "a name alone proves nothing");
        assert_eq!(cluster_of("system:admin", &groups), None);
    }

    #[test]
    fn a_token_for_one_cluster_is_limited_to_it_with_any_other_groups() {
        let any = "system:bootstrappers:karmada:default-cluster-token".to_owned();
        let bound = "system:bootstrappers:karmada:cluster:m1".to_owned();
        let token = "system:bootstrap:abcdef";
        assert_eq!(cluster_of(token, std::slice::from_ref(&bound)), Some("m1"));
        assert_eq!(cluster_of(token, &[any.clone(), bound.clone()]), Some("m1"));
        assert_eq!(cluster_of(token, &[any]), None);
        assert_eq!(cluster_of("someone-else", &[bound]), None);
    }

    #[track_caller]
    fn check(group: &str, resource: &str, namespace: &str, name: &str, object: Option<Value>, is_allowed: bool) {
        let object = object.map(|value| Object::from_value(value).expect("a map"));
        let write = Write { group, resource, namespace, name, object: object.as_ref() };
        assert_eq!(refusal("m1", &write).is_none(), is_allowed, "{resource} {namespace}/{name} {object:?}");
    }

    #[test]
    fn an_agent_writes_only_what_is_its_own() {
        for (resource, group, own, others) in [
            ("secrets", "", ["m1", "m1-impersonator"], ["m2", ""]),
            ("leases", "coordination.k8s.io", ["m1", "karmada-agent-m1"], ["m2", "karmada-agent-m2"]),
        ] {
            for (names, is_allowed) in [(own, true), (others, false)] {
                for name in names {
                    check(group, resource, "karmada-cluster", name, None, is_allowed);
                }
            }
        }
        check("work.karmada.io", "works", "karmada-es-m1", "w", None, true);
        check("work.karmada.io", "works", "karmada-es-m2", "w", None, false);
        check("", "events", "default", "e", None, true);
    }

    #[test]
    fn an_agent_requests_certificates_for_its_own_name_only() {
        let key = PrivateKey::generate().expect("a key");
        let asked = |user: &str, group: &str| {
            let subject = CertificateSubject::new(user, &[group.to_owned()]);
            let csr = create_csr(&key, &subject, &AlternativeNames::default()).expect("a request");
            json!({"spec": {"request": STANDARD.encode(csr)}})
        };
        let check = |request: Value, is_allowed| {
            check("certificates.k8s.io", "certificatesigningrequests", "", "r", Some(request), is_allowed);
        };
        check(asked("system:karmada:agent:m1", GROUP), true);
        check(asked("system:karmada:agent:m2", GROUP), false);
        check(asked("system:karmada:agent:m1", "system:masters"), false);
        check(asked("system:admin", GROUP), false);
        check(json!({"spec": {"request": "bm90aGluZw=="}}), false);
        check(json!({}), false);
    }

    #[test]
    fn an_agent_registers_its_own_cluster_with_its_own_secrets_only() {
        let check = |name: &str, spec: Value, is_allowed| {
            check("cluster.karmada.io", "clusters", "", name, Some(json!({"spec": spec})), is_allowed);
        };
        check("m1", json!({"syncMode": "Pull"}), true);
        check("m2", json!({"syncMode": "Pull"}), false);
        check("m1", json!({"syncMode": "Push"}), false);
        check("m1", json!({}), false);
        let secrets = |own: &str, impersonator: &str| {
            json!({"syncMode": "Pull", "secretRef": {"namespace": "karmada-cluster", "name": own},
                "impersonatorSecretRef": {"namespace": "karmada-cluster", "name": impersonator}})
        };
        check("m1", secrets("m1", "m1-impersonator"), true);
        check("m1", secrets("m2", "m1-impersonator"), false);
        check("m1", secrets("m1", "m2-impersonator"), false);
    }
}
