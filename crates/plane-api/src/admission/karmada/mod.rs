//! Karmada's webhooks as admission steps: ids and defaults, rules, quotas, deletion protection.
//!
//! Each step gathers its inputs and leaves the decision to `validation`.

mod customizations;
mod quotas;
mod webhooks;

use std::sync::Arc;

use api::features::Features;
use api::work::{self, LABEL_DELETION_PROTECTED};
use apiserver::admission::{Admission, AdmissionScope, Attributes, Operation};
use apiserver::context::Context;
use apiserver::resources::Resources;
use apiserver::served_resources::Resource;
use async_trait::async_trait;
use object::{FieldError, FieldPath, GroupResource, GroupVersion, Object, Status};
use plane_metrics::WebhookMetrics;
use validation::rules::{self, Denial, RuleSettings, Write};

pub use customizations::CompileScript;

use crate::admission::karmada::webhooks::{WebhookPaths, count};

/// Settings of the steps.
pub struct Options {
    pub features: Arc<Features>,
    /// Allows ClusterTaintPolicies to add NoExecute taints.
    pub allow_no_execute_taints: bool,
    /// Compiles a Lua script or returns the error.
    pub compile: CompileScript,
    pub metrics: WebhookMetrics,
}

/// Returns the steps in order. They run after mutating webhooks and before the quotas of Kubernetes.
pub fn steps(options: Options) -> Vec<Box<dyn Admission>> {
    let settings = RuleSettings {
        allow_no_execute_taints: options.allow_no_execute_taints,
        multiple_pod_templates: options.features.multiple_pod_templates,
        multi_cluster_service: options.features.multi_cluster_service,
    };
    let webhooks = Arc::new(WebhookPaths::new(&options.metrics));
    vec![
        Box::new(Defaults { webhooks: Arc::clone(&webhooks) }),
        Box::new(Rules {
            settings,
            compile: options.compile,
            enforces_quotas: options.features.federated_quota_enforcement,
            webhooks: Arc::clone(&webhooks),
        }),
        Box::new(DeletionProtection { webhooks }),
    ]
}

/// Karmada's webhooks are configured for objects, not for subresources.
fn concerns(attributes: &Attributes<'_>) -> bool {
    attributes.is_write() && attributes.subresource.is_none() && attributes.resource.kind.own_schema.is_some()
}

fn write<'a>(attributes: &'a Attributes<'_>, resource: &'a GroupResource) -> Write<'a> {
    Write { resource, namespace: attributes.namespace, old: attributes.old }
}

struct Defaults {
    webhooks: Arc<WebhookPaths>,
}

#[async_trait]
impl Admission for Defaults {
    fn name(&self) -> &'static str {
        "KarmadaDefaults"
    }

    async fn mutate(
        &self,
        _scope: AdmissionScope<'_>,
        _ctx: &Context,
        attributes: &Attributes<'_>,
        object: &mut Object,
    ) -> Result<(), Status> {
        if !concerns(attributes) {
            return Ok(());
        }
        let request = self.webhooks.mutation(attributes);
        let resource = attributes.resource.kind.group_resource();
        let fresh_id = || uuid::Uuid::new_v4().to_string();
        let outcome = rules::mutate(&write(attributes, &resource), object, &fresh_id).map_err(|denial| denial.status());
        count(request, &outcome);
        outcome
    }
}

/// The rules that need only the object, those of customizations, and quotas.
struct Rules {
    settings: RuleSettings,
    compile: CompileScript,
    enforces_quotas: bool,
    webhooks: Arc<WebhookPaths>,
}

#[async_trait]
impl Admission for Rules {
    fn name(&self) -> &'static str {
        "KarmadaRules"
    }

    async fn validate(
        &self,
        scope: AdmissionScope<'_>,
        ctx: &Context,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Status> {
        let Some(object) = object.filter(|_| concerns(attributes)) else { return Ok(()) };
        let request = self.webhooks.validation(attributes);
        let outcome = self.check(scope, ctx, attributes, object).await;
        count(request, &outcome);
        outcome
    }
}

impl Rules {
    async fn check(
        &self,
        scope: AdmissionScope<'_>,
        ctx: &Context,
        attributes: &Attributes<'_>,
        object: &Object,
    ) -> Result<(), Status> {
        let resource = attributes.resource.kind.group_resource();
        let write = write(attributes, &resource);
        rules::validate(&write, object, &self.settings).map_err(|denial| denial.status())?;
        check_referenced_kind(scope.resources, &write, object).map_err(|denial| denial.status())?;
        let warnings =
            rules::warnings(&write, object).into_iter().chain(rules::no_effect_warning(&self.settings, &write, object));
        warnings.for_each(|warning| ctx.warn(warning));
        customizations::check(attributes, object, &self.compile).await?;
        match self.enforces_quotas {
            // Last, so that a write that is refused uses no quota.
            true => quotas::charge(scope, attributes, object).await,
            false => Ok(()),
        }
    }
}

/// Refuses a binding of a kind with another scope than its own, where the kind is served here.
fn check_referenced_kind(resources: Resources<'_>, write: &Write<'_>, binding: &Object) -> Result<(), Denial> {
    let (webhook, is_namespaced) = match (write.resource.group.as_str(), write.resource.resource.as_str()) {
        (work::GROUP, "resourcebindings") => ("resourcebinding.karmada.io", true),
        (work::GROUP, "clusterresourcebindings") => ("clusterresourcebinding.karmada.io", false),
        _ => return Ok(()),
    };
    let field = |name: &str| binding.str_at(&["spec", "resource", name]);
    let gvk = GroupVersion::parse(field("apiVersion")).unwrap_or_default().kind(field("kind"));
    let snapshot = resources.registry.snapshot();
    let is_of_scope = |found: &Arc<Resource>| found.kind.namespaced == is_namespaced;
    if !rules::changes_reference(binding, write.old) || snapshot.find_kind(&gvk).is_none_or(is_of_scope) {
        return Ok(());
    }
    let path = FieldPath::new("spec").child("resource").child("kind");
    let text = match is_namespaced {
        true => "the kind is cluster-scoped: a ResourceBinding propagates namespaced objects of its own namespace only",
        false => "the kind is namespaced: a ClusterResourceBinding propagates cluster-scoped objects only",
    };
    Err(Denial::forbidden(webhook, FieldError::invalid(path, field("kind"), text).to_string()))
}

/// Refuses to delete objects of any kind that carry the label.
struct DeletionProtection {
    webhooks: Arc<WebhookPaths>,
}

#[async_trait]
impl Admission for DeletionProtection {
    fn name(&self) -> &'static str {
        "KarmadaDeletionProtection"
    }

    async fn validate(
        &self,
        _scope: AdmissionScope<'_>,
        _ctx: &Context,
        attributes: &Attributes<'_>,
        _object: Option<&Object>,
    ) -> Result<(), Status> {
        let deletes = attributes.operation == Operation::Delete && attributes.subresource.is_none();
        let protected = attributes.old.filter(|_| deletes).and_then(|old| old.label(LABEL_DELETION_PROTECTED));
        let Some(protected) = protected else { return Ok(()) };
        // As in Karmada, whose webhook is called for each object with the label.
        let request = self.webhooks.deletion_protection.started();
        let outcome = if protected == "Always" { Err(protected_status()) } else { Ok(()) };
        count(Some(request), &outcome);
        outcome
    }
}

fn protected_status() -> Status {
    let text = format!("This resource is protected, please make sure to remove the label: {LABEL_DELETION_PROTECTED}");
    Denial::forbidden("resourcedeletionprotection.karmada.io", text).status()
}
