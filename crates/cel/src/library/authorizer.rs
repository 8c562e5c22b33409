//! Authorization checks from inside expressions, decided by the caller's [`Authorizer`].

use super::{CallContext, Function, fail, no_overload_for};
use crate::types::opaque;
use crate::value::{EvalError, Evaluated, Opaque, Value};
use object::names;
use std::fmt;
use std::sync::Arc;

/// Decides whether an action is allowed.
pub trait Authorizer: Send + Sync {
    fn authorize(&self, attributes: &Attributes) -> AuthorizerDecision;
}

/// The attributes of an authorization check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attributes {
    pub subject: CheckSubject,
    pub verb: String,
    pub target: CheckTarget,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckSubject {
    /// The user the authorizer was made for.
    Requester,
    ServiceAccount {
        namespace: String,
        name: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckTarget {
    Path(String),
    Resource(ResourceTarget),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResourceTarget {
    pub group: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    pub field_selector: String,
    pub label_selector: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthorizerDecision {
    pub allowed: bool,
    pub reason: String,
    pub error: Option<String>,
}

/// A step on the way from `authorizer` to a decision.
#[derive(Clone)]
pub struct Authorization {
    authorizer: Arc<dyn Authorizer>,
    subject: CheckSubject,
    step: BuilderStep,
}

#[derive(Debug, Clone)]
enum BuilderStep {
    Start,
    Path(String),
    Group(String),
    Resource(Box<ResourceTarget>),
    Decided(Arc<AuthorizerDecision>),
}

impl fmt::Debug for Authorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorization")
            .field("subject", &self.subject)
            .field("step", &self.step)
            .finish_non_exhaustive()
    }
}

impl Authorization {
    /// The value of the variable `authorizer`.
    pub fn start<'a>(authorizer: Arc<dyn Authorizer>) -> Value<'a> {
        Value::Opaque(Opaque::Authorization(Self {
            authorizer,
            subject: CheckSubject::Requester,
            step: BuilderStep::Start,
        }))
    }

    /// The value of the variable `authorizer.requestResource`.
    pub fn request_resource<'a>(authorizer: Arc<dyn Authorizer>, resource: ResourceTarget) -> Value<'a> {
        let step = BuilderStep::Resource(Box::new(resource));
        Value::Opaque(Opaque::Authorization(Self { authorizer, subject: CheckSubject::Requester, step }))
    }

    pub(crate) fn type_name(&self) -> &'static str {
        match self.step {
            BuilderStep::Start => opaque::AUTHORIZER,
            BuilderStep::Path(_) => opaque::PATH_CHECK,
            BuilderStep::Group(_) => opaque::GROUP_CHECK,
            BuilderStep::Resource(_) => opaque::RESOURCE_CHECK,
            BuilderStep::Decided(_) => opaque::DECISION,
        }
    }

    fn at<'a>(&self, step: BuilderStep) -> Evaluated<'a> {
        let (authorizer, subject) = (self.authorizer.clone(), self.subject.clone());
        Ok(Value::Opaque(Opaque::Authorization(Self { authorizer, subject, step })))
    }

    fn check<'a>(&self, verb: &str, target: CheckTarget) -> Evaluated<'a> {
        let attributes = Attributes { subject: self.subject.clone(), verb: verb.to_owned(), target };
        self.at(BuilderStep::Decided(Arc::new(self.authorizer.authorize(&attributes))))
    }
}

pub(super) fn function(name: &str) -> Option<Function> {
    Some(match name {
        "path" | "group" | "resource" | "subresource" | "namespace" | "name" | "fieldSelector" | "labelSelector"
        | "check" => step,
        "serviceAccount" => service_account,
        "allowed" => |context, args| verdict(context, args).map(|verdict| Value::Bool(verdict.allowed)),
        "errored" => |context, args| verdict(context, args).map(|verdict| Value::Bool(verdict.error.is_some())),
        "error" => {
            |context, args| verdict(context, args).map(|verdict| Value::text(verdict.error.clone().unwrap_or_default()))
        }
        "reason" => |context, args| verdict(context, args).map(|verdict| Value::text(verdict.reason.clone())),
        _ => return None,
    })
}

fn verdict<'v>(context: &CallContext, args: &'v [Value]) -> Result<&'v AuthorizerDecision, EvalError> {
    match args {
        [Value::Opaque(Opaque::Authorization(Authorization { step: BuilderStep::Decided(verdict), .. }))] => {
            Ok(verdict)
        }
        _ => Err(no_overload_for(context, args).err().unwrap_or_else(EvalError::no_such_overload)),
    }
}

/// Every builder takes the previous step and one string.
fn step<'a>(context: &CallContext, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::Opaque(Opaque::Authorization(authorization)), Value::String(text)] = args else {
        return no_overload_for(context, args);
    };
    let text = text.to_string();
    match (context.call.function.as_str(), &authorization.step) {
        ("path", BuilderStep::Start) if text.trim().is_empty() => fail("path must not be empty"),
        ("path", BuilderStep::Start) => authorization.at(BuilderStep::Path(text)),
        ("group", BuilderStep::Start) => authorization.at(BuilderStep::Group(text)),
        ("resource", BuilderStep::Group(_)) if text.trim().is_empty() => fail("resource must not be empty"),
        ("resource", BuilderStep::Group(group)) => {
            let target = ResourceTarget { group: group.clone(), resource: text, ..ResourceTarget::default() };
            authorization.at(BuilderStep::Resource(Box::new(target)))
        }
        ("check", BuilderStep::Path(path)) => authorization.check(&text, CheckTarget::Path(path.clone())),
        ("check", BuilderStep::Resource(target)) => {
            authorization.check(&text, CheckTarget::Resource((**target).clone()))
        }
        (function, BuilderStep::Resource(target)) => {
            let mut target = target.clone();
            match function {
                "subresource" => target.subresource = text,
                "namespace" => target.namespace = text,
                "name" => target.name = text,
                "fieldSelector" => target.field_selector = text,
                "labelSelector" => target.label_selector = text,
                _ => return no_overload_for(context, args),
            }
            authorization.at(BuilderStep::Resource(target))
        }
        _ => no_overload_for(context, args),
    }
}

fn service_account<'a>(context: &CallContext, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::Opaque(Opaque::Authorization(start)), Value::String(namespace), Value::String(name)] = args else {
        return no_overload_for(context, args);
    };
    if !matches!(start.step, BuilderStep::Start) {
        return no_overload_for(context, args);
    }
    if !names::dns1123_subdomain(name).is_empty() {
        return fail("Invalid service account name");
    }
    if !names::dns1123_label(namespace).is_empty() {
        return fail("Invalid service account namespace");
    }
    let subject = CheckSubject::ServiceAccount { namespace: namespace.to_string(), name: name.to_string() };
    let (authorizer, step) = (start.authorizer.clone(), BuilderStep::Start);
    Ok(Value::Opaque(Opaque::Authorization(Authorization { authorizer, subject, step })))
}
