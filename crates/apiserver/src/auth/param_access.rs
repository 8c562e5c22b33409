//! Admission of policies with parameters: the author must be able to read what the policy reads for it.

use access::{Action, ResourceAction};
use async_trait::async_trait;
use object::{FieldError, FieldPath, GroupVersion, Object, Status};

use crate::admission::{Admission, AdmissionScope, Attributes};
use crate::context::Context;

const GROUP: &str = "admissionregistration.k8s.io";

/// Refuses a `paramKind` or `paramRef` whose objects the author may not read: messages and patches of the policy could
/// show them. It only refuses, so it comes after the steps that change objects.
pub struct ParamAccess;

/// The resource that a policy's parameters are; `*` where it cannot be found.
struct ParamResource {
    group: String,
    version: String,
    plural: String,
}

#[async_trait]
impl Admission for ParamAccess {
    fn name(&self) -> &'static str {
        "PolicyParamAccess"
    }

    async fn validate(
        &self,
        scope: AdmissionScope<'_>,
        ctx: &Context,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Status> {
        let Some(object) = attributes.written(object) else { return Ok(()) };
        let gvk = &attributes.resource.kind.gvk;
        if gvk.group != GROUP || ctx.user.is_master() {
            return Ok(());
        }
        match gvk.kind.as_str() {
            "ValidatingAdmissionPolicy" | "MutatingAdmissionPolicy" => {
                check_policy(scope, ctx, attributes, object).await
            }
            "ValidatingAdmissionPolicyBinding" => {
                check_binding(scope, ctx, attributes, object, "validatingadmissionpolicies").await
            }
            "MutatingAdmissionPolicyBinding" => {
                check_binding(scope, ctx, attributes, object, "mutatingadmissionpolicies").await
            }
            _ => Ok(()),
        }
    }
}

fn is_unchanged(attributes: &Attributes<'_>, object: &Object, fields: &[&str]) -> bool {
    attributes
        .old
        .is_some_and(|old| fields.iter().all(|field| old.get(&["spec", field]) == object.get(&["spec", field])))
}

async fn check_policy(
    scope: AdmissionScope<'_>,
    ctx: &Context,
    attributes: &Attributes<'_>,
    policy: &Object,
) -> Result<(), Status> {
    let Some(resource) = param_resource(scope, policy) else { return Ok(()) };
    if is_unchanged(attributes, policy, &["paramKind"]) {
        return Ok(());
    }
    let action = ResourceAction { namespace: "*", name: "*", ..resource.action("get") };
    if scope.auth.decide(scope.resources, &ctx.user, &Action::Resource(action)).await?.allowed {
        return Ok(());
    }
    let text = |field: &str| policy.str_at(&["spec", "paramKind", field]);
    let detail = format!(
        "user {} must have \"get\" permission on all objects of the referenced paramKind (kind={}, apiVersion={})",
        ctx.user.name,
        text("kind"),
        text("apiVersion")
    );
    Err(refuse(attributes, policy, "paramKind", detail))
}

async fn check_binding(
    scope: AdmissionScope<'_>,
    ctx: &Context,
    attributes: &Attributes<'_>,
    binding: &Object,
    policies: &str,
) -> Result<(), Status> {
    if !binding.get(&["spec", "paramRef"]).is_some_and(serde_json::Value::is_object)
        || is_unchanged(attributes, binding, &["paramRef", "policyName"])
    {
        return Ok(());
    }
    let wanted = binding.str_at(&["spec", "policyName"]);
    let policy = match scope.resources.registry.find(GROUP, "v1", policies) {
        Some(resource) => scope.resources.objects.get(&resource.key("", wanted)).await?,
        None => None,
    };
    // Without the policy it is not known what the parameters are, so the right must hold for everything.
    let resource = policy.as_ref().and_then(|found| param_resource(scope, &found.object));
    let everything = ParamResource { group: "*".to_owned(), version: "*".to_owned(), plural: "*".to_owned() };
    let resource = resource.unwrap_or(everything);
    let text = |field: &str| binding.str_at(&["spec", "paramRef", field]);
    let verb = if text("name").is_empty() { "list" } else { "get" };
    let action = ResourceAction { namespace: text("namespace"), name: text("name"), ..resource.action(verb) };
    if scope.auth.decide(scope.resources, &ctx.user, &Action::Resource(action)).await?.allowed {
        return Ok(());
    }
    let user = &ctx.user.name;
    let detail = match policy {
        None => format!(
            "unable to get policy {wanted} to determine minimum required permissions and user {user} does not have \
             \"{verb}\" permission for all groups, versions and resources"
        ),
        Some(_) => format!("user {user} does not have \"{verb}\" permission on the object referenced by paramRef"),
    };
    Err(refuse(attributes, binding, "paramRef", detail))
}

/// `None` for a policy without parameters.
fn param_resource(scope: AdmissionScope<'_>, policy: &Object) -> Option<ParamResource> {
    let text = |field: &str| policy.str_at(&["spec", "paramKind", field]);
    if text("kind").is_empty() {
        return None;
    }
    let any = || "*".to_owned();
    let Some(version) = GroupVersion::parse(text("apiVersion")) else {
        return Some(ParamResource { group: any(), version: any(), plural: any() });
    };
    let gvk = version.kind(text("kind"));
    let plural = scope.resources.registry.snapshot().find_kind(&gvk).map(|found| found.kind.plural.clone());
    Some(ParamResource { group: gvk.group, version: gvk.version, plural: plural.unwrap_or_else(any) })
}

impl ParamResource {
    fn action<'a>(&'a self, verb: &'a str) -> ResourceAction<'a> {
        let (group, version, resource) = (&self.group, &self.version, &self.plural);
        ResourceAction { verb, group, version, resource, ..ResourceAction::default() }
    }
}

fn refuse(attributes: &Attributes<'_>, object: &Object, field: &str, detail: String) -> Status {
    let error = FieldError::forbidden(FieldPath::new("spec").child(field), detail);
    Status::invalid(&attributes.resource.kind.gvk.group_kind(), object.name(), &[error])
}
