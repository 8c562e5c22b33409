//! Rows of workloads: Deployment, ReplicaSet, StatefulSet, DaemonSet and related kinds.

use object::{GroupKind, GroupVersion, Object};
use serde_json::Value;

use super::cells::{age_of, containers, count_at, labels, number_at, selector, selector_query};
use super::{AGE, CONTAINERS, Col, IMAGES, NAME, PrinterTable, SELECTOR, integer, text};

pub(super) fn table(kind: &str) -> Option<PrinterTable> {
    Some(match kind {
        "Deployment" => DEPLOYMENT,
        "ReplicaSet" => REPLICA_SET,
        "StatefulSet" => STATEFUL_SET,
        "DaemonSet" => DAEMON_SET,
        "ControllerRevision" => CONTROLLER_REVISION,
        _ => return None,
    })
}

const TEMPLATE_CONTAINERS: &[&str] = &["spec", "template", "spec", "containers"];

const DEPLOYMENT: PrinterTable = PrinterTable::new(
    &[
        NAME,
        text("Ready", "How many pods are ready, of how many wanted."),
        text("Up-to-date", "How many pods have the newest template."),
        text("Available", "How many pods have been ready for long enough."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    |deployment, now| {
        let (names, images) = containers(deployment.items(TEMPLATE_CONTAINERS));
        vec![
            deployment.name().into(),
            ready_of_wanted(deployment),
            count_at(deployment, &["status", "updatedReplicas"]),
            count_at(deployment, &["status", "availableReplicas"]),
            age_of(deployment, now),
            names,
            images,
            selector_query(deployment.get(&["spec", "selector"])).into(),
        ]
    },
);

fn ready_of_wanted(workload: &Object) -> Value {
    let ready = number_at(workload, &["status", "readyReplicas"]);
    format!("{ready}/{}", number_at(workload, &["spec", "replicas"])).into()
}

const REPLICA_COLUMNS: &[Col] = &[
    NAME,
    integer("Desired", "How many pods are wanted."),
    integer("Current", "How many pods there are."),
    integer("Ready", "How many pods are ready."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

const REPLICA_SET: PrinterTable = PrinterTable::new(REPLICA_COLUMNS, |set, now| {
    let (names, images) = containers(set.items(TEMPLATE_CONTAINERS));
    vec![
        set.name().into(),
        count_at(set, &["spec", "replicas"]),
        count_at(set, &["status", "replicas"]),
        count_at(set, &["status", "readyReplicas"]),
        age_of(set, now),
        names,
        images,
        selector(set.get(&["spec", "selector"])).into(),
    ]
});

/// As a ReplicaSet, except that the selector is a plain map of labels.
pub(super) const REPLICATION_CONTROLLER: PrinterTable = PrinterTable::new(REPLICA_COLUMNS, |controller, now| {
    let (names, images) = containers(controller.items(TEMPLATE_CONTAINERS));
    vec![
        controller.name().into(),
        count_at(controller, &["spec", "replicas"]),
        count_at(controller, &["status", "replicas"]),
        count_at(controller, &["status", "readyReplicas"]),
        age_of(controller, now),
        names,
        images,
        labels(controller.get(&["spec", "selector"])).into(),
    ]
});

const STATEFUL_SET: PrinterTable = PrinterTable::new(
    &[NAME, text("Ready", "How many pods are ready, of how many wanted."), AGE, CONTAINERS, IMAGES],
    |set, now| {
        let (names, images) = containers(set.items(TEMPLATE_CONTAINERS));
        vec![set.name().into(), ready_of_wanted(set), age_of(set, now), names, images]
    },
);

const DAEMON_SET: PrinterTable = PrinterTable::new(
    &[
        NAME,
        integer("Desired", "How many nodes should run the pod."),
        integer("Current", "How many nodes that should run the pod do."),
        integer("Ready", "How many of those pods are ready."),
        integer("Up-to-date", "How many nodes run the newest template."),
        integer("Available", "How many pods have been ready for long enough."),
        text("Node Selector", "The labels a node must have to run the pod."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    |set, now| {
        let (names, images) = containers(set.items(TEMPLATE_CONTAINERS));
        vec![
            set.name().into(),
            count_at(set, &["status", "desiredNumberScheduled"]),
            count_at(set, &["status", "currentNumberScheduled"]),
            count_at(set, &["status", "numberReady"]),
            count_at(set, &["status", "updatedNumberScheduled"]),
            count_at(set, &["status", "numberAvailable"]),
            labels(set.get(&["spec", "template", "spec", "nodeSelector"])).into(),
            age_of(set, now),
            names,
            images,
            selector(set.get(&["spec", "selector"])).into(),
        ]
    },
);

const CONTROLLER_REVISION: PrinterTable = PrinterTable::new(
    &[
        NAME,
        text("Controller", "The object the revision belongs to."),
        text("Revision", "The number of the revision."),
        AGE,
    ],
    |revision, now| {
        let controller = revision.owner_references().into_iter().find(|owner| owner.controller);
        let controller = controller.map_or_else(
            || "<none>".to_owned(),
            |owner| {
                let group = GroupVersion::parse(&owner.api_version).unwrap_or_default().group;
                format!("{}/{}", GroupKind::new(group, owner.kind).to_string().to_lowercase(), owner.name)
            },
        );
        vec![revision.name().into(), controller.into(), count_at(revision, &["revision"]), age_of(revision, now)]
    },
);
