//! The table of situations and their advice.

use std::collections::BTreeSet;

use propagation::policy::PolicyKey;

use super::*;

fn subject() -> Subject {
    Subject {
        api_version: "apps/v1".to_owned(),
        kind: "Deployment".to_owned(),
        namespace: "shop".to_owned(),
        name: "web".to_owned(),
    }
}

fn taint(text: &str) -> Taint {
    let (key, effect) = text.rsplit_once(':').expect("key=value:effect");
    let (key, value) = key.split_once('=').unwrap_or((key, ""));
    Taint { key: key.to_owned(), value: value.to_owned(), effect: effect.to_owned(), time_added: None }
}

fn m1() -> String {
    "m1".to_owned()
}

fn tainted_with(text: &str) -> Reason {
    Reason::Tainted { cluster: m1(), taints: vec![taint(text)] }
}

fn leaving(text: &str, eviction: PendingEviction) -> Reason {
    Reason::EvictionPending { cluster: m1(), taints: vec![taint(text)], eviction }
}

fn not_applied(failure: ApplyFailure) -> Reason {
    Reason::NotApplied { cluster: m1(), failure }
}

fn unschedulable(division: ReplicaDivision, exceeds_nodes: bool) -> Reason {
    Reason::PodsUnschedulable { cluster: m1(), replicas: 3, division, exceeds_nodes }
}

/// The advice must contain all of `has` and none of `lacks`; every command must be complete.
#[track_caller]
fn check(reason: &Reason, has: &[&str], lacks: &[&str]) {
    let subject = subject();
    let policy = PolicyKey::new("shop", "p");
    let advice = Advisor { subject: &subject, policy: Some(&policy) }.advise(reason).unwrap_or_default();
    for text in has {
        assert!(advice.contains(text), "{text:?} is not in the advice for {reason:?}: {advice}");
    }
    for text in lacks {
        assert!(!advice.contains(text), "{text:?} is in the advice for {reason:?}: {advice}");
    }
    assert_eq!(advice.matches('`').count() % 2, 0, "{advice}");
    for command in advice.split('`').skip(1).step_by(2) {
        assert!(command.starts_with("flotilla "), "{command}");
    }
}

const EDIT: &str = "`flotilla edit propagationpolicy p -n shop`";
const SOON: PendingEviction = PendingEviction::InSeconds { seconds: 42 };

#[test]
fn objects_that_no_policy_propagates() {
    let object = "deployment web -n shop";
    check(
        &Reason::TemplateMissing,
        &[
            &format!("`flotilla get {object} -s members --ignore-not-found`"),
            &format!("`flotilla promote {object} -C CLUSTER`"),
        ],
        &[],
    );
    let apply = format!("`flotilla get {object} -o yaml | flotilla apply -n shop --all-clusters -f -`");
    check(&Reason::NoPolicy { has_near_miss: false }, &[&apply], &["correct"]);
    check(&Reason::NoPolicy { has_near_miss: true }, &[&apply, "correct the selector of the policy above"], &[]);
    check(&Reason::PolicyGone, &[&apply], &[]);
    check(&Reason::PolicySelectsOther, &[EDIT], &[]);
    check(&Reason::ApiNotPropagated { is_cluster: true }, &["`flotilla describe cluster web`"], &["policy"]);
    check(&Reason::ApiNotPropagated { is_cluster: false }, &["`flotilla get resourcebindings -A`"], &["apply"]);
    let label = NotSynced::Label;
    let unlabel = "`flotilla label namespace web namespace.karmada.io/skip-auto-propagation-`";
    check(&Reason::NamespaceNotSynced { why: label }, &[unlabel], &[]);
    check(&Reason::NamespaceNotSynced { why: NotSynced::Flag }, &["--skipped-propagating-namespaces"], &[]);
    check(&Reason::NamespaceSkipped, &["--skipped-propagating-namespaces"], &[]);
}

