//! The next step for each [`Reason`]: one sentence with the command to run or the field to change.
//!
//! Commands are in backticks and begin with `flotilla`. The command line adds the flags that select the control plane.
//! Words in capitals are for the user to fill in.

use api::cluster::{TAINT_NOT_READY, TAINT_UNREACHABLE, TAINT_UNSCHEDULABLE};
use api::failover::{ANNOTATION_FAILBACK, TAINT_NODES_UNSCHEDULABLE};
use api::work::{ApplyFailure, LABEL_SKIP_AUTO_PROPAGATION};
use object::GroupVersion;
use object::taints::Taint;
use propagation::policy::{PolicyKey, Scope};
use propagation::skipped_namespaces::NotSynced;

use crate::document::Subject;
use crate::reason::{PendingEviction, Reason, ReplicaDivision};

/// Clusters that are listed in one sentence.
const CLUSTERS_LISTED_MAX: usize = 10;

/// Advice about one object.
pub struct Advisor<'a> {
    pub subject: &'a Subject,
    /// The policy of the object, if it has one.
    pub policy: Option<&'a PolicyKey>,
}

impl Advisor<'_> {
    /// Returns the next step; `None` if there is nothing to do but wait.
    pub fn advise(&self, reason: &Reason) -> Option<String> {
        self.before_scheduling(reason).or_else(|| self.scheduling(reason)).or_else(|| self.after_scheduling(reason))
    }

    fn before_scheduling(&self, reason: &Reason) -> Option<String> {
        let object = self.object();
        Some(match reason {
            Reason::TemplateMissing => format!(
                "apply it to the control plane. If a member runs it already, \
                 `flotilla get {object} -s members --ignore-not-found` shows which, and `flotilla promote {object} -C CLUSTER` adds it to the control plane"
            ),
            Reason::ApiNotPropagated { is_cluster: true } => {
                format!("`flotilla describe cluster {}` shows its state", self.subject.name)
            }
            Reason::ApiNotPropagated { .. } => {
                "`flotilla get resourcebindings -A` lists the objects that are propagated".to_owned()
            }
            Reason::NamespaceNotSynced { why: NotSynced::Label } => format!(
                "to create it in all members, remove its label: \
                 `flotilla label namespace {} {LABEL_SKIP_AUTO_PROPAGATION}-`",
                self.subject.name
            ),
            Reason::NamespaceNotSynced { why: NotSynced::Flag } | Reason::NamespaceSkipped => {
                "use another namespace, or change --skipped-propagating-namespaces of the server".to_owned()
            }
            Reason::NoPolicy { has_near_miss } => self.no_policy(*has_near_miss),
            Reason::PolicySelectsOther => {
                format!("if it should stay propagated, correct the selectors of the policy: {}", self.edit_policy())
            }
            Reason::PolicyGone => self.no_policy(false),
            _ => return None,
        })
    }

    fn scheduling(&self, reason: &Reason) -> Option<String> {
        let edit = self.edit_policy();
        Some(match reason {
            Reason::SchedulingSuspended => {
                "scheduling is suspended: remove spec.suspension.scheduling of the ResourceBinding".to_owned()
            }
            Reason::OtherScheduler { name } => {
                format!("start the scheduler {name}, or remove spec.schedulerName of the policy: {edit}")
            }
            Reason::NoClusters => {
                "there are no clusters; add one with `flotilla join NAME --cluster-kubeconfig FILE`".to_owned()
            }
            Reason::ClustersMissing { names, known } => clusters_missing(names, known, &edit),
            Reason::KindNotServed { cluster } => kind_not_served(cluster),
            Reason::Tainted { cluster, taints } => tainted(cluster, taints, &edit),
            Reason::AffinityMismatch { cluster } => format!(
                "{cluster} does not match spec.placement.clusterAffinity of the policy. Compare \
                 `flotilla get cluster {cluster} --show-labels` with the policy, {edit}"
            ),
            Reason::TopologyMissing { cluster } => format!(
                "{cluster} has no region, zone or provider to spread over: set it with \
                 `flotilla edit cluster {cluster}`, or remove spec.placement.spreadConstraints of the policy: {edit}"
            ),
            Reason::RecentlyEvicted { cluster } => {
                format!("it was evicted from {cluster} and can return there when the eviction is complete")
            }
            Reason::ClusterLeaving { cluster } => {
                format!("{cluster} is being unregistered: wait for another cluster, or add one to the policy: {edit}")
            }
            Reason::WorkloadAffinity { cluster } => {
                format!("{cluster} does not meet spec.placement.workloadAffinity of the policy: {edit}")
            }
            Reason::NoCapacity { replicas } => format!(
                "the clusters cannot run {replicas} more replicas: add nodes or clusters, or lower the replicas or their \
                 resource requests. It is scheduled as soon as there is capacity"
            ),
            Reason::PlacementUnsatisfiable => {
                format!("the clusters above cannot meet spec.placement of the policy: {edit}")
            }
            _ => return None,
        })
    }

    fn after_scheduling(&self, reason: &Reason) -> Option<String> {
        let edit = self.edit_policy();
        Some(match reason {
            Reason::OverrideFailed { namespace, name } => {
                let kind = if namespace.is_empty() { "clusteroverridepolicy" } else { "overridepolicy" };
                let command = format!("`flotilla edit {kind} {name}{}`", in_namespace(namespace));
                format!("correct the override policy: {command}; until then nothing is sent")
            }
            Reason::DispatchSuspended => {
                format!("remove spec.suspension of the policy when it may be sent: {edit}")
            }
            Reason::NotApplied { cluster, failure } => self.not_applied(cluster, *failure, &edit),
            Reason::ClusterRemoved { cluster } => {
                format!("{cluster} was unregistered: register it again, or remove it from the policy: {edit}")
            }
            Reason::ClusterNotReady { cluster, eviction } => not_ready(cluster, *eviction),
            Reason::EvictionPending { cluster, taints, eviction } => eviction_pending(cluster, taints, *eviction),
            Reason::PodsUnschedulable { cluster, replicas, division, exceeds_nodes } => {
                let lower = "lower the resource requests of its pods";
                let elsewhere = match (division, exceeds_nodes) {
                    (_, true) => {
                        return Some(format!("no node of {cluster} is large enough: {lower}, or add larger nodes"));
                    }
                    (ReplicaDivision::Duplicated, _) => format!("remove {cluster} from the policy: {edit}"),
                    (ReplicaDivision::StaticWeights, _) => {
                        format!("lower the weight of {cluster} in the policy: {edit}")
                    }
                    (ReplicaDivision::ByCapacity, _) => format!(
                        "start the server with --descheduler, which moves the {replicas} to other clusters (Deployments only)"
                    ),
                };
                format!("add nodes to {cluster}, {lower}, or {elsewhere}")
            }
            Reason::Unhealthy { cluster } => {
                let (object, members) = (self.object(), format!("-s members -C {cluster}"));
                let namespace = in_namespace(&self.subject.namespace);
                format!("see `flotilla describe {object} {members}` and `flotilla get pods{namespace} {members}`")
            }
            Reason::NoFailback { clusters } => format!(
                "to return it to {}, annotate its policy: `flotilla annotate {} {ANNOTATION_FAILBACK}=5m`",
                clusters.join(", "),
                self.policy_object()
            ),
            _ => return None,
        })
    }

    fn no_policy(&self, has_near_miss: bool) -> String {
        let object = self.object();
        let correct = if has_near_miss { "correct the selector of the policy above, or " } else { "" };
        let namespace = in_namespace(&self.subject.namespace);
        format!(
            "{correct}propagate it to all clusters: \
             `flotilla get {object} -o yaml | flotilla apply{namespace} --all-clusters -f -`"
        )
    }

    fn not_applied(&self, cluster: &str, failure: ApplyFailure, edit: &str) -> String {
        let namespace = &self.subject.namespace;
        match failure {
            ApplyFailure::Unreachable => {
                format!(
                    "{cluster} does not respond; it is retried. `flotilla describe cluster {cluster}` shows its state"
                )
            }
            ApplyFailure::CredentialsRejected => format!(
                "{cluster} rejects the credentials of the control plane: unregister it with \
                 `flotilla unjoin {cluster}` and join it again, or renew its secret"
            ),
            ApplyFailure::AlreadyExists => format!(
                "{cluster} has an object of this name that the control plane does not manage: set \
                 spec.conflictResolution: Overwrite in the policy, {edit}, or delete it in {cluster}"
            ),
            ApplyFailure::KindNotServed => kind_not_served(cluster),
            ApplyFailure::NamespaceMissing => format!(
                "namespace {namespace} does not exist in {cluster}; `flotilla why namespace/{namespace}` says why"
            ),
            ApplyFailure::QuotaExceeded => format!(
                "a ResourceQuota in {cluster} is exhausted: `flotilla get resourcequotas{} -s members -C {cluster}`; \
                 raise it, or place less in {cluster}",
                in_namespace(namespace)
            ),
            ApplyFailure::AdmissionDenied => {
                format!("admission in {cluster} denies it: change the object, or use an OverridePolicy for {cluster}")
            }
            ApplyFailure::Forbidden => format!(
                "the control plane lacks permissions in {cluster}: grant them to its service account there, or join \
                 {cluster} again"
            ),
            ApplyFailure::Interpreter => {
                "its resource interpreter fails: check its customization with `flotilla interpret -f FILE --check`"
                    .to_owned()
            }
            ApplyFailure::Invalid | ApplyFailure::Other => {
                format!("correct the object, or use an OverridePolicy for {cluster}; it is retried")
            }
        }
    }

    /// The object as arguments of a command: `deployment web -n shop`.
    fn object(&self) -> String {
        let Subject { api_version, kind, namespace, name } = self.subject;
        let group = GroupVersion::parse(api_version).map(|version| version.group).unwrap_or_default();
        // Groups without a dot are Kubernetes' own, whose kinds need no group.
        let kind = match group.contains('.') {
            true => format!("{}.{group}", kind.to_lowercase()),
            false => kind.to_lowercase(),
        };
        format!("{kind} {name}{}", in_namespace(namespace))
    }

    fn policy_object(&self) -> String {
        match self.policy {
            None => "propagationpolicy NAME".to_owned(),
            Some(policy) => match policy.scope() {
                Scope::Namespaced => format!("propagationpolicy {}{}", policy.name, in_namespace(&policy.namespace)),
                Scope::Cluster => format!("clusterpropagationpolicy {}", policy.name),
            },
        }
    }

    fn edit_policy(&self) -> String {
        format!("`flotilla edit {}`", self.policy_object())
    }
}

