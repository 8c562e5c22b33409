//! "May they?" asked aloud: the access reviews and the list of everything a user may do.

use access::user::ResourceAction;
use access::{Action, PolicyRule, User};
use object::{FieldError, FieldPath, GroupKind, Object, Status};
use serde_json::{Map, Value, json};

use crate::context::Context;
use crate::server::Server;
use crate::verbs::Target;

pub async fn access(server: &Server, ctx: &Context, target: &Target, review: Object) -> Result<Object, Status> {
    let kind = &target.resource.kind;
    let errors = problems(&kind.gvk.kind, &review);
    if !errors.is_empty() {
        // kube-apiserver leaves the kind out of this message, and clients may compare it.
        return Err(Status::invalid(&GroupKind::new(kind.gvk.group.clone(), ""), "", &errors));
    }
    if kind.gvk.kind == "LocalSubjectAccessReview" && review.namespace() != target.namespace {
        let namespace = &target.namespace;
        return Err(Status::bad_request(format!(
            "spec.resourceAttributes.namespace must match namespace: {namespace}"
        )));
    }
    let subject = subject_of(&review);
    let user = if kind.gvk.kind == "SelfSubjectAccessReview" { &*ctx.user } else { &subject };
    let verdict = server.auth.decide(server, user, &action_of(&review)).await?;
    let mut status = json!({"allowed": verdict.allowed});
    if !verdict.reason.is_empty() {
        status["reason"] = verdict.reason.into();
    }
    let mut review = review;
    review.set(&["status"], status);
    Ok(review)
}

/// The user a review names.
fn subject_of(review: &Object) -> User {
    let texts = |value: Option<&Value>| -> Vec<String> {
        let items = value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let extra = review.get(&["spec", "extra"]).and_then(Value::as_object).cloned().unwrap_or_default();
    User {
        name: review.str_at(&["spec", "user"]).to_owned(),
        uid: review.str_at(&["spec", "uid"]).to_owned(),
        groups: texts(review.get(&["spec", "groups"])),
        extra: extra.iter().map(|(key, values)| (key.clone(), texts(Some(values)))).collect(),
    }
}

fn action_of(review: &Object) -> Action<'_> {
    let path = |attribute: &'static str| review.str_at(&["spec", "nonResourceAttributes", attribute]);
    if present(review, "nonResourceAttributes") {
        return Action::NonResource { verb: path("verb"), path: path("path") };
    }
    let resource = |attribute: &'static str| review.str_at(&["spec", "resourceAttributes", attribute]);
    Action::Resource(ResourceAction {
        verb: resource("verb"),
        group: resource("group"),
        version: resource("version"),
        resource: resource("resource"),
        subresource: resource("subresource"),
        namespace: resource("namespace"),
        name: resource("name"),
    })
}

fn present(review: &Object, attributes: &str) -> bool {
    review.get(&["spec", attributes]).is_some_and(|value| !value.is_null())
}

fn problems(kind: &str, review: &Object) -> Vec<FieldError> {
    let spec = FieldPath::new("spec");
    let mut errors = Vec::new();
    let value = |name: &str| review.get(&["spec", name]).cloned().unwrap_or(Value::Null);
    match (present(review, "resourceAttributes"), present(review, "nonResourceAttributes")) {
        (true, true) => {
            let detail = "cannot be specified in combination with resourceAttributes";
            let path = spec.child("nonResourceAttributes");
            errors.push(FieldError::invalid(path, value("nonResourceAttributes"), detail));
        }
        (false, false) => {
            let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            errors.push(FieldError::invalid(spec.child("resourceAttributes"), Value::Null, detail));
        }
        _ => {}
    }
    let nobody = review.str_at(&["spec", "user"]).is_empty() && review.items(&["spec", "groups"]).is_empty();
    if kind != "SelfSubjectAccessReview" && nobody {
        errors.push(FieldError::invalid(spec.child("user"), "", "at least one of user or group must be specified"));
    }
    for selector in ["fieldSelector", "labelSelector"] {
        check_selector(review, selector, &mut errors);
    }
    let local = kind == "LocalSubjectAccessReview";
    let stray = |key: &String| key != "managedFields" && !(local && key == "namespace");
    let metadata = review.get(&["metadata"]).and_then(Value::as_object).cloned().unwrap_or_default();
    if metadata.iter().any(|(key, value)| stray(key) && !is_empty(value)) {
        let detail = if local { "must be empty except for namespace" } else { "must be empty" };
        errors.push(FieldError::invalid(FieldPath::new("metadata"), Value::Object(metadata), detail));
    }
    if local {
        check_local(review, &mut errors);
    }
    errors
}

fn check_selector(review: &Object, selector: &str, errors: &mut Vec<FieldError>) {
    let at = ["spec", "resourceAttributes", selector];
    if review.get(&at).is_none_or(Value::is_null) {
        return;
    }
    let path = FieldPath::new("spec.resourceAttributes").child(selector);
    let raw = review.str_at(&["spec", "resourceAttributes", selector, "rawSelector"]);
    let requirements = review.items(&["spec", "resourceAttributes", selector, "requirements"]);
    if !raw.is_empty() && !requirements.is_empty() {
        let detail = "may not specified at the same time as requirements";
        errors.push(FieldError::invalid(path.child("rawSelector"), raw, detail));
    }
    if raw.is_empty() && requirements.is_empty() {
        let detail = format!("when {path} is specified, requirements or rawSelector is required");
        errors.push(FieldError::required(path.child("requirements"), detail));
    }
}

fn check_local(review: &Object, errors: &mut Vec<FieldError>) {
    let namespace = review.str_at(&["spec", "resourceAttributes", "namespace"]);
    if present(review, "resourceAttributes") && namespace != review.namespace() {
        let path = FieldPath::new("spec.resourceAttributes.namespace");
        errors.push(FieldError::invalid(path, namespace, "must match metadata.namespace"));
    }
    if present(review, "nonResourceAttributes") {
        let value = review.get(&["spec", "nonResourceAttributes"]).cloned().unwrap_or(Value::Null);
        let path = FieldPath::new("spec.nonResourceAttributes");
        errors.push(FieldError::invalid(path, value, "disallowed on this kind of request"));
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Everything the caller may do in a namespace.
pub async fn rules(server: &Server, ctx: &Context, review: Object) -> Result<Object, Status> {
    let namespace = review.str_at(&["spec", "namespace"]).to_owned();
    if namespace.is_empty() {
        return Err(Status::bad_request("no namespace on request"));
    }
    let compiled = server.auth.policy().newest(server).await?;
    let mut found = compiled.index.rules_for(&ctx.user, &namespace);
    if ctx.user.is_master() {
        let [resources, paths] = PolicyRule::full_authority();
        found.resource_rules.insert(0, resources);
        found.non_resource_rules.insert(0, paths);
    }
    let resource_rules: Vec<Value> = found.resource_rules.iter().map(PolicyRule::to_value).collect();
    let non_resource_rules: Vec<Value> = found.non_resource_rules.iter().map(PolicyRule::to_value).collect();
    let mut status = Map::new();
    status.insert("resourceRules".into(), resource_rules.into());
    status.insert("nonResourceRules".into(), non_resource_rules.into());
    status.insert("incomplete".into(), false.into());
    if !found.evaluation_error.is_empty() {
        status.insert("evaluationError".into(), found.evaluation_error.into());
    }
    let mut answer = review;
    answer.set(&["metadata"], json!({}));
    // The question is not repeated in the answer, as kube-apiserver does not either.
    answer.set(&["spec"], json!({}));
    answer.set(&["status"], Value::Object(status));
    Ok(answer)
}
