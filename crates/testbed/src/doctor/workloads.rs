//! Propagation to the members: bindings that are not scheduled, works that could not be applied.

use std::sync::Arc;

use api::work::{CLUSTER_RESOURCE_BINDINGS, CONDITION_APPLIED, CONDITION_SCHEDULED, RESOURCE_BINDINGS, WORKS};
use async_trait::async_trait;
use cluster_client::{ListOptions, ResourceRef};
use object::{Object, conditions};

use super::subject::Hints;
use super::{Check, DoctorSubject, Evidence, Finding, Layer, broken};
use crate::hint::Hint;

/// One cause often stops many workloads; the first few findings are enough.
const NAMED_MAX: usize = 20;

#[derive(Debug, Default)]
pub struct Seen {
    pub bindings: Vec<Arc<Object>>,
    pub works: Vec<Arc<Object>>,
}

pub struct Workloads;

#[async_trait]
impl Check for Workloads {
    fn layer(&self) -> Layer {
        Layer::Workloads
    }

    async fn gather(&self, subject: &DoctorSubject) -> Evidence {
        let mut seen = Seen::default();
        let client = match subject.plane_client() {
            Ok(client) => client,
            Err(why) => return Evidence::Unknown(Layer::Workloads, why),
        };
        for resource in [RESOURCE_BINDINGS, CLUSTER_RESOURCE_BINDINGS, WORKS] {
            match client.list_all(ResourceRef::all(&resource.gvr()), ListOptions::default()).await {
                Ok(list) if resource.kind == WORKS.kind => seen.works = list.items,
                Ok(list) => seen.bindings.extend(list.items),
                Err(status) => return Evidence::Unknown(Layer::Workloads, status.to_string()),
            }
        }
        Evidence::Workloads(seen)
    }
}

pub fn judge(seen: &Seen, hints: &Hints) -> Vec<Finding> {
    let mut findings: Vec<Finding> = seen.bindings.iter().filter_map(|binding| judge_binding(binding, hints)).collect();
    findings.extend(seen.works.iter().filter_map(|work| judge_work(work, hints)));
    if findings.len() > NAMED_MAX {
        let more = findings.len() - NAMED_MAX;
        findings.truncate(NAMED_MAX);
        let command = hints.kubectl("get resourcebindings,works -A");
        findings.push(broken(Layer::Workloads, "others", format!("{more} more are stuck"), "as above", command));
    }
    findings
}

fn judge_binding(binding: &Object, hints: &Hints) -> Option<Finding> {
    let (reason, message) = failed(binding, CONDITION_SCHEDULED)?;
    let resource = |field: &str| binding.str_at(&["spec", "resource", field]).to_owned();
    let (kind, name, namespace) = (resource("kind"), resource("name"), resource("namespace"));
    let subject = format!("{kind} {}", path(&namespace, &name));
    let object = format!("{}/{name}", kind.to_lowercase());
    let command = hints.flotilla(&Hint::Why { object: &object, namespace: &namespace });
    Some(broken(Layer::Workloads, &subject, "is not scheduled to any cluster", format!("{reason}: {message}"), command))
}

fn judge_work(work: &Object, hints: &Hints) -> Option<Finding> {
    let (reason, message) = failed(work, CONDITION_APPLIED)?;
    let cluster = work.namespace().strip_prefix("karmada-es-").unwrap_or(work.namespace());
    let manifest = work.items(&["spec", "workload", "manifests"]).first();
    let object = manifest.map_or_else(
        || work.name().to_owned(),
        |manifest| {
            let text = |at: &str| manifest.pointer(at).and_then(|value| value.as_str()).unwrap_or_default().to_owned();
            format!("{} {}", text("/kind"), path(&text("/metadata/namespace"), &text("/metadata/name")))
        },
    );
    let command = hints.kubectl(&format!("describe work {} -n {}", work.name(), work.namespace()));
    let what = format!("could not be applied in {cluster}");
    Some(broken(Layer::Workloads, &object, what, format!("{reason}: {message}"), command))
}

/// Reason and message of a condition that is False.
fn failed(object: &Object, kind: &str) -> Option<(String, String)> {
    let condition = conditions::find(object, kind).filter(|condition| condition.is_false())?;
    Some((condition.reason().to_owned(), condition.message().to_owned()))
}

fn path(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}
