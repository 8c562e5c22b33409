//! Containers of all three lists: rules for each, and for their combination.

use std::collections::BTreeSet;

use object::names;

use super::super::fields::Field;
use super::volumes::Mountable;
use super::{env, handlers, images, resources, security};

/// The context of a container's rules.
pub struct Surroundings<'a> {
    pub volumes: Mountable<'a>,
    pub claims: Vec<&'a str>,
    pub restart_policy: &'a str,
    pub grace: Option<i64>,
    pub host_users: bool,
    pub os: Field<'a>,
}

pub const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

pub fn validate_containers<'a>(containers: Field<'a>, around: &Surroundings<'a>) {
    if containers.is_empty() {
        return containers.required("");
    }
    let mut names = BTreeSet::new();
    for container in containers.items() {
        validate_common(container, around);
        if !names.insert(container.field("name").text()) {
            container.field("name").duplicate_as(container.field("name").text());
        }
        if container.field("lifecycle").is_set() {
            handlers::validate_lifecycle(container.field("lifecycle"), around.grace, around.os);
        }
        handlers::validate_probes(container, around.grace);
        validate_restart_rules(container);
    }
    let mut taken = BTreeSet::new();
    for container in containers.items() {
        validate_host_ports(container, container, &mut taken);
    }
}

pub fn validate_init_containers<'a>(spec: Field<'a>, around: &Surroundings<'a>) {
    let mut names: BTreeSet<&str> = spec.field("containers").items().map(|c| c.field("name").text()).collect();
    for container in spec.field("initContainers").items() {
        validate_common(container, around);
        let policy = container.field("restartPolicy");
        if !policy.is_set() && !container.field("restartPolicyRules").is_empty() {
            policy.required("must specify restartPolicy when restart rules are used");
        } else if policy.is_set() {
            validate_restart_rules(container);
        }
        let name = container.field("name");
        if !name.is_empty() && !names.insert(name.text()) {
            name.duplicate();
        }
        // Kubernetes checks one init container at a time, so errors always name the first.
        let mut taken = BTreeSet::new();
        validate_host_ports(container, spec.field("initContainers").index(0), &mut taken);
        let is_sidecar = policy.text() == "Always";
        validate_init_hooks(container, is_sidecar, around);
        if !is_sidecar {
            for rule in container.field("resizePolicy").items() {
                if rule.field("restartPolicy").text() == "RestartContainer" {
                    rule.field("restartPolicy")
                        .invalid("must not be set to 'RestartContainer' for non-sidecar initContainers");
                }
            }
        }
    }
}

fn validate_init_hooks<'a>(container: Field<'a>, is_sidecar: bool, around: &Surroundings<'a>) {
    if is_sidecar {
        if container.field("lifecycle").is_set() {
            handlers::validate_lifecycle(container.field("lifecycle"), around.grace, around.os);
        }
        return handlers::validate_probes(container, around.grace);
    }
    for hook in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
        if container.field(hook).is_set() {
            container.field(hook).forbidden("may not be set for init containers without restartPolicy=Always");
        }
    }
}

pub fn validate_ephemeral_containers<'a>(spec: Field<'a>, around: &Surroundings<'a>) {
    let containers = spec.field("ephemeralContainers");
    if containers.is_empty() {
        return;
    }
    let others: BTreeSet<&str> = ["containers", "initContainers"]
        .into_iter()
        .flat_map(|list| spec.field(list).items())
        .map(|c| c.field("name").text())
        .collect();
    let mut names = others.clone();
    for container in containers.items() {
        validate_common(container, around);
        images::refuse_padding(container.field("image"));
        if !names.insert(container.field("name").text()) {
            container.field("name").duplicate_as(container.field("name").text());
        }
        let target = container.field("targetContainerName");
        if !target.is_empty() && !others.contains(target.text()) {
            target.not_found(target.text());
        }
        for name in EPHEMERAL_FORBIDDEN {
            if !container.field(name).is_empty() {
                container.field(name).forbidden("cannot be set for an Ephemeral Container");
            }
        }
        for mount in container.field("volumeMounts").items() {
            for path in ["subPath", "subPathExpr"] {
                if !mount.field(path).is_empty() {
                    mount.field(path).forbidden("cannot be set for an Ephemeral Container");
                }
            }
        }
    }
}

