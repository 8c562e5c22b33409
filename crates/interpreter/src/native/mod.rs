//! Rules for built-in kinds, read directly from the JSON tree.

mod aggregate;
mod counters;
mod health;
mod job;
mod load_balancer;
mod read;
mod reflect;
mod replicas;
mod retain;

use api::config::DependentObjectReference;
use api::work::{AggregatedStatusItem, ReplicaRequirements};
use jiff::Timestamp;
use object::Object;
use serde_json::Value;

use crate::operation::{InterpretError, InterpretResult, Operation};
use crate::pod;

/// A kind with native rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Deployment,
    ReplicaSet,
    StatefulSet,
    DaemonSet,
    Job,
    CronJob,
    Pod,
    Service,
    ServiceAccount,
    Secret,
    PersistentVolume,
    PersistentVolumeClaim,
    Ingress,
    PodDisruptionBudget,
    HorizontalPodAutoscaler,
    ServiceImport,
}

impl Kind {
    fn of(api_version: &str, kind: &str) -> Option<Self> {
        Some(match (api_version, kind) {
            ("apps/v1", "Deployment") => Self::Deployment,
            ("apps/v1", "ReplicaSet") => Self::ReplicaSet,
            ("apps/v1", "StatefulSet") => Self::StatefulSet,
            ("apps/v1", "DaemonSet") => Self::DaemonSet,
            ("batch/v1", "Job") => Self::Job,
            ("batch/v1", "CronJob") => Self::CronJob,
            ("v1", "Pod") => Self::Pod,
            ("v1", "Service") => Self::Service,
            ("v1", "ServiceAccount") => Self::ServiceAccount,
            ("v1", "Secret") => Self::Secret,
            ("v1", "PersistentVolume") => Self::PersistentVolume,
            ("v1", "PersistentVolumeClaim") => Self::PersistentVolumeClaim,
            ("networking.k8s.io/v1", "Ingress") => Self::Ingress,
            ("policy/v1", "PodDisruptionBudget") => Self::PodDisruptionBudget,
            ("autoscaling/v2", "HorizontalPodAutoscaler") => Self::HorizontalPodAutoscaler,
            ("multicluster.x-k8s.io/v1alpha1", "ServiceImport") => Self::ServiceImport,
            _ => return None,
        })
    }

    fn of_object(object: &Object) -> Option<Self> {
        Self::of(object.api_version(), object.kind())
    }

    /// The field with the desired number of pods.
    fn replica_field(self) -> Option<&'static str> {
        match self {
            Self::Deployment | Self::ReplicaSet | Self::StatefulSet => Some("replicas"),
            Self::Job => Some("parallelism"),
            _ => None,
        }
    }
}

/// Reports whether there is a rule for this kind.
pub fn has_hook(api_version: &str, kind: &str, operation: Operation) -> bool {
    use Kind as K;

    if operation == Operation::InterpretStatus {
        return true;
    }
    let Some(kind) = Kind::of(api_version, kind) else { return false };
    match operation {
        Operation::InterpretStatus => true,
        Operation::InterpretComponent => false,
        Operation::InterpretReplica => kind.replica_field().is_some() || kind == K::Pod,
        Operation::ReviseReplica => kind.replica_field().is_some(),
        Operation::Retain => matches!(
            kind,
            K::Deployment
                | K::Pod
                | K::Service
                | K::ServiceAccount
                | K::PersistentVolumeClaim
                | K::PersistentVolume
                | K::Job
                | K::Secret
        ),
        Operation::AggregateStatus => !matches!(kind, K::ServiceAccount | K::Secret | K::ServiceImport),
        Operation::InterpretDependency => matches!(
            kind,
            K::Deployment
                | K::ReplicaSet
                | K::Job
                | K::CronJob
                | K::Pod
                | K::DaemonSet
                | K::StatefulSet
                | K::Ingress
                | K::ServiceImport
        ),
        Operation::InterpretHealth => matches!(
            kind,
            K::Deployment
                | K::StatefulSet
                | K::ReplicaSet
                | K::DaemonSet
                | K::Service
                | K::Ingress
                | K::PersistentVolumeClaim
                | K::Pod
                | K::PodDisruptionBudget
        ),
    }
}

