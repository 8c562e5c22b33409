//! Every built-in resource as a row: names, scope, verbs and subresources, in discovery order.

use object::request::{Subresource, Verb};

use super::row::ResourceScope::{Cluster, Namespaced};
use super::row::Row;

const ROW: Row = Row::PLAIN;

/// A group version: group, version, its priority among groups and among versions, and its resources.
pub struct Section {
    pub group: &'static str,
    pub version: &'static str,
    pub group_priority: i32,
    pub version_priority: i32,
    pub rows: &'static [Row],
}

const fn section(group: &'static str, version: &'static str, priority: (i32, i32), rows: &'static [Row]) -> Section {
    Section { group, version, group_priority: priority.0, version_priority: priority.1, rows }
}

pub const SECTIONS: &[Section] = &[
    section("", "v1", (18000, 1), CORE),
    // Not an APIService of its own on a real server; the aggregator puts its own group first.
    section("apiregistration.k8s.io", "v1", (20001, 15), APIREGISTRATION),
    section("apps", "v1", (17800, 15), APPS),
    section("events.k8s.io", "v1", (17750, 15), EVENTS),
    section("authentication.k8s.io", "v1", (17700, 15), AUTHENTICATION),
    section("authorization.k8s.io", "v1", (17600, 15), AUTHORIZATION),
    section("autoscaling", "v2", (17500, 30), AUTOSCALING),
    section("autoscaling", "v1", (17500, 15), AUTOSCALING),
    section("batch", "v1", (17400, 15), BATCH),
    section("certificates.k8s.io", "v1", (17300, 15), CERTIFICATES),
    section("networking.k8s.io", "v1", (17200, 15), NETWORKING),
    section("policy", "v1", (17100, 15), POLICY),
    section("rbac.authorization.k8s.io", "v1", (17000, 15), RBAC),
    section("storage.k8s.io", "v1", (16800, 15), STORAGE),
    section("admissionregistration.k8s.io", "v1", (16700, 15), ADMISSIONREGISTRATION),
    section("apiextensions.k8s.io", "v1", (16700, 15), APIEXTENSIONS),
    section("scheduling.k8s.io", "v1", (16600, 15), SCHEDULING),
    section("coordination.k8s.io", "v1", (16500, 15), COORDINATION),
    section("node.k8s.io", "v1", (16300, 15), NODE),
    section("discovery.k8s.io", "v1", (16200, 15), DISCOVERY),
    section("resource.k8s.io", "v1", (16200, 21), RESOURCE),
    section("flowcontrol.apiserver.k8s.io", "v1", (16100, 21), FLOWCONTROL),
];

#[rustfmt::skip]
const CORE: &[Row] = &[
    Row { kind: "Binding", plural: "bindings", stored: false, verbs: &[Verb::Create], ..ROW },
    Row { kind: "ComponentStatus", plural: "componentstatuses", short: &["cs"], scope: Cluster, stored: false, verbs: &[Verb::Get, Verb::List], ..ROW },
    Row { kind: "ConfigMap", plural: "configmaps", short: &["cm"], ..ROW },
    Row { kind: "Endpoints", plural: "endpoints", short: &["ep"], ..ROW },
    Row { kind: "Event", plural: "events", short: &["ev"], ..ROW },
    Row { kind: "LimitRange", plural: "limitranges", short: &["limits"], ..ROW },
    Row { kind: "Namespace", plural: "namespaces", short: &["ns"], scope: Cluster, subresources: &[Subresource::Finalize, Subresource::Status],
          verbs: &[Verb::Create, Verb::Delete, Verb::Get, Verb::List, Verb::Patch, Verb::Update, Verb::Watch], ..ROW },
    Row { kind: "Node", plural: "nodes", short: &["no"], scope: Cluster, subresources: &[Subresource::Proxy, Subresource::Status], ..ROW },
    Row { kind: "PersistentVolumeClaim", plural: "persistentvolumeclaims", short: &["pvc"], subresources: &[Subresource::Status], ..ROW },
    Row { kind: "PersistentVolume", plural: "persistentvolumes", short: &["pv"], scope: Cluster, subresources: &[Subresource::Status], ..ROW },
    Row { kind: "Pod", plural: "pods", short: &["po"], categories: &["all"],
          subresources: &[Subresource::Attach, Subresource::Binding, Subresource::EphemeralContainers, Subresource::Eviction, Subresource::Exec, Subresource::Log, Subresource::PortForward, Subresource::Proxy, Subresource::Resize, Subresource::Status], ..ROW },
    Row { kind: "PodTemplate", plural: "podtemplates", ..ROW },
    Row { kind: "ReplicationController", plural: "replicationcontrollers", short: &["rc"], categories: &["all"], subresources: &[Subresource::Scale, Subresource::Status], ..ROW },
    Row { kind: "ResourceQuota", plural: "resourcequotas", short: &["quota"], subresources: &[Subresource::Status], ..ROW },
    Row { kind: "Secret", plural: "secrets", ..ROW },
    Row { kind: "ServiceAccount", plural: "serviceaccounts", short: &["sa"], subresources: &[Subresource::Token], ..ROW },
    Row { kind: "Service", plural: "services", short: &["svc"], categories: &["all"], subresources: &[Subresource::Proxy, Subresource::Status], ..ROW },
];

