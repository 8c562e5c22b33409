//! The kinds whose schemas are needed; everything they refer to is included.

use k8s_openapi::api::{
    admissionregistration::v1 as admissionregistration, apps::v1 as apps, authentication::v1 as authentication,
    authorization::v1 as authorization, autoscaling::v1 as autoscaling, autoscaling::v2 as autoscaling_v2,
    batch::v1 as batch, certificates::v1 as certificates, coordination::v1 as coordination, core::v1 as core,
    discovery::v1 as discovery, events::v1 as events, flowcontrol::v1 as flowcontrol, networking::v1 as networking,
    node::v1 as node, policy::v1 as policy, rbac::v1 as rbac, resource::v1 as resource, scheduling::v1 as scheduling,
    storage::v1 as storage,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions;
use k8s_openapi::apimachinery::pkg::{apis::meta::v1 as meta, version};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1 as apiregistration;
use k8s_openapi::schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use k8s_openapi::{ListableResource, Resource};

pub struct Roots {
    pub generator: SchemaGenerator,
    pub kinds: Vec<Root>,
}

pub struct Root {
    pub definition: String,
    pub group: String,
    pub version: String,
    pub kind: String,
    pub list_kind: Option<String>,
}

impl Default for Roots {
    fn default() -> Self {
        Self { generator: SchemaSettings::openapi3().into_generator(), kinds: Vec::new() }
    }
}

impl Roots {
    /// A type that is not a kind.
    fn part<T: JsonSchema>(&mut self) {
        self.generator.subschema_for::<T>();
    }

    /// A kind without a list: reviews, subresource bodies, discovery responses.
    fn single<T: JsonSchema + Resource>(&mut self) {
        self.part::<T>();
        self.kinds.push(Root {
            definition: T::schema_name().into_owned(),
            group: T::GROUP.to_owned(),
            version: T::VERSION.to_owned(),
            kind: T::KIND.to_owned(),
            list_kind: None,
        });
    }

    fn listed<T: JsonSchema + ListableResource>(&mut self) {
        self.single::<T>();
        self.kinds.last_mut().expect("just pushed").list_kind = Some(T::LIST_KIND.to_owned());
    }
}

macro_rules! add {
    ($roots:ident, $method:ident: $($module:ident { $($kind:ident),+ $(,)? })+) => {
        $($($roots.$method::<$module::$kind>();)+)+
    };
}

pub fn add_all(roots: &mut Roots) {
    add!(roots, listed:
        core {
            ComponentStatus, ConfigMap, Endpoints, Event, LimitRange, Namespace, Node, PersistentVolume,
            PersistentVolumeClaim, Pod, PodTemplate, ReplicationController, ResourceQuota, Secret, Service, ServiceAccount,
        }
        admissionregistration {
            MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, MutatingWebhookConfiguration,
            ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration,
        }
        apiextensions { CustomResourceDefinition }
        apiregistration { APIService }
        apps { ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet }
        autoscaling { HorizontalPodAutoscaler }
        autoscaling_v2 { HorizontalPodAutoscaler }
        batch { CronJob, Job }
        certificates { CertificateSigningRequest }
        coordination { Lease }
        discovery { EndpointSlice }
        events { Event }
        flowcontrol { FlowSchema, PriorityLevelConfiguration }
        networking { IPAddress, Ingress, IngressClass, NetworkPolicy, ServiceCIDR }
        node { RuntimeClass }
        policy { PodDisruptionBudget }
        rbac { ClusterRole, ClusterRoleBinding, Role, RoleBinding }
        resource { DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice }
        scheduling { PriorityClass }
        storage { CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment, VolumeAttributesClass }
    );
    add!(roots, single:
        core { Binding }
        authentication { SelfSubjectReview, TokenRequest, TokenReview }
        authorization { LocalSubjectAccessReview, SelfSubjectAccessReview, SelfSubjectRulesReview, SubjectAccessReview }
        autoscaling { Scale }
        policy { Eviction }
        meta { APIGroup, APIGroupList, APIResourceList, APIVersions, Status }
    );
    add!(roots, part:
        meta { DeleteOptions, Patch }
        version { Info }
    );
}