fn no_rule(object: &Object, operation: Operation) -> InterpretError {
    InterpretError(format!("default {} interpreter for \"{}\" not found", operation.name(), object.gvk()))
}

pub fn replicas(object: &Object, options: pod::PodOptions) -> InterpretResult<(i32, Option<ReplicaRequirements>)> {
    let kind = Kind::of_object(object).ok_or_else(|| no_rule(object, Operation::InterpretReplica))?;
    replicas::replicas(kind, object, options)
}

pub fn revise_replicas(mut object: Object, replicas: i64) -> InterpretResult<Object> {
    let field = Kind::of_object(&object)
        .and_then(Kind::replica_field)
        .ok_or_else(|| no_rule(&object, Operation::ReviseReplica))?;
    replicas::revise(&mut object, field, replicas)?;
    Ok(object)
}

pub fn retain(mut desired: Object, observed: &Object) -> InterpretResult<Object> {
    let kind = Kind::of_object(&desired).ok_or_else(|| no_rule(&desired, Operation::Retain))?;
    retain::retain(kind, &mut desired, observed)?;
    Ok(desired)
}

pub fn aggregate_status(mut object: Object, items: &[AggregatedStatusItem], now: Timestamp) -> InterpretResult<Object> {
    let kind = Kind::of_object(&object).ok_or_else(|| no_rule(&object, Operation::AggregateStatus))?;
    aggregate::aggregate(kind, &mut object, items, now)?;
    Ok(object)
}

pub fn reflect_status(object: &Object) -> InterpretResult<Option<Value>> {
    reflect::reflect(Kind::of_object(object), object)
}

pub fn is_healthy(object: &Object) -> InterpretResult<bool> {
    let kind = Kind::of_object(object).ok_or_else(|| no_rule(object, Operation::InterpretHealth))?;
    health::is_healthy(kind, object)
}

pub fn dependencies(object: &Object) -> InterpretResult<Vec<DependentObjectReference>> {
    let none = || no_rule(object, Operation::InterpretDependency);
    let kind = Kind::of_object(object).ok_or_else(none)?;
    let namespace = object.namespace();
    let of_spec = |path: &[&str]| object.get(path).map(|spec| pod::dependencies(spec, namespace)).unwrap_or_default();
    let found = match kind {
        Kind::Deployment | Kind::ReplicaSet | Kind::Job | Kind::DaemonSet => of_spec(&["spec", "template", "spec"]),
        Kind::CronJob => of_spec(&["spec", "jobTemplate", "spec", "template", "spec"]),
        Kind::Pod => of_spec(&["spec"]),
        Kind::StatefulSet => {
            // A claim created from a claim template in the member is only a placeholder here.
            let made = |name: &str| {
                let templates = object.items(&["spec", "volumeClaimTemplates"]);
                templates.iter().any(|template| template["metadata"]["name"] == name)
            };
            let mut found = of_spec(&["spec", "template", "spec"]);
            found.retain(|dependency| dependency.kind != "PersistentVolumeClaim" || !made(&dependency.name));
            found
        }
        Kind::Ingress => {
            let names = object.items(&["spec", "tls"]).iter().filter_map(|tls| tls["secretName"].as_str());
            // An entry without a secret uses the controller's own certificate: no dependency.
            let names = names.filter(|name| !name.is_empty());
            names.map(|name| pod::reference("v1", "Secret", namespace, name)).collect()
        }
        Kind::ServiceImport => service_import_dependencies(object),
        _ => return Err(none()),
    };
    crate::dependency::verify(&found)?;
    Ok(found)
}

fn service_import_dependencies(object: &Object) -> Vec<DependentObjectReference> {
    let derived = format!("derived-{}", object.name());
    let mut slices = pod::reference("discovery.k8s.io/v1", "EndpointSlice", object.namespace(), "");
    slices.label_selector = Some(api::core::LabelSelector {
        match_labels: [("kubernetes.io/service-name".to_owned(), derived.clone())].into(),
        match_expressions: Vec::new(),
    });
    vec![pod::reference("v1", "Service", object.namespace(), &derived), slices]
}

#[cfg(test)]
mod tests;
