//! Descriptions of the common kinds of Kubernetes, in kubectl's form. Other kinds are described by their fields.

use std::fmt::Write;

use object::Object;
use serde_json::Value;

use super::containers::{items, write_containers, write_spread, write_template, write_tolerations, write_volumes};
use super::text::{
    conditions, controller, format_labels, format_selector, labels, labels_and_annotations, line, line_if,
    name_and_namespace, number, or_none, scalar, time,
};
use super::{autoscalers, networking, nodes, roles, several, storage};
use crate::durations;

/// Label of endpoint slices.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Most endpoints of a port that are shown.
const ENDPOINTS_SHOWN_MAX: usize = 3;

/// Objects that belong to the described one: pods, replica sets, endpoint slices.
#[derive(Clone, Debug, Default)]
pub struct Related {
    pub objects: Vec<Object>,
}

impl Related {
    pub fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Object> {
        self.objects.iter().filter(move |object| object.kind() == kind)
    }

    /// The endpoint slices of a Service.
    pub fn of_service(&self, name: &str) -> Self {
        let is_its = |slice: &&Object| slice.label(SERVICE_NAME) == Some(name);
        Self { objects: self.of_kind("EndpointSlice").filter(is_its).cloned().collect() }
    }

    /// Counts the pods of a controller by phase.
    fn pods_status(&self) -> String {
        let count = |phase: &str| self.of_kind("Pod").filter(|pod| pod.str_at(&["status", "phase"]) == phase).count();
        format!(
            "{} Running / {} Waiting / {} Succeeded / {} Failed",
            count("Running"),
            count("Pending"),
            count("Succeeded"),
            count("Failed")
        )
    }
}

/// Returns the description without events, or `None` for a kind without a form of its own.
pub fn describe(object: &Object, related: &Related) -> Option<String> {
    let mut text = String::new();
    match (object.api_version(), object.kind()) {
        ("v1", "Pod") => pod(&mut text, object),
        ("v1", "Service") => service(&mut text, object, related),
        ("v1", "ServiceAccount") => service_account(&mut text, object),
        ("v1", "Node") => nodes::node(&mut text, object, related),
        ("v1", "PersistentVolumeClaim") => storage::claim(&mut text, object, related),
        ("v1", "Namespace") => namespace(&mut text, object, related),
        ("apps/v1", "Deployment") => deployment(&mut text, object, related),
        ("apps/v1", "ReplicaSet") => replica_set(&mut text, object, related),
        ("apps/v1", "StatefulSet") => stateful_set(&mut text, object, related),
        ("apps/v1", "DaemonSet") => daemon_set(&mut text, object, related),
        ("batch/v1", "Job") => job(&mut text, object),
        ("batch/v1", "CronJob") => cron_job(&mut text, object),
        ("policy/v1", "PodDisruptionBudget") => disruption_budget(&mut text, object),
        ("storage.k8s.io/v1", "StorageClass") => storage::class(&mut text, object),
        ("autoscaling/v2", "HorizontalPodAutoscaler") => autoscalers::autoscaler(&mut text, object),
        ("networking.k8s.io/v1", "Ingress") => networking::ingress(&mut text, object, related),
        ("networking.k8s.io/v1", "NetworkPolicy") => networking::network_policy(&mut text, object),
        ("rbac.authorization.k8s.io/v1", "Role" | "ClusterRole") => roles::role(&mut text, object),
        ("rbac.authorization.k8s.io/v1", "RoleBinding" | "ClusterRoleBinding") => {
            roles::role_binding(&mut text, object);
        }
        _ => return None,
    }
    Some(text)
}