#[test]
fn objects_that_are_not_scheduled() {
    check(&Reason::SchedulingSuspended, &["spec.suspension.scheduling"], &[]);
    check(&Reason::OtherScheduler { name: "mine".to_owned() }, &["scheduler mine", "spec.schedulerName", EDIT], &[]);
    check(&Reason::NoClusters, &["`flotilla join NAME --cluster-kubeconfig FILE`"], &[]);
    let missing = Reason::ClustersMissing { names: vec!["memeber1".to_owned()], known: vec![m1(), "m2".to_owned()] };
    check(&missing, &["memeber1", "no such cluster", "m1, m2", EDIT], &["taint", "uncordon"]);
    check(&Reason::KindNotServed { cluster: m1() }, &["m1", "CustomResourceDefinition"], &[]);
    check(
        &tainted_with("cluster.karmada.io/unschedulable:NoSchedule"),
        &["`flotilla uncordon m1`", EDIT],
        &["taint clusters"],
    );
    for own in ["cluster.karmada.io/not-ready:NoExecute", "cluster.karmada.io/unreachable:NoSchedule"] {
        check(&tainted_with(own), &["not ready", "`flotilla describe cluster m1`"], &["uncordon", "taint clusters"]);
    }
    check(
        &tainted_with("flotilla.dev/unschedulable=cordoned:NoSchedule"),
        &["no node of m1 accepts pods", "`flotilla get nodes -s members -C m1`", "`flotilla uncordon --all -C m1`"],
        &["flotilla uncordon m1", "taint clusters"],
    );
    check(
        &tainted_with("team=red:NoSchedule"),
        &["`flotilla taint clusters m1 team:NoSchedule-`", "clusterTolerations"],
        &["KEY-", "uncordon"],
    );
    check(
        &Reason::AffinityMismatch { cluster: m1() },
        &["clusterAffinity", "`flotilla get cluster m1 --show-labels`", EDIT],
        &[],
    );
    check(&Reason::TopologyMissing { cluster: m1() }, &["`flotilla edit cluster m1`", "spreadConstraints"], &[]);
    check(&Reason::RecentlyEvicted { cluster: m1() }, &["evicted from m1"], &["`"]);
    check(&Reason::WorkloadAffinity { cluster: m1() }, &["workloadAffinity", EDIT], &[]);
    check(&Reason::ClusterLeaving { cluster: m1() }, &["m1 is being unregistered"], &[]);
    check(&Reason::NoCapacity { replicas: 4 }, &["4 more replicas", "add nodes"], &["descheduler"]);
    check(&Reason::PlacementUnsatisfiable, &["spec.placement", EDIT], &[]);
}

#[test]
fn objects_that_a_member_does_not_take() {
    let retry = "it is retried";
    check(
        &not_applied(ApplyFailure::Unreachable),
        &["m1 does not respond", retry, "`flotilla describe cluster m1`"],
        &["OverridePolicy", "correct"],
    );
    check(&not_applied(ApplyFailure::CredentialsRejected), &["`flotilla unjoin m1`"], &["OverridePolicy"]);
    check(&not_applied(ApplyFailure::AlreadyExists), &["conflictResolution: Overwrite", EDIT], &[]);
    check(&not_applied(ApplyFailure::KindNotServed), &["CustomResourceDefinition"], &[]);
    check(&not_applied(ApplyFailure::NamespaceMissing), &["`flotilla why namespace/shop`"], &[]);
    check(&not_applied(ApplyFailure::QuotaExceeded), &["`flotilla get resourcequotas -n shop -s members -C m1`"], &[]);
    check(&not_applied(ApplyFailure::AdmissionDenied), &["OverridePolicy for m1"], &[]);
    check(&not_applied(ApplyFailure::Forbidden), &["permissions in m1"], &["OverridePolicy"]);
    check(&not_applied(ApplyFailure::Invalid), &["correct the object", "OverridePolicy for m1", retry], &[]);
    check(&not_applied(ApplyFailure::Other), &["correct the object", retry], &[]);
    check(&not_applied(ApplyFailure::Interpreter), &["`flotilla interpret -f FILE --check`"], &[]);
    let failed = |namespace: &str| Reason::OverrideFailed { namespace: namespace.to_owned(), name: "o".to_owned() };
    check(&failed("shop"), &["`flotilla edit overridepolicy o -n shop`"], &[]);
    check(&failed(""), &["`flotilla edit clusteroverridepolicy o`"], &[]);
    check(&Reason::DispatchSuspended, &["spec.suspension", EDIT], &[]);
}

