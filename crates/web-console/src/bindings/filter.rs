//! Which bindings a page asks for.

use std::collections::BTreeSet;

use api::names::binding_name;
use api::policy::{ANNOTATION_CLUSTER_PROPAGATION_NAME, ANNOTATION_PROPAGATION_NAME, ANNOTATION_PROPAGATION_NAMESPACE};
use object::query::Query;
use object::{Object, Status};

/// Templates that one query may name.
const SUBJECTS_MAX: usize = 200;

/// Conditions on a binding; empty ones match all.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct BindingFilter {
    cluster: String,
    /// As [`policy_of`] names it.
    policy: String,
    /// As [`subject_of`] names them.
    subjects: BTreeSet<String>,
    is_leaving: bool,
}

impl BindingFilter {
    pub fn parse(query: &Query) -> Result<Self, Status> {
        let text = |name: &str| query.get(name).unwrap_or_default().to_owned();
        let subjects: BTreeSet<String> = query.all("subject").map(str::to_owned).collect();
        if subjects.len() > SUBJECTS_MAX {
            return Err(Status::bad_request(format!("at most {SUBJECTS_MAX} subjects can be asked for at a time")));
        }
        if let Some(subject) = subjects.iter().find(|subject| subject.split('/').count() < 3) {
            return Err(Status::bad_request(format!("subject must be KIND/NAMESPACE/NAME, not {subject:?}")));
        }
        Ok(Self { cluster: text("cluster"), policy: text("policy"), subjects, is_leaving: query.flag("leaving") })
    }

    /// The keys in the cache of the bindings of the templates that are asked for, or nothing if any template will do.
    pub fn keys(&self, in_namespaces: bool) -> Option<Vec<String>> {
        let key = |subject: &String| {
            let mut parts = subject.splitn(3, '/');
            let (kind, namespace, name) = (parts.next()?, parts.next()?, parts.next()?);
            let binding = binding_name(kind, name);
            match (in_namespaces, namespace) {
                (false, "") => Some(binding),
                (true, namespace) if !namespace.is_empty() => Some(format!("{namespace}/{binding}")),
                _ => None,
            }
        };
        (!self.subjects.is_empty()).then(|| self.subjects.iter().filter_map(key).collect())
    }

    pub fn matches(&self, binding: &Object) -> bool {
        (self.cluster.is_empty() || has_target(binding, &self.cluster))
            && (self.policy.is_empty() || policy_of(binding).as_deref() == Some(&self.policy))
            && (self.subjects.is_empty() || self.subjects.contains(&subject_of(binding)))
            && (!self.is_leaving || is_leaving(binding))
    }
}

/// Clusters are about to be left.
pub fn is_leaving(binding: &Object) -> bool {
    !binding.items(&["spec", "gracefulEvictionTasks"]).is_empty()
}

fn has_target(binding: &Object, cluster: &str) -> bool {
    binding.items(&["spec", "clusters"]).iter().any(|target| target["name"] == cluster)
}

/// The policy that holds the object, as `KIND/NAMESPACE/NAME`.
pub fn policy_of(binding: &Object) -> Option<String> {
    if let Some(name) = binding.annotation(ANNOTATION_PROPAGATION_NAME) {
        let namespace = binding.annotation(ANNOTATION_PROPAGATION_NAMESPACE).unwrap_or_default();
        return Some(format!("PropagationPolicy/{namespace}/{name}"));
    }
    let name = binding.annotation(ANNOTATION_CLUSTER_PROPAGATION_NAME)?;
    Some(format!("ClusterPropagationPolicy//{name}"))
}

/// The template, as `KIND/NAMESPACE/NAME`.
fn subject_of(binding: &Object) -> String {
    let part = |field: &str| binding.str_at(&["spec", "resource", field]);
    format!("{}/{}/{}", part("kind"), part("namespace"), part("name"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn binding(annotations: &serde_json::Value) -> Object {
        Object::from_value(json!({
            "metadata": {"name": "web-deployment", "namespace": "shop", "annotations": annotations},
            "spec": {
                "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"},
                "clusters": [{"name": "m1", "replicas": 2}],
                "gracefulEvictionTasks": [{"fromCluster": "m2"}],
            },
        }))
        .expect("an object")
    }

    #[track_caller]
    fn check(query: &str, expected: bool) {
        let held = binding(&json!({"clusterpropagationpolicy.karmada.io/name": "all"}));
        let filter = BindingFilter::parse(&Query::parse(query)).expect("a filter");
        assert_eq!(filter.matches(&held), expected, "{query}");
    }

    #[test]
    fn each_part_of_a_filter_must_match() {
        check("", true);
        check("cluster=m1", true);
        check("cluster=m2", false);
        check("policy=ClusterPropagationPolicy//all", true);
        check("policy=PropagationPolicy/shop/all", false);
        check("subject=Deployment/shop/other&subject=Deployment/shop/web", true);
        check("subject=Deployment/shop/other", false);
        check("leaving=true&cluster=m1", true);
        check("leaving=true&cluster=m2", false);
    }

    #[test]
    fn bindings_of_templates_are_found_by_their_names() {
        let filter = |query: &str| BindingFilter::parse(&Query::parse(query)).expect("a filter");
        let some = filter("subject=Deployment/shop/web&subject=ClusterRole//system:view");
        assert_eq!(some.keys(true), Some(vec!["shop/web-deployment".to_owned()]));
        assert_eq!(some.keys(false), Some(vec!["system.view-clusterrole".to_owned()]));
        assert_eq!(filter("cluster=m1").keys(true), None);
    }

    #[test]
    fn a_policy_of_a_namespace_is_named_with_it() {
        let annotations =
            json!({"propagationpolicy.karmada.io/name": "web", "propagationpolicy.karmada.io/namespace": "shop"});
        assert_eq!(policy_of(&binding(&annotations)).as_deref(), Some("PropagationPolicy/shop/web"));
        assert_eq!(policy_of(&binding(&json!({}))), None);
    }

    #[test]
    fn too_many_and_malformed_subjects_are_refused() {
        let many: Vec<String> = (0..=SUBJECTS_MAX).map(|number| format!("subject=Deployment/shop/w{number}")).collect();
        assert_eq!(BindingFilter::parse(&Query::parse(&many.join("&"))).expect_err("too many").code, 400);
        assert_eq!(BindingFilter::parse(&Query::parse("subject=broken")).expect_err("no template").code, 400);
    }
}
