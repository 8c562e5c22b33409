//! `pods/NAME/binding`: a scheduler says where a pod runs.

use std::sync::Arc;

use object::conditions;
use object::request::{Subresource, WriteOptions};
use object::{Object, Status};
use serde_json::{Value, json};

use super::Call;
use crate::admission::Operation;
use crate::context::Context;
use crate::managed;
use crate::scope::WriteScope;
use crate::served_resources::ServedResources;
use crate::verbs::update::{self, Body, Change};
use crate::verbs::{Answer, Target, check_uid};

struct Bind<'a> {
    binding: Object,
    options: &'a WriteOptions,
}

pub async fn create(scope: WriteScope<'_>, ctx: &Context, target: &Target, call: &Call) -> Result<Answer, Status> {
    let binding = call.object()?;
    let node = binding.str_at(&["target", "name"]);
    if node.is_empty() {
        return Err(Status::bad_request("target.name: Required value: the node to bind the pod to"));
    }
    update::change(scope, ctx, target, &Bind { binding, options: &call.options }, &call.options).await?;
    let done = Object::from_value(
        json!({"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Success", "code": 201}),
    );
    Ok(Answer::Object { code: 201, object: Arc::new(done.expect("a map")) })
}

impl Change for Bind<'_> {
    fn apply(
        &self,
        registry: &ServedResources,
        ctx: &Context,
        target: &Target,
        current: &Object,
    ) -> Result<Object, Status> {
        let resource = target.resource.kind.group_resource();
        let refuse = |detail: String| Err(Status::conflict(&resource, &target.name, detail));
        check_uid(target, self.binding.uid(), current)?;
        if current.is_deleting() {
            return refuse(format!("pod {} is being deleted, cannot be assigned to a host", target.name));
        }
        let bound = current.str_at(&["spec", "nodeName"]);
        if !bound.is_empty() {
            return refuse(format!("pod {} is already assigned to node {:?}", target.name, bound));
        }
        if !current.items(&["spec", "schedulingGates"]).is_empty() {
            return refuse(format!("pod {} has non-empty .spec.schedulingGates", target.name));
        }
        let mut new = current.clone();
        new.set(&["spec", "nodeName"], self.binding.str_at(&["target", "name"]));
        for (key, value) in self.binding.annotations() {
            new.set_annotation(key, value);
        }
        // It has a node now; where it might have gone says nothing any more.
        new.remove(&["status", "nominatedNodeName"]);
        mark_scheduled(&mut new, ctx);
        managed::on_write(registry, ctx, target, Some(current), &mut new, self.options);
        Ok(new)
    }

    fn can_retry(&self) -> bool {
        true
    }

    fn options_kind(&self) -> &'static str {
        "CreateOptions"
    }

    fn body(&self) -> Option<&dyn Body> {
        Some(self)
    }
}

impl Body for Bind<'_> {
    fn subresource(&self) -> Subresource {
        Subresource::Binding
    }

    fn operation(&self) -> Operation {
        Operation::Create
    }

    fn show(&self, _pod: &Object) -> Object {
        self.binding.clone()
    }

    fn take_back(&self, binding: &Object, pod: &mut Object) {
        pod.set(&["spec", "nodeName"], binding.str_at(&["target", "name"]));
    }
}

fn mark_scheduled(pod: &mut Object, ctx: &Context) {
    conditions::remove(pod, "PodScheduled");
    conditions::edit(pod, "PodScheduled", |condition| {
        condition.set_status("True", ctx.now);
        condition.set("lastProbeTime", Value::Null);
    });
}