#[rustfmt::skip]
const APIREGISTRATION: &[Row] = &[
    Row { kind: "APIService", plural: "apiservices", scope: Cluster, categories: &["api-extensions"], subresources: &[Subresource::Status], ..ROW },
];

#[rustfmt::skip]
const APPS: &[Row] = &[
    Row { kind: "ControllerRevision", plural: "controllerrevisions", ..ROW },
    Row { kind: "DaemonSet", plural: "daemonsets", short: &["ds"], categories: &["all"], subresources: &[Subresource::Status], ..ROW },
    Row { kind: "Deployment", plural: "deployments", short: &["deploy"], categories: &["all"], subresources: &[Subresource::Scale, Subresource::Status], ..ROW },
    Row { kind: "ReplicaSet", plural: "replicasets", short: &["rs"], categories: &["all"], subresources: &[Subresource::Scale, Subresource::Status], ..ROW },
    Row { kind: "StatefulSet", plural: "statefulsets", short: &["sts"], categories: &["all"], subresources: &[Subresource::Scale, Subresource::Status], ..ROW },
];

const EVENTS: &[Row] =
    &[Row { kind: "Event", plural: "events", short: &["ev"], stored_as: Some(("", "v1", "Event")), ..ROW }];

#[rustfmt::skip]
const AUTHENTICATION: &[Row] = &[
    Row { kind: "SelfSubjectReview", plural: "selfsubjectreviews", scope: Cluster, stored: false, verbs: &[Verb::Create], ..ROW },
    Row { kind: "TokenReview", plural: "tokenreviews", scope: Cluster, stored: false, verbs: &[Verb::Create], ..ROW },
];

#[rustfmt::skip]
const AUTHORIZATION: &[Row] = &[
    Row { kind: "LocalSubjectAccessReview", plural: "localsubjectaccessreviews", scope: Namespaced, stored: false, verbs: &[Verb::Create], ..ROW },
    Row { kind: "SelfSubjectAccessReview", plural: "selfsubjectaccessreviews", scope: Cluster, stored: false, verbs: &[Verb::Create], ..ROW },
    Row { kind: "SelfSubjectRulesReview", plural: "selfsubjectrulesreviews", scope: Cluster, stored: false, verbs: &[Verb::Create], ..ROW },
    Row { kind: "SubjectAccessReview", plural: "subjectaccessreviews", scope: Cluster, stored: false, verbs: &[Verb::Create], ..ROW },
];

#[rustfmt::skip]
const AUTOSCALING: &[Row] = &[
    Row { kind: "HorizontalPodAutoscaler", plural: "horizontalpodautoscalers", short: &["hpa"], categories: &["all"], subresources: &[Subresource::Status],
          stored_as: Some(("autoscaling", "v2", "HorizontalPodAutoscaler")), ..ROW },
];

#[rustfmt::skip]
const BATCH: &[Row] = &[
    Row { kind: "CronJob", plural: "cronjobs", short: &["cj"], categories: &["all"], subresources: &[Subresource::Status], ..ROW },
    Row { kind: "Job", plural: "jobs", categories: &["all"], subresources: &[Subresource::Status], ..ROW },
];

#[rustfmt::skip]
const CERTIFICATES: &[Row] = &[
    Row { kind: "CertificateSigningRequest", plural: "certificatesigningrequests", short: &["csr"], scope: Cluster, subresources: &[Subresource::Approval, Subresource::Status], ..ROW },
];

#[rustfmt::skip]
const NETWORKING: &[Row] = &[
    Row { kind: "IngressClass", plural: "ingressclasses", scope: Cluster, ..ROW },
    Row { kind: "Ingress", plural: "ingresses", short: &["ing"], subresources: &[Subresource::Status], ..ROW },
    Row { kind: "IPAddress", plural: "ipaddresses", short: &["ip"], scope: Cluster, ..ROW },
    Row { kind: "NetworkPolicy", plural: "networkpolicies", short: &["netpol"], ..ROW },
    Row { kind: "ServiceCIDR", plural: "servicecidrs", scope: Cluster, subresources: &[Subresource::Status], ..ROW },
];