fn pod(text: &mut String, pod: &Object) {
    name_and_namespace(text, pod);
    if let Some(priority) = pod.i64_at(&["spec", "priority"]) {
        line(text, "Priority", priority);
    }
    line_if(text, "Priority Class Name", pod.str_at(&["spec", "priorityClassName"]));
    line_if(text, "Runtime Class Name", pod.str_at(&["spec", "runtimeClassName"]));
    line_if(text, "Service Account", pod.str_at(&["spec", "serviceAccountName"]));
    match pod.str_at(&["spec", "nodeName"]) {
        "" => line(text, "Node", "<none>"),
        node => line(text, "Node", format_args!("{node}/{}", pod.str_at(&["status", "hostIP"]))),
    }
    if let Some(start) = pod.get(&["status", "startTime"]).and_then(Value::as_str) {
        line(text, "Start Time", time(start));
    }
    labels_and_annotations(text, pod);
    let phase = pod.str_at(&["status", "phase"]);
    match pod.deletion_timestamp().filter(|_| !["Failed", "Succeeded"].contains(&phase)) {
        Some(deleted) => {
            let lasts = durations::since(deleted, jiff::Timestamp::now());
            line(text, "Status", format_args!("Terminating (lasts {lasts})"));
            let seconds = number(pod, &["metadata", "deletionGracePeriodSeconds"]);
            line(text, "Termination Grace Period", format_args!("{seconds}s"));
        }
        None => line(text, "Status", phase),
    }
    line_if(text, "Reason", pod.str_at(&["status", "reason"]));
    line_if(text, "Message", pod.str_at(&["status", "message"]));
    line_if(text, "SeccompProfile", pod.str_at(&["spec", "securityContext", "seccompProfile", "type"]));
    line(text, "IP", pod.str_at(&["status", "podIP"]));
    match pod.items(&["status", "podIPs"]) {
        [] => line(text, "IPs", "<none>"),
        addresses => {
            text.push_str("IPs:\n");
            addresses.iter().for_each(|address| line(text, "  IP", scalar(&address["ip"])));
        }
    }
    line_if(text, "Controlled By", &controller(pod));
    line_if(text, "NominatedNodeName", pod.str_at(&["status", "nominatedNodeName"]));
    for (title, containers, statuses) in [
        ("Init Containers", "initContainers", "initContainerStatuses"),
        ("Containers", "containers", "containerStatuses"),
        ("Ephemeral Containers", "ephemeralContainers", "ephemeralContainerStatuses"),
    ] {
        let containers = pod.items(&["spec", containers]);
        if !containers.is_empty() || title == "Containers" {
            write_containers(text, title, containers, pod.items(&["status", statuses]), Some(pod));
        }
    }
    let all = pod.items(&["status", "conditions"]);
    if !all.is_empty() {
        text.push_str("Conditions:\n  Type\tStatus\n");
        for condition in all {
            let _ = writeln!(text, "  {} \t{} ", scalar(&condition["type"]), scalar(&condition["status"]));
        }
    }
    write_volumes(text, "", pod.items(&["spec", "volumes"]));
    line(text, "QoS Class", pod.str_at(&["status", "qosClass"]));
    labels(text, "Node-Selectors", pod.get(&["spec", "nodeSelector"]));
    write_tolerations(text, "Tolerations", pod.items(&["spec", "tolerations"]));
    write_spread(text, "", pod.items(&["spec", "topologySpreadConstraints"]));
}

fn template_of(object: &Object) -> Value {
    object.get(&["spec", "template"]).cloned().unwrap_or_default()
}

