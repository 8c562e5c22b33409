//! Between the requirements in a binding and the messages of the protocol. Senders fill the fields of both versions; readers
//! prefer the newer ones.

use std::collections::BTreeMap;

use api::core::{QuantityText, ResourceList};
use api::work::{self, BindingSpec};
use object::taints::Toleration;
use prost::{DecodeError, Message};
use serde_json::{Value, json};

use crate::messages as wire;

pub fn requirements_to_wire(requirements: &work::ReplicaRequirements) -> wire::ReplicaRequirements {
    let resources = resources_to_wire(&requirements.resource_request);
    wire::ReplicaRequirements {
        node_claim: requirements.node_claim.as_ref().map(claim_to_wire),
        resource_request: resources.clone(),
        namespace: requirements.namespace.clone(),
        priority_class_name: requirements.priority_class_name.clone(),
        resource_request_bytes: resources,
    }
}

pub fn requirements_from_wire(message: wire::ReplicaRequirements) -> Result<work::ReplicaRequirements, DecodeError> {
    Ok(work::ReplicaRequirements {
        node_claim: message.node_claim.map(claim_from_wire).transpose()?,
        resource_request: resources_from_wire(newer(message.resource_request_bytes, message.resource_request))?,
        namespace: message.namespace,
        priority_class_name: message.priority_class_name,
    })
}

pub fn components_to_wire(components: &[work::Component]) -> Vec<wire::Component> {
    let to_wire = |component: &work::Component| wire::Component {
        name: component.name.clone(),
        replica_requirements: component.replica_requirements.as_ref().map(|requirements| {
            let resources = resources_to_wire(&requirements.resource_request);
            wire::ComponentReplicaRequirements {
                node_claim: requirements.node_claim.as_ref().map(claim_to_wire),
                resource_request: resources.clone(),
                priority_class_name: requirements.priority_class_name.clone(),
                resource_request_bytes: resources,
            }
        }),
        replicas: component.replicas,
    };
    components.iter().map(to_wire).collect()
}

/// A binding with these components, all of whose requirements are in the namespace.
pub fn components_from_wire(namespace: &str, components: Vec<wire::Component>) -> Result<BindingSpec, DecodeError> {
    let from_wire = |component: wire::Component| {
        let requirements = component.replica_requirements.map(|message| {
            Ok::<_, DecodeError>(work::ReplicaRequirements {
                node_claim: message.node_claim.map(claim_from_wire).transpose()?,
                resource_request: resources_from_wire(newer(message.resource_request_bytes, message.resource_request))?,
                namespace: namespace.to_owned(),
                priority_class_name: message.priority_class_name,
            })
        });
        Ok(work::Component {
            name: component.name,
            replicas: component.replicas,
            replica_requirements: requirements.transpose()?,
        })
    };
    let components: Result<_, DecodeError> = components.into_iter().map(from_wire).collect();
    Ok(BindingSpec { components: components?, ..BindingSpec::default() })
}

/// The newer form of a field where there is one.
fn newer<K: Ord, V>(new: BTreeMap<K, V>, old: BTreeMap<K, V>) -> BTreeMap<K, V> {
    if new.is_empty() { old } else { new }
}

fn resources_to_wire(resources: &ResourceList) -> BTreeMap<String, Vec<u8>> {
    let encode = |text: &QuantityText| wire::Quantity { string: Some(text.0.clone()) }.encode_to_vec();
    resources.iter().map(|(name, text)| (name.clone(), encode(text))).collect()
}

fn resources_from_wire(resources: BTreeMap<String, Vec<u8>>) -> Result<ResourceList, DecodeError> {
    let decode = |(name, bytes): (String, Vec<u8>)| {
        let quantity = wire::Quantity::decode(&*bytes)?;
        Ok((name, QuantityText(quantity.string.unwrap_or_else(|| "0".to_owned()))))
    };
    resources.into_iter().map(decode).collect()
}

fn claim_to_wire(claim: &work::NodeClaim) -> wire::NodeClaim {
    let affinity = claim.hard_node_affinity.as_ref().map(|selector| selector_to_wire(selector).encode_to_vec());
    let tolerations: Vec<Vec<u8>> =
        claim.tolerations.iter().map(|own| toleration_to_wire(own).encode_to_vec()).collect();
    wire::NodeClaim {
        node_affinity: affinity.clone(),
        node_selector: claim.node_selector.clone(),
        tolerations: tolerations.clone(),
        node_affinity_bytes: affinity.unwrap_or_default(),
        tolerations_bytes: tolerations,
    }
}

fn claim_from_wire(message: wire::NodeClaim) -> Result<work::NodeClaim, DecodeError> {
    let affinity = match message.node_affinity_bytes.is_empty() {
        true => message.node_affinity,
        false => Some(message.node_affinity_bytes),
    };
    let tolerations = match message.tolerations_bytes.is_empty() {
        true => message.tolerations,
        false => message.tolerations_bytes,
    };
    let read = |bytes: Vec<u8>| wire::Toleration::decode(&*bytes).map(toleration_from_wire);
    Ok(work::NodeClaim {
        hard_node_affinity: affinity
            .map(|bytes| wire::NodeSelector::decode(&*bytes))
            .transpose()?
            .map(selector_from_wire),
        node_selector: message.node_selector,
        tolerations: tolerations.into_iter().map(read).collect::<Result<_, _>>()?,
    })
}

