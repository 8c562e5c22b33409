//! The priority of pods, from the class they name or the one that is the default.

use async_trait::async_trait;
use object::{Object, Status};

use super::{Admission, Attributes, Operation};
use crate::admission::AdmissionScope;
use crate::cache::Filter;
use crate::context::Context;
use crate::resources::Resources;

/// kube-apiserver's `Priority`; for servers that place pods.
pub struct Priorities;

struct Class {
    name: String,
    value: i64,
    preemption_policy: String,
}

#[async_trait]
impl Admission for Priorities {
    fn name(&self) -> &'static str {
        "Priority"
    }

    async fn mutate(
        &self,
        scope: AdmissionScope<'_>,
        _ctx: &Context,
        attributes: &Attributes<'_>,
        pod: &mut Object,
    ) -> Result<(), Status> {
        let kind = &attributes.resource.kind.gvk;
        if !kind.group.is_empty() || kind.kind != "Pod" || attributes.subresource.is_some() {
            return Ok(());
        }
        match attributes.operation {
            Operation::Create => fill_in(attributes, pod, find_class(scope.resources, attributes, pod).await?),
            // An update without a priority keeps the stored one.
            Operation::Update => {
                let old = attributes.old.and_then(|old| old.get(&["spec", "priority"]));
                if let (None, Some(old)) = (pod.get(&["spec", "priority"]), old) {
                    let old = old.clone();
                    pod.set(&["spec", "priority"], old);
                }
                Ok(())
            }
            Operation::Delete | Operation::Connect => Ok(()),
        }
    }
}

async fn find_class(
    resources: Resources<'_>,
    attributes: &Attributes<'_>,
    pod: &Object,
) -> Result<Option<Class>, Status> {
    let Some(resource) = resources.registry.find("scheduling.k8s.io", "v1", "priorityclasses") else { return Ok(None) };
    let name = pod.str_at(&["spec", "priorityClassName"]);
    if !name.is_empty() {
        let Some(class) = resources.objects.get(&resource.key("", name)).await? else {
            let detail = format!("no PriorityClass with name {name} was found");
            return Err(refuse(attributes, pod, detail));
        };
        return Ok(Some(read(&class.object)));
    }
    resource.cache.fresh().await?;
    let classes = resource.cache.entries(&Filter::default());
    let defaults = classes.iter().map(|entry| entry.decode());
    let defaults = defaults.filter(|class| class.bool_at(&["globalDefault"]) == Some(true)).map(|class| read(&class));
    // Of several defaults the lowest counts, so that adding one evicts no pod.
    Ok(defaults.min_by_key(|class| class.value))
}

fn read(class: &Object) -> Class {
    Class {
        name: class.name().to_owned(),
        value: class.i64_at(&["value"]).unwrap_or(0),
        preemption_policy: class.str_at(&["preemptionPolicy"]).to_owned(),
    }
}

fn fill_in(attributes: &Attributes<'_>, pod: &mut Object, class: Option<Class>) -> Result<(), Status> {
    let value = class.as_ref().map_or(0, |class| class.value);
    if let Some(given) = pod.i64_at(&["spec", "priority"])
        && given != value
    {
        let detail = format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller \
             computed {value} from the given PriorityClass name"
        );
        return Err(refuse(attributes, pod, detail));
    }
    pod.set(&["spec", "priority"], value);
    let policy = class.as_ref().map(|class| class.preemption_policy.as_str()).filter(|policy| !policy.is_empty());
    let policy = policy.unwrap_or("PreemptLowerPriority");
    let given = pod.str_at(&["spec", "preemptionPolicy"]);
    if !given.is_empty() && given != policy {
        let detail = format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission \
             controller computed {policy} from the given PriorityClass name"
        );
        return Err(refuse(attributes, pod, detail));
    }
    pod.set(&["spec", "preemptionPolicy"], policy);
    if let Some(class) = class {
        pod.set(&["spec", "priorityClassName"], class.name);
    }
    Ok(())
}

fn refuse(attributes: &Attributes<'_>, pod: &Object, detail: String) -> Status {
    Status::forbidden(&attributes.resource.kind.group_resource(), attributes.name_in_refusals(Some(pod)), detail)
}