fn deployment(text: &mut String, deployment: &Object, related: &Related) {
    name_and_namespace(text, deployment);
    line(text, "CreationTimestamp", time(deployment.creation_timestamp()));
    labels_and_annotations(text, deployment);
    line(text, "Selector", format_selector(deployment.get(&["spec", "selector"])));
    let status = |field: &str| number(deployment, &["status", field]);
    line(
        text,
        "Replicas",
        format_args!(
            "{} desired | {} updated | {} total | {} available | {} unavailable",
            number(deployment, &["spec", "replicas"]),
            status("updatedReplicas"),
            status("replicas"),
            status("availableReplicas"),
            status("unavailableReplicas")
        ),
    );
    line(text, "StrategyType", deployment.str_at(&["spec", "strategy", "type"]));
    line(text, "MinReadySeconds", number(deployment, &["spec", "minReadySeconds"]));
    if let Some(rolling) = deployment.get(&["spec", "strategy", "rollingUpdate"]).filter(|value| value.is_object()) {
        let (unavailable, surge) = (scalar(&rolling["maxUnavailable"]), scalar(&rolling["maxSurge"]));
        line(text, "RollingUpdateStrategy", format_args!("{unavailable} max unavailable, {surge} max surge"));
    }
    write_template(text, &template_of(deployment));
    conditions(text, deployment);
    let template = without_hash(&template_of(deployment));
    let (new, old): (Vec<&Object>, Vec<&Object>) = related
        .of_kind("ReplicaSet")
        .filter(|set| number(set, &["spec", "replicas"]) > 0 || without_hash(&template_of(set)) == template)
        .partition(|set| without_hash(&template_of(set)) == template);
    if !new.is_empty() || !old.is_empty() {
        line(text, "OldReplicaSets", replica_sets(&old));
        line(text, "NewReplicaSet", replica_sets(&new));
    }
}

/// Returns a template without the label that a deployment adds.
fn without_hash(template: &Value) -> Value {
    let mut template = template.clone();
    if let Some(labels) = template["metadata"]["labels"].as_object_mut() {
        labels.remove("pod-template-hash");
    }
    template
}

fn replica_sets(sets: &[&Object]) -> String {
    let text = |set: &&Object| {
        let (created, desired) = (number(set, &["status", "replicas"]), number(set, &["spec", "replicas"]));
        format!("{} ({created}/{desired} replicas created)", set.name())
    };
    or_none(&sets.iter().map(text).collect::<Vec<_>>().join(", "))
}

fn replica_set(text: &mut String, set: &Object, related: &Related) {
    name_and_namespace(text, set);
    line(text, "Selector", format_selector(set.get(&["spec", "selector"])));
    labels_and_annotations(text, set);
    line_if(text, "Controlled By", &controller(set));
    let (current, desired) = (number(set, &["status", "replicas"]), number(set, &["spec", "replicas"]));
    line(text, "Replicas", format_args!("{current} current / {desired} desired"));
    line(text, "Pods Status", related.pods_status());
    write_template(text, &template_of(set));
    conditions(text, set);
}

fn stateful_set(text: &mut String, set: &Object, related: &Related) {
    name_and_namespace(text, set);
    line(text, "CreationTimestamp", time(set.creation_timestamp()));
    line(text, "Selector", format_selector(set.get(&["spec", "selector"])));
    labels_and_annotations(text, set);
    let (desired, total) = (number(set, &["spec", "replicas"]), number(set, &["status", "replicas"]));
    line(text, "Replicas", format_args!("{desired} desired | {total} total"));
    line(text, "Update Strategy", set.str_at(&["spec", "updateStrategy", "type"]));
    if let Some(partition) = set.i64_at(&["spec", "updateStrategy", "rollingUpdate", "partition"]) {
        line(text, "  Partition", partition);
    }
    line(text, "Pods Status", related.pods_status());
    write_template(text, &template_of(set));
    let claims = set.items(&["spec", "volumeClaimTemplates"]);
    text.push_str(if claims.is_empty() { "Volume Claims:\t<none>\n" } else { "Volume Claims:\n" });
    for claim in claims {
        line(text, "  Name", scalar(&claim["metadata"]["name"]));
        line(text, "  StorageClass", scalar(&claim["spec"]["storageClassName"]));
        labels(text, "  Labels", claim["metadata"].get("labels"));
        labels(text, "  Annotations", claim["metadata"].get("annotations"));
        let capacity = scalar(&claim["spec"]["resources"]["requests"]["storage"]);
        line(text, "  Capacity", if capacity.is_empty() { "<default>".to_owned() } else { capacity });
        let modes: Vec<String> = items(&claim["spec"], "accessModes").iter().map(scalar).collect();
        line(text, "  Access Modes", format_args!("[{}]", modes.join(" ")));
    }
}

