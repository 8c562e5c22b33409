//! The scale subresource: replicas of any scalable kind seen as one `autoscaling/v1` Scale.

use std::sync::Arc;

use kinds::kind::ScaleSelector;
use object::request::{PatchKind, Subresource, Verb, WriteOptions};
use object::selector::LabelSelector;
use object::{FieldError, FieldPath, GroupKind, Object, Status};
use serde_json::{Value, json};

use super::Call;
use crate::admission::Operation;
use crate::context::Context;
use crate::managed;
use crate::scope::WriteScope;
use crate::served_resources::ServedResources;
use crate::verbs::update::{self, Body, Change};
use crate::verbs::{Answer, Target, get};

/// The paths of the fields that a Scale shows.
pub struct Paths<'a> {
    pub spec_replicas: &'a str,
    pub status_replicas: &'a str,
    pub label_selector: &'a ScaleSelector,
}

pub async fn serve(
    scope: WriteScope<'_>,
    ctx: &Context,
    target: &Target,
    paths: &Paths<'_>,
    call: &Call,
) -> Result<Answer, Status> {
    let change = match call.verb {
        Verb::Get => {
            let object = read(scope, target).await?;
            return Ok(Answer::Object { code: 200, object: Arc::new(paths.scale_of(&object)) });
        }
        Verb::Update => ScaleChange { paths, options: &call.options, edit: Edit::Replace(call.object()?) },
        Verb::Patch => {
            let kind = PatchKind::of_content_type(call.content_type.as_deref())?;
            let body: Value = serde_json::from_slice(&call.body).map_err(|e| Status::bad_request(e.to_string()))?;
            ScaleChange { paths, options: &call.options, edit: Edit::Patch(kind, body) }
        }
        other => return Err(Status::method_not_allowed(&target.resource.kind.group_resource(), other)),
    };
    // The write goes to the object itself; only what it may touch is the subresource's.
    let parent = Target { subresource: None, ..target.clone() };
    let written = update::change(scope, ctx, &parent, &change, &call.options).await?;
    let object = written.served(scope.resources(), &target.resource).await?.ok_or_else(|| target.not_found())?;
    Ok(Answer::Object { code: 200, object: Arc::new(paths.scale_of(&object)) })
}

async fn read(scope: WriteScope<'_>, target: &Target) -> Result<Arc<Object>, Status> {
    let answer = get::get(scope.objects, target, None).await?;
    answer.served(scope.resources(), &target.resource).await?.ok_or_else(|| target.not_found())
}

impl ScaleChange<'_> {
    /// Returns the managers that own the replicas. As in kube-apiserver, only fields that have an owner change hands
    /// through a scale, and
    /// the new owner's entry carries no time.
    fn attribute(
        &self,
        registry: &ServedResources,
        ctx: &Context,
        target: &Target,
        current: &Object,
        new: &mut Object,
    ) {
        let pointer: String = split(self.paths.spec_replicas).iter().map(|part| format!("/f:{part}")).collect();
        let owns = |entry: &Value| entry["fieldsV1"].pointer(&pointer).is_some();
        if !current.items(&["metadata", "managedFields"]).iter().any(owns) {
            return;
        }
        let scaled = Target { subresource: Some(Subresource::Scale), ..target.clone() };
        managed::on_write(registry, ctx, &scaled, Some(current), new, self.options);
        let mut entries = new.items(&["metadata", "managedFields"]).to_vec();
        for entry in entries.iter_mut().filter(|entry| entry["subresource"] == "scale") {
            entry.as_object_mut().map(|entry| entry.remove("time"));
        }
        new.set(&["metadata", "managedFields"], entries);
    }
}

enum Edit {
    Replace(Object),
    Patch(PatchKind, Value),
}

struct ScaleChange<'a> {
    paths: &'a Paths<'a>,
    options: &'a WriteOptions,
    edit: Edit,
}

impl Change for ScaleChange<'_> {
    fn apply(
        &self,
        registry: &ServedResources,
        ctx: &Context,
        target: &Target,
        current: &Object,
    ) -> Result<Object, Status> {
        let scale = match &self.edit {
            Edit::Replace(scale) => scale.clone(),
            Edit::Patch(kind, body) => {
                let scale = self.paths.scale_of(current);
                crate::verbs::patch::apply_plain(*kind, &scale, body)?
            }
        };
        if !scale.resource_version().is_empty() && scale.resource_version() != current.resource_version() {
            return Err(Status::stale(&target.resource.kind.group_resource(), &target.name));
        }
        let replicas = scale.i64_at(&["spec", "replicas"]).unwrap_or(0);
        if replicas < 0 {
            let error =
                FieldError::invalid(FieldPath::new("spec.replicas"), replicas, "must be greater than or equal to 0");
            return Err(Status::invalid(&GroupKind::new("autoscaling", "Scale"), &target.name, &[error]));
        }
        let mut new = current.clone();
        new.set(&split(self.paths.spec_replicas), replicas);
        self.attribute(registry, ctx, target, current, &mut new);
        Ok(new)
    }

    fn can_retry(&self) -> bool {
        match &self.edit {
            Edit::Replace(scale) => scale.resource_version().is_empty(),
            Edit::Patch(..) => true,
        }
    }

    fn options_kind(&self) -> &'static str {
        "UpdateOptions"
    }

    fn body(&self) -> Option<&dyn Body> {
        Some(self.paths)
    }
}

impl Body for Paths<'_> {
    fn subresource(&self) -> Subresource {
        Subresource::Scale
    }

    fn operation(&self) -> Operation {
        Operation::Update
    }

    fn show(&self, object: &Object) -> Object {
        self.scale_of(object)
    }

    fn take_back(&self, scale: &Object, object: &mut Object) {
        let replicas = scale.i64_at(&["spec", "replicas"]).unwrap_or(0);
        if object.i64_at(&split(self.spec_replicas)) != Some(replicas) {
            object.set(&split(self.spec_replicas), replicas);
        }
    }
}

impl Paths<'_> {
    pub fn scale_of(&self, object: &Object) -> Object {
        let mut status = json!({"replicas": object.i64_at(&split(self.status_replicas)).unwrap_or(0)});
        if let Some(selector) = self.selector_text(object) {
            status["selector"] = selector.into();
        }
        let metadata: serde_json::Map<String, Value> =
            ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"]
                .into_iter()
                .filter_map(|field| Some((field.to_owned(), object.get(&["metadata", field])?.clone())))
                .collect();
        let replicas = object.i64_at(&split(self.spec_replicas)).unwrap_or(0);
        Object::from_value(json!({
            "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata,
            "spec": {"replicas": replicas}, "status": status,
        }))
        .expect("a map")
    }

    fn selector_text(&self, object: &Object) -> Option<String> {
        match self.label_selector {
            ScaleSelector::None => None,
            ScaleSelector::Text(path) => Some(object.str_at(&split(path)).to_owned()),
            ScaleSelector::Object(path) => selector_of(object.get(&split(path))?),
        }
    }
}

/// A selector object in its query form. A plain map of labels is one too.
fn selector_of(value: &Value) -> Option<String> {
    let structured = value.get("matchLabels").is_some() || value.get("matchExpressions").is_some();
    let wrapped = if structured { value.clone() } else { json!({"matchLabels": value}) };
    LabelSelector::from_value(Some(&wrapped)).ok().map(|selector| selector.to_string())
}

fn split(path: &str) -> Vec<&str> {
    path.split('.').filter(|part| !part.is_empty()).collect()
}
