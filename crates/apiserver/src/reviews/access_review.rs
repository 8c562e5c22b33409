//! Access reviews, and the review that lists all rights of a user.

use access::{Action, PolicyRule, ResourceAction};
use object::request::User;
use object::{GroupKind, Object, Status};
use serde_json::{Map, Value, json};

use crate::context::Context;
use crate::scope::WriteScope;
use crate::verbs::Target;

pub async fn access(scope: WriteScope<'_>, ctx: &Context, target: &Target, review: Object) -> Result<Object, Status> {
    let kind = &target.resource.kind;
    let errors = kind.strategy.validate_create(&review);
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
    let decision = scope.auth.decide(scope.resources(), user, &action_of(&review)).await?;
    let mut status = json!({"allowed": decision.allowed});
    if !decision.reason.is_empty() {
        status["reason"] = decision.reason.into();
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
    if review.get(&["spec", "nonResourceAttributes"]).is_some_and(|value| !value.is_null()) {
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

/// Lists the rights of the caller in a namespace.
pub async fn rules(scope: WriteScope<'_>, ctx: &Context, review: Object) -> Result<Object, Status> {
    let namespace = review.str_at(&["spec", "namespace"]).to_owned();
    if namespace.is_empty() {
        return Err(Status::bad_request("no namespace on request"));
    }
    let found = scope.auth.policy().read(scope.resources(), |index| index.rules_for(&ctx.user, &namespace)).await?;
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