fn daemon_set(text: &mut String, set: &Object, related: &Related) {
    name_and_namespace(text, set);
    line(text, "Selector", format_selector(set.get(&["spec", "selector"])));
    line(text, "Node-Selector", format_labels(set.get(&["spec", "template", "spec", "nodeSelector"])));
    labels_and_annotations(text, set);
    for (title, field) in [
        ("Desired Number of Nodes Scheduled", "desiredNumberScheduled"),
        ("Current Number of Nodes Scheduled", "currentNumberScheduled"),
        ("Number of Nodes Scheduled with Up-to-date Pods", "updatedNumberScheduled"),
        ("Number of Nodes Scheduled with Available Pods", "numberAvailable"),
        ("Number of Nodes Misscheduled", "numberMisscheduled"),
    ] {
        let _ = writeln!(text, "{title}: {}", number(set, &["status", field]));
    }
    line(text, "Pods Status", related.pods_status());
    write_template(text, &template_of(set));
}

fn job(text: &mut String, job: &Object) {
    name_and_namespace(text, job);
    line(text, "Selector", format_selector(job.get(&["spec", "selector"])));
    labels_and_annotations(text, job);
    line_if(text, "Controlled By", &controller(job));
    let of_spec = |field: &str| job.get(&["spec", field]).map(scalar).unwrap_or_default();
    line_if(text, "Parallelism", &of_spec("parallelism"));
    let completions = of_spec("completions");
    line(text, "Completions", if completions.is_empty() { "<unset>" } else { &completions });
    for (title, field) in [
        ("Completion Mode", "completionMode"),
        ("Suspend", "suspend"),
        ("Backoff Limit", "backoffLimit"),
        ("TTL Seconds After Finished", "ttlSecondsAfterFinished"),
    ] {
        line_if(text, title, &of_spec(field));
    }
    let (start, end) = (job.str_at(&["status", "startTime"]), job.str_at(&["status", "completionTime"]));
    if !start.is_empty() {
        line(text, "Start Time", time(start));
    }
    if !end.is_empty() {
        line(text, "Completed At", time(end));
    }
    if let (Ok(start), Ok(end)) = (start.parse::<jiff::Timestamp>(), end.parse::<jiff::Timestamp>()) {
        line(text, "Duration", durations::human(end.duration_since(start)));
    }
    if let Some(seconds) = job.i64_at(&["spec", "activeDeadlineSeconds"]) {
        line(text, "Active Deadline Seconds", format_args!("{seconds}s"));
    }
    let ready = job.i64_at(&["status", "ready"]).map(|ready| format!(" ({ready} Ready)")).unwrap_or_default();
    let status = |field: &str| number(job, &["status", field]);
    line(
        text,
        "Pods Statuses",
        format_args!(
            "{} Active{ready} / {} Succeeded / {} Failed",
            status("active"),
            status("succeeded"),
            status("failed")
        ),
    );
    if of_spec("completionMode") == "Indexed" {
        line(text, "Completed Indexes", or_none(job.str_at(&["status", "completedIndexes"])));
    }
    write_template(text, &template_of(job));
}

