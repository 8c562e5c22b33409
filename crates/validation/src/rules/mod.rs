//! Defaults and validation of Karmada's admission webhooks, with their messages.
//!
//! Pure: what has to be looked up (other customizations, quotas) is decided in `interpreters` and [`crate::quota`] from
//! what the caller gathered.

mod autoscaling;
mod bindings;
mod cron;
mod interpreters;
mod overrides;
mod placement;
mod propagation;
mod quotas;
mod services;
mod taints;
mod works;

pub use bindings::changes_reference;

use kinds::strategies::defaults::{map_at, set_absent, set_empty_str};
use object::{FieldError, GroupResource, Object, error_list};

pub use interpreters::customization_problem;
pub use placement::field_selector;

use api::{autoscaling as hpa, config, networking, policy, work};

/// A write that Karmada would send to its webhooks.
#[derive(Clone, Copy)]
pub struct Write<'a> {
    pub resource: &'a GroupResource,
    /// The namespace of the request, which may not yet be in the object.
    pub namespace: &'a str,
    /// The object before the write; none when it is created.
    pub old: Option<&'a Object>,
}

/// Options of the rules.
#[derive(Clone, Debug, Default)]
pub struct RuleSettings {
    /// `--allow-no-execute-taint-policy`.
    pub allow_no_execute_taints: bool,
    /// The feature gate MultiplePodTemplatesScheduling.
    pub multiple_pod_templates: bool,
    /// The feature gate MultiClusterService.
    pub multi_cluster_service: bool,
}

/// A webhook's no.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// The name of the webhook, which clients see.
    pub webhook: &'static str,
    pub code: u16,
    pub reason: &'static str,
    pub message: String,
}

impl Denial {
    pub fn forbidden(webhook: &'static str, message: impl Into<String>) -> Self {
        Self { webhook, code: 403, reason: "Forbidden", message: message.into() }
    }

    /// Returns the response of the server.
    pub fn status(&self) -> object::Status {
        let subject = format!("admission webhook {:?} denied the request", self.webhook);
        object::Status::new(self.code, self.reason, format!("{subject}: {}", self.message))
    }
}

/// Makes the changes of the mutating webhook of the resource, if it has one. `fresh_id` makes permanent ids.
pub fn mutate(write: &Write<'_>, object: &mut Object, fresh_id: &dyn Fn() -> String) -> Result<(), Denial> {
    let created = write.old.is_none();
    match (write.resource.group.as_str(), write.resource.resource.as_str()) {
        (policy::GROUP, "propagationpolicies") => {
            set_selector_namespaces(object, write.namespace);
            propagation::default(object);
            if created {
                object.set_label(policy::LABEL_PROPAGATION_ID, &fresh_id());
                object.add_finalizer(policy::FINALIZER_PROPAGATION);
            }
        }
        (policy::GROUP, "clusterpropagationpolicies") => {
            propagation::default(object);
            if created {
                object.set_label(policy::LABEL_CLUSTER_PROPAGATION_ID, &fresh_id());
                object.add_finalizer(policy::FINALIZER_CLUSTER_PROPAGATION);
            }
        }
        (policy::GROUP, "overridepolicies") => {
            set_selector_namespaces(object, write.namespace);
            show_empty(object, "overriders");
        }
        (work::GROUP, "resourcebindings") if created => set_absent_id(object, work::LABEL_BINDING_ID, fresh_id),
        (work::GROUP, "clusterresourcebindings") if created => {
            set_absent_id(object, work::LABEL_CLUSTER_BINDING_ID, fresh_id);
        }
        (work::GROUP, "works") => {
            set_absent_id(object, work::LABEL_WORK_ID, fresh_id);
            works::prepare_manifests(object)?;
        }
        (hpa::GROUP, "federatedhpas") => autoscaling::default(object),
        (networking::GROUP, "multiclusterservices") => {
            set_absent_id(object, networking::LABEL_SERVICE_ID, fresh_id);
            show_empty(object, "range");
        }
        _ => {}
    }
    Ok(())
}

