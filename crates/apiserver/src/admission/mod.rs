//! Admission: steps that may change or refuse a write after authorization and before it is stored, in a fixed order.

pub mod certificates;
pub mod claim_resize;
pub mod default_tolerations;
mod dynamic;
pub mod ingress_class;
pub mod limit_ranger;
pub mod namespace_lifecycle;
pub mod pod_security;
pub mod policies;
pub mod priority;
pub mod quota;
pub mod runtime_class;
pub mod service_account;
pub mod service_ip;
pub mod storage_class;
pub mod webhooks;

pub(crate) use dynamic::live::Live;

use async_trait::async_trait;
use object::request::Subresource;
use object::{Object, Status};
use serde_json::Value;

use crate::admission::policies::PolicyRounds;
use crate::auth::Auth;
use crate::context::Context;
use crate::resources::Resources;
use crate::served_resources::Resource;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

impl Operation {
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// The parts of the server that admission may use.
#[derive(Clone, Copy)]
pub struct AdmissionScope<'a> {
    pub resources: Resources<'a>,
    pub auth: &'a Auth,
    pub chain: &'a Chain,
}

/// The write that is to be admitted. Objects are in the served version of the request.
pub struct Attributes<'a> {
    pub operation: Operation,
    pub resource: &'a Resource,
    pub subresource: Option<&'a Subresource>,
    pub namespace: &'a str,
    /// Empty while a generated name is not known yet.
    pub name: &'a str,
    pub old: Option<&'a Object>,
    /// The options object of the request (`CreateOptions`, `UpdateOptions`, `PatchOptions`, `DeleteOptions`).
    pub options: Value,
    pub dry_run: bool,
    /// The record of mutating policies on this write.
    pub policy_rounds: PolicyRounds,
}

impl Attributes<'_> {
    /// Returns the name of the object for error messages; before a name is generated, its generateName.
    pub fn name_in_refusals<'o>(&'o self, object: Option<&'o Object>) -> &'o str {
        match (self.name, object) {
            ("", Some(object)) if !object.name().is_empty() => object.name(),
            ("", Some(object)) if !object.generate_name().is_empty() => object.generate_name(),
            ("", _) => "Unknown",
            (name, _) => name,
        }
    }

    /// Reports whether an object is created or updated.
    pub fn is_write(&self) -> bool {
        matches!(self.operation, Operation::Create | Operation::Update)
    }

    /// Returns the object of a create or update that is not of a subresource.
    pub fn written<'o>(&self, object: Option<&'o Object>) -> Option<&'o Object> {
        object.filter(|_| self.is_write() && self.subresource.is_none())
    }
}

/// One admission step. Steps that change come before steps that only refuse.
#[async_trait]
pub trait Admission: Send + Sync {
    fn name(&self) -> &'static str;

    /// May change `object`; called for creates, updates and connects (with the options as the object).
    async fn mutate(
        &self,
        _scope: AdmissionScope<'_>,
        _ctx: &Context,
        _attributes: &Attributes<'_>,
        _object: &mut Object,
    ) -> Result<(), Status> {
        Ok(())
    }

    /// May refuse; `object` is `None` for deletes.
    async fn validate(
        &self,
        _scope: AdmissionScope<'_>,
        _ctx: &Context,
        _attributes: &Attributes<'_>,
        _object: Option<&Object>,
    ) -> Result<(), Status> {
        Ok(())
    }
}

/// All steps in order.
#[derive(Default)]
pub struct Chain {
    steps: Vec<Box<dyn Admission>>,
}

impl Chain {
    pub fn new(steps: Vec<Box<dyn Admission>>) -> Self {
        Self { steps }
    }

    /// Returns true when there is a step of this name.
    pub fn has(&self, name: &str) -> bool {
        self.steps.iter().any(|step| step.name() == name)
    }

    /// Returns the chain without the steps of these names. An unknown name is an error.
    pub fn without(mut self, names: &[String]) -> Result<Self, String> {
        for name in names {
            if !self.steps.iter().any(|step| step.name() == name) {
                let known: Vec<&str> = self.steps.iter().map(|step| step.name()).collect();
                return Err(format!("there is no admission step {name:?}; the steps are {}", known.join(", ")));
            }
        }
        self.steps.retain(|step| !names.iter().any(|name| name == step.name()));
        Ok(self)
    }

    pub async fn mutate(
        &self,
        scope: AdmissionScope<'_>,
        ctx: &Context,
        attributes: &Attributes<'_>,
        object: &mut Object,
    ) -> Result<(), Status> {
        for step in &self.steps {
            step.mutate(scope, ctx, attributes, object).await?;
        }
        Ok(())
    }

    /// Runs the steps before the named one once more, for a step whose changes they must see.
    pub async fn mutate_until(
        &self,
        step: &str,
        scope: AdmissionScope<'_>,
        ctx: &Context,
        attributes: &Attributes<'_>,
        object: &mut Object,
    ) -> Result<(), Status> {
        for earlier in self.steps.iter().take_while(|known| known.name() != step) {
            earlier.mutate(scope, ctx, attributes, object).await?;
        }
        Ok(())
    }

    pub async fn validate(
        &self,
        scope: AdmissionScope<'_>,
        ctx: &Context,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Status> {
        for step in &self.steps {
            step.validate(scope, ctx, attributes, object).await?;
        }
        Ok(())
    }
}
