//! A pod as placement sees it: parsed once, then checked against many nodes.

use std::sync::Arc;

use object::selector::{LabelRequirement, LabelSelector, Operator};
use object::taints::Toleration;
use object::{Object, conditions, time};
use serde_json::Value;

use crate::amounts::Requests;
use crate::labels::{Labels, NodeSelector, NodeTerm};

/// The properties of a pod that decide its placement, and its requests.
#[derive(Clone, Debug, Default)]
pub struct Pod {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub uid: Arc<str>,
    pub labels: Labels,
    /// The uid of its controller; pods of one controller are spread by default.
    pub owner: Arc<str>,
    /// The node it is bound to (`spec.nodeName`).
    pub node: Arc<str>,
    /// The node it is nominated to.
    pub nominated: Arc<str>,
    pub priority: i32,
    pub preempts_never: bool,
    pub is_terminating: bool,
    /// It is terminating because of preemption.
    pub is_preempted: bool,
    /// Start time in Unix seconds; `i64::MAX` while it has not started.
    pub started: i64,
    pub requests: Requests,
    pub ports: Box<[HostPort]>,
    pub tolerations: Vec<Toleration>,
    pub node_selector: Vec<(Box<str>, Box<str>)>,
    pub required_nodes: Option<NodeSelector>,
    pub preferred_nodes: Vec<(i64, NodeTerm)>,
    pub terms: Option<Arc<PodTerms>>,
    pub spread: Vec<Spread>,
    /// Names of the claims it mounts, including those of ephemeral volumes.
    pub claims: Box<[Box<str>]>,
}

/// A port on the node itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostPort {
    pub port: u16,
    pub protocol: Box<str>,
    /// Empty and `0.0.0.0` mean every address.
    pub address: Box<str>,
}

