//! Rows of devices, priorities, runtimes and leases.

use jiff::Timestamp;
use object::Object;
use object::conditions::{find_in, is_true_in};
use serde_json::Value;

use super::cells::{age_of, count_at, str_of};
use super::{AGE, NAME, PrinterTable, age, boolean, integer, text};

pub(super) fn table(kind: &str) -> Option<PrinterTable> {
    Some(match kind {
        "DeviceClass" | "ResourceClaimTemplate" | "Workload" => NAME_AND_AGE,
        "ResourceClaim" => RESOURCE_CLAIM,
        "ResourceSlice" => RESOURCE_SLICE,
        "DeviceTaintRule" => DEVICE_TAINT_RULE,
        "ResourcePoolStatusRequest" => POOL_STATUS_REQUEST,
        "PriorityClass" => PRIORITY_CLASS,
        "PodGroup" => POD_GROUP,
        "RuntimeClass" => RUNTIME_CLASS,
        "Lease" => LEASE,
        "LeaseCandidate" => LEASE_CANDIDATE,
        _ => return None,
    })
}

const NAME_AND_AGE: PrinterTable =
    PrinterTable::new(&[NAME, AGE], |object, now| vec![object.name().into(), age_of(object, now)]);

const RESOURCE_CLAIM: PrinterTable =
    PrinterTable::new(&[NAME, text("State", "Whether the claim is allocated and reserved."), AGE], |claim, now| {
        vec![claim.name().into(), claim_state(claim).into(), age_of(claim, now)]
    });

fn claim_state(claim: &Object) -> String {
    let allocated = claim.get(&["status", "allocation"]).is_some_and(Value::is_object);
    let reserved = !claim.items(&["status", "reservedFor"]).is_empty();
    let states = [
        ("deleted", claim.is_deleting()),
        ("pending", !allocated && !claim.is_deleting()),
        ("allocated", allocated),
        ("reserved", allocated && reserved),
    ];
    states.iter().filter(|(_, holds)| *holds).map(|(state, _)| *state).collect::<Vec<_>>().join(",")
}

const RESOURCE_SLICE: PrinterTable = PrinterTable::new(
    &[
        NAME,
        text("Node", "The node the devices are on."),
        text("Driver", "The driver that offers the devices."),
        text("Pool", "The pool the devices belong to."),
        AGE,
    ],
    |slice, now| {
        vec![
            slice.name().into(),
            slice.str_at(&["spec", "nodeName"]).into(),
            slice.str_at(&["spec", "driver"]).into(),
            slice.str_at(&["spec", "pool", "name"]).into(),
            age_of(slice, now),
        ]
    },
);

const DEVICE_TAINT_RULE: PrinterTable = PrinterTable::new(
    &[
        NAME,
        text("Key", "The key of the taint."),
        text("Value", "The value of the taint."),
        text("Effect", "What the taint does to pods that do not tolerate it."),
        text("TimeAdded", "How long ago the taint was added."),
        AGE,
    ],
    |rule, now| {
        let taint = |key: &str| rule.str_at(&["spec", "taint", key]);
        let added = rule.get(&["spec", "taint", "timeAdded"]).and_then(Value::as_str);
        vec![
            rule.name().into(),
            taint("key").into(),
            taint("value").into(),
            taint("effect").into(),
            added.map(|time| age::since(time, now)).unwrap_or_default().into(),
            age_of(rule, now),
        ]
    },
);

const POOL_STATUS_REQUEST: PrinterTable = PrinterTable::new(
    &[
        NAME,
        text("Driver", "The driver whose pools are looked at."),
        text("Total", "How many devices the pools have."),
        text("Available", "How many are free."),
        text("Allocated", "How many are taken."),
        text("Unavailable", "How many cannot be used."),
        text("Errors", "How many pools are inconsistent."),
        integer("Pools", "How many pools match."),
        text("Status", "How far the request is."),
        text("Completed", "How long ago it was answered."),
    ],
    pool_status_row,
);

