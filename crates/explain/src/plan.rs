//! `plan`: what would be placed, moved, changed or removed if some manifests were applied, without doing it.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::cluster::CLUSTERS;
use api::policy::{CLUSTER_OVERRIDE_POLICIES, CLUSTER_PROPAGATION_POLICIES, OVERRIDE_POLICIES, PROPAGATION_POLICIES};
use api::work::WORKS;
use cluster_client::{ClusterClient, ListOptions, Patch, ResourceRef, User, WriteOptions};
use object::{Object, Status};
use propagation::overrides::OverridePolicy;
use propagation::policy::Policy;
use propagation::policy_selector::Selector;
use serde::Serialize;

use crate::document::Subject;
use crate::gather::Explainer;
use crate::place::{PredictedState, Prediction};
use crate::plan_text;

/// Templates examined in one plan.
pub const TEMPLATES_MAX: usize = 1000;
const FIELD_MANAGER: &str = "flotilla-plan";
/// Size of the objects of members in one plan.
const MANIFEST_BYTES_MAX: usize = 4 << 20;

/// The whole answer.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangePlan {
    /// Everything would be accepted, placed and delivered.
    pub ok: bool,
    pub templates: Vec<Planned>,
    /// Manifests that would be rejected.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// Policies that select nothing, and limits of this plan.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The answer as text.
    pub text: String,
}

/// One template and its prediction.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Planned {
    pub subject: Subject,
    #[serde(flatten)]
    pub outcome: Prediction,
}

/// Objects as they would be, templates by identity.
#[derive(Default)]
struct Changes {
    templates: BTreeMap<(String, String, String, String), Object>,
    /// Selectors, before and after, of policies that would change.
    selectors: Vec<ChangedSelector>,
    clusters_change: bool,
}

/// A selector of a policy that would change.
struct ChangedSelector {
    selector: Selector,
    /// The namespace of the policy.
    namespace: String,
    /// The policy as it would be has it; a former selector that selects nothing is no mistake.
    is_current: bool,
    policy: String,
}

impl Explainer {
    /// Plans with the permissions of a user: without permission to apply a manifest, its effects are not shown.
    pub async fn plan(&self, user: User, manifests: Vec<Object>) -> Result<ChangePlan, Status> {
        let client = self.parts.client.impersonating(user);
        let mut plan = ChangePlan::default();
        let clusters = self.clusters().await?;
        let mut world = PredictedState {
            policies: self.policies().await?,
            overrides: self.overrides().await?,
            snapshot: self.snapshot(&clusters)?,
            clusters,
            shows_manifests: may_read_works(&client).await,
        };
        let mut changes = Changes::default();
        for manifest in manifests {
            let subject = subject_of(&manifest);
            match self.rehearse(&client, manifest).await {
                Ok(object) => self.take_in(&mut world, &mut changes, object)?,
                Err(status) => plan.problems.push(format!("{subject} would be rejected: {status}")),
            }
        }
        world.snapshot = self.snapshot(&world.clusters)?;
        self.find_affected(&client, &mut changes, &mut plan).await?;
        let mut manifest_bytes = 0;
        for template in changes.templates.values() {
            let mut outcome = self.foresee(&world, template).await?;
            manifest_bytes += outcome.manifest_bytes();
            if manifest_bytes > MANIFEST_BYTES_MAX {
                outcome.drop_manifests();
                plan.note("the plan is too large to show all objects before and after".to_owned());
            }
            plan.templates.push(Planned { subject: subject_of(template), outcome });
        }
        plan.ok = plan.problems.is_empty() && plan.templates.iter().all(|planned| planned.outcome.is_ok());
        plan.text = plan_text::text(&plan);
        Ok(plan)
    }

    /// The result of applying a manifest: defaulted, admitted and validated, but not stored.
    async fn rehearse(&self, client: &ClusterClient, mut manifest: Object) -> Result<Object, Status> {
        let resource = self.resource(manifest.api_version(), manifest.kind()).await?;
        if resource.namespaced && manifest.namespace().is_empty() {
            manifest.set_namespace("default");
        }
        let target = match resource.namespaced {
            true => ResourceRef::namespaced(&resource.gvr, manifest.namespace(), manifest.name()),
            false => ResourceRef::cluster(&resource.gvr, manifest.name()),
        };
        let options = WriteOptions { dry_run: true, ..WriteOptions::managed_by(FIELD_MANAGER) };
        let object = client.patch(target, Patch::apply(manifest, true), options).await?;
        Ok((*object).clone())
    }

