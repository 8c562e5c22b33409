//! Previews the changes of applying a policy, from the plan of the instance.

use std::collections::HashMap;

use manager_api::*;
use object::Status;
use serde_json::{Value, json};
use transcode::call::HttpBody;

use super::explain::explained;
use super::policies::{KINDS, bindings, policy_text};
use super::resources::{manifests, send};
use super::{ApiCaller, ManagerApi};

/// Kind, namespace and name of an object.
type Subject = (String, String, String);

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().to_owned()
}

fn texts(value: &Value, field: &str) -> Vec<String> {
    value[field].as_array().into_iter().flatten().filter_map(|one| one.as_str().map(str::to_owned)).collect()
}

/// Reads the plan of an instance. `holders` has the policies that hold objects now.
fn preview(plan: &Value, holders: &HashMap<Subject, String>) -> PolicyPreview {
    let objects = plan["templates"].as_array().into_iter().flatten().map(|planned| {
        let subject = &planned["subject"];
        let key = (text(subject, "kind"), text(subject, "namespace"), text(subject, "name"));
        let (current, future) = (holders.get(&key).cloned().unwrap_or_default(), text(planned, "policy"));
        let actions = planned["actions"].as_array().into_iter().flatten();
        PolicyChange {
            api_version: text(subject, "apiVersion"),
            changes_hands: named(&current) != future,
            kind: key.0,
            namespace: key.1,
            name: key.2,
            current,
            future,
            clusters: actions.map(placement).collect(),
            problem: text(planned, "problem"),
        }
    });
    PolicyPreview { objects: objects.collect(), problems: texts(plan, "problems"), notes: texts(plan, "notes") }
}

/// A plan names a policy without its kind: `NAMESPACE/NAME`, or `NAME` in the whole control plane.
fn named(policy: &str) -> &str {
    policy.split_once(' ').map_or("", |(_, name)| name.trim_start_matches('/'))
}

fn placement(action: &Value) -> PolicyPlacement {
    PolicyPlacement {
        cluster: text(action, "cluster"),
        action: text(action, "what"),
        replicas_before: action["replicasBefore"].as_i64().unwrap_or_default(),
        replicas_after: action["replicasAfter"].as_i64().unwrap_or_default(),
        problem: text(action, "problem"),
    }
}

impl ManagerApi {
    pub(super) async fn policy_preview(
        &self,
        caller: &ApiCaller,
        request: PreviewPolicyRequest,
    ) -> Result<PolicyPreview, Status> {
        let objects = manifests(&request.policy.unwrap_or_default().data)?;
        if let Some(other) = objects.iter().find(|object| !KINDS.iter().any(|kind| kind.gvk() == object.gvk())) {
            return Err(Status::bad_request(format!("policy: {} is no policy", other.kind())));
        }
        let client = self.operations.instance_client(&caller.user, &request.instance).await?;
        let items: Vec<Value> = objects.into_iter().map(|object| object.into_value()).collect();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        let body = HttpBody { content_type: "application/json".to_owned(), data: list.to_string().into_bytes() };
        let plan = send(&client, "POST", "/flotilla/v1alpha1/plan", Some(&body)).await.map_err(explained)?;
        let plan: Value = serde_json::from_slice(&plan).map_err(Status::internal)?;
        let held = bindings(&client, "").await?;
        let holders = held.iter().map(|binding| {
            let field = |name: &str| binding.str_at(&["spec", "resource", name]).to_owned();
            ((field("kind"), field("namespace"), field("name")), policy_text(binding))
        });
        Ok(preview(&plan, &holders.collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_another_policy_change_hands() {
        let subject =
            |name: &str| json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": name});
        let moved = json!({"cluster": "m2", "what": "Place", "replicasAfter": 3});
        let plan = json!({
            "templates": [
                {"subject": subject("web"), "policy": "shop/new", "actions": [moved]},
                {"subject": subject("kept"), "policy": "all", "actions": []},
                {"subject": subject("free"), "policy": "shop/new", "actions": []},
            ],
            "problems": ["no such cluster"],
        });
        let key = |name: &str| ("Deployment".to_owned(), "shop".to_owned(), name.to_owned());
        let holders = HashMap::from([
            (key("web"), "PropagationPolicy shop/old".to_owned()),
            (key("kept"), "ClusterPropagationPolicy /all".to_owned()),
        ]);
        let preview = preview(&plan, &holders);
        let changes: Vec<bool> = preview.objects.iter().map(|object| object.changes_hands).collect();
        assert_eq!(changes, [true, false, true]);
        let placed = &preview.objects[0].clusters[0];
        assert_eq!((placed.cluster.as_str(), placed.action.as_str(), placed.replicas_after), ("m2", "Place", 3));
        assert_eq!(preview.problems, ["no such cluster"]);
    }
}