fn pool_status_row(request: &Object, now: Timestamp) -> Vec<Value> {
    let conditions = request.items(&["status", "conditions"]);
    let pools = request.items(&["status", "pools"]);
    let pool_count = request.i64_at(&["status", "poolCount"]).unwrap_or(0);
    let complete = is_true_in(conditions, "Complete");
    let failed = !complete && is_true_in(conditions, "Failed");
    let status = match (complete, failed) {
        (true, _) if pool_count > pools.len() as i64 => format!("Complete ({}/{pool_count} pools)", pools.len()),
        (true, _) => "Complete".to_owned(),
        (_, true) => "Failed".to_owned(),
        _ => "Pending".to_owned(),
    };
    let counted = request.get(&["status"]).is_some_and(Value::is_object) && !failed;
    let shown = |sum: i64| Value::from(if counted { sum.to_string() } else { "-".to_owned() });
    let sum = |key: &str| shown(pools.iter().filter_map(|pool| pool[key].as_i64()).sum());
    let errors = pools.iter().filter(|pool| pool.get("validationError").is_some()).count() as i64;
    let completed = find_in(conditions, "Complete").filter(|_| complete);
    vec![
        request.name().into(),
        request.str_at(&["spec", "driver"]).into(),
        sum("totalDevices"),
        sum("availableDevices"),
        sum("allocatedDevices"),
        sum("unavailableDevices"),
        shown(errors),
        pool_count.into(),
        status.into(),
        completed.map_or_else(|| "<none>".to_owned(), |c| age::since(c.text("lastTransitionTime"), now)).into(),
    ]
}

const PRIORITY_CLASS: PrinterTable = PrinterTable::new(
    &[
        NAME,
        integer("Value", "The priority pods of this class get."),
        boolean("Global-Default", "Whether pods without a class get this one."),
        AGE,
        text("PreemptionPolicy", "Whether pods of this class push others out."),
    ],
    |class, now| {
        vec![
            class.name().into(),
            count_at(class, &["value"]),
            class.bool_at(&["globalDefault"]).unwrap_or(false).into(),
            age_of(class, now),
            class.str_at(&["preemptionPolicy"]).into(),
        ]
    },
);

const POD_GROUP: PrinterTable = PrinterTable::new(
    &[
        NAME,
        text("Policy", "Whether the pods are placed together or one by one."),
        text("Workload", "The workload the group is made from."),
        text("Status", "Whether the group is placed."),
        AGE,
    ],
    |group, now| {
        let gang = group.get(&["spec", "schedulingPolicy", "gang"]).is_some_and(Value::is_object);
        let conditions = group.items(&["status", "conditions"]);
        let status = match (find_in(conditions, "DisruptionTarget"), find_in(conditions, "PodGroupScheduled")) {
            (Some(target), _) => target.reason(),
            (None, Some(scheduled)) if scheduled.is_true() => "Scheduled",
            (None, Some(_)) => "Unschedulable",
            (None, None) => "Pending",
        };
        let template = group.get(&["spec", "podGroupTemplateRef"]).filter(|r| r.is_object());
        let workload = template.map_or("<none>", |r| str_of(&r["workload"], "workloadName"));
        vec![
            group.name().into(),
            if gang { "Gang" } else { "Basic" }.into(),
            workload.into(),
            status.into(),
            age_of(group, now),
        ]
    },
);

const RUNTIME_CLASS: PrinterTable =
    PrinterTable::new(&[NAME, text("Handler", "The runtime configuration nodes use."), AGE], |class, now| {
        vec![class.name().into(), class.str_at(&["handler"]).into(), age_of(class, now)]
    });

const LEASE: PrinterTable = PrinterTable::new(&[NAME, text("Holder", "Who holds the lease."), AGE], |lease, now| {
    vec![lease.name().into(), lease.str_at(&["spec", "holderIdentity"]).into(), age_of(lease, now)]
});

const LEASE_CANDIDATE: PrinterTable = PrinterTable::new(
    &[
        NAME,
        text("LeaseName", "The lease that is stood for."),
        text("BinaryVersion", "The version of the candidate."),
        text("EmulationVersion", "The version the candidate behaves as."),
        AGE,
    ],
    |candidate, now| {
        let spec = |key: &str| Value::from(candidate.str_at(&["spec", key]));
        vec![
            candidate.name().into(),
            spec("leaseName"),
            spec("binaryVersion"),
            spec("emulationVersion"),
            age_of(candidate, now),
        ]
    },
);
