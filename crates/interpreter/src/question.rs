//! The operations as types: each has its inputs, its answer, and the way each tier answers it.

use std::borrow::Cow;

use api::config::DependentObjectReference;
use api::work::{AggregatedStatusItem, Component, ReplicaRequirements};
use jiff::Timestamp;
use object::Object;
use serde_json::Value;

use crate::customization::Scripts;
use crate::lua::Run;
use crate::operation::{InterpretError, InterpretResult, Operation};
use crate::webhook::{OperationInputs, Response, ResponseError};
use crate::{dependency, native, pod};

/// One operation with its inputs.
pub trait Question {
    type Answer;
    const OPERATION: Operation;

    fn object(&self) -> &Object;

    /// The inputs of a webhook request besides the object.
    fn inputs(&self) -> OperationInputs<'_> {
        OperationInputs::default()
    }

    fn by_scripts(&self, run: Run<'_>, scripts: &Scripts) -> InterpretResult<Self::Answer>;

    fn by_webhook(&self, response: &Response<'_>) -> Result<Self::Answer, ResponseError>;

    /// Consumes the question: a native rule changes the object in place.
    fn by_native(self, options: pod::PodOptions, now: Timestamp) -> InterpretResult<Self::Answer>;
}

/// Asks for the number of replicas and the requirements of each.
pub struct Replicas<'a>(pub &'a Object);

/// Asks for the components of a workload with several pod templates.
pub struct Components<'a>(pub &'a Object);

/// Asks for the object with another number of replicas.
pub struct ReviseReplicas<'a> {
    pub object: Cow<'a, Object>,
    pub replicas: i64,
}

/// Asks for the desired object with the fields that the member's own controllers set.
pub struct Retain<'a> {
    pub desired: Cow<'a, Object>,
    pub observed: &'a Object,
}

/// Asks for the template with the status that follows from the statuses in its members.
pub struct AggregateStatus<'a> {
    pub object: Cow<'a, Object>,
    pub items: &'a [AggregatedStatusItem],
}

/// Asks for the objects that the object needs.
pub struct Dependencies<'a>(pub &'a Object);

/// Asks for the part of the status that is reported to the control plane.
pub struct ReflectStatus<'a>(pub &'a Object);

/// Asks whether the object is healthy.
pub struct Health<'a>(pub &'a Object);

impl Question for Replicas<'_> {
    type Answer = (i32, Option<ReplicaRequirements>);
    const OPERATION: Operation = Operation::InterpretReplica;

    fn object(&self) -> &Object {
        self.0
    }

    fn by_scripts(&self, run: Run<'_>, scripts: &Scripts) -> InterpretResult<Self::Answer> {
        run.replicas(&scripts.first, self.0)
    }

    fn by_webhook(&self, response: &Response<'_>) -> Result<Self::Answer, ResponseError> {
        Ok((response.required("replicas")?, response.optional("replicaRequirements")?))
    }

    fn by_native(self, options: pod::PodOptions, _now: Timestamp) -> InterpretResult<Self::Answer> {
        native::replicas(self.0, options)
    }
}

impl Question for Components<'_> {
    type Answer = Vec<Component>;
    const OPERATION: Operation = Operation::InterpretComponent;

    fn object(&self) -> &Object {
        self.0
    }

    fn by_scripts(&self, run: Run<'_>, scripts: &Scripts) -> InterpretResult<Self::Answer> {
        run.components(&scripts.first, self.0)
    }

    fn by_webhook(&self, response: &Response<'_>) -> Result<Self::Answer, ResponseError> {
        Ok(response.optional("components")?.unwrap_or_default())
    }

    fn by_native(self, _options: pod::PodOptions, _now: Timestamp) -> InterpretResult<Self::Answer> {
        Err(InterpretError("interface GetComponents not implemented yet".to_owned()))
    }
}

impl Question for ReviseReplicas<'_> {
    type Answer = Object;
    const OPERATION: Operation = Operation::ReviseReplica;

    fn object(&self) -> &Object {
        &self.object
    }

    fn inputs(&self) -> OperationInputs<'_> {
        OperationInputs { replicas: self.replicas, ..OperationInputs::default() }
    }

    fn by_scripts(&self, run: Run<'_>, scripts: &Scripts) -> InterpretResult<Self::Answer> {
        run.revise_replicas(&scripts.first, &self.object, self.replicas)
    }

    fn by_webhook(&self, response: &Response<'_>) -> Result<Self::Answer, ResponseError> {
        response.patched(&self.object)
    }

    fn by_native(self, _options: pod::PodOptions, _now: Timestamp) -> InterpretResult<Self::Answer> {
        native::revise_replicas(self.object.into_owned(), self.replicas)
    }
}

