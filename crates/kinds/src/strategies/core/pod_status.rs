//! Status updates of a kubelet.

use object::{FieldError, Object};
use serde_json::{Value, json};

use crate::strategies::addresses::{is_dual_stack, parse_sloppy};
use crate::strategies::fields::{Field, Report};
use crate::strategies::pod_spec::update::node_name_problems;

pub fn validate<'a>(report: &'a Report<'a>, new: &'a Object, old: &'a Object) {
    let status = report.field(new, "status");
    for condition in status.field("conditions").items() {
        let generation = condition.field("observedGeneration");
        if generation.int().is_some_and(|g| g < 0) {
            generation.invalid("must be a non-negative integer");
        }
        let kind = condition.field("type");
        if !matches!(kind.text(), "PodScheduled" | "Ready" | "Initialized") {
            condition.field("Type").with(kind.value()).qualified_name();
        }
    }
    if new.str_at(&["spec", "nodeName"]) != old.str_at(&["spec", "nodeName"]) {
        status.field("nodeName").forbidden("may not be changed directly");
    }
    validate_nomination(status.field("nominatedNodeName"), old);
    let generation = status.field("observedGeneration");
    if generation.int().is_some_and(|g| g < 0) {
        generation.invalid("must be a non-negative integer");
    }
    let class = status.field("qosClass");
    if class.text() != old.str_at(&["status", "qosClass"]) {
        class.invalid("field is immutable");
    }
    validate_transitions(status, old);
    validate_claims(status, new);
    validate_addresses(status.field("podIPs"), old.items(&["status", "podIPs"]));
    let host_ips = status.field("hostIPs");
    if let Some(first) = host_ips.items().next()
        && first.field("ip").text() != status.field("hostIP").text()
    {
        first.field("ip").invalid("must be equal to `hostIP`");
    }
    validate_addresses(host_ips, old.items(&["status", "hostIPs"]));
}

fn validate_nomination(node: Field<'_>, old: &Object) {
    let stored = old.str_at(&["status", "nominatedNodeName"]);
    if node.is_empty() || node.text() == stored {
        return;
    }
    node.problems(node_name_problems(node.text()));
    if !old.str_at(&["spec", "nodeName"]).is_empty() {
        node.forbidden("may not be set on pods that are already bound to a node");
    }
}

fn validate_addresses(addresses: Field<'_>, old: &[Value]) {
    let kept: Vec<&str> = old.iter().filter_map(|a| a["ip"].as_str()).collect();
    let mut all = Vec::new();
    for address in addresses.items() {
        // Reported at the entry, not at its `ip`.
        address.with(address.field("ip").value()).ip_address(&kept);
        all.push(address.field("ip").text());
    }
    if all.len() > 1
        && let Some((index, ip)) = all.iter().enumerate().find(|(_, ip)| parse_sloppy(ip).is_none())
    {
        addresses.push(FieldError::internal(
            addresses.field_path(),
            format!("failed to check for dual stack with error:invalid IP[{index}]: {ip}"),
        ));
        return refuse_same_family(addresses);
    }
    if all.len() > 2 || (all.len() == 2 && !is_dual_stack(&all)) {
        refuse_same_family(addresses);
    }
}

/// The list is shown in the internal type's form.
fn refuse_same_family(addresses: Field<'_>) {
    let shown: Vec<String> =
        addresses.items().map(|a| format!("{{\"IP\":{}}}", Value::from(a.field("ip").text()))).collect();
    addresses.invalid_shown(&format!("[{}]", shown.join(",")), "may specify no more than one IP for each IP family");
}

fn validate_claims(status: Field<'_>, new: &Object) {
    let mut seen = Vec::new();
    for claim in status.field("resourceClaimStatuses").items() {
        let name = claim.field("name");
        if !new.items(&["spec", "resourceClaims"]).iter().any(|c| c["name"].as_str() == Some(name.text())) {
            name.invalid("must match the name of an entry in `spec.resourceClaims`");
        }
        if seen.contains(&name.text()) {
            name.duplicate();
        }
        seen.push(name.text());
        if claim.field("resourceClaimName").is_set() {
            claim.field("resourceClaimName").dns1123_subdomain();
        }
    }
}

/// A container that terminated for good must stay terminated.
fn validate_transitions(status: Field<'_>, old: &Object) {
    let lists = [
        ("containerStatuses", "containers"),
        ("initContainerStatuses", "initContainers"),
        ("ephemeralContainerStatuses", ""),
    ];
    if restarts_all(old) {
        return;
    }
    for (list, containers) in lists {
        for (index, before) in old.items(&["status", list]).iter().enumerate() {
            let Some(exit_code) = before["state"]["terminated"].as_object().map(|t| t.get("exitCode")) else {
                continue;
            };
            let exit_code = exit_code.and_then(Value::as_i64).unwrap_or(0);
            let name = before["name"].as_str().unwrap_or_default();
            let Some(now) = status.field(list).items().find(|s| s.field("name").text() == name) else { continue };
            if now.field("state").field("terminated").is_set() || may_restart(old, containers, name, exit_code) {
                continue;
            }
            status.field(list).index(index).field("state").forbidden("may not be transitioned to non-terminated state");
        }
    }
}

fn restarts_all(pod: &Object) -> bool {
    let rules = ["containers", "initContainers"].into_iter().flat_map(|list| pod.items(&["spec", list]));
    let mut rules = rules.flat_map(|c| c["restartPolicyRules"].as_array().into_iter().flatten());
    rules.any(|rule| rule["action"].as_str() == Some("RestartAllContainers"))
}

fn may_restart(pod: &Object, list: &str, name: &str, exit_code: i64) -> bool {
    let container = pod.items(&["spec", list]).iter().find(|c| c["name"].as_str() == Some(name));
    let Some(container) = container else { return false };
    for rule in container["restartPolicyRules"].as_array().into_iter().flatten() {
        let listed = rule["exitCodes"]["values"].as_array().is_some_and(|v| v.contains(&exit_code.into()));
        let matches = match rule["exitCodes"]["operator"].as_str() {
            Some("In") => listed,
            Some("NotIn") => !listed,
            _ => false,
        };
        if matches && rule["action"].as_str() == Some("Restart") {
            return true;
        }
    }
    let policy = container["restartPolicy"].as_str().unwrap_or(pod.str_at(&["spec", "restartPolicy"]));
    match policy {
        "Never" => false,
        "OnFailure" => exit_code != 0,
        _ => true,
    }
}

/// A kubelet without generation support must not erase an observed generation.
pub fn keep_observed_generations(new: &mut Object, old: &Object) {
    let unset = |value: Option<&Value>| value.and_then(Value::as_i64).unwrap_or(0) == 0;
    if unset(new.get(&["status", "observedGeneration"]))
        && let Some(kept) = old.get(&["status", "observedGeneration"]).filter(|v| !unset(Some(v)))
    {
        new.set(&["status", "observedGeneration"], kept.clone());
    }
    let mut conditions = new.items(&["status", "conditions"]).to_vec();
    let mut changed = false;
    for condition in conditions.iter_mut().filter(|c| c.is_object()) {
        let same_type = |c: &&Value| c["type"] == condition["type"];
        let stored = old.items(&["status", "conditions"]).iter().find(same_type);
        let generation = stored.and_then(|c| c["observedGeneration"].as_i64()).unwrap_or(0);
        if unset(condition.get("observedGeneration")) && generation != 0 {
            condition["observedGeneration"] = json!(generation);
            changed = true;
        }
    }
    if changed {
        new.set(&["status", "conditions"], conditions);
    }
}
