//! The rules of pod specs, shared by pods and every kind with a pod template.

pub mod annotations;
mod containers;
pub mod defaults;
mod env;
mod handlers;
mod images;
mod networking;
mod platform;
mod projected;
pub mod qos;
pub mod resources;
pub mod scheduling;
mod security;
pub mod update;
pub mod volume_sources;
mod volumes;
pub mod warnings;

use serde_json::{Map, Value};

use super::defaults::{map_or_new, set_absent};
use super::fields::Field;
use containers::Surroundings;

/// The context of a pod spec's rules.
#[derive(Clone, Copy, Default)]
pub struct Setting<'a> {
    /// A pod itself, not a template.
    pub is_pod: bool,
    /// The name of the pod; empty in templates.
    pub pod_name: &'a str,
    /// Created by a kubelet from a file; may not use resource claims.
    pub is_mirror: bool,
    /// Volumes a controller will add (a StatefulSet's claims), which can be mounted.
    pub added_claims: Option<Field<'a>>,
    /// The controller sets hostname and subdomain itself.
    pub ignores_hostname: bool,
}

impl<'a> Setting<'a> {
    /// Names of the volumes a controller will add.
    fn added_names(self) -> impl Iterator<Item = &'a str> {
        let claims = self.added_claims.into_iter().flat_map(Field::items);
        claims.map(|claim| claim.field("metadata").field("name").text())
    }
}

/// Defaults of the template under `key`.
pub fn default_template(spec: &mut Map<String, Value>, key: &str) {
    if let Some(template) = map_or_new(spec, key) {
        set_absent(template, "metadata", Value::Object(Map::new()));
        if let Some(pod) = map_or_new(template, "spec") {
            defaults::default_spec(pod);
        }
    }
}

/// Rules of a pod template.
pub fn validate_template<'a>(template: Field<'a>, setting: Setting<'a>) {
    let (meta, spec) = (template.field("metadata"), template.field("spec"));
    // Kubernetes omits `metadata` in these paths.
    template.field("labels").with(meta.field("labels").value()).labels();
    let annotations = template.field("annotations").with(meta.field("annotations").value());
    annotations.annotations();
    annotations::validate(annotations, spec);
    validate_spec(spec, setting);
    annotations::validate_profiles_match(annotations, spec);
    if !spec.field("ephemeralContainers").is_empty() {
        spec.field("ephemeralContainers").forbidden("ephemeral containers not allowed in pod template");
    }
}

/// Rules of a pod's own metadata and spec, on create and on every update.
pub fn validate_pod<'a>(meta: Field<'a>, spec: Field<'a>) {
    let annotations = meta.field("annotations");
    annotations::validate(annotations, spec);
    let is_mirror = annotations.field(annotations::MIRROR).is_set();
    let pod_name = meta.field("name").text();
    validate_spec(spec, Setting { is_pod: true, pod_name, is_mirror, ..Setting::default() });
    if spec.field("serviceAccountName").is_empty() {
        for volume in spec.field("volumes").items() {
            for source in volume.field("projected").field("sources").items() {
                if source.field("serviceAccountToken").is_set() {
                    source
                        .field("serviceAccountToken")
                        .forbidden("must not be specified when serviceAccountName is not set");
                }
            }
        }
    }
    for list in ["containers", "initContainers"] {
        for container in spec.field(list).items() {
            images::refuse_padding(container.field("image"));
        }
    }
}

/// Rules only for the creation of a pod.
pub fn validate_pod_create<'a>(meta: Field<'a>, spec: Field<'a>) {
    let ephemeral = spec.field("ephemeralContainers");
    if !ephemeral.is_empty() {
        ephemeral.forbidden("cannot be set on create");
    }
    if !spec.field("nodeName").is_empty() && !spec.field("schedulingGates").is_empty() {
        spec.field("nodeName").forbidden("cannot be set until all schedulingGates have been cleared");
    }
    annotations::validate_profiles_match(meta.field("annotations"), spec);
}

