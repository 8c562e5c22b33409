//! Delivers one template to all members of its binding: plans every Work first, then writes them concurrently.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::cluster::ClusterSpec;
use api::names::{execution_namespace, work_name};
use api::work::{BindingSpec, TargetCluster, WORKS};
use cluster_client::{Patch, ResourceRef, WriteOptions};
use futures::StreamExt;
use futures::stream;
use interpreter::{Interpreter, Operation};
use object::{Object, Status};
use propagation::overrides::{self, Considered, Member, Verdict};
use propagation::works::ownership::{check_same_object, is_made_by, named_bindings, stands_behind};
use propagation::works::{self, BindingRef, Delivery, DesiredWork, WorkChange, WorkError};
use reconcile::{ObjectKey, Outcome, ReconcileError};

use crate::bindings::{check_scope, mirror_of, title};
use crate::plane::FIELD_MANAGER;
use crate::work::policies::Candidates;
use crate::work::{Context, joined};

/// Works of one binding that are written at the same time.
const WRITES_MAX: usize = 16;
/// Delay before a conflicting write is retried when another write failed.
const RACE_PAUSE: Duration = Duration::from_millis(50);

/// Inputs that all members of one binding share.
struct Shipment<'a> {
    binding: &'a Object,
    spec: &'a BindingSpec,
    /// Without what only its own server is interested in.
    template: Object,
    targets: &'a [TargetCluster],
    completions: Option<BTreeMap<&'a str, i32>>,
    interpreter: Arc<Interpreter>,
    revises: bool,
    policies: Candidates,
    works: &'a [Arc<Object>],
}

/// A work to write.
struct Planned {
    cluster: String,
    key: ObjectKey,
    change: WorkChange,
    considered: Vec<Considered>,
}

/// The reason a Work was not written.
enum Trouble {
    /// Another writer was faster; trying again is all that is needed.
    Race,
    Failed(String),
}