#[test]
fn objects_that_are_unhealthy_or_leave_their_cluster() {
    check(&Reason::ClusterRemoved { cluster: m1() }, &["m1 was unregistered", EDIT], &[]);
    let not_ready = |eviction: PendingEviction| Reason::ClusterNotReady { cluster: m1(), eviction };
    let describe = "`flotilla describe cluster m1`";
    check(&not_ready(PendingEviction::Never), &[describe, "until it is, it stays there"], &["uncordon", "taint"]);
    check(
        &not_ready(PendingEviction::InSeconds { seconds: 250 }),
        &[describe, "if it stays so, it is moved to other clusters in 4m10s"],
        &["uncordon"],
    );
    check(&not_ready(PendingEviction::Now), &[describe, "being moved"], &[]);
    check(
        &leaving("flotilla.dev/unschedulable=cordoned:NoExecute", SOON),
        &["flotilla.dev/unschedulable=cordoned:NoExecute", "in 42s", "`flotilla get nodes -s members -C m1`"],
        &["taint clusters"],
    );
    check(&leaving("team=red:NoExecute", SOON), &["in 42s", "`flotilla taint clusters m1 team:NoExecute-`"], &[]);
    check(
        &unschedulable(ReplicaDivision::Duplicated, true),
        &["no node of m1 is large enough"],
        &["descheduler", "edit"],
    );
    check(&unschedulable(ReplicaDivision::Duplicated, false), &["add nodes to m1", EDIT], &["descheduler"]);
    check(&unschedulable(ReplicaDivision::StaticWeights, false), &["weight of m1", EDIT], &["descheduler"]);
    check(&unschedulable(ReplicaDivision::ByCapacity, false), &["with --descheduler, which moves the 3"], &[]);
    check(
        &Reason::Unhealthy { cluster: m1() },
        &[
            "`flotilla describe deployment web -n shop -s members -C m1`",
            "`flotilla get pods -n shop -s members -C m1`",
        ],
        &[],
    );
    check(
        &Reason::NoFailback { clusters: vec![m1()] },
        &["`flotilla annotate propagationpolicy p -n shop flotilla.dev/failback=5m`"],
        &[],
    );
}

#[test]
fn kinds_of_other_groups_are_named_with_their_group() {
    let mut subject =
        Subject { api_version: "networking.k8s.io/v1".to_owned(), kind: "Ingress".to_owned(), ..subject() };
    let object = |subject: &Subject| Advisor { subject, policy: None }.object();
    assert_eq!(object(&subject), "ingress.networking.k8s.io web -n shop");
    subject.api_version = "v1".to_owned();
    subject.namespace.clear();
    assert_eq!(object(&subject), "ingress web");
}

