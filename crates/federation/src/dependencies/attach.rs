//! Attaches bindings of what a dependent needs, and detaches those of what it does not need any more.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::config::DependentObjectReference;
use api::names::binding_name;
use api::work::{BindingSnapshot, LABEL_BINDING_ID, ObjectReference};
use cluster_client::{ListOptions, ResourceRef, WriteOptions};
use object::{GroupVersion, Object, Status};
use propagation::dependency::{
    Attachment, Treatment, TreatmentConflict, attached_binding, dependent_label, detached, plan_attachment,
    recorded_dependencies, refers_to, treatment,
};
use propagation::eviction::with_staying_copies;
use reconcile::commit_object;
use reconcile::mirror::ObjectKey;

use crate::dependencies::Distributor;
use crate::plane::FIELD_MANAGER;
use crate::templates::Template;

const COLLECTION: &str = "due to different owner reference UID, will try again later after binding is garbage \
    collected, see https://github.com/karmada-io/karmada/issues/6034";

impl Distributor {
    /// Updates the attached bindings to match the dependencies. Returns the number of writes; all are tried, and the first
    /// error is returned at the end.
    pub async fn synchronize(
        self: &Arc<Self>,
        dependent: &Object,
        former: &[DependentObjectReference],
        dependencies: &[DependentObjectReference],
    ) -> Result<usize, Status> {
        let mut written = self.detach_orphans(dependent, former, dependencies).await?;
        let mut failure = None;
        for dependency in dependencies {
            match self.attach(dependent, dependency).await {
                Ok(attached) => written += attached,
                Err(status) => drop(failure.get_or_insert(status)),
            }
        }
        failure.map_or(Ok(written), Err)
    }

    /// Nothing stays attached to a dependent that goes or no longer takes anything along.
    pub async fn detach_all(&self, dependent: &Object) -> Result<(), Status> {
        let former = recorded_dependencies(dependent).unwrap_or_default();
        for key in self.attached_to(dependent, &former) {
            if let Some(attached) = self.find_attached(dependent, &key).await? {
                self.detach(dependent, &key, &attached).await?;
            }
        }
        Ok(())
    }

    async fn detach_orphans(
        &self,
        dependent: &Object,
        former: &[DependentObjectReference],
        dependencies: &[DependentObjectReference],
    ) -> Result<usize, Status> {
        let mut detached = 0;
        for key in self.attached_to(dependent, former) {
            let Some(attached) = self.find_attached(dependent, &key).await? else { continue };
            let reference: ObjectReference = api::read_at(&attached, &["spec", "resource"])?;
            if !self.is_needed(&reference, dependencies).await? {
                self.detach(dependent, &key, &attached).await?;
                detached += 1;
            }
        }
        Ok(detached)
    }

    async fn is_needed(
        &self,
        reference: &ObjectReference,
        dependencies: &[DependentObjectReference],
    ) -> Result<bool, Status> {
        if dependencies.iter().any(|dependency| refers_to(dependency, reference, None)) {
            return Ok(true);
        }
        let may_be_meant = |d: &&DependentObjectReference| d.kind == reference.kind && d.label_selector.is_some();
        if !dependencies.iter().any(|dependency| may_be_meant(&dependency)) {
            return Ok(false);
        }
        let object = self.plane.templates.find(&Template::from(reference)).await?;
        Ok(dependencies.iter().any(|dependency| refers_to(dependency, reference, object.as_deref())))
    }

    /// Returns the keys of bindings that may be attached to the dependent: by their labels, and by the last recorded
    /// dependencies, because the mirror may not show recently attached bindings yet.
    fn attached_to(&self, dependent: &Object, former: &[DependentObjectReference]) -> BTreeSet<ObjectKey> {
        let label = dependent_label(dependent.namespace(), dependent.name());
        let labeled = self.plane.bindings_by_dependent.list(&label);
        let labeled = labeled.iter().filter(|attached| attached.namespace() == dependent.namespace());
        let named = former.iter().filter(|reference| !reference.name.is_empty());
        let named = named.map(|reference| binding_name(&reference.kind, &reference.name));
        let named = named.map(|name| ObjectKey::new(dependent.namespace(), &name));
        labeled.map(|attached| ObjectKey::of(attached)).chain(named).collect()
    }

    /// The binding as the API has it, if it is attached to this dependent and not to an earlier one of its name.
    async fn find_attached(&self, dependent: &Object, key: &ObjectKey) -> Result<Option<Arc<Object>>, Status> {
        let found = self.plane.client.find(self.plane.bindings.target(key)).await?;
        let label = dependent_label(dependent.namespace(), dependent.name());
        let id = dependent.label(LABEL_BINDING_ID).unwrap_or_default();
        Ok(found.filter(|attached| attached.label(&label) == Some(id)))
    }

