//! Executes the decision for a StatefulSet: claims first, then pods.

use cluster_client::{ResourceRef, WriteOptions};
use object::builtin;
use object::{Object, Status};
use reconcile::{Committed, ObjectKey, ReconcileError, commit_object};
use serde_json::Value;

use crate::cluster::FIELD_MANAGER;
use crate::pod_control::{is_namespace_terminating, slow_start};
use crate::pods::Pod;
use crate::stateful_set::StatefulSets;
use crate::stateful_set::plan::{From, StatefulSetStep};
use crate::stateful_set::retention::{ClaimOwners, ClaimRetention};
use crate::stateful_set::spec::{StatefulSetSpec, claim_from, claim_name, claim_templates, identify, pod_of};

/// The pod templates by revision name.
pub struct RevisionTemplates {
    pub current: (String, Value),
    pub update: (String, Value),
}

impl StatefulSets {
    /// Executes in order; parallel creations run in growing batches.
    pub async fn commit_steps(
        &self,
        set: &Object,
        steps: Vec<StatefulSetStep>,
        templates: &RevisionTemplates,
    ) -> Result<(), ReconcileError> {
        let (creations, others): (Vec<StatefulSetStep>, Vec<StatefulSetStep>) =
            steps.into_iter().partition(|step| matches!(step, StatefulSetStep::Create { .. }));
        let creations = creations.into_iter().filter_map(|step| match step {
            StatefulSetStep::Create { ordinal, from } => Some((ordinal, from)),
            _ => None,
        });
        let create = |(ordinal, from): (i64, From)| self.create_pod(set, ordinal, from, templates);
        let (_, created) = slow_start(creations.map(create)).await;
        created?;
        for step in others {
            match step {
                StatefulSetStep::Create { .. } => {}
                StatefulSetStep::EnsureClaims { ordinal, pod } => self.create_claims(set, ordinal, pod.name()).await?,
                StatefulSetStep::Identify { ordinal, pod } => self.identify_pod(set, ordinal, &pod).await?,
                StatefulSetStep::Retain { ordinal, pod } => self.commit_retention(set, ordinal, &pod).await?,
                StatefulSetStep::Delete { pod } => self.delete_pod(set, &pod).await?,
            }
        }
        Ok(())
    }

    async fn create_pod(
        &self,
        set: &Object,
        ordinal: i64,
        from: From,
        templates: &RevisionTemplates,
    ) -> Result<(), Status> {
        let (revision, template) = match from {
            From::Current => &templates.current,
            From::Update => &templates.update,
        };
        let pod = pod_of(set, template, revision, ordinal);
        let name = pod.name().to_owned();
        let made = match self.create_claims(set, ordinal, &name).await {
            Ok(()) => self.control.create(set, pod).await.map(drop),
            Err(status) => Err(status),
        };
        match &made {
            Ok(()) => {
                self.record_event(set, "SuccessfulCreate", &format!("Create Pod {name} in StatefulSet {}", set.name()))
            }
            Err(status) if is_namespace_terminating(status) => return Ok(()),
            // It belongs to another owner, or is ours and not observed yet: retried when the mirror shows it.
            Err(status) if status.is_already_exists() => {}
            Err(status) => {
                let message = format!("Create Pod {name} in StatefulSet {} failed error: {status}", set.name());
                self.control.events.warning(set, "FailedCreate", message);
            }
        }
        made
    }

    fn record_event(&self, set: &Object, reason: &'static str, what: &str) {
        self.control.events.normal(set, reason, format!("{what} successful"));
    }

    async fn delete_pod(&self, set: &Object, pod: &Pod) -> Result<(), Status> {
        let what = format!("Delete Pod {} in StatefulSet {}", pod.name(), set.name());
        let result = self.control.delete(pod).await;
        match &result {
            Ok(()) => self.record_event(set, "SuccessfulDelete", &what),
            Err(status) => self.control.events.warning(set, "FailedDelete", format!("{what} failed error: {status}")),
        }
        result
    }

    /// Creates the missing claims of a pod.
    async fn create_claims(&self, set: &Object, ordinal: i64, pod: &str) -> Result<(), Status> {
        for template in claim_templates(set) {
            let mut claim = claim_from(set, template, ordinal);
            match self.cluster.claims.get(&ObjectKey::of(&claim)) {
                Some(known) if known.is_deleting() => {
                    return Err(Status::conflict(
                        &builtin::persistent_volume_claims().group_resource(),
                        known.name(),
                        format!("pvc {} is being deleted", known.name()),
                    ));
                }
                Some(_) => continue,
                None => {}
            }
            let owners = ClaimRetention::of(set).first_owners(set);
            if !owners.is_empty() {
                claim.set(&["metadata", "ownerReferences"], owners);
            }
            self.create_claim(set, claim, pod).await?;
        }
        Ok(())
    }

    async fn create_claim(&self, set: &Object, claim: Object, pod: &str) -> Result<(), Status> {
        let name = claim.name().to_owned();
        let target = ResourceRef::within(&builtin::persistent_volume_claims(), set.namespace());
        match self.cluster.client.create(target, claim, WriteOptions::managed_by(FIELD_MANAGER)).await {
            Ok(_) => {
                let message = format!("Create Claim {name} Pod {pod} in StatefulSet {} success", set.name());
                self.control.events.normal(set, "SuccessfulCreate", message);
                Ok(())
            }
            Err(status) if status.is_already_exists() => Ok(()),
            Err(status) => {
                let message =
                    format!("Create Claim {name} for Pod {pod} in StatefulSet {} failed error: {status}", set.name());
                self.control.events.warning(set, "FailedCreate", message);
                Err(status)
            }
        }
    }

    async fn identify_pod(&self, set: &Object, ordinal: i64, pod: &Pod) -> Result<(), Status> {
        let mut desired = Object::clone(pod);
        identify(&mut desired, ordinal);
        let target = ResourceRef::of(&builtin::pods(), pod);
        let written = commit_object(&self.cluster.client, target, pod, &desired, FIELD_MANAGER).await?;
        if let Committed::Written(written) = written {
            self.cluster.pods.note(&written);
            self.record_event(
                set,
                "SuccessfulUpdate",
                &format!("Update Pod {} in StatefulSet {}", pod.name(), set.name()),
            );
        }
        Ok(())
    }

    async fn commit_retention(&self, set: &Object, ordinal: i64, pod: &Pod) -> Result<(), Status> {
        let is_scaled_down = !StatefulSetSpec::of(set).has_ordinal(ordinal);
        for template in claim_templates(set) {
            let key = ObjectKey::new(set.namespace(), &claim_name(set, template, ordinal));
            let Some(claim) = self.cluster.claims.get(&key) else { continue };
            match ClaimRetention::of(set).plan_owners(&claim, set, pod, is_scaled_down) {
                ClaimOwners::Right => {}
                ClaimOwners::Contested => {
                    let message = format!(
                        "PersistentVolumeClaim {} has a conflicting OwnerReference that acts as a manging controller, \
                         the retention policy is ignored for this claim",
                        claim.name()
                    );
                    self.control.events.warning(set, "ConflictingController", message);
                }
                ClaimOwners::Should(owners) => {
                    let mut desired = Object::clone(&claim);
                    desired.set(&["metadata", "ownerReferences"], owners);
                    let target = ResourceRef::of(&builtin::persistent_volume_claims(), &claim);
                    commit_object(&self.cluster.client, target, &claim, &desired, FIELD_MANAGER).await?;
                }
            }
        }
        Ok(())
    }
}
