//! The `AdmissionRequest` of a write, without its objects: what webhooks are sent and what expressions call `request`.

use object::request::Subresource;
use object::{GroupVersionKind, Object};
use serde_json::{Map, Value, json};

use super::Matched;
use super::facts::Facts;
use crate::admission::Operation;
use crate::served_resources::Resource;

pub fn admission_request(facts: &Facts<'_>, matched: &Matched, object: Option<&Object>) -> Map<String, Value> {
    let attributes = facts.attributes;
    let asked_kind = kind_of(facts, matched, object);
    let (resource, kind) = match matched {
        Matched::AsAsked => (attributes.resource, asked_kind.clone()),
        Matched::As(other) => (&**other, kind_as(facts, &asked_kind, other)),
    };
    let mut request = Map::new();
    let mut set = |key: &str, value: Value| {
        request.insert(key.to_owned(), value);
    };
    set("kind", show_kind(&kind));
    set("resource", show_resource(resource));
    set("requestKind", show_kind(&asked_kind));
    set("requestResource", show_resource(attributes.resource));
    let subresource = Subresource::name_of(attributes.subresource);
    for (key, text) in [
        ("subResource", subresource),
        ("requestSubResource", subresource),
        ("name", attributes.name),
        ("namespace", facts.namespace),
    ] {
        // Left out when empty: expressions then fail on them, as they do in kube-apiserver.
        if !text.is_empty() {
            set(key, text.into());
        }
    }
    set("operation", attributes.operation.name().into());
    set("userInfo", user_info(facts));
    set("dryRun", attributes.dry_run.into());
    set("options", options(facts));
    request
}

/// The kind of the request's body: the object's own, except where a subresource has a body of its own. The object may
/// already be in the version that matched.
fn kind_of(facts: &Facts<'_>, matched: &Matched, object: Option<&Object>) -> GroupVersionKind {
    let attributes = facts.attributes;
    let kind = &attributes.resource.kind;
    let own = object.or(attributes.old).map(Object::gvk).filter(|gvk| !gvk.kind.is_empty());
    match (own, matched) {
        (Some(gvk), Matched::As(other)) if gvk == other.kind.gvk => kind.gvk.clone(),
        (Some(gvk), _) => gvk,
        (None, _) => {
            let served = attributes.subresource.and_then(|name| kind.subresource(name));
            served.map_or(&kind.gvk, |served| &served.gvk).clone()
        }
    }
}

fn kind_as(facts: &Facts<'_>, asked: &GroupVersionKind, other: &Resource) -> GroupVersionKind {
    if *asked == facts.attributes.resource.kind.gvk { other.kind.gvk.clone() } else { asked.clone() }
}

fn show_kind(gvk: &GroupVersionKind) -> Value {
    json!({"group": gvk.group, "version": gvk.version, "kind": gvk.kind})
}

fn show_resource(resource: &Resource) -> Value {
    let gvk = &resource.kind.gvk;
    json!({"group": gvk.group, "version": gvk.version, "resource": resource.kind.plural})
}

fn user_info(facts: &Facts<'_>) -> Value {
    let user = &facts.ctx.user;
    let mut info = Map::new();
    for (key, text) in [("username", &user.name), ("uid", &user.uid)] {
        if !text.is_empty() {
            info.insert(key.to_owned(), text.as_str().into());
        }
    }
    if !user.groups.is_empty() {
        info.insert("groups".to_owned(), user.groups.clone().into());
    }
    if !user.extra.is_empty() {
        info.insert("extra".to_owned(), json!(user.extra));
    }
    Value::Object(info)
}

fn options(facts: &Facts<'_>) -> Value {
    let mut options = facts.attributes.options.clone();
    match facts.attributes.operation {
        Operation::Connect => Value::Null,
        Operation::Delete => {
            // Clients send these under several versions, or in the query; there is one form to show.
            let mut shown = options.as_object_mut().map(std::mem::take).unwrap_or_default();
            shown.insert("apiVersion".to_owned(), "meta.k8s.io/v1".into());
            shown.insert("kind".to_owned(), "DeleteOptions".into());
            Value::Object(shown)
        }
        // A patch is an update to admission, whatever it is to the client.
        Operation::Update if options["kind"] == "PatchOptions" => {
            options["kind"] = "UpdateOptions".into();
            options
        }
        Operation::Create | Operation::Update => options,
    }
}