impl Question for Retain<'_> {
    type Answer = Object;
    const OPERATION: Operation = Operation::Retain;

    fn object(&self) -> &Object {
        &self.desired
    }

    fn inputs(&self) -> OperationInputs<'_> {
        OperationInputs { observed: Some(self.observed), ..OperationInputs::default() }
    }

    fn by_scripts(&self, run: Run<'_>, scripts: &Scripts) -> InterpretResult<Self::Answer> {
        run.retain(&scripts.first, &self.desired, self.observed)
    }

    fn by_webhook(&self, response: &Response<'_>) -> Result<Self::Answer, ResponseError> {
        response.patched(&self.desired)
    }

    fn by_native(self, _options: pod::PodOptions, _now: Timestamp) -> InterpretResult<Self::Answer> {
        native::retain(self.desired.into_owned(), self.observed)
    }
}

impl Question for AggregateStatus<'_> {
    type Answer = Object;
    const OPERATION: Operation = Operation::AggregateStatus;

    fn object(&self) -> &Object {
        &self.object
    }

    fn inputs(&self) -> OperationInputs<'_> {
        OperationInputs { items: self.items, ..OperationInputs::default() }
    }

    fn by_scripts(&self, run: Run<'_>, scripts: &Scripts) -> InterpretResult<Self::Answer> {
        run.aggregate_status(&scripts.first, &self.object, self.items)
    }

    fn by_webhook(&self, response: &Response<'_>) -> Result<Self::Answer, ResponseError> {
        response.patched(&self.object)
    }

    fn by_native(self, _options: pod::PodOptions, now: Timestamp) -> InterpretResult<Self::Answer> {
        native::aggregate_status(self.object.into_owned(), self.items, now)
    }
}

impl Question for Dependencies<'_> {
    type Answer = Vec<DependentObjectReference>;
    const OPERATION: Operation = Operation::InterpretDependency;

    fn object(&self) -> &Object {
        self.0
    }

    /// The one operation that all customizations contribute to.
    fn by_scripts(&self, run: Run<'_>, scripts: &Scripts) -> InterpretResult<Self::Answer> {
        let mut lists = Vec::new();
        for script in scripts.all() {
            let found = run.dependencies(script, self.0)?;
            dependency::verify(&found)?;
            lists.push(found);
        }
        Ok(dependency::merge(lists))
    }

    fn by_webhook(&self, response: &Response<'_>) -> Result<Self::Answer, ResponseError> {
        let found: Self::Answer = response.optional("dependencies")?.unwrap_or_default();
        dependency::verify(&found).map_err(|error| ResponseError::Invalid(error.0))?;
        Ok(found)
    }

    fn by_native(self, _options: pod::PodOptions, _now: Timestamp) -> InterpretResult<Self::Answer> {
        native::dependencies(self.0)
    }
}

impl Question for ReflectStatus<'_> {
    type Answer = Option<Value>;
    const OPERATION: Operation = Operation::InterpretStatus;

    fn object(&self) -> &Object {
        self.0
    }

    fn by_scripts(&self, run: Run<'_>, scripts: &Scripts) -> InterpretResult<Self::Answer> {
        run.reflect_status(&scripts.first, self.0).map(Some)
    }

    fn by_webhook(&self, response: &Response<'_>) -> Result<Self::Answer, ResponseError> {
        Ok(Some(response.required("rawStatus")?))
    }

    fn by_native(self, _options: pod::PodOptions, _now: Timestamp) -> InterpretResult<Self::Answer> {
        native::reflect_status(self.0)
    }
}

impl Question for Health<'_> {
    type Answer = bool;
    const OPERATION: Operation = Operation::InterpretHealth;

    fn object(&self) -> &Object {
        self.0
    }

    fn by_scripts(&self, run: Run<'_>, scripts: &Scripts) -> InterpretResult<Self::Answer> {
        run.is_healthy(&scripts.first, self.0)
    }

    fn by_webhook(&self, response: &Response<'_>) -> Result<Self::Answer, ResponseError> {
        Ok(response.required("healthy")?)
    }

    fn by_native(self, _options: pod::PodOptions, _now: Timestamp) -> InterpretResult<Self::Answer> {
        native::is_healthy(self.0)
    }
}