#[rustfmt::skip]
const POLICY: &[Row] = &[
    Row { kind: "PodDisruptionBudget", plural: "poddisruptionbudgets", short: &["pdb"], subresources: &[Subresource::Status], ..ROW },
];

#[rustfmt::skip]
const RBAC: &[Row] = &[
    Row { kind: "ClusterRoleBinding", plural: "clusterrolebindings", scope: Cluster, ..ROW },
    Row { kind: "ClusterRole", plural: "clusterroles", scope: Cluster, ..ROW },
    Row { kind: "RoleBinding", plural: "rolebindings", ..ROW },
    Row { kind: "Role", plural: "roles", ..ROW },
];

#[rustfmt::skip]
const STORAGE: &[Row] = &[
    Row { kind: "CSIDriver", plural: "csidrivers", scope: Cluster, ..ROW },
    Row { kind: "CSINode", plural: "csinodes", scope: Cluster, ..ROW },
    Row { kind: "CSIStorageCapacity", plural: "csistoragecapacities", ..ROW },
    Row { kind: "StorageClass", plural: "storageclasses", short: &["sc"], scope: Cluster, ..ROW },
    Row { kind: "VolumeAttachment", plural: "volumeattachments", scope: Cluster, subresources: &[Subresource::Status], ..ROW },
    Row { kind: "VolumeAttributesClass", plural: "volumeattributesclasses", short: &["vac"], scope: Cluster, ..ROW },
];

#[rustfmt::skip]
const ADMISSIONREGISTRATION: &[Row] = &[
    Row { kind: "MutatingAdmissionPolicy", plural: "mutatingadmissionpolicies", scope: Cluster, categories: &["api-extensions"], ..ROW },
    Row { kind: "MutatingAdmissionPolicyBinding", plural: "mutatingadmissionpolicybindings", scope: Cluster, categories: &["api-extensions"], ..ROW },
    Row { kind: "MutatingWebhookConfiguration", plural: "mutatingwebhookconfigurations", scope: Cluster, categories: &["api-extensions"], ..ROW },
    Row { kind: "ValidatingAdmissionPolicy", plural: "validatingadmissionpolicies", scope: Cluster, categories: &["api-extensions"], subresources: &[Subresource::Status], ..ROW },
    Row { kind: "ValidatingAdmissionPolicyBinding", plural: "validatingadmissionpolicybindings", scope: Cluster, categories: &["api-extensions"], ..ROW },
    Row { kind: "ValidatingWebhookConfiguration", plural: "validatingwebhookconfigurations", scope: Cluster, categories: &["api-extensions"], ..ROW },
];

#[rustfmt::skip]
const APIEXTENSIONS: &[Row] = &[
    Row { kind: "CustomResourceDefinition", plural: "customresourcedefinitions", short: &["crd", "crds"], scope: Cluster,
          categories: &["api-extensions"], subresources: &[Subresource::Status], ..ROW },
];

const SCHEDULING: &[Row] =
    &[Row { kind: "PriorityClass", plural: "priorityclasses", short: &["pc"], scope: Cluster, ..ROW }];

const COORDINATION: &[Row] = &[Row { kind: "Lease", plural: "leases", ..ROW }];

const NODE: &[Row] = &[Row { kind: "RuntimeClass", plural: "runtimeclasses", scope: Cluster, ..ROW }];

const DISCOVERY: &[Row] = &[Row { kind: "EndpointSlice", plural: "endpointslices", ..ROW }];

#[rustfmt::skip]
const RESOURCE: &[Row] = &[
    Row { kind: "DeviceClass", plural: "deviceclasses", scope: Cluster, ..ROW },
    Row { kind: "ResourceClaim", plural: "resourceclaims", subresources: &[Subresource::Status], ..ROW },
    Row { kind: "ResourceClaimTemplate", plural: "resourceclaimtemplates", ..ROW },
    Row { kind: "ResourceSlice", plural: "resourceslices", scope: Cluster, ..ROW },
];

#[rustfmt::skip]
const FLOWCONTROL: &[Row] = &[
    Row { kind: "FlowSchema", plural: "flowschemas", scope: Cluster, subresources: &[Subresource::Status], ..ROW },
    Row { kind: "PriorityLevelConfiguration", plural: "prioritylevelconfigurations", scope: Cluster, subresources: &[Subresource::Status], ..ROW },
];