fn in_namespace(namespace: &str) -> String {
    if namespace.is_empty() { String::new() } else { format!(" -n {namespace}") }
}

fn kind_not_served(cluster: &str) -> String {
    format!(
        "{cluster} does not serve this kind: propagate its CustomResourceDefinition first, with a ClusterPropagationPolicy"
    )
}

fn clusters_missing(names: &[String], known: &[String], edit: &str) -> String {
    let (are, clusters) = if names.len() == 1 { ("is", "cluster") } else { ("are", "clusters") };
    let more = if known.len() > CLUSTERS_LISTED_MAX { ", …" } else { "" };
    let listed: Vec<&str> = known.iter().take(CLUSTERS_LISTED_MAX).map(String::as_str).collect();
    let listed = if listed.is_empty() { "none".to_owned() } else { format!("{}{more}", listed.join(", ")) };
    format!(
        "the policy names {}, but there {are} no such {clusters} (existing clusters: {listed}): correct \
         spec.placement of the policy: {edit}",
        names.join(", ")
    )
}

fn written(taint: &Taint) -> String {
    match taint.value.as_str() {
        "" => format!("{}:{}", taint.key, taint.effect),
        value => format!("{}={value}:{}", taint.key, taint.effect),
    }
}

/// Taints that the control plane sets go away with their cause only.
fn tainted(cluster: &str, taints: &[Taint], edit: &str) -> String {
    let tolerate = format!("tolerate it with spec.placement.clusterTolerations of the policy: {edit}");
    if taints.iter().any(|taint| [TAINT_NOT_READY, TAINT_UNREACHABLE].contains(&taint.key.as_str())) {
        return format!(
            "{cluster} is not ready and gets nothing until it is. `flotilla describe cluster {cluster}` shows why; \
             other clusters can be added to the policy: {edit}"
        );
    }
    if taints.iter().any(|taint| taint.key == TAINT_NODES_UNSCHEDULABLE) {
        return format!("{}; or {tolerate}", nodes_unschedulable(cluster));
    }
    if taints.iter().any(|taint| taint.key == TAINT_UNSCHEDULABLE) {
        return format!("{cluster} is cordoned: `flotilla uncordon {cluster}`, or {tolerate}");
    }
    format!("{cluster} has a taint: {}, or {tolerate}", remove_taints(cluster, taints))
}