const EPHEMERAL_FORBIDDEN: [&str; 9] = [
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];

fn validate_common<'a>(container: Field<'a>, around: &Surroundings<'a>) {
    let name = container.field("name");
    if name.require() {
        name.dns1123_label();
    }
    container.field("image").require();
    container.field("terminationMessagePolicy").required_one_of(&["File", "FallbackToLogsOnError"]);
    validate_ports(container.field("ports"));
    env::validate(container.field("env"));
    env::validate_from(container.field("envFrom"));
    around.volumes.validate_mounts(container);
    around.volumes.validate_devices(container);
    images::validate_pull_policy(container.field("imagePullPolicy"));
    resources::validate_container(container.field("resources"), &around.claims);
    validate_resize_policy(container.field("resizePolicy"), around.restart_policy);
    security::validate_container(container.field("securityContext"), around.host_users);
}

fn validate_ports(ports: Field<'_>) {
    let mut taken = BTreeSet::new();
    for port in ports.items() {
        let name = port.field("name");
        if !name.is_empty() {
            let problems = names::port_name(name.text());
            if problems.is_empty() && !taken.insert(name.text()) {
                name.duplicate();
            }
            name.problems(problems);
        }
        let number = port.field("containerPort");
        match number.int_or(0) {
            0 => number.required(""),
            _ => number.port_number(),
        }
        if port.field("hostPort").int_or(0) != 0 {
            port.field("hostPort").port_number();
        }
        port.field("protocol").required_one_of(&PROTOCOLS);
    }
}

/// Errors are reported at the container `named`.
fn validate_host_ports<'a>(container: Field<'a>, named: Field<'a>, taken: &mut BTreeSet<String>) {
    for (index, port) in container.field("ports").items().enumerate() {
        let number = port.field("hostPort").int_or(0);
        if number == 0 {
            continue;
        }
        let key = format!("{}/{}/{number}", port.field("protocol").text(), port.field("hostIP").text());
        if !taken.insert(key.clone()) {
            named.field("ports").index(index).field("hostPort").duplicate_as(key);
        }
    }
}

fn validate_resize_policy(policies: Field<'_>, pod_restart_policy: &str) {
    let mut seen = BTreeSet::new();
    for policy in policies.items() {
        let (resource, restart) = (policy.field("resourceName").text(), policy.field("restartPolicy").text());
        if !seen.insert(resource) {
            policy.duplicate_as(resource);
        }
        // Kubernetes names the list, not the field.
        for (text, supported) in [(resource, ["cpu", "memory"]), (restart, ["NotRequired", "RestartContainer"])] {
            if text.is_empty() {
                policies.required("");
            } else if !supported.contains(&text) {
                policies.push(object::FieldError::not_supported(policies.field_path(), text, &supported));
            }
        }
        if pod_restart_policy == "Never" && restart != "NotRequired" {
            policies.invalid_as(restart, "must be 'NotRequired' when pod `restartPolicy` is 'Never'");
        }
    }
}

fn validate_restart_rules(container: Field<'_>) {
    let (policy, rules) = (container.field("restartPolicy"), container.field("restartPolicyRules"));
    if policy.is_set() {
        policy.one_of(&["Always", "Never", "OnFailure"]);
    } else if !rules.is_empty() {
        policy.required("must specify restartPolicy when restart rules are used");
    }
    if rules.len() > 20 {
        rules.too_many(rules.len(), 20);
    }
    for rule in rules.items() {
        rule.field("action").one_of(&["Restart", "RestartAllContainers"]);
        let codes = rule.field("exitCodes");
        if codes.is_set() {
            codes.field("operator").one_of(&["In", "NotIn"]);
            if codes.field("values").len() > 255 {
                codes.field("values").too_many(codes.field("values").len(), 255);
            }
        } else {
            codes.required("must be specified");
        }
    }
}