fn selector_to_wire(selector: &Value) -> wire::NodeSelector {
    let requirement = |value: &Value| {
        let text = |field: &str| value[field].as_str().map(str::to_owned);
        let values = value["values"].as_array().into_iter().flatten().filter_map(Value::as_str);
        wire::NodeSelectorRequirement {
            key: text("key"),
            operator: text("operator"),
            values: values.map(str::to_owned).collect(),
        }
    };
    let requirements =
        |term: &Value, field: &str| term[field].as_array().into_iter().flatten().map(requirement).collect::<Vec<_>>();
    let term = |term: &Value| wire::NodeSelectorTerm {
        match_expressions: requirements(term, "matchExpressions"),
        match_fields: requirements(term, "matchFields"),
    };
    let terms = selector["nodeSelectorTerms"].as_array().into_iter().flatten();
    wire::NodeSelector { node_selector_terms: terms.map(term).collect() }
}

fn selector_from_wire(selector: wire::NodeSelector) -> Value {
    let requirement = |own: wire::NodeSelectorRequirement| {
        json!({"key": own.key.unwrap_or_default(), "operator": own.operator.unwrap_or_default(),
        "values": own.values})
    };
    let requirements = |list: Vec<wire::NodeSelectorRequirement>| list.into_iter().map(requirement).collect::<Vec<_>>();
    let term = |term: wire::NodeSelectorTerm| {
        json!({"matchExpressions": requirements(term.match_expressions),
        "matchFields": requirements(term.match_fields)})
    };
    let terms: Vec<Value> = selector.node_selector_terms.into_iter().map(term).collect();
    json!({"nodeSelectorTerms": terms})
}

fn toleration_to_wire(toleration: &Toleration) -> wire::Toleration {
    wire::Toleration {
        key: Some(toleration.key.clone()),
        operator: Some(toleration.operator.clone()),
        value: Some(toleration.value.clone()),
        effect: Some(toleration.effect.clone()),
        toleration_seconds: toleration.toleration_seconds,
    }
}

fn toleration_from_wire(message: wire::Toleration) -> Toleration {
    Toleration {
        key: message.key.unwrap_or_default(),
        operator: message.operator.unwrap_or_default(),
        value: message.value.unwrap_or_default(),
        effect: message.effect.unwrap_or_default(),
        toleration_seconds: message.toleration_seconds,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requirements() -> work::ReplicaRequirements {
        let claim = json!({"hardNodeAffinity": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "disk", "operator": "In", "values": ["ssd"]}], "matchFields": []}]},
            "nodeSelector": {"zone": "a"}, "tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 5}]});
        serde_json::from_value(json!({"nodeClaim": claim, "resourceRequest": {"cpu": "250m", "memory": "1Gi"},
            "namespace": "team", "priorityClassName": "high"}))
        .expect("requirements")
    }

    #[test]
    fn requirements_keep_their_meaning_in_the_forms_of_both_versions() {
        let both = requirements_to_wire(&requirements());
        let claim = both.node_claim.clone().expect("a claim");
        let older = wire::ReplicaRequirements {
            node_claim: Some(wire::NodeClaim {
                node_affinity_bytes: Vec::new(),
                tolerations_bytes: Vec::new(),
                ..claim.clone()
            }),
            resource_request_bytes: BTreeMap::new(),
            ..both.clone()
        };
        let newer = wire::ReplicaRequirements {
            node_claim: Some(wire::NodeClaim { node_affinity: None, tolerations: Vec::new(), ..claim }),
            resource_request: BTreeMap::new(),
            ..both.clone()
        };
        for message in [both, older, newer] {
            let sent = wire::ReplicaRequirements::decode(&*message.encode_to_vec()).expect("decoded");
            assert_eq!(requirements_from_wire(sent).expect("read"), requirements());
        }
    }

    /// The bytes of Go's `resource.MustParse("250m").Marshal()` in both fields, as karmada-scheduler 1.18 sends them.
    #[test]
    fn the_bytes_are_those_of_kubernetes() {
        let only_cpu = work::ReplicaRequirements {
            resource_request: [("cpu".to_owned(), QuantityText("250m".to_owned()))].into(),
            ..work::ReplicaRequirements::default()
        };
        let entry = b"\x0a\x03cpu\x12\x06\x0a\x04250m";
        let mut expected = vec![0x12, entry.len() as u8];
        expected.extend(entry);
        expected.extend([0x2a, entry.len() as u8]);
        expected.extend(entry);
        assert_eq!(requirements_to_wire(&only_cpu).encode_to_vec(), expected);
    }

    #[test]
    fn components_belong_to_the_namespace_of_the_request() {
        let component = work::Component {
            name: "worker".to_owned(),
            replicas: 3,
            replica_requirements: Some(work::ReplicaRequirements { namespace: String::new(), ..requirements() }),
        };
        let spec = components_from_wire("team", components_to_wire(std::slice::from_ref(&component))).expect("read");
        let expected = work::Component { replica_requirements: Some(requirements()), ..component };
        assert_eq!(spec.components, [expected]);
        let damaged = wire::Component {
            replica_requirements: Some(wire::ComponentReplicaRequirements {
                resource_request_bytes: [("cpu".to_owned(), vec![0xff])].into(),
                ..wire::ComponentReplicaRequirements::default()
            }),
            ..wire::Component::default()
        };
        assert!(components_from_wire("team", vec![damaged]).is_err());
    }
}
