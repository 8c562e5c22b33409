//! The policy stage: which policy propagates the template, or why none does.

use api::cluster::CLUSTERS;
use object::Object;
use propagation::claim::{Claim, Decision, decide};
use propagation::policy::PolicyKey;
use propagation::policy_choice::explain_choice;
use propagation::policy_index::PolicyIndex;
use propagation::skipped_namespaces::NotSynced;

use crate::document::{Stage, State};
use crate::gather::PropagationRules;
use crate::reason::Reason;

/// Returns a stage for objects that no policy can propagate.
pub fn exempt(rules: &PropagationRules, template: &Object) -> Option<Stage> {
    let gvk = template.gvk();
    if rules.skipped_apis.contains(&gvk) {
        let is_cluster = gvk.group == CLUSTERS.group && gvk.kind == CLUSTERS.kind;
        let text = format!("{} objects stay in the control plane; no policy propagates them", gvk.kind);
        return Some(Stage::new("policy", State::Done, text).because(Reason::ApiNotPropagated { is_cluster }));
    }
    let namespace = template.namespace();
    if !namespace.is_empty() && rules.skipped_namespaces.contains(namespace) {
        let text = format!("objects in namespace {namespace} stay in the control plane");
        return Some(Stage::new("policy", State::Failed, text).because(Reason::NamespaceSkipped));
    }
    None
}

/// Returns true for a namespace that no policy claims.
pub fn is_synced_namespace(policies: &PolicyIndex, template: &Object) -> bool {
    template.api_version() == "v1"
        && template.kind() == "Namespace"
        && matches!(decide(policies, template), Decision::Unmatched)
}

pub fn not_synced(why: NotSynced) -> &'static str {
    match why {
        NotSynced::Reserved => "it is not synced to members: it belongs to the control plane, or every cluster has it",
        NotSynced::Deleting => "it is being deleted",
        NotSynced::Label => "it is not synced to members: it has the label namespace.karmada.io/skip-auto-propagation",
        NotSynced::Flag => "it is not synced to members: --skipped-propagating-namespaces",
    }
}

/// Returns the stage, and the policy that applies.
pub fn stage(policies: &PolicyIndex, template: &Object) -> (Stage, Option<PolicyKey>) {
    let choice = explain_choice(policies, template);
    let mut details: Vec<String> = choice
        .candidates
        .iter()
        .map(|c| format!("{} selects it with priority {} by {:?}: {}", c.policy, c.priority, c.specificity, c.verdict))
        .collect();
    let (state, summary, reason, policy) = match decide(policies, template) {
        Decision::Apply(policy) => {
            (State::Done, format!("{} applies", policy.display_name()), None, Some(policy.key.clone()))
        }
        Decision::TakenBy(other) => (State::Done, format!("propagated by {other}, not by a policy"), None, None),
        Decision::HolderDeleting(policy) => {
            let text = format!("{} is being deleted; another policy may take over after it", policy.display_name());
            (State::Waiting, text, Some(Reason::PolicyDeleting), Some(policy.key.clone()))
        }
        Decision::HolderSelectsOther(policy) => {
            let text = format!("it belongs to {}, which no longer selects it", policy.display_name());
            (State::Waiting, text, Some(Reason::PolicySelectsOther), Some(policy.key.clone()))
        }
        Decision::HolderGone(Claim { policy, .. }) => {
            let text = format!("it belonged to {policy}, which was deleted; propagated copies stay");
            (State::Waiting, text, Some(Reason::PolicyGone), None)
        }
        Decision::Unmatched => {
            details.extend(choice.nearest.iter().map(|miss| format!("nearly: {miss}")));
            let text = match policies.is_empty() {
                true => "no policy selects it: there are no policies",
                false => "no policy selects it",
            };
            let reason = Reason::NoPolicy { has_near_miss: !choice.nearest.is_empty() };
            (State::Failed, text.to_owned(), Some(reason), None)
        }
    };
    (Stage::new("policy", state, summary).details(details).because(reason), policy)
}