    async fn detach(&self, dependent: &Object, key: &ObjectKey, attached: &Object) -> Result<(), Status> {
        let (namespace, name) = (dependent.namespace(), dependent.name());
        let desired = detached(attached, namespace, name, |snapshot| self.treatment_wanted_by(snapshot, None));
        let target = self.plane.bindings.target(key);
        match commit_object(&self.plane.client, target, attached, &desired, FIELD_MANAGER).await {
            Err(status) if !status.is_not_found() => Err(status),
            _ => Ok(()),
        }
    }

    async fn attach(
        self: &Arc<Self>,
        dependent: &Object,
        dependency: &DependentObjectReference,
    ) -> Result<usize, Status> {
        let mut written = 0;
        for needed in self.gather_needed(dependency).await? {
            written += usize::from(self.attach_one(dependent, &needed).await?);
        }
        Ok(written)
    }

    /// The objects a reference means. Their kind is followed first, so that none that comes meanwhile is missed.
    async fn gather_needed(
        self: &Arc<Self>,
        dependency: &DependentObjectReference,
    ) -> Result<Vec<Arc<Object>>, Status> {
        let DependentObjectReference { api_version, kind, namespace, name, label_selector } = dependency;
        let gvk = GroupVersion::parse(api_version).unwrap_or_default().kind(kind);
        let watched = self.plane.templates.follow(&gvk).await?;
        self.follow_changes(watched.clone());
        if !name.is_empty() {
            let template = Template::new(api_version, kind, namespace, name);
            return Ok(self.plane.templates.find(&template).await?.into_iter().collect());
        }
        let Some(selector) = label_selector else {
            let text = "the Name and LabelSelector in the DependentObjectReference cannot be empty at the same time";
            return Err(Status::bad_request(text));
        };
        let selector = selector.compile().map_err(|error| Status::bad_request(error.to_string()))?;
        if watched.mirror.is_synced() {
            let objects = match namespace.as_str() {
                "" => watched.mirror.list(),
                namespace => watched.mirror.list_within(namespace),
            };
            return Ok(objects.into_iter().filter(|object| selector.matches(object)).collect());
        }
        let target = match namespace.as_str() {
            "" => ResourceRef::all(&watched.resource.gvr),
            namespace => ResourceRef::within(&watched.resource.gvr, namespace),
        };
        let options = ListOptions { label_selector: Some(selector.to_string()), ..ListOptions::default() };
        Ok(self.plane.client.list_all(target, options).await?.items)
    }

    /// Says whether anything was written.
    async fn attach_one(&self, dependent: &Object, needed: &Object) -> Result<bool, Status> {
        let client = &self.plane.client;
        let staying = with_staying_copies(dependent).filter(|_| self.plane.features.resilient_failover);
        let desired = attached_binding(staying.as_ref().unwrap_or(dependent), needed);
        let key = ObjectKey::of(&desired);
        let target = self.plane.bindings.target(&key);
        let existing = client.find(target.clone()).await?;
        if existing.is_none() && needed.is_deleting() {
            // A controller that waits for its binding to be deleted first would wait forever.
            return Ok(false);
        }
        let wish = |snapshot: &BindingSnapshot| self.treatment_wanted_by(snapshot, Some(dependent));
        let (attachment, conflicts) = plan_attachment(desired, existing.as_deref(), wish);
        let written = match (attachment, &existing) {
            (Attachment::Unchanged, existing) => {
                // The result may be the same though another field is in conflict now.
                existing.iter().for_each(|attached| self.record_conflicts(attached, &conflicts));
                return Ok(false);
            }
            (Attachment::WaitForCollection, _) => {
                let text = format!("failed to update resourceBinding({key}) {COLLECTION}");
                return Err(Status::internal(text));
            }
            (Attachment::Update(merged), Some(existing)) => {
                commit_object(client, target, existing, &merged, FIELD_MANAGER).await?;
                merged
            }
            (Attachment::Create(binding) | Attachment::Update(binding), _) => {
                let target = ResourceRef { name: None, ..target };
                let created = client.create(target, binding, WriteOptions::managed_by(FIELD_MANAGER)).await?;
                Object::clone(&created)
            }
        };
        self.record_conflicts(&written, &conflicts);
        Ok(true)
    }

    /// Returns the treatment a dependent requests. `at_hand` is newer than its copy in the mirror.
    fn treatment_wanted_by(&self, snapshot: &BindingSnapshot, at_hand: Option<&Object>) -> Option<Treatment> {
        let key = ObjectKey::new(&snapshot.namespace, &snapshot.name);
        match at_hand.filter(|dependent| ObjectKey::of(dependent) == key) {
            Some(dependent) => Some(treatment(dependent)),
            None => self.plane.bindings.get(&key).map(|dependent| treatment(&dependent)),
        }
    }

    fn record_conflicts(&self, attached: &Object, conflicts: &[TreatmentConflict]) {
        if conflicts.is_empty() {
            return;
        }
        let reasons: Vec<String> = conflicts.iter().map(ToString::to_string).collect();
        let message = format!("Dependency policy conflict detected: {}.", reasons.join("; "));
        self.recorder.warning(attached, "DependencyPolicyConflict", message);
    }
}