fn cron_job(text: &mut String, cron_job: &Object) {
    name_and_namespace(text, cron_job);
    labels_and_annotations(text, cron_job);
    let unset = |value: String, unit: &str| if value.is_empty() { "<unset>".to_owned() } else { value + unit };
    let of_spec = |field: &str| cron_job.get(&["spec", field]).map(scalar).unwrap_or_default();
    line(text, "Schedule", of_spec("schedule"));
    line(text, "Concurrency Policy", of_spec("concurrencyPolicy"));
    let suspend = match cron_job.bool_at(&["spec", "suspend"]) {
        Some(true) => "True",
        Some(false) => "False",
        None => "<unset>",
    };
    line(text, "Suspend", suspend);
    line_if(text, "Time Zone", &of_spec("timeZone"));
    line(text, "Successful Job History Limit", unset(of_spec("successfulJobsHistoryLimit"), ""));
    line(text, "Failed Job History Limit", unset(of_spec("failedJobsHistoryLimit"), ""));
    line(text, "Starting Deadline Seconds", unset(of_spec("startingDeadlineSeconds"), "s"));
    let template = cron_job.get(&["spec", "jobTemplate", "spec"]).cloned().unwrap_or_default();
    let selector = template.get("selector").filter(|selector| selector.is_object());
    line(text, "Selector", selector.map_or_else(|| "<unset>".to_owned(), |selector| format_selector(Some(selector))));
    line(text, "Parallelism", unset(scalar(&template["parallelism"]), ""));
    line(text, "Completions", unset(scalar(&template["completions"]), ""));
    if let Some(seconds) = template["activeDeadlineSeconds"].as_i64() {
        line(text, "Active Deadline Seconds", format_args!("{seconds}s"));
    }
    write_template(text, &template["template"]);
    let last = cron_job.str_at(&["status", "lastScheduleTime"]);
    line(text, "Last Schedule Time", if last.is_empty() { "<unset>".to_owned() } else { time(last) });
    let active: Vec<String> = cron_job.items(&["status", "active"]).iter().map(|job| scalar(&job["name"])).collect();
    line(text, "Active Jobs", or_none(&active.join(", ")));
}

fn service(text: &mut String, service: &Object, related: &Related) {
    name_and_namespace(text, service);
    labels_and_annotations(text, service);
    let of_spec = |field: &str| service.get(&["spec", field]).map(scalar).unwrap_or_default();
    let list = |path: &[&str]| service.items(path).iter().map(scalar).collect::<Vec<_>>().join(",");
    line(text, "Selector", format_labels(service.get(&["spec", "selector"])));
    line(text, "Type", of_spec("type"));
    line_if(text, "IP Family Policy", &of_spec("ipFamilyPolicy"));
    line(text, "IP Families", or_none(&list(&["spec", "ipFamilies"])));
    line(text, "IP", of_spec("clusterIP"));
    line(text, "IPs", or_none(&list(&["spec", "clusterIPs"])));
    line_if(text, "External IPs", &list(&["spec", "externalIPs"]));
    line_if(text, "Desired LoadBalancer IP", &of_spec("loadBalancerIP"));
    line_if(text, "External Name", &of_spec("externalName"));
    line_if(text, "LoadBalancer Ingress", &load_balancer(service));
    for port in service.items(&["spec", "ports"]) {
        let name = port["name"].as_str().filter(|name| !name.is_empty()).unwrap_or("<unset>");
        let protocol = scalar(&port["protocol"]);
        line(text, "Port", format_args!("{name}\t{}/{protocol}", scalar(&port["port"])));
        line(text, "TargetPort", format_args!("{}/{protocol}", scalar(&port["targetPort"])));
        line_if(text, "AppProtocol", &scalar(&port["appProtocol"]));
        if let Some(number) = port["nodePort"].as_i64().filter(|number| *number != 0) {
            line(text, "NodePort", format_args!("{name}\t{number}/{protocol}"));
        }
        line(text, "Endpoints", endpoints(related, port["name"].as_str().unwrap_or_default()));
    }
    line(text, "Session Affinity", of_spec("sessionAffinity"));
    line_if(text, "External Traffic Policy", &of_spec("externalTrafficPolicy"));
    line_if(text, "Internal Traffic Policy", &of_spec("internalTrafficPolicy"));
    line_if(text, "HealthCheck NodePort", &of_spec("healthCheckNodePort"));
    line_if(text, "LoadBalancer Source Ranges", &list(&["spec", "loadBalancerSourceRanges"]));
    line_if(text, "Traffic Distribution", &of_spec("trafficDistribution"));
}