/// Affinity and anti-affinity terms of a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodTerms {
    pub required: Vec<PodTerm>,
    pub required_anti: Vec<PodTerm>,
    pub preferred: Vec<(i64, PodTerm)>,
    pub preferred_anti: Vec<(i64, PodTerm)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct PodTerm {
    pub selector: LabelSelector,
    pub namespaces: Vec<Box<str>>,
    /// Additional namespaces, by their labels.
    pub namespace_selector: Option<LabelSelector>,
    pub topology_key: Box<str>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Spread {
    pub max_skew: i64,
    pub min_domains: i64,
    pub topology_key: Box<str>,
    pub is_required: bool,
    pub selector: LabelSelector,
    pub honors_affinity: bool,
    pub honors_taints: bool,
}

impl Pod {
    pub fn read(object: &Object) -> Self {
        let text = |path: &[&str]| object.str_at(path);
        let labels = Labels::of(object);
        let started = match text(&["status", "startTime"]) {
            "" => i64::MAX,
            at => time::parse(at).map_or(i64::MAX, |at| at.as_second()),
        };
        Self {
            namespace: object.namespace().into(),
            name: object.name().into(),
            uid: object.uid().into(),
            owner: owner_of(object).into(),
            node: text(&["spec", "nodeName"]).into(),
            nominated: text(&["status", "nominatedNodeName"]).into(),
            priority: object.i64_at(&["spec", "priority"]).and_then(|p| i32::try_from(p).ok()).unwrap_or(0),
            preempts_never: text(&["spec", "preemptionPolicy"]) == "Never",
            is_terminating: object.is_deleting(),
            is_preempted: is_preempted(object),
            started,
            requests: Requests::of(object),
            ports: read_ports(object),
            tolerations: Toleration::read_all(object.items(&["spec", "tolerations"])),
            node_selector: read_node_selector(object),
            required_nodes: required_nodes(object),
            preferred_nodes: preferred_nodes(object),
            terms: PodTerms::read(object, &labels).map(Arc::new),
            spread: object
                .items(&["spec", "topologySpreadConstraints"])
                .iter()
                .map(|c| Spread::read(c, &labels))
                .collect(),
            claims: read_claims(object),
            labels,
        }
    }

    /// Reports whether both the node selector and the required affinity match.
    pub fn wants_node(&self, name: &str, labels: &Labels) -> bool {
        self.node_selector.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.required_nodes.as_ref().is_none_or(|selector| selector.matches(name, labels))
    }
}

fn owner_of(object: &Object) -> &str {
    let owners = object.items(&["metadata", "ownerReferences"]);
    owners.iter().find(|owner| owner["controller"] == true).and_then(|owner| owner["uid"].as_str()).unwrap_or_default()
}

fn is_preempted(object: &Object) -> bool {
    object.is_deleting()
        && conditions::find(object, "DisruptionTarget")
            .is_some_and(|condition| condition.is_true() && condition.reason() == "PreemptionByScheduler")
}

fn read_ports(object: &Object) -> Box<[HostPort]> {
    let sidecars = object.items(&["spec", "initContainers"]).iter().filter(|c| c["restartPolicy"] == "Always");
    let containers = object.items(&["spec", "containers"]).iter().chain(sidecars);
    let ports = containers.flat_map(|container| container["ports"].as_array().into_iter().flatten());
    let host = ports.filter_map(|port| {
        let number = port["hostPort"].as_u64().and_then(|number| u16::try_from(number).ok()).filter(|n| *n > 0)?;
        let protocol = port["protocol"].as_str().filter(|p| !p.is_empty()).unwrap_or("TCP");
        let address = port["hostIP"].as_str().unwrap_or_default();
        Some(HostPort { port: number, protocol: protocol.into(), address: address.into() })
    });
    host.collect()
}

impl HostPort {
    pub fn conflicts_with(&self, other: &Self) -> bool {
        let is_any = |address: &str| matches!(address, "" | "0.0.0.0");
        self.port == other.port
            && self.protocol == other.protocol
            && (is_any(&self.address) || is_any(&other.address) || self.address == other.address)
    }
}

fn read_node_selector(object: &Object) -> Vec<(Box<str>, Box<str>)> {
    let selector = object.get(&["spec", "nodeSelector"]).and_then(Value::as_object).into_iter().flatten();
    selector.map(|(key, value)| (key.as_str().into(), value.as_str().unwrap_or_default().into())).collect()
}

fn required_nodes(object: &Object) -> Option<NodeSelector> {
    let path = ["spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"];
    object.get(&path).filter(|value| value.is_object()).map(NodeSelector::read)
}

fn preferred_nodes(object: &Object) -> Vec<(i64, NodeTerm)> {
    let path = ["spec", "affinity", "nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution"];
    let weighted = object.items(&path).iter();
    weighted.map(|item| (item["weight"].as_i64().unwrap_or(0), NodeTerm::read(&item["preference"]))).collect()
}

fn read_claims(object: &Object) -> Box<[Box<str>]> {
    let volumes = object.items(&["spec", "volumes"]).iter();
    let claims = volumes.filter_map(|volume| match volume["persistentVolumeClaim"]["claimName"].as_str() {
        Some(name) => Some(name.into()),
        // The claim of an ephemeral volume is named after the pod and the volume.
        None if volume["ephemeral"].is_object() => {
            Some(format!("{}-{}", object.name(), volume["name"].as_str()?).into())
        }
        None => None,
    });
    claims.collect()
}

impl PodTerms {
    fn read(object: &Object, labels: &Labels) -> Option<Self> {
        let affinity = object.get(&["spec", "affinity"])?;
        let namespace = object.namespace();
        let required = |side: &str| -> Vec<PodTerm> {
            let terms = affinity[side]["requiredDuringSchedulingIgnoredDuringExecution"].as_array();
            terms.into_iter().flatten().map(|term| PodTerm::read(term, namespace, labels)).collect()
        };
        let preferred = |side: &str| -> Vec<(i64, PodTerm)> {
            let terms = affinity[side]["preferredDuringSchedulingIgnoredDuringExecution"].as_array();
            let weighted = terms.into_iter().flatten();
            weighted
                .map(|item| {
                    let term = PodTerm::read(&item["podAffinityTerm"], namespace, labels);
                    (item["weight"].as_i64().unwrap_or(0), term)
                })
                .collect()
        };
        let terms = Self {
            required: required("podAffinity"),
            required_anti: required("podAntiAffinity"),
            preferred: preferred("podAffinity"),
            preferred_anti: preferred("podAntiAffinity"),
        };
        (terms != Self::default()).then_some(terms)
    }
}

impl PodTerm {
    fn read(value: &Value, namespace: &str, labels: &Labels) -> Self {
        let names = value["namespaces"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let mut namespaces: Vec<Box<str>> = names.map(Into::into).collect();
        let namespace_selector = value.get("namespaceSelector").filter(|v| !v.is_null());
        if namespaces.is_empty() && namespace_selector.is_none() {
            namespaces.push(namespace.into());
        }
        let keys = |field: &str, operator: Operator| requirements_from(value, field, operator, labels);
        let more = [keys("matchLabelKeys", Operator::In), keys("mismatchLabelKeys", Operator::NotIn)].concat();
        Self {
            selector: narrowed(value.get("labelSelector"), more),
            namespaces,
            namespace_selector: namespace_selector.and_then(|value| LabelSelector::from_value(Some(value)).ok()),
            topology_key: value["topologyKey"].as_str().unwrap_or_default().into(),
        }
    }

    /// `namespace_labels` are those of the namespace the labels belong to.
    pub fn matches(&self, namespace: &str, labels: &Labels, namespace_labels: &Labels) -> bool {
        (self.namespaces.iter().any(|known| **known == *namespace)
            || self.namespace_selector.as_ref().is_some_and(|selector| namespace_labels.are_matched_by(selector)))
            && labels.are_matched_by(&self.selector)
    }
}

impl Spread {
    fn read(value: &Value, labels: &Labels) -> Self {
        let more = requirements_from(value, "matchLabelKeys", Operator::In, labels);
        Self {
            max_skew: value["maxSkew"].as_i64().unwrap_or(1),
            min_domains: value["minDomains"].as_i64().unwrap_or(1),
            topology_key: value["topologyKey"].as_str().unwrap_or_default().into(),
            is_required: value["whenUnsatisfiable"] != "ScheduleAnyway",
            selector: narrowed(value.get("labelSelector"), more),
            honors_affinity: value["nodeAffinityPolicy"] != "Ignore",
            honors_taints: value["nodeTaintsPolicy"] == "Honor",
        }
    }
}

/// Requirements for label keys whose values are taken from the pod.
fn requirements_from(value: &Value, field: &str, operator: Operator, labels: &Labels) -> Vec<LabelRequirement> {
    let keys = value[field].as_array().into_iter().flatten().filter_map(Value::as_str);
    keys.filter_map(|key| LabelRequirement::new(key, operator, vec![labels.get(key)?.to_owned()]).ok()).collect()
}

/// The selector with more requirements. A missing or invalid selector matches nothing.
fn narrowed(selector: Option<&Value>, more: Vec<LabelRequirement>) -> LabelSelector {
    match LabelSelector::from_value(selector) {
        Ok(selector) => selector.and(more),
        Err(_) => LabelSelector::nothing(),
    }
}
