//! LimitRanges: default requests and limits for containers, and bounds on what pods and claims ask for.

use async_trait::async_trait;
use object::quantity::Quantity;
use object::{Object, Status};
use serde_json::{Map, Value};

use super::{Admission, Attributes, Operation};
use crate::admission::AdmissionScope;
use crate::cache::Filter;
use crate::context::Context;
use crate::resources::Resources;

pub struct LimitRanger;

#[async_trait]
impl Admission for LimitRanger {
    fn name(&self) -> &'static str {
        "LimitRanger"
    }

    async fn mutate(
        &self,
        scope: AdmissionScope<'_>,
        _ctx: &Context,
        attributes: &Attributes<'_>,
        object: &mut Object,
    ) -> Result<(), Status> {
        if !applies(attributes) || attributes.resource.kind.gvk.kind != "Pod" {
            return Ok(());
        }
        for limit in limits(scope.resources, attributes, "Container").await? {
            for list in ["initContainers", "containers"] {
                let mut containers = object.items(&["spec", list]).to_vec();
                containers.iter_mut().for_each(|container| fill_in(container, &limit));
                if !containers.is_empty() {
                    object.set(&["spec", list], containers);
                }
            }
        }
        Ok(())
    }

    async fn validate(
        &self,
        scope: AdmissionScope<'_>,
        _ctx: &Context,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Status> {
        let Some(object) = object.filter(|_| applies(attributes)) else { return Ok(()) };
        let mut problems = Vec::new();
        match attributes.resource.kind.gvk.kind.as_str() {
            "Pod" => {
                for limit in limits(scope.resources, attributes, "Container").await? {
                    let containers =
                        object.items(&["spec", "initContainers"]).iter().chain(object.items(&["spec", "containers"]));
                    containers.for_each(|c| check(&limit, "Container", &c["resources"], &mut problems));
                }
                for limit in limits(scope.resources, attributes, "Pod").await? {
                    check(&limit, "Pod", &pod_total(object), &mut problems);
                }
            }
            _ => {
                for limit in limits(scope.resources, attributes, "PersistentVolumeClaim").await? {
                    let resources = object.get(&["spec", "resources"]).cloned().unwrap_or_default();
                    check(&limit, "PersistentVolumeClaim", &resources, &mut problems);
                }
            }
        }
        if problems.is_empty() {
            return Ok(());
        }
        let text = if problems.len() == 1 { problems.remove(0) } else { format!("[{}]", problems.join(", ")) };
        Err(Status::forbidden(&attributes.resource.kind.group_resource(), object.name(), text))
    }
}

fn applies(attributes: &Attributes<'_>) -> bool {
    let kind = &attributes.resource.kind.gvk;
    let counted = kind.group.is_empty() && matches!(kind.kind.as_str(), "Pod" | "PersistentVolumeClaim");
    let created = attributes.operation == Operation::Create
        || (attributes.operation == Operation::Update && kind.kind == "PersistentVolumeClaim");
    counted && created && attributes.subresource.is_none()
}

async fn limits(resources: Resources<'_>, attributes: &Attributes<'_>, ty: &str) -> Result<Vec<Value>, Status> {
    let Some(resource) = resources.registry.find("", "v1", "limitranges") else { return Ok(Vec::new()) };
    resource.cache.fresh().await?;
    let filter = Filter { namespace: attributes.namespace.to_owned(), ..Filter::default() };
    let ranges = resource.cache.entries(&filter);
    let limits = ranges.iter().flat_map(|entry| entry.decode().items(&["spec", "limits"]).to_vec());
    Ok(limits.filter(|limit| limit["type"] == ty).collect())
}

fn fill_in(container: &mut Value, limit: &Value) {
    for (part, defaults) in [("limits", &limit["default"]), ("requests", &limit["defaultRequest"])] {
        for (resource, quantity) in defaults.as_object().into_iter().flatten() {
            let Some(container) = container.as_object_mut() else { return };
            let resources = map_in(container, "resources");
            let amounts = map_in(resources, part);
            amounts.entry(resource.clone()).or_insert_with(|| quantity.clone());
        }
    }
}

fn map_in<'a>(map: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    let slot = map.entry(key.to_owned()).or_insert_with(|| Value::Object(Map::new()));
    if !slot.is_object() {
        *slot = Value::Object(Map::new());
    }
    slot.as_object_mut().expect("made a map just above")
}

fn amount(resources: &Value, part: &str, name: &str) -> Option<Quantity> {
    resources[part][name].as_str().and_then(|text| Quantity::parse(text).ok())
}

fn check(limit: &Value, ty: &str, resources: &Value, problems: &mut Vec<String>) {
    let entries = |key: &str| -> Vec<(String, Quantity)> {
        let map = limit[key].as_object().into_iter().flatten();
        map.filter_map(|(name, q)| Some((name.clone(), Quantity::parse(q.as_str()?).ok()?))).collect()
    };
    for (name, min) in entries("min") {
        match amount(resources, "requests", &name) {
            None => problems.push(format!("minimum {name} usage per {ty} is {min}.  No request is specified")),
            Some(asked) if asked < min => {
                problems.push(format!("minimum {name} usage per {ty} is {min}, but request is {asked}"));
            }
            Some(_) => {}
        }
    }
    for (name, max) in entries("max") {
        let part = if ty == "PersistentVolumeClaim" { "requests" } else { "limits" };
        match amount(resources, part, &name) {
            None => problems.push(format!("maximum {name} usage per {ty} is {max}.  No limit is specified")),
            Some(asked) if asked > max => {
                let word = if part == "limits" { "limit" } else { "request" };
                problems.push(format!("maximum {name} usage per {ty} is {max}, but {word} is {asked}"));
            }
            Some(_) => {}
        }
    }
}

/// The sum of the requests of all containers of a pod.
fn pod_total(pod: &Object) -> Value {
    let mut total = Map::new();
    for part in ["requests", "limits"] {
        let mut sums: std::collections::BTreeMap<String, Quantity> = Default::default();
        for container in pod.items(&["spec", "containers"]) {
            for (name, quantity) in container["resources"][part].as_object().into_iter().flatten() {
                let Some(quantity) = quantity.as_str().and_then(|text| Quantity::parse(text).ok()) else { continue };
                let sum = sums.get(name).map_or(quantity.clone(), |sum| sum.plus(&quantity));
                sums.insert(name.clone(), sum);
            }
        }
        let sums: Map<String, Value> = sums.into_iter().map(|(name, sum)| (name, sum.to_string().into())).collect();
        total.insert(part.to_owned(), Value::Object(sums));
    }
    Value::Object(total)
}