fn load_balancer(service: &Object) -> String {
    let address = |ingress: &Value| match (scalar(&ingress["ip"]), scalar(&ingress["ipMode"])) {
        (ip, _) if ip.is_empty() => scalar(&ingress["hostname"]),
        (ip, mode) if mode.is_empty() => ip,
        (ip, mode) => format!("{ip} ({mode})"),
    };
    service.items(&["status", "loadBalancer", "ingress"]).iter().map(address).collect::<Vec<_>>().join(", ")
}

/// The ready addresses of a port.
pub fn endpoints(related: &Related, name: &str) -> String {
    let mut slices = related.of_kind("EndpointSlice").peekable();
    if slices.peek().is_none() {
        return "<none>".to_owned();
    }
    let mut found: Vec<String> = Vec::new();
    for slice in slices {
        let ready = slice.items(&["endpoints"]).iter().filter(|endpoint| endpoint["conditions"]["ready"] != false);
        let addresses: Vec<String> = ready.map(|endpoint| scalar(&endpoint["addresses"][0])).collect();
        let ports = slice.items(&["ports"]);
        if ports.is_empty() {
            found.extend(addresses.iter().cloned());
        }
        for port in ports.iter().filter(|port| port["name"].as_str().unwrap_or_default() == name) {
            let number = scalar(&port["port"]);
            let join = |address: &String| match address.contains(':') {
                true => format!("[{address}]:{number}"),
                false => format!("{address}:{number}"),
            };
            found.extend(addresses.iter().map(join));
        }
    }
    let more = found.len().saturating_sub(ENDPOINTS_SHOWN_MAX);
    found.truncate(ENDPOINTS_SHOWN_MAX);
    let shown = found.join(",");
    if more > 0 { format!("{shown} + {more} more...") } else { shown }
}

fn service_account(text: &mut String, account: &Object) {
    name_and_namespace(text, account);
    labels_and_annotations(text, account);
    let names: Vec<String> =
        account.items(&["imagePullSecrets"]).iter().map(|s| format!("{}\n", scalar(&s["name"]))).collect();
    if names.is_empty() {
        line(text, "Image pull secrets", "<none>");
    }
    for (index, name) in names.iter().enumerate() {
        let title = if index == 0 { "Image pull secrets:" } else { "                   " };
        let _ = write!(text, "{title}\t{name}");
    }
}

fn namespace(text: &mut String, namespace: &Object, related: &Related) {
    line(text, "Name", namespace.name());
    labels_and_annotations(text, namespace);
    line(text, "Status", namespace.str_at(&["status", "phase"]));
    let mut quotas: Vec<&Object> = related.of_kind("ResourceQuota").collect();
    quotas.sort_by_key(|quota| quota.name());
    text.push_str(if quotas.is_empty() { "\nNo resource quota.\n" } else { "\nResource Quotas\n" });
    for quota in quotas {
        line(text, "  Name", quota.name());
        text.push_str("  Resource\tUsed\tHard\n  --------\t---\t---\n");
        let hard = quota.get(&["status", "hard"]).and_then(Value::as_object).cloned().unwrap_or_default();
        let mut names: Vec<&String> = hard.keys().collect();
        names.sort();
        for name in names {
            let used = quota.get(&["status", "used", name]).map_or("0".to_owned(), scalar);
            let _ = writeln!(text, "  {name}\t{used}\t{}", scalar(&hard[name]));
        }
    }
    let mut limits = related.of_kind("LimitRange").peekable();
    if limits.peek().is_none() {
        text.push_str("\nNo LimitRange resource.\n");
        return;
    }
    text.push_str("\nLimit Ranges\n");
    several(text, "  Names", limits.map(|limit| format!("{}\n", limit.name())).collect());
}

