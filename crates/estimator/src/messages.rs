//! The messages of the estimator service, with the field numbers of its protocol.
//!
//! Karmada 1.18 has each Kubernetes type twice: as a message and, for 1.19, as the bytes of that message. A message and its
//! bytes look alike on the wire, so the older fields are read and written as bytes too.

use std::collections::BTreeMap;

#[derive(Clone, PartialEq, prost::Message)]
pub struct MaxAvailableReplicasRequest {
    #[prost(string, tag = "1")]
    pub cluster: String,
    #[prost(message, optional, tag = "2")]
    pub replica_requirements: Option<ReplicaRequirements>,
    #[prost(message, repeated, tag = "3")]
    pub assumed_workloads: Vec<AssumedWorkload>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct MaxAvailableReplicasResponse {
    #[prost(int32, tag = "1")]
    pub max_replicas: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct MaxAvailableComponentSetsRequest {
    #[prost(string, tag = "1")]
    pub cluster: String,
    #[prost(message, repeated, tag = "2")]
    pub components: Vec<Component>,
    #[prost(string, tag = "3")]
    pub namespace: String,
    #[prost(message, repeated, tag = "4")]
    pub assumed_workloads: Vec<AssumedWorkload>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct MaxAvailableComponentSetsResponse {
    #[prost(int32, tag = "1")]
    pub max_sets: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct UnschedulableReplicasRequest {
    #[prost(string, tag = "1")]
    pub cluster: String,
    #[prost(message, optional, tag = "2")]
    pub resource: Option<ObjectReference>,
    /// Nanoseconds.
    #[prost(int64, tag = "3")]
    pub unschedulable_threshold: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct UnschedulableReplicasResponse {
    #[prost(int32, tag = "1")]
    pub unschedulable_replicas: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ObjectReference {
    #[prost(string, tag = "1")]
    pub api_version: String,
    #[prost(string, tag = "2")]
    pub kind: String,
    #[prost(string, tag = "3")]
    pub namespace: String,
    #[prost(string, tag = "4")]
    pub name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ReplicaRequirements {
    #[prost(message, optional, tag = "1")]
    pub node_claim: Option<NodeClaim>,
    /// Up to 1.18.
    #[prost(btree_map = "string, bytes", tag = "2")]
    pub resource_request: BTreeMap<String, Vec<u8>>,
    #[prost(string, tag = "3")]
    pub namespace: String,
    #[prost(string, tag = "4")]
    pub priority_class_name: String,
    #[prost(btree_map = "string, bytes", tag = "5")]
    pub resource_request_bytes: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Component {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "2")]
    pub replica_requirements: Option<ComponentReplicaRequirements>,
    #[prost(int32, tag = "3")]
    pub replicas: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ComponentReplicaRequirements {
    #[prost(message, optional, tag = "1")]
    pub node_claim: Option<NodeClaim>,
    /// Up to 1.18.
    #[prost(btree_map = "string, bytes", tag = "2")]
    pub resource_request: BTreeMap<String, Vec<u8>>,
    #[prost(string, tag = "3")]
    pub priority_class_name: String,
    #[prost(btree_map = "string, bytes", tag = "4")]
    pub resource_request_bytes: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct AssumedWorkload {
    #[prost(string, tag = "1")]
    pub namespace: String,
    #[prost(message, repeated, tag = "2")]
    pub components: Vec<Component>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct NodeClaim {
    /// Up to 1.18.
    #[prost(bytes = "vec", optional, tag = "1")]
    pub node_affinity: Option<Vec<u8>>,
    #[prost(btree_map = "string, string", tag = "2")]
    pub node_selector: BTreeMap<String, String>,
    /// Up to 1.18.
    #[prost(bytes = "vec", repeated, tag = "3")]
    pub tolerations: Vec<Vec<u8>>,
    #[prost(bytes = "vec", tag = "4")]
    pub node_affinity_bytes: Vec<u8>,
    #[prost(bytes = "vec", repeated, tag = "5")]
    pub tolerations_bytes: Vec<Vec<u8>>,
}

/// `k8s.io.apimachinery.pkg.api.resource.Quantity`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Quantity {
    #[prost(string, optional, tag = "1")]
    pub string: Option<String>,
}

/// `k8s.io.api.core.v1.NodeSelector` and its parts.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NodeSelector {
    #[prost(message, repeated, tag = "1")]
    pub node_selector_terms: Vec<NodeSelectorTerm>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct NodeSelectorTerm {
    #[prost(message, repeated, tag = "1")]
    pub match_expressions: Vec<NodeSelectorRequirement>,
    #[prost(message, repeated, tag = "2")]
    pub match_fields: Vec<NodeSelectorRequirement>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct NodeSelectorRequirement {
    #[prost(string, optional, tag = "1")]
    pub key: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub operator: Option<String>,
    #[prost(string, repeated, tag = "3")]
    pub values: Vec<String>,
}

/// `k8s.io.api.core.v1.Toleration`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Toleration {
    #[prost(string, optional, tag = "1")]
    pub key: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub operator: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub value: Option<String>,
    #[prost(string, optional, tag = "4")]
    pub effect: Option<String>,
    #[prost(int64, optional, tag = "5")]
    pub toleration_seconds: Option<i64>,
}
