//! Reads the inputs of an answer from the control plane. Nothing is cached: questions are rare and need current data.

use std::sync::Arc;

use api::Resource;
use api::cluster::CLUSTERS;
use api::features::Features;
use api::names::{binding_name, execution_namespace, work_name};
use api::policy::{CLUSTER_OVERRIDE_POLICIES, CLUSTER_PROPAGATION_POLICIES, OVERRIDE_POLICIES, PROPAGATION_POLICIES};
use api::work::WORKS;
use cluster_client::{ApiResource, ClusterClient, ListOptions, ResourceRef, RestMapper};
use object::{GroupVersion, Object, Status};
use plane_state::Decisions;
use plane_state::MemberCapacity;
use propagation::binding::Twin;
use propagation::overrides::OverridePolicy;
use propagation::policy::Policy;
use propagation::policy_index::PolicyIndex;
use propagation::skipped_apis::SkippedApis;
use propagation::skipped_namespaces::SkippedNamespaces;
use propagation::taint_eviction::DefaultTolerations;
use scheduler::ClusterSnapshot;

use crate::document::Subject;

/// The dependencies of an [`Explainer`].
#[derive(Clone)]
pub struct ExplainerDeps {
    pub client: ClusterClient,
    pub interpreter: interpreter_runtime::SharedInterpreter,
    pub member_capacity: MemberCapacity,
    pub decisions: Decisions,
    pub features: Arc<Features>,
    pub rules: PropagationRules,
}

/// Settings of the control plane that decide what is propagated and what is evicted.
#[derive(Clone, Debug, Default)]
pub struct PropagationRules {
    pub skipped_apis: SkippedApis,
    pub skipped_namespaces: SkippedNamespaces,
    /// NoExecute taints evict workloads.
    pub evicts_by_taints: bool,
    pub default_tolerations: DefaultTolerations,
}

/// Answers questions about one control plane.
pub struct Explainer {
    pub(crate) parts: ExplainerDeps,
    mapper: RestMapper,
}

impl Explainer {
    pub fn new(parts: ExplainerDeps) -> Self {
        Self { mapper: RestMapper::new(parts.client.clone()), parts }
    }

    /// The resource of a kind.
    pub async fn resource(&self, api_version: &str, kind: &str) -> Result<ApiResource, Status> {
        let gv = GroupVersion::parse(api_version)
            .ok_or_else(|| Status::bad_request(format!("{api_version:?} is not like v1 or apps/v1")))?;
        self.mapper.resource_of(&gv.kind(kind)).await
    }

    pub async fn find_template(&self, subject: &Subject) -> Result<Option<Arc<Object>>, Status> {
        let resource = self.resource(&subject.api_version, &subject.kind).await?;
        let target = match resource.namespaced {
            true => ResourceRef::namespaced(&resource.gvr, &subject.namespace, &subject.name),
            false => ResourceRef::cluster(&resource.gvr, &subject.name),
        };
        self.parts.client.find(target).await
    }

    pub(crate) async fn list(&self, resource: Resource, namespace: Option<&str>) -> Result<Vec<Arc<Object>>, Status> {
        let gvr = resource.gvr();
        let target = match namespace {
            Some(namespace) => ResourceRef::within(&gvr, namespace),
            None => ResourceRef { gvr, ..ResourceRef::default() },
        };
        Ok(self.parts.client.list_all(target, ListOptions::default()).await?.items)
    }

    pub(crate) async fn policies(&self) -> Result<PolicyIndex, Status> {
        let mut policies = Vec::new();
        for resource in [PROPAGATION_POLICIES, CLUSTER_PROPAGATION_POLICIES] {
            for object in self.list(resource, None).await? {
                policies.push(Policy::read(object)?);
            }
        }
        Ok(PolicyIndex::new(policies))
    }

    pub(crate) async fn overrides(&self) -> Result<Overrides, Status> {
        let read = |objects: Vec<Arc<Object>>| objects.iter().map(|object| OverridePolicy::read(object)).collect();
        let cluster: Result<Vec<_>, Status> = read(self.list(CLUSTER_OVERRIDE_POLICIES, None).await?);
        let namespaced: Result<Vec<_>, Status> = read(self.list(OVERRIDE_POLICIES, None).await?);
        Ok(Overrides { cluster: cluster?, namespaced: namespaced? })
    }

    pub(crate) async fn clusters(&self) -> Result<Vec<Arc<Object>>, Status> {
        self.list(CLUSTERS, None).await
    }

    /// The clusters as the scheduler sees them.
    pub(crate) fn snapshot(&self, clusters: &[Arc<Object>]) -> Result<ClusterSnapshot, Status> {
        let mut snapshot = ClusterSnapshot::of(clusters)?;
        for cluster in clusters {
            snapshot.set_nodes(cluster.name(), self.parts.member_capacity.get(cluster.name()));
        }
        snapshot.settle();
        Ok(snapshot)
    }

    pub(crate) async fn binding(&self, template: &Object) -> Result<Option<Arc<Object>>, Status> {
        let gvr = Twin::of(template.namespace()).resource().gvr();
        let name = binding_name(template.kind(), template.name());
        let target = match template.namespace() {
            "" => ResourceRef::cluster(&gvr, &name),
            namespace => ResourceRef::namespaced(&gvr, namespace, &name),
        };
        self.parts.client.find(target).await
    }

    pub(crate) async fn work(&self, cluster: &str, template: &Object) -> Result<Option<Arc<Object>>, Status> {
        let name = work_name(template.kind(), template.name(), template.namespace());
        let target = ResourceRef::namespaced(&WORKS.gvr(), &execution_namespace(cluster), &name);
        self.parts.client.find(target).await
    }
}

/// All override policies.
#[derive(Clone, Default)]
pub(crate) struct Overrides {
    pub cluster: Vec<OverridePolicy>,
    pub namespaced: Vec<OverridePolicy>,
}

impl Overrides {
    /// Those that may apply to objects of a namespace.
    pub fn of<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a OverridePolicy> {
        self.namespaced.iter().filter(move |policy| !namespace.is_empty() && policy.namespace == namespace)
    }
}

#[cfg(test)]
impl ExplainerDeps {
    /// An in-memory control plane with Flotilla's defaults.
    pub fn of_client(client: ClusterClient) -> Self {
        Self {
            client,
            interpreter: interpreter_runtime::SharedInterpreter::built_in(),
            member_capacity: MemberCapacity::default(),
            decisions: Decisions::default(),
            features: Arc::new(Features::flotilla()),
            rules: PropagationRules { evicts_by_taints: true, ..PropagationRules::default() },
        }
    }
}