/// One of each reason; a new one must be added here.
fn examples() -> Vec<Reason> {
    let cluster = || "MEMBER".to_owned();
    let taint =
        |key: &str| Taint { key: key.to_owned(), value: String::new(), effect: "EFFECT".to_owned(), time_added: None };
    let tainted = |key: &str| Reason::Tainted { cluster: cluster(), taints: vec![taint(key)] };
    let failed = |namespace: &str| Reason::OverrideFailed { namespace: namespace.to_owned(), name: "NAME".to_owned() };
    let failures = [
        ApplyFailure::Unreachable,
        ApplyFailure::CredentialsRejected,
        ApplyFailure::AlreadyExists,
        ApplyFailure::KindNotServed,
        ApplyFailure::NamespaceMissing,
        ApplyFailure::QuotaExceeded,
        ApplyFailure::AdmissionDenied,
        ApplyFailure::Forbidden,
        ApplyFailure::Interpreter,
        ApplyFailure::Invalid,
        ApplyFailure::Other,
    ];
    let divisions = [ReplicaDivision::Duplicated, ReplicaDivision::StaticWeights, ReplicaDivision::ByCapacity];
    let mut examples = vec![
        Reason::TemplateMissing,
        Reason::ApiNotPropagated { is_cluster: true },
        Reason::ApiNotPropagated { is_cluster: false },
        Reason::NamespaceNotSynced { why: NotSynced::Label },
        Reason::NamespaceNotSynced { why: NotSynced::Flag },
        Reason::NamespaceSkipped,
        Reason::NoPolicy { has_near_miss: true },
        Reason::PolicyDeleting,
        Reason::PolicySelectsOther,
        Reason::PolicyGone,
        Reason::SchedulingSuspended,
        Reason::OtherScheduler { name: "NAME".to_owned() },
        Reason::NoClusters,
        Reason::ClustersMissing { names: vec![cluster()], known: vec![] },
        Reason::KindNotServed { cluster: cluster() },
        tainted(TAINT_NOT_READY),
        tainted(TAINT_NODES_UNSCHEDULABLE),
        tainted(TAINT_UNSCHEDULABLE),
        tainted("KEY"),
        Reason::AffinityMismatch { cluster: cluster() },
        Reason::TopologyMissing { cluster: cluster() },
        Reason::RecentlyEvicted { cluster: cluster() },
        Reason::ClusterLeaving { cluster: cluster() },
        Reason::WorkloadAffinity { cluster: cluster() },
        Reason::NoCapacity { replicas: 1 },
        Reason::PlacementUnsatisfiable,
        failed("NAMESPACE"),
        failed(""),
        Reason::DispatchSuspended,
        Reason::ClusterRemoved { cluster: cluster() },
        Reason::ClusterNotReady { cluster: cluster(), eviction: PendingEviction::Never },
        Reason::EvictionPending { cluster: cluster(), taints: vec![taint("KEY")], eviction: PendingEviction::Now },
        Reason::Unhealthy { cluster: cluster() },
        Reason::NoFailback { clusters: vec![cluster()] },
    ];
    examples.extend(failures.map(|failure| Reason::NotApplied { cluster: cluster(), failure }));
    examples.extend(divisions.map(|division| Reason::PodsUnschedulable {
        cluster: cluster(),
        replicas: 1,
        division,
        exceeds_nodes: false,
    }));
    examples
}

/// The list that `e2e/tests/advice.rs` runs.
#[test]
fn the_list_of_commands_is_complete() {
    let subject = Subject { namespace: "NAMESPACE".to_owned(), name: "NAME".to_owned(), ..subject() };
    let policy = PolicyKey::new("NAMESPACE", "POLICY");
    let advisor = Advisor { subject: &subject, policy: Some(&policy) };
    let advice: Vec<String> = examples().iter().filter_map(|reason| advisor.advise(reason)).collect();
    let commands = advice.iter().flat_map(|advice| advice.split('`').skip(1).step_by(2));
    let commands: BTreeSet<&str> = commands.map(|command| command.trim_start_matches("flotilla ")).collect();
    let listed = include_str!("../../../../e2e/testdata/advice.txt");
    let own = listed.split("# Of pods").next().unwrap_or_default();
    let listed: BTreeSet<&str> = own.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect();
    assert_eq!(listed, commands, "update e2e/testdata/advice.txt and e2e/tests/advice.rs");
}