fn nodes_unschedulable(cluster: &str) -> String {
    format!(
        "no node of {cluster} accepts pods: repair them (`flotilla get nodes -s members -C {cluster}`) or, if they are \
         cordoned, `flotilla uncordon --all -C {cluster}`"
    )
}

fn remove_taints(cluster: &str, taints: &[Taint]) -> String {
    let removed: Vec<String> = taints.iter().map(|taint| format!("{}:{}-", taint.key, taint.effect)).collect();
    format!("`flotilla taint clusters {cluster} {}`", removed.join(" "))
}

fn not_ready(cluster: &str, eviction: PendingEviction) -> String {
    let then = if eviction == PendingEviction::Never { "until it is" } else { "if it stays so" };
    format!("`flotilla describe cluster {cluster}` shows why it is not ready; {then}, {eviction}")
}

fn eviction_pending(cluster: &str, taints: &[Taint], eviction: PendingEviction) -> String {
    let named: Vec<String> = taints.iter().map(written).collect();
    let keep = if taints.iter().any(|taint| taint.key == TAINT_NODES_UNSCHEDULABLE) {
        nodes_unschedulable(cluster)
    } else {
        remove_taints(cluster, taints)
    };
    format!("because of {} on {cluster}, {eviction}. To keep it there: {keep}", named.join(", "))
}

#[cfg(test)]
mod tests;