    /// Adds an object to the predicted state.
    fn take_in(&self, world: &mut PredictedState, changes: &mut Changes, object: Object) -> Result<(), Status> {
        let gvk = object.gvk();
        let is = |resource: api::Resource| gvk.group == resource.group && gvk.kind == resource.kind;
        if is(PROPAGATION_POLICIES) || is(CLUSTER_PROPAGATION_POLICIES) {
            let policy = Policy::read(Arc::new(object))?;
            let namespace = policy.key.namespace.clone();
            let old = world.policies.get(&policy.key).map(|old| old.selectors.clone()).unwrap_or_default();
            changes.select(&policy.key.to_string(), &namespace, old, &policy.selectors);
            world.policies.put(policy);
        } else if is(OVERRIDE_POLICIES) || is(CLUSTER_OVERRIDE_POLICIES) {
            let policy = OverridePolicy::read(&object)?;
            let all = match policy.namespace.is_empty() {
                true => &mut world.overrides.cluster,
                false => &mut world.overrides.namespaced,
            };
            let same = |other: &OverridePolicy| other.namespace == policy.namespace && other.name == policy.name;
            let old = all.iter().position(same).map(|at| all.remove(at).selectors).unwrap_or_default();
            let described = format!("{} {}", gvk.kind, policy.name);
            changes.select(&described, &policy.namespace, old, &policy.selectors);
            all.push(policy);
        } else if is(CLUSTERS) {
            world.clusters.retain(|cluster| cluster.name() != object.name());
            world.clusters.push(Arc::new(object));
            changes.clusters_change = true;
        } else {
            changes.put(object);
        }
        Ok(())
    }

    /// Finds templates that exist and that the changed policies select, as far as the caller may list them.
    async fn find_affected(
        &self,
        client: &ClusterClient,
        changes: &mut Changes,
        plan: &mut ChangePlan,
    ) -> Result<(), Status> {
        for changed in std::mem::take(&mut changes.selectors) {
            let written = &changed.selector.written;
            let Ok(resource) = self.resource(&written.api_version, &written.kind).await else {
                let kind = format!("{} {}", written.api_version, written.kind);
                plan.note(format!("{} selects kind {kind}, which the control plane does not serve", changed.policy));
                continue;
            };
            let namespace = if written.namespace.is_empty() { &changed.namespace } else { &written.namespace };
            let target = match resource.namespaced && !namespace.is_empty() {
                true => ResourceRef::within(&resource.gvr, namespace),
                false => ResourceRef { gvr: resource.gvr.clone(), ..ResourceRef::default() },
            };
            let listed = match client.list_all(target, ListOptions::default()).await {
                Err(status) if status.code == 403 => {
                    let kind = &written.kind;
                    plan.note(format!("objects of kind {kind} that a policy selects are not planned: {status}"));
                    continue;
                }
                listed => listed?,
            };
            let is_selected = |object: &Object| changed.selector.selects(object).is_some();
            let mut is_used = changes.templates.values().any(is_selected);
            for object in listed.items.into_iter().filter(|object| is_selected(object)) {
                is_used = true;
                if !changes.add((*object).clone()) {
                    plan.note(format!("only the first {TEMPLATES_MAX} objects are planned"));
                    return Ok(());
                }
            }
            if changed.is_current && !is_used {
                plan.note(format!("{} has a selector for {} that selects nothing", changed.policy, written.kind));
            }
        }
        if changes.clusters_change {
            plan.note("changes of clusters are planned for the objects above only".to_owned());
        }
        Ok(())
    }
}

impl ChangePlan {
    fn note(&mut self, text: String) {
        if !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }
}

impl Changes {
    fn key(object: &Object) -> (String, String, String, String) {
        let text = |text: &str| text.to_owned();
        (text(object.api_version()), text(object.kind()), text(object.namespace()), text(object.name()))
    }

    /// Adds the selectors of a policy, before and after its change.
    fn select(&mut self, policy: &str, namespace: &str, old: Vec<Selector>, new: &[Selector]) {
        let former = old.into_iter().map(|selector| (selector, false));
        let current = new.iter().cloned().map(|selector| (selector, true));
        self.selectors.extend(former.chain(current).map(|(selector, is_current)| ChangedSelector {
            selector,
            namespace: namespace.to_owned(),
            is_current,
            policy: policy.to_owned(),
        }));
    }

    fn put(&mut self, object: Object) {
        self.templates.insert(Self::key(&object), object);
    }

    /// Adds an existing template, unless it would change itself. Returns false if there are too many.
    fn add(&mut self, object: Object) -> bool {
        if self.templates.len() >= TEMPLATES_MAX {
            return false;
        }
        self.templates.entry(Self::key(&object)).or_insert(object);
        true
    }
}

/// Works hold the objects of members, with what override policies changed.
async fn may_read_works(client: &ClusterClient) -> bool {
    let target = ResourceRef { gvr: WORKS.gvr(), ..ResourceRef::default() };
    client.list(target, ListOptions { limit: Some(1), ..ListOptions::default() }).await.is_ok()
}

fn subject_of(object: &Object) -> Subject {
    Subject {
        api_version: object.api_version().to_owned(),
        kind: object.kind().to_owned(),
        namespace: object.namespace().to_owned(),
        name: object.name().to_owned(),
    }
}