/// Rules of a pod spec, in the order Kubernetes reports them.
pub fn validate_spec<'a>(spec: Field<'a>, setting: Setting<'a>) {
    let grace = spec.field("terminationGracePeriodSeconds");
    if !grace.is_set() {
        grace.required("");
    }
    let volumes = volumes::validate(spec.field("volumes"), setting);
    let claims = resources::validate_pod_claims(spec.field("resourceClaims"), setting.is_mirror);
    let around = Surroundings {
        volumes,
        claims,
        restart_policy: spec.field("restartPolicy").text(),
        grace: grace.int(),
        host_users: spec.field("hostUsers").value().is_none_or(|v| v == true),
        os: spec.field("os"),
    };
    containers::validate_containers(spec.field("containers"), &around);
    containers::validate_init_containers(spec, &around);
    containers::validate_ephemeral_containers(spec, &around);
    resources::validate_pod_level(spec, &around.claims);
    networking::validate_host_ports(spec, setting.is_pod);
    spec.field("restartPolicy").required_one_of(&["Always", "OnFailure", "Never"]);
    spec.field("dnsPolicy").required_one_of(&["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]);
    spec.field("nodeSelector").labels();
    security::validate_pod(spec);
    images::validate_pull_secrets(spec.field("imagePullSecrets"));
    scheduling::validate_affinity(spec.field("affinity"));
    networking::validate_dns(spec);
    for gate in spec.field("readinessGates").items() {
        gate.field("conditionType").qualified_name();
    }
    scheduling::validate_gates(spec.field("schedulingGates"));
    scheduling::validate_spread(spec.field("topologySpreadConstraints"));
    platform::validate_host_process(spec);
    security::validate_host_users(spec, around.host_users);
    networking::validate_hostname_override(spec);
    validate_names(spec, setting);
    scheduling::validate_tolerations(spec.field("tolerations"));
    networking::validate_host_aliases(spec.field("hostAliases"));
    validate_classes(spec);
    platform::validate_os(spec);
    validate_scheduling_group(spec.field("schedulingGroup"));
    env::validate_file_volumes(spec);
}

fn validate_names(spec: Field<'_>, setting: Setting<'_>) {
    for name in ["serviceAccountName", "nodeName"] {
        if !spec.field(name).is_empty() {
            spec.field(name).dns1123_subdomain();
        }
    }
    spec.field("activeDeadlineSeconds").in_range(1, i64::from(i32::MAX));
    if !setting.ignores_hostname {
        for name in ["hostname", "subdomain"] {
            if !spec.field(name).is_empty() {
                spec.field(name).dns1123_label();
            }
        }
    }
}

fn validate_classes(spec: Field<'_>) {
    if !spec.field("priorityClassName").is_empty() {
        spec.field("priorityClassName").dns1123_subdomain();
    }
    if spec.field("runtimeClassName").is_set() {
        spec.field("runtimeClassName").dns1123_subdomain();
    }
    let preemption = spec.field("preemptionPolicy");
    if preemption.is_set() {
        preemption.required_one_of(&["PreemptLowerPriority", "Never"]);
    }
    if spec.field("overhead").is_set() {
        resources::validate_overhead(spec.field("overhead"));
    }
}

fn validate_scheduling_group(group: Field<'_>) {
    if group.is_set() {
        let name = group.field("podGroupName");
        if name.is_set() {
            name.dns1123_subdomain();
        } else {
            name.invalid_as(Value::Null, "must specify one of: `podGroupName`");
        }
    }
}

/// Every container of a pod, in the order Kubernetes visits them: init, regular, ephemeral.
pub fn all_containers(spec: Field<'_>) -> impl Iterator<Item = Field<'_>> {
    ["initContainers", "containers", "ephemeralContainers"].into_iter().flat_map(move |list| spec.field(list).items())
}

/// Every term of the node affinity; true for preferences, whose invalid label values only cause a warning.
fn scheduling_terms(spec: Field<'_>) -> Vec<(Field<'_>, bool)> {
    let affinity = spec.field("affinity").field("nodeAffinity");
    let required = affinity.path(&["requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"]);
    let preferred = affinity.field("preferredDuringSchedulingIgnoredDuringExecution");
    let required = required.items().map(|term| (term, false));
    required.chain(preferred.items().map(|term| (term.field("preference"), true))).collect()
}
