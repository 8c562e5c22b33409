//! The next step for a stage that is not done: one sentence that names the command or the field.

use api::work::{BindingSpec, Unschedulable};
use object::Object;
use object::status::RESOURCE_NOT_SERVED;
use scheduler::Explanation;

use crate::document::Subject;

/// The scheduler that is built in.
const OWN_SCHEDULER: &str = "default-scheduler";

/// The object is not on the control plane.
pub fn no_template(subject: &Subject) -> String {
    let kind = subject.kind.to_lowercase();
    let namespace = match subject.namespace.as_str() {
        "" => String::new(),
        namespace => format!(" -n {namespace}"),
    };
    format!(
        "apply it to the control plane, not to a member; where it runs in a member already, bring it in with \
         `flotilla promote {kind} {}{namespace} -C CLUSTER`",
        subject.name
    )
}

/// No policy selects the object.
pub fn no_policy(template: &Object, has_near_miss: bool) -> String {
    let (kind, place) = match template.namespace() {
        "" => ("ClusterPropagationPolicy", String::new()),
        namespace => ("PropagationPolicy", format!(" in namespace {namespace}")),
    };
    let selector =
        format!("{{apiVersion: {}, kind: {}, name: {}}}", template.api_version(), template.kind(), template.name());
    let near = if has_near_miss { "mend the selector told above, or " } else { "" };
    format!("{near}make a {kind}{place} with resourceSelectors: [{selector}]; `flotilla apply -f FILE -C CLUSTER` does")
}

/// Nothing was decided yet, or nothing could be.
pub fn scheduling(spec: &BindingSpec, explanation: &Explanation) -> Option<String> {
    if spec.suspension.as_ref().is_some_and(|suspension| suspension.scheduling == Some(true)) {
        return Some("scheduling is suspended: take spec.suspension.scheduling out of the ResourceBinding".to_owned());
    }
    if !spec.scheduler_name.is_empty() && spec.scheduler_name != OWN_SCHEDULER {
        let name = &spec.scheduler_name;
        return Some(format!(
            "its policy leaves it to the scheduler {name}: start that, or take spec.schedulerName out of the policy"
        ));
    }
    let attempt = explanation.attempts.last()?;
    if attempt.clusters_known == 0 {
        return Some("there are no clusters: `flotilla join NAME --cluster-kubeconfig FILE`".to_owned());
    }
    let refused_by = |plugin: &str| {
        let mut refused = attempt.left_out.iter();
        refused.find(|left_out| left_out.reasons.iter().any(|reason| reason.plugin == plugin))
    };
    // Ordered by how often and how easily the problem can be fixed.
    if attempt.candidates.is_empty() {
        let advice: [Advice; 5] = [
            ("APIEnablement", |cluster| {
                format!(
                    "{cluster} does not serve this kind: propagate its CustomResourceDefinition with a \
                     ClusterPropagationPolicy first"
                )
            }),
            ("TaintToleration", |cluster| {
                format!(
                    "{cluster} is tainted: `flotilla uncordon {cluster}` or `flotilla taint clusters {cluster} KEY-`, or \
                     tolerate it with spec.placement.clusterTolerations of the policy"
                )
            }),
            ("ClusterAffinity", |cluster| {
                format!(
                    "{cluster} is not what spec.placement.clusterAffinity of the policy asks for: compare it with \
                     `flotilla get cluster {cluster} --show-labels`, and label the cluster or change the policy"
                )
            }),
            ("SpreadConstraint", |cluster| {
                format!(
                    "{cluster} has no region or zone to spread over: set spec.region, spec.zones or spec.provider of the \
                     Cluster, or drop spec.placement.spreadConstraints of the policy"
                )
            }),
            ("ClusterEviction", |cluster| {
                format!("it was driven out of {cluster} a moment ago and may return when that is over")
            }),
        ];
        let found = advice.into_iter().find_map(|(plugin, text)| Some(text(&refused_by(plugin)?.cluster)));
        return found.or_else(|| Some("no cluster may have it; the reasons are told above".to_owned()));
    }
    match explanation.reason.as_str() {
        "Success" => None,
        "Unschedulable" => Some(
            "the clusters have not enough room: add nodes or clusters, or ask for less; it is placed as soon as there is \
             room"
                .to_owned(),
        ),
        _ => Some("change spec.placement of its policy so that the clusters told above can meet it".to_owned()),
    }
}

/// A filter of the scheduler, and what to do where it left a cluster out.
type Advice = (&'static str, fn(&str) -> String);

/// Advice for an object that the member refused.
pub fn refused(cluster: &str, message: &str) -> String {
    let has = |text: &str| message.contains(text);
    if has("strategy value is empty") {
        return format!(
            "the object is in {cluster} already and not from here: set spec.conflictResolution: Overwrite in the policy to \
             take it over, or delete it there"
        );
    }
    if has(RESOURCE_NOT_SERVED) || has("no matches for kind") {
        return format!(
            "{cluster} does not serve this kind: propagate its CustomResourceDefinition with a ClusterPropagationPolicy"
        );
    }
    if has("namespaces \"") && has("not found") {
        return format!(
            "the namespace is missing in {cluster}: namespaces are brought by themselves unless they are skipped \
             (--skipped-propagating-namespaces) or labelled namespace.karmada.io/skip-auto-propagation"
        );
    }
    if has("exceeded quota") {
        return format!("a ResourceQuota in {cluster} is used up: raise it, or place less there");
    }
    if has("admission webhook") || has("denied the request") {
        return format!(
            "admission in {cluster} refuses it: change the object, or use an OverridePolicy for this member"
        );
    }
    if has("is forbidden") {
        return format!("the control plane may not do this in {cluster}: `flotilla join {cluster}` renews its rights");
    }
    format!("mend the object, or use an OverridePolicy for {cluster}; it is tried again by itself")
}

/// Advice for dispatching that a policy suspends.
pub fn held_back() -> String {
    "take spec.suspension.dispatching or dispatchingOnClusters out of its policy".to_owned()
}

/// An override that cannot be applied keeps everything back.
pub fn failed_override() -> String {
    "mend the override policy told above: until then nothing is sent".to_owned()
}

/// The cluster itself does not answer well.
pub fn not_ready(cluster: &str) -> String {
    format!(
        "look at it with `flotilla describe cluster {cluster}`; what runs there is left alone and looked at again when it is \
         back"
    )
}

/// Pods find no node.
pub fn unschedulable(cluster: &str, waiting: &Unschedulable) -> String {
    format!(
        "add nodes to {cluster} or free some, or let `flotilla server --descheduler` move the {} elsewhere",
        waiting.replicas
    )
}

/// It is there and does not get well.
pub fn unhealthy(cluster: &str, template: &Object) -> String {
    let namespace = match template.namespace() {
        "" => String::new(),
        namespace => format!(" -n {namespace}"),
    };
    let kind = template.kind().to_lowercase();
    format!(
        "see what it does there: `flotilla describe {kind} {}{namespace} -s members -C {cluster}`, `flotilla get \
         pods{namespace} -s members -C {cluster}`",
        template.name()
    )
}

/// Advice for a cluster that has left the control plane but is still in the binding.
pub fn no_cluster(cluster: &str) -> String {
    format!("{cluster} has left: join it again, or take it out of spec.placement of the policy")
}
