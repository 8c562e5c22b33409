//! Serves the metrics of all members: `metrics.k8s.io`, `custom.metrics.k8s.io` and `external.metrics.k8s.io`.
//!
//! Members are read with the rights of the control plane, so a caller needs the permissions for these groups here.

mod values;

use apiserver::usage::{Asked, UsageSource, Usages};
use async_trait::async_trait;
use metrics_adapter::{Gathered, MetricsAdapter, UsageQuery};
use object::{GroupResource, Object, Status};

pub use values::{CustomMetrics, ExternalMetrics};

/// Clusters that failed are named in this many warnings at most.
const WARNINGS_MAX: usize = 10;

/// The usage of pods and nodes of all members.
pub struct FleetUsage {
    pub adapter: MetricsAdapter,
}

#[async_trait]
impl UsageSource for FleetUsage {
    async fn pods(&self, asked: &Asked<'_>) -> Result<Usages, Status> {
        let members = self.adapter.ready_members().await;
        merge("pod", asked, self.adapter.pods(&members, &query(asked)).await)
    }

    async fn nodes(&self, asked: &Asked<'_>) -> Result<Usages, Status> {
        let members = self.adapter.ready_members().await;
        merge("node", asked, self.adapter.nodes(&members, &query(asked)).await)
    }
}

fn query(asked: &Asked<'_>) -> UsageQuery {
    UsageQuery {
        namespace: asked.namespace.map(str::to_owned),
        name: asked.name.map(str::to_owned),
        labels: asked.labels.map(ToString::to_string).unwrap_or_default(),
    }
}

/// Returns the usages by name, then member. An object asked for by name must be in one member only.
fn merge(what: &str, asked: &Asked<'_>, gathered: Gathered<Vec<Object>>) -> Result<Usages, Status> {
    gathered.check_size()?;
    let warnings = warnings(&gathered.unread);
    let mut items: Vec<Object> = gathered.found.into_values().flatten().collect();
    // Stable: usages of the same name stay in the order of their members.
    items.sort_by(|a, b| (a.namespace(), a.name()).cmp(&(b.namespace(), b.name())));
    match asked.name {
        Some(name) if items.len() > 1 => {
            let detail = format!("the {what}({name}) found in more than one clusters");
            Err(Status::conflict(&GroupResource::new("", format!("{what}s")), name, detail))
        }
        // The object may be in a member that did not answer.
        Some(_) if items.is_empty() && !warnings.is_empty() => Err(Status::unavailable(warnings.join("; "))),
        _ => Ok(Usages { items, warnings }),
    }
}

fn warnings(unread: &[String]) -> Vec<String> {
    let mut warnings: Vec<String> = unread.iter().take(WARNINGS_MAX).map(|text| format!("left out: {text}")).collect();
    if unread.len() > WARNINGS_MAX {
        warnings.push(format!("left out: {} further clusters", unread.len() - WARNINGS_MAX));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    fn usage(namespace: &str, name: &str, cluster: &str) -> Object {
        let annotations = json!({"resource.karmada.io/query-from-cluster": cluster});
        Object::from_value(
            json!({"metadata": {"namespace": namespace, "name": name, "annotations": annotations}, "containers": []}),
        )
        .expect("a map")
    }

    fn gathered(unread: &[&str]) -> Gathered<Vec<Object>> {
        Gathered {
            found: BTreeMap::from([
                ("m1".to_owned(), vec![usage("b", "x", "m1"), usage("a", "y", "m1")]),
                ("m2".to_owned(), vec![usage("a", "y", "m2")]),
            ]),
            unread: unread.iter().map(|text| (*text).to_owned()).collect(),
        }
    }

    #[test]
    fn usages_are_sorted_and_failed_members_named() {
        let asked = Asked { namespace: None, name: None, labels: None };
        let merged = merge("pod", &asked, gathered(&["cluster m3: no answer"])).expect("a list");
        let shown = |o: &Object| {
            let cluster = o.annotation("resource.karmada.io/query-from-cluster").unwrap_or_default();
            format!("{}/{} {cluster}", o.namespace(), o.name())
        };
        assert_eq!(merged.items.iter().map(shown).collect::<Vec<_>>(), ["a/y m1", "a/y m2", "b/x m1"]);
        assert_eq!(merged.warnings, ["left out: cluster m3: no answer"]);
    }

    #[test]
    fn a_name_must_be_in_one_member_only() {
        let asked = Asked { namespace: Some("a"), name: Some("y"), labels: None };
        let refused = merge("pod", &asked, gathered(&[])).err().expect("refused");
        assert_eq!(refused.code, 409);
        assert!(refused.message.contains("the pod(y) found in more than one clusters"), "{}", refused.message);
        let none = Gathered { found: BTreeMap::new(), unread: vec!["cluster m1: no answer".to_owned()] };
        assert_eq!(merge("pod", &asked, none).err().map(|status| status.code), Some(503));
        assert!(merge("pod", &asked, Gathered::default()).expect("nothing").items.is_empty());
    }

    #[test]
    fn warnings_are_bounded() {
        let many: Vec<String> = (0..25).map(|number| format!("cluster m{number}: no answer")).collect();
        let shown = warnings(&many);
        assert_eq!((shown.len(), shown[10].as_str()), (11, "left out: 15 further clusters"));
    }
}
