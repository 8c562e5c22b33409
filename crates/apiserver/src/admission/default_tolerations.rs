//! Adds tolerations of five minutes for nodes that are not ready or not reachable, unless the pod sets its own.

use async_trait::async_trait;
use object::{Object, Status};
use serde_json::{Value, json};

use super::{Admission, Attributes, Operation};
use crate::admission::AdmissionScope;
use crate::context::Context;

const SECONDS: i64 = 300;
const TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/// kube-apiserver's `DefaultTolerationSeconds`; for servers that have nodes.
pub struct DefaultTolerations;

#[async_trait]
impl Admission for DefaultTolerations {
    fn name(&self) -> &'static str {
        "DefaultTolerationSeconds"
    }

    async fn mutate(
        &self,
        _scope: AdmissionScope<'_>,
        _ctx: &Context,
        attributes: &Attributes<'_>,
        pod: &mut Object,
    ) -> Result<(), Status> {
        let kind = &attributes.resource.kind.gvk;
        let is_new_pod = attributes.operation == Operation::Create
            && kind.group.is_empty()
            && kind.kind == "Pod"
            && attributes.subresource.is_none();
        if is_new_pod {
            add_tolerations(pod);
        }
        Ok(())
    }
}

fn add_tolerations(pod: &mut Object) {
    let mut tolerations = pod.items(&["spec", "tolerations"]).to_vec();
    let bears = |toleration: &Value, taint: &str| {
        let text = |field: &str| toleration[field].as_str().unwrap_or_default().to_owned();
        matches!(text("effect").as_str(), "" | "NoExecute") && (text("key").is_empty() || text("key") == taint)
    };
    let missing: Vec<&str> =
        TAINTS.into_iter().filter(|taint| !tolerations.iter().any(|toleration| bears(toleration, taint))).collect();
    if missing.is_empty() {
        return;
    }
    tolerations.extend(
        missing
            .into_iter()
            .map(|key| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": SECONDS})),
    );
    pod.set(&["spec", "tolerations"], tolerations);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(tolerations: Value, expected: &[&str]) {
        let before = tolerations.as_array().map_or(0, Vec::len);
        let mut pod = Object::from_value(json!({"spec": {"tolerations": tolerations}})).expect("a map");
        add_tolerations(&mut pod);
        let added = &pod.items(&["spec", "tolerations"])[before..];
        assert_eq!(added.iter().map(|t| t["key"].as_str().unwrap_or_default()).collect::<Vec<_>>(), expected);
        assert!(added.iter().all(|t| t["tolerationSeconds"] == 300 && t["effect"] == "NoExecute"));
    }

    #[test]
    fn fields_that_a_pod_sets_are_kept() {
        check(json!([]), &TAINTS);
        check(
            json!([{"key": TAINTS[0], "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}]),
            &TAINTS[1..],
        );
        check(json!([{"key": TAINTS[0], "operator": "Exists", "effect": "NoSchedule"}]), &TAINTS);
        check(json!([{"operator": "Exists"}]), &[]);
    }
}