impl From<Status> for Trouble {
    fn from(status: Status) -> Self {
        match status.is_conflict() || status.is_already_exists() {
            true => Self::Race,
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
        let interpreter = self.plane.interpreter.load();
        let shipment = Shipment {
            binding,
            spec,
            completions: works::divide_completions(template, spec, &targets),
            revises: spec.is_workload() && interpreter.has_hook(&template.gvk(), Operation::ReviseReplica),
            policies: self.policies.candidates(&self.plane, template)?,
            // Members get none, and they are the longest part of most objects.
            template: template.unmanaged(),
            targets: &targets,
            interpreter,
            works,
        };
        let mut planned = Vec::new();
        let mut troubles = Vec::new();
        for target in &targets {
            match self.plan_one(&shipment, target).await {
                Ok(Some(work)) => planned.push(work),
                Ok(None) => {}
                Err(trouble) => troubles.push(trouble),
            }
        }
        let has_planned = !planned.is_empty();
        let writes = planned.into_iter().map(|work| self.commit_one(key, template, work));
        let results: Vec<Result<(), Trouble>> = stream::iter(writes).buffer_unordered(WRITES_MAX).collect().await;
        troubles.extend(results.into_iter().filter_map(Result::err));
        self.conclude(key, binding, template, troubles, has_planned || has_deleted)
    }

    /// Plans the write for one member; `None` when its Work is up to date.
    async fn plan_one(&self, shipment: &Shipment<'_>, target: &TargetCluster) -> Result<Option<Planned>, Trouble> {
        let cluster = self.plane.clusters.get(&ObjectKey::new("", &target.name));
        let cluster = cluster
            .ok_or_else(|| Trouble::Failed(format!("Cluster.cluster.karmada.io \"{}\" not found", target.name)))?;
        let template = &shipment.template;
        let namespace = execution_namespace(&target.name);
        let name = work_name(template.kind(), template.name(), template.namespace());
        let key = ObjectKey::new(&namespace, &name);
        let existing = self.gather_existing(&key, shipment.works).await?;
        if let Some(work) = &existing {
            self.check_takeover(work, shipment).await?;
        }
        if existing.is_none() && cluster.is_deleting() {
            // It is being left, and its namespace takes nothing new.
            return Ok(None);
        }
        let mut manifest = template.clone();
        if shipment.revises {
            let replicas = i64::from(target.replicas);
            let revised = shipment.interpreter.revise_replicas(manifest, replicas).await;
            manifest = revised.map_err(|error| Trouble::Failed(error.to_string()))?;
        }
        if let Some(share) = shipment.completions.as_ref().and_then(|shares| shares.get(target.name.as_str())) {
            works::set_completions(&mut manifest, *share);
        }
        let (recorded, considered) = self.override_one(shipment, &cluster, &mut manifest)?;
        let preserved_labels = match self.plane.features.stateful_failover_injection {
            true => works::preserved_labels(shipment.spec, shipment.targets, &target.name),
            false => None,
        };
        let desired = DesiredWork::of_binding(Delivery {
            binding: BindingRef::of(shipment.binding),
            spec: shipment.spec,
            cluster: &target.name,
            manifest,
            overrides: recorded,
            preserved_labels,
        });
        let key = ObjectKey::new(&desired.namespace, &desired.name);
        let change = desired.plan(existing.as_deref()).map_err(|error| Trouble::Failed(error.to_string()))?;
        Ok((change != WorkChange::Unchanged).then(|| Planned { cluster: target.name.clone(), key, change, considered }))
    }

    /// The work there is, at least as new as it was last written.
    async fn gather_existing(&self, key: &ObjectKey, works: &[Arc<Object>]) -> Result<Option<Arc<Object>>, Trouble> {
        let is_it = |work: &&Arc<Object>| work.name() == key.name && work.namespace() == key.namespace;
        // It may also be another's: the work of an older binding, or one made for another reason.
        let found = works.iter().find(is_it).cloned().or_else(|| self.plane.works.get(key));
        match found {
            Some(work) if self.written.is_ahead_of(key, &work) => {
                Ok(self.plane.client.find(self.plane.works.target(key)).await?)
            }
            found => Ok(found),
        }
    }

    /// Refuses to overwrite a work that another binding stands behind, or that carries another object.
    async fn check_takeover(&self, work: &Object, shipment: &Shipment<'_>) -> Result<(), Trouble> {
        let own = BindingRef::of(shipment.binding);
        if is_made_by(work, own) {
            return Ok(());
        }
        for named in named_bindings(work) {
            let key = ObjectKey::new(named.namespace, named.name);
            if (named.namespace, named.name) == (own.namespace, own.name) {
                continue;
            }
            let mirror = mirror_of(&self.plane, &key);
            let other = match mirror.get(&key) {
                Some(other) => Some(other),
                None => self.plane.client.find(mirror.target(&key)).await?,
            };
            let stands =
                |other: &Arc<Object>| stands_behind(other, named, work) && check_scope(&self.plane, other).is_ok();
            if other.is_some_and(|other| stands(&other)) {
                let (namespace, name) = (work.namespace().to_owned(), work.name().to_owned());
                let refusal = WorkError::OwnedByOther { namespace, name, owner: title(&key) };
                return Err(Trouble::Failed(refusal.to_string()));
            }
        }
        check_same_object(work, &shipment.template).map_err(|refusal| Trouble::Failed(refusal.to_string()))
    }

    /// Applies the overrides for one member; a failure is reported at once.
    fn override_one(
        &self,
        shipment: &Shipment<'_>,
        cluster: &Object,
        manifest: &mut Object,
    ) -> Result<(overrides::Recorded, Vec<Considered>), Trouble> {
        let Candidates { cluster: cluster_policies, namespaced } = &shipment.policies;
        if cluster_policies.is_empty() && namespaced.is_empty() {
            return Ok(Default::default());
        }
        let spec: ClusterSpec = api::read(cluster)?;
        let member = Member { cluster, spec: &spec };
        let cluster_policies = cluster_policies.iter().map(Arc::as_ref);
        match overrides::apply(manifest, member, cluster_policies, namespaced.iter().map(Arc::as_ref)) {
            Ok(applied) => Ok((applied.recorded(), applied.considered)),
            Err(failure) => {
                self.tell_overrides(&shipment.template, cluster.name(), &failure.considered);
                Err(Trouble::Failed(failure.to_string()))
            }
        }
    }

    async fn commit_one(&self, binding: &ObjectKey, template: &Object, work: Planned) -> Result<(), Trouble> {
        let Planned { cluster, key, change, considered } = work;
        let options = WriteOptions::managed_by(FIELD_MANAGER);
        match change {
            WorkChange::Unchanged => return Ok(()),
            WorkChange::Create(object) => {
                let target = ResourceRef::within(&WORKS.gvr(), &key.namespace);
                self.plane.client.create(target, object, options).await?;
                self.made.note(binding, key, |work| self.plane.works.get(work).is_some());
            }
            WorkChange::Patch(patch) => {
                let target = self.plane.works.target(&key);
                let written = match self.plane.client.patch(target, Patch::merge(patch), options).await {
                    // It was deleted since it was read; the next attempt creates it again.
                    Err(error) if error.is_not_found() => {
                        self.written.forget(&key);
                        return Err(Trouble::Race);
                    }
                    result => result?,
                };
                self.written.note(key, &written, |work| self.plane.works.get(work));
            }
        }
        self.tell_overrides(template, &cluster, &considered);
        Ok(())
    }

    /// Records events for the outcome. Conflicts are retried, and unchanged Works are not reported.
    fn conclude(
        &self,
        key: &ObjectKey,
        binding: &Object,
        template: &Object,
        troubles: Vec<Trouble>,
        has_changed: bool,
    ) -> Result<Outcome, ReconcileError> {
        let recorder = self.recorders.of(key);
        let is_race = |trouble: &Trouble| matches!(trouble, Trouble::Race);
        if troubles.is_empty() {
            if has_changed {
                let message = format!("Sync work of {} successful.", title(key));
                recorder.normal(binding, "SyncWorkSucceed", message.clone());
                recorder.normal(template, "SyncWorkSucceed", message);
            }
            return Ok(Outcome::Done);
        }
        if troubles.iter().all(is_race) {
            return Ok(Outcome::Retry);
        }
        if troubles.iter().any(is_race) {
            // The wait of a member that fails for long must not become the wait of one that only raced.
            return Ok(Outcome::After(RACE_PAUSE));
        }
        let texts = troubles.into_iter().filter_map(|trouble| match trouble {
            Trouble::Failed(text) => Some(text),
            Trouble::Race => None,
        });
        let message = joined(texts.collect());
        recorder.warning(binding, "SyncWorkFailed", message.clone());
        recorder.warning(template, "SyncWorkFailed", message.clone());
        Err(ReconcileError::Other(message))
    }

    fn tell_overrides(&self, template: &Object, cluster: &str, considered: &[Considered]) {
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
