//! Shared parts of webhooks and policies: matching of writes, and the form in which they receive a write.

pub mod conditions;
pub mod facts;
pub mod live;
pub mod request;
pub mod rule;
pub mod version;

use std::sync::Arc;

use facts::Facts;
use object::request::FieldValidation;
use object::selector::LabelSelector;
use object::{Object, Status};
use rule::Rule;
use serde_json::Value;

use crate::decode::Findings;
use crate::served_resources::Resource;
use crate::shape;

/// The group of the configurations themselves; webhooks and policies never match it.
const CONFIGURATION_GROUP: &str = "admissionregistration.k8s.io";

/// The writes that a webhook, policy or binding matches.
pub struct Criteria {
    rules: Vec<Rule>,
    excluded: Vec<Rule>,
    /// Without rules everything is meant (bindings), or nothing (webhooks).
    all_without_rules: bool,
    /// Other served versions of a resource count as the resource.
    equivalent: bool,
    namespaces: Selector,
    objects: Selector,
}

/// A selector, or what is wrong with it.
type Selector = Result<LabelSelector, String>;

/// The match of a write.
pub enum Matched {
    /// As it was asked for.
    AsAsked,
    /// As another version of the same resource; that is the version to show.
    As(Arc<Resource>),
}

impl Criteria {
    /// Reads a webhook.
    pub fn of_webhook(hook: &Value) -> Self {
        Self { all_without_rules: false, ..Self::read(hook, "rules") }
    }

    /// Reads `matchConstraints` or `matchResources`.
    pub fn of_policy(resources: &Value) -> Self {
        Self { all_without_rules: true, ..Self::read(resources, "resourceRules") }
    }

    fn read(value: &Value, rules: &str) -> Self {
        let list = |key: &str| value[key].as_array().into_iter().flatten().map(Rule::read).collect();
        let selector = |key: &str| match value.get(key) {
            None | Some(Value::Null) => Ok(LabelSelector::everything()),
            some => LabelSelector::from_value(some).map_err(|error| error.to_string()),
        };
        Self {
            rules: list(rules),
            excluded: list("excludeResourceRules"),
            all_without_rules: false,
            equivalent: value["matchPolicy"] != "Exact",
            namespaces: selector("namespaceSelector"),
            objects: selector("objectSelector"),
        }
    }

    /// Rules come first although the answer does not depend on the order: they need nothing but the request.
    pub async fn matches(&self, facts: &Facts<'_>, object: Option<&Object>) -> Result<Option<Matched>, Status> {
        if self.find(&self.excluded, facts).is_some() {
            return Ok(None);
        }
        let found = if self.rules.is_empty() && self.all_without_rules {
            Some(Matched::AsAsked)
        } else {
            self.find(&self.rules, facts)
        };
        let Some(found) = found else { return Ok(None) };
        let objects = self.objects.as_ref().map_err(Status::internal)?;
        let selected = |object: Option<&Object>| object.is_some_and(|object| objects.matches(object));
        if !objects.is_everything() && !selected(object) && !selected(facts.attributes.old) {
            return Ok(None);
        }
        Ok(self.namespace_matches(facts, object).await?.then_some(found))
    }

    fn find(&self, rules: &[Rule], facts: &Facts<'_>) -> Option<Matched> {
        let attributes = facts.attributes;
        if rules.iter().any(|rule| rule.matches(facts, attributes.resource)) {
            return Some(Matched::AsAsked);
        }
        if !self.equivalent || rules.is_empty() {
            return None;
        }
        let others = version::equivalents(facts);
        rules.iter().find_map(|rule| others.iter().find(|other| rule.matches(facts, other))).cloned().map(Matched::As)
    }

    async fn namespace_matches(&self, facts: &Facts<'_>, object: Option<&Object>) -> Result<bool, Status> {
        if facts.namespace.is_empty() && !facts.is_about_namespace() {
            return Ok(true);
        }
        let selector = self.namespaces.as_ref().map_err(Status::internal)?;
        if selector.is_everything() {
            return Ok(true);
        }
        // A namespace that is being written is matched by its new labels.
        if facts.is_about_namespace()
            && facts.attributes.subresource.is_none()
            && let Some(object) = object
        {
            return Ok(selector.matches(object));
        }
        Ok(selector.matches(&*facts.namespace_object().await?))
    }
}

/// Configurations can always be changed, or a bad one could never be undone.
pub fn is_exempt(resource: &Resource) -> bool {
    let gvk = &resource.kind.gvk;
    gvk.group == CONFIGURATION_GROUP
        && matches!(
            gvk.kind.as_str(),
            "ValidatingWebhookConfiguration"
                | "MutatingWebhookConfiguration"
                | "ValidatingAdmissionPolicy"
                | "ValidatingAdmissionPolicyBinding"
                | "MutatingAdmissionPolicy"
                | "MutatingAdmissionPolicyBinding"
        )
}

/// The resource in the version that a webhook or policy sees.
pub fn shown_resource<'a>(facts: &Facts<'a>, matched: &'a Matched) -> &'a Resource {
    match matched {
        Matched::AsAsked => facts.attributes.resource,
        Matched::As(other) => other,
    }
}

/// Gives a changed object the form every other object of its kind has, with defaults.
pub fn reshape(facts: &Facts<'_>, matched: &Matched, before: &Object, object: Object) -> Result<Object, String> {
    if object.gvk() != before.gvk() {
        return Err(format!("the patch changes {} into {}", before.gvk(), object.gvk()));
    }
    let resource = shown_resource(facts, matched);
    if object.gvk() != resource.kind.gvk {
        return Ok(object);
    }
    // The request is not at fault, so the error is not a client error.
    let gvk = &resource.kind.gvk;
    let subject = format!("{} in version {:?} cannot be handled as a {}: ", gvk.kind, gvk.version, gvk.kind);
    shape::shape(facts.ctx, resource, object, FieldValidation::Ignore, Findings::default())
        .map_err(|status| status.message.strip_prefix(&subject).unwrap_or(&status.message).to_owned())
}