fn disruption_budget(text: &mut String, budget: &Object) {
    name_and_namespace(text, budget);
    for (title, field) in [("Min available", "minAvailable"), ("Max unavailable", "maxUnavailable")] {
        line_if(text, title, &budget.get(&["spec", field]).map(scalar).unwrap_or_default());
    }
    line(text, "Selector", format_selector(budget.get(&["spec", "selector"])));
    text.push_str("Status:\n");
    for (title, field) in [
        ("Allowed disruptions", "disruptionsAllowed"),
        ("Current", "currentHealthy"),
        ("Desired", "desiredHealthy"),
        ("Total", "expectedPods"),
    ] {
        line(text, &format!("    {title}"), number(budget, &["status", field]));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tabs;

    /// The text is that of `kubectl describe pod` (compared in `e2e/tests/commands.rs`).
    #[test]
    fn a_pod_is_described_with_its_containers() {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}, "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "u", "controller": true},
            ]},
            "spec": {
                "nodeName": "n1",
                "containers": [{
                    "name": "app", "image": "nginx:1", "ports": [{"containerPort": 80, "protocol": "TCP"}],
                    "env": [{"name": "A", "value": "b"}], "resources": {"limits": {"cpu": "1"}},
                    "volumeMounts": [{"name": "data", "mountPath": "/data", "readOnly": true}],
                }],
                "volumes": [{"name": "data", "emptyDir": {}}],
                "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}],
            },
            "status": {
                "phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}], "hostIP": "10.0.0.9",
                "qosClass": "Burstable", "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [{
                    "name": "app", "ready": false, "restartCount": 2, "containerID": "c://1", "imageID": "i",
                    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                }],
            },
        });
        let text = describe(&Object::from_value(pod).unwrap(), &Related::default()).unwrap();
        let expected = "\
Name:           web
Namespace:      shop
Node:           n1/10.0.0.9
Labels:         app=web
Annotations:    <none>
Status:         Running
IP:             10.0.0.1
IPs:
  IP:           10.0.0.1
Controlled By:  ReplicaSet/web-1
Containers:
  app:
    Container ID:  c://1
    Image:         nginx:1
    Image ID:      i
    Port:          80/TCP
    Host Port:     0/TCP
    State:         Waiting
      Reason:      CrashLoopBackOff
    Ready:         False
    Restart Count: 2
";
        let shown = tabs::align(&text, tabs::DESCRIPTION);
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert!(words(&shown).starts_with(&words(expected)), "{shown}");
        for part in [
            "    Limits:\n      cpu:  1\n",
            "    Environment:\n      A:  b\n",
            "    Mounts:\n      /data from data (ro)\n",
            "Conditions:\n  Type    Status\n  Ready   True \n",
            "    Type:        EmptyDir (a temporary directory that shares a pod's lifetime)\n",
            "a:NoExecute op=Exists for 300s\n",
        ] {
            assert!(shown.contains(part), "{part:?} is missing: {shown}");
        }
    }

    #[test]
    fn endpoints_of_a_service_are_listed_by_port() {
        let slice = json!({
            "kind": "EndpointSlice", "ports": [{"name": "web", "port": 8080}],
            "endpoints": (1..=5).map(|n| json!({"addresses": [format!("10.0.0.{n}")], "conditions": {"ready": n != 2}})).collect::<Vec<_>>(),
        });
        let related = Related { objects: vec![Object::from_value(slice).unwrap()] };
        assert_eq!(endpoints(&related, "web"), "10.0.0.1:8080,10.0.0.3:8080,10.0.0.4:8080 + 1 more...");
        assert_eq!(endpoints(&related, "other"), "");
        assert_eq!(endpoints(&Related::default(), "web"), "<none>");
    }
}
