//! Delivers one template to all members of its binding: gathers the facts, plans every Work, then writes them
//! concurrently.

use std::sync::Arc;
use std::time::Duration;

use api::names::{execution_namespace, work_name};
use api::work::{BindingSpec, TargetCluster, WORKS};
use cluster_client::{Patch, ResourceRef, WriteOptions};
use futures::StreamExt;
use futures::stream;
use object::{Object, Status, error_list};
use propagation::overrides::{Considered, Verdict};
use propagation::works::ownership::{is_made_by, named_bindings};
use propagation::works::{self, BindingRef, WorkChange};
use reconcile::{ObjectKey, Outcome, ReconcileError};

use crate::bindings::{check_scope, mirror_of, title};
use crate::plane::FIELD_MANAGER;
use crate::work::Context;
use crate::work::plan::{DeliveryFacts, DeliveryPlan, PlannedWork, TargetFacts, plan};

/// Works of one binding that are written at the same time.
const WRITES_MAX: usize = 16;
/// Delay before a conflicting write is retried when another write failed.
const CONFLICT_PAUSE: Duration = Duration::from_millis(50);

/// The reason a Work was not written.
enum WorkError {
    /// Another writer was faster; trying again is all that is needed.
    Conflict,
    Failed(String),
}

impl From<Status> for WorkError {
    fn from(status: Status) -> Self {
        match status.is_conflict() || status.is_already_exists() {
            true => Self::Conflict,
            false => Self::Failed(status.to_string()),
        }
    }
}

impl Context {
    /// Brings the Work of every member up to date. An error for one member does not block others.
    pub(super) async fn deliver(
        &self,
        key: &ObjectKey,
        binding: &Object,
        spec: &BindingSpec,
        template: &Object,
        works: &[Arc<Object>],
        has_deleted: bool,
    ) -> Result<Outcome, ReconcileError> {
        let targets = works::targets(spec);
        let (members, mut errors) = self.gather_members(binding, template, &targets, works).await;
        let interpreter = self.plane.interpreter.load();
        let unmanaged = template.unmanaged();
        let written = members.iter().filter(|member| member.cluster.is_some() && !member.is_leaving());
        let numbers = written.filter(|_| spec.is_workload()).map(|member| member.target.replicas).collect();
        let revisions = interpreter.fetch_revisions(&unmanaged, numbers).await;
        let facts = DeliveryFacts {
            binding,
            spec,
            template: unmanaged,
            targets: &targets,
            rules: &interpreter.rules,
            revisions,
            policies: self.policies.candidates(&self.plane, template)?,
            injects_labels: self.plane.features.stateful_failover_injection,
            now: self.plane.clock.now(),
        };
        let plan = plan(&facts, &members);
        let has_changed = has_deleted || !plan.works.is_empty();
        errors.extend(self.commit_plan(template, plan).await);
        self.conclude(key, binding, template, errors, has_changed)
    }