/// Asks the validating webhook of the resource, if it has one. Customizations and quotas need more than the object: see
/// [`customization_problem`] and [`crate::quota`].
pub fn validate(write: &Write<'_>, object: &Object, settings: &RuleSettings) -> Result<(), Denial> {
    let refuse = |webhook: &'static str, errors: Vec<FieldError>| match errors.is_empty() {
        true => Ok(()),
        false => Err(Denial::forbidden(webhook, error_list::joined(errors))),
    };
    match (write.resource.group.as_str(), write.resource.resource.as_str()) {
        (policy::GROUP, "propagationpolicies") => {
            let hook = "propagationpolicy.karmada.io";
            propagation::check_identity(hook, policy::LABEL_PROPAGATION_ID, object, write.old)?;
            refuse(hook, propagation::validate(object, write.namespace))
        }
        (policy::GROUP, "clusterpropagationpolicies") => {
            let hook = "clusterpropagationpolicy.karmada.io";
            propagation::check_identity(hook, policy::LABEL_CLUSTER_PROPAGATION_ID, object, write.old)?;
            refuse(hook, propagation::validate(object, write.namespace))
        }
        (policy::GROUP, "overridepolicies") => {
            refuse("overridepolicy.karmada.io", overrides::validate(object, write.namespace))
        }
        (policy::GROUP, "clusteroverridepolicies") => {
            refuse("clusteroverridepolicy.karmada.io", overrides::validate(object, write.namespace))
        }
        (policy::GROUP, "federatedresourcequotas") => {
            refuse("federatedresourcequota.karmada.io", quotas::validate(object))
        }
        (policy::GROUP, "clustertaintpolicies") => {
            refuse("clustertaintpolicy.karmada.io", taints::validate(object, settings.allow_no_execute_taints))
        }
        (config::GROUP, "resourceinterpreterwebhookconfigurations") => {
            refuse("config.karmada.io", interpreters::validate_webhooks(object))
        }
        (networking::GROUP, "multiclusteringresses") => {
            refuse("multiclusteringress.karmada.io", services::validate_ingress(object, write.old))
        }
        (networking::GROUP, "multiclusterservices") => {
            refuse("multiclusterservice.karmada.io", services::validate_service(object, write.old))
        }
        (hpa::GROUP, "federatedhpas") => refuse("federatedhpa.karmada.io", autoscaling::validate(object)),
        (hpa::GROUP, "cronfederatedhpas") => refuse("cronfederatedhpa.karmada.io", autoscaling::validate_cron(object)),
        (work::GROUP, "resourcebindings") => {
            let hook = "resourcebinding.karmada.io";
            check_reference(write, object).map_or(Ok(()), |errors| refuse(hook, errors))?;
            refuse(hook, bindings::validate(object, settings.multiple_pod_templates))
        }
        (work::GROUP, "clusterresourcebindings") => {
            let errors = check_reference(write, object);
            errors.map_or(Ok(()), |errors| refuse("clusterresourcebinding.karmada.io", errors))
        }
        _ => Ok(()),
    }
}

/// The problems of the object reference of a binding; `None` when the write leaves the reference alone.
fn check_reference(write: &Write<'_>, binding: &Object) -> Option<Vec<FieldError>> {
    let is_changed = bindings::changes_reference(binding, write.old);
    is_changed.then(|| bindings::validate_reference(binding, write.namespace))
}

/// Returns warnings for objects that are accepted although Karmada refuses them.
pub fn warnings(write: &Write<'_>, object: &Object) -> Vec<String> {
    match (write.resource.group.as_str(), write.resource.resource.as_str()) {
        (policy::GROUP, "propagationpolicies" | "clusterpropagationpolicies") => propagation::warnings(object),
        _ => Vec::new(),
    }
}

/// Returns a warning for an object that no controller handles.
pub fn no_effect_warning(settings: &RuleSettings, write: &Write<'_>, object: &Object) -> Option<String> {
    if (write.resource.group.as_str(), write.resource.resource.as_str()) == (networking::GROUP, "multiclusterservices")
    {
        return services::no_effect_warning(object, settings.multi_cluster_service);
    }
    let what = match (write.resource.group.as_str(), write.resource.resource.as_str()) {
        (networking::GROUP, "multiclusteringresses") => "MultiClusterIngress",
        _ => return None,
    };
    Some(format!("{what} is stored but has no effect yet"))
}

fn set_absent_id(object: &mut Object, label: &str, fresh_id: &dyn Fn() -> String) {
    if object.label(label).unwrap_or_default().is_empty() {
        object.set_label(label, &fresh_id());
    }
}

/// A webhook written in Go gives a struct back even where nothing is in it.
fn show_empty(object: &mut Object, field: &str) {
    if let Some(spec) = map_at(object.as_map_mut(), "spec") {
        set_absent(spec, field, serde_json::Map::new());
    }
}

/// A namespaced policy selects in its own namespace.
fn set_selector_namespaces(object: &mut Object, namespace: &str) {
    let spec = object.as_map_mut().get_mut("spec");
    let selectors = spec.and_then(|spec| spec.get_mut("resourceSelectors")).and_then(|list| list.as_array_mut());
    for selector in selectors.into_iter().flatten().filter_map(|selector| selector.as_object_mut()) {
        set_empty_str(selector, "namespace", namespace);
    }
}