    /// The facts of every member; members whose facts cannot be read are errors.
    async fn gather_members<'a>(
        &self,
        binding: &Object,
        template: &Object,
        targets: &'a [TargetCluster],
        works: &[Arc<Object>],
    ) -> (Vec<TargetFacts<'a>>, Vec<WorkError>) {
        let (mut members, mut errors) = (Vec::new(), Vec::new());
        let name = work_name(template.kind(), template.name(), template.namespace());
        for target in targets {
            let key = ObjectKey::new(&execution_namespace(&target.name), &name);
            match self.gather_member(binding, target, &key, works).await {
                Ok(member) => members.push(member),
                Err(status) => errors.push(status.into()),
            }
        }
        (members, errors)
    }

    async fn gather_member<'a>(
        &self,
        binding: &Object,
        target: &'a TargetCluster,
        key: &ObjectKey,
        works: &[Arc<Object>],
    ) -> Result<TargetFacts<'a>, Status> {
        let cluster = self.plane.clusters.get(&ObjectKey::new("", &target.name));
        let (mut existing, mut rivals) = (None, Vec::new());
        if cluster.is_some() {
            let is_it = |work: &&Arc<Object>| work.name() == key.name && work.namespace() == key.namespace;
            // It may also be another's: the work of an older binding, or one made for another reason.
            existing = works.iter().find(is_it).cloned().or_else(|| self.plane.works.get(key));
        }
        if let Some(work) = &existing {
            rivals = self.gather_rivals(work, BindingRef::of(binding)).await?;
        }
        Ok(TargetFacts { target, cluster, existing, rivals })
    }

    /// Other bindings that a Work names, as far as they may propagate. None for a Work of this binding.
    async fn gather_rivals(&self, work: &Object, own: BindingRef<'_>) -> Result<Vec<Arc<Object>>, Status> {
        let mut rivals = Vec::new();
        if is_made_by(work, own) {
            return Ok(rivals);
        }
        for named in named_bindings(work) {
            if (named.namespace, named.name) == (own.namespace, own.name) {
                continue;
            }
            let key = ObjectKey::new(named.namespace, named.name);
            let mirror = mirror_of(&self.plane, &key);
            let other = match mirror.get(&key) {
                Some(other) => Some(other),
                None => self.plane.client.find(mirror.target(&key)).await?,
            };
            rivals.extend(other.filter(|other| check_scope(&self.plane, other).is_ok()));
        }
        Ok(rivals)
    }

    /// Reports failures and writes the planned Works.
    async fn commit_plan(&self, template: &Object, plan: DeliveryPlan) -> Vec<WorkError> {
        let mut errors = Vec::new();
        for failure in plan.failures {
            self.record_overrides(template, &failure.cluster, &failure.considered);
            errors.push(WorkError::Failed(failure.reason));
        }
        let writes = plan.works.into_iter().map(|work| self.commit_one(template, work));
        let results: Vec<Result<(), WorkError>> = stream::iter(writes).buffer_unordered(WRITES_MAX).collect().await;
        errors.extend(results.into_iter().filter_map(Result::err));
        errors
    }

    async fn commit_one(&self, template: &Object, work: PlannedWork) -> Result<(), WorkError> {
        let PlannedWork { cluster, key, change, considered } = work;
        let options = WriteOptions::managed_by(FIELD_MANAGER);
        match change {
            WorkChange::Unchanged => return Ok(()),
            WorkChange::Create(object) => {
                let target = ResourceRef::within(&WORKS.gvr(), &key.namespace);
                self.plane.works.note(&self.plane.client.create(target, object, options).await?);
            }
            WorkChange::Patch(patch) => {
                let target = self.plane.works.target(&key);
                let written = match self.plane.client.patch(target, Patch::merge(patch), options).await {
                    // It was deleted since it was read; the next attempt creates it again.
                    Err(error) if error.is_not_found() => return Err(WorkError::Conflict),
                    result => result?,
                };
                self.plane.works.note(&written);
            }
        }
        self.record_overrides(template, &cluster, &considered);
        Ok(())
    }

    /// Records events for the outcome. Conflicts are retried, and unchanged Works are not reported.
    fn conclude(
        &self,
        key: &ObjectKey,
        binding: &Object,
        template: &Object,
        errors: Vec<WorkError>,
        has_changed: bool,
    ) -> Result<Outcome, ReconcileError> {
        let recorder = self.recorders.of(key);
        let is_conflict = |error: &WorkError| matches!(error, WorkError::Conflict);
        if errors.is_empty() {
            if has_changed {
                let message = format!("Sync work of {} successful.", title(key));
                recorder.normal(binding, "SyncWorkSucceed", message.clone());
                recorder.normal(template, "SyncWorkSucceed", message);
            }
            return Ok(Outcome::Done);
        }
        if errors.iter().all(is_conflict) {
            return Ok(Outcome::Retry);
        }
        if errors.iter().any(is_conflict) {
            // The wait of a member that fails for long must not become the wait of one that only raced.
            return Ok(Outcome::After(CONFLICT_PAUSE));
        }
        let texts = errors.into_iter().filter_map(|error| match error {
            WorkError::Failed(text) => Some(text),
            WorkError::Conflict => None,
        });
        let message = error_list::joined(texts);
        recorder.warning(binding, "SyncWorkFailed", message.clone());
        recorder.warning(template, "SyncWorkFailed", message.clone());
        Err(ReconcileError::Other(message))
    }

    fn record_overrides(&self, template: &Object, cluster: &str, considered: &[Considered]) {
        for policy in considered {
            let name = match policy.namespace.as_str() {
                "" => format!("cluster override policy({})", policy.name),
                namespace => format!("override policy({namespace}/{})", policy.name),
            };
            match policy.verdict {
                Verdict::Applied { .. } => {
                    let message = format!("Apply {name} for cluster({cluster}) succeed.");
                    self.override_recorder.normal(template, "ApplyOverridePolicySucceed", message);
                }
                Verdict::Failed { .. } => {
                    let message = format!("Apply {name} for cluster({cluster}) failed.");
                    self.override_recorder.warning(template, "ApplyOverridePolicyFailed", message);
                }
                Verdict::OtherResource | Verdict::OtherMember { .. } => {}
            }
        }
    }
}
