//! Instances as a caller sees them: one decision for lists, single reads and watches.

use std::collections::BTreeMap;
use std::sync::Arc;

use instances::directory::InstanceEntry;
use jiff::Timestamp;
use manager_api::*;
use manager_kinds::annotations::{self, DESCRIPTION, DISPLAY_NAME, EXPOSE, HIBERNATE_AFTER, Mode as PlaneMode};
use manager_kinds::grants::{InstanceAccess, PlatformRole};
use object::request::User;
use object::{Object, Status, conditions};
use serde_json::Value;

use super::convert::{conditions_of, created, labels, quantities, statistic, timestamp};
use super::lists::ListItem;
use super::query::{Found, Query};
use crate::operations::Operations;

/// The part of an instance that a caller sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum View {
    Full,
    /// Names and states.
    Reduced,
}

/// An instance with the caller's rights on it.
pub struct VisibleInstance {
    name: String,
    object: Arc<Object>,
    access: InstanceAccess,
    view: View,
}

impl VisibleInstance {
    fn of(operations: &Operations, user: &User, entry: &InstanceEntry) -> Option<Self> {
        let (name, object) = (entry.name(), Arc::clone(&entry.object));
        let access = operations.rights.instance_access(user, &name);
        let view = match access.role {
            Some(_) => View::Full,
            None => {
                let platform = operations.rights.platform_roles(user);
                let sees_names =
                    platform.contains(&PlatformRole::Auditor) || platform.contains(&PlatformRole::IamOwner);
                (sees_names || access.sees_instance()).then_some(View::Reduced)?
            }
        };
        Some(Self { name, object, access, view })
    }

    pub fn message(&self) -> Instance {
        let mut instance = message(&self.object, &self.name, self.view);
        instance.role = self.access.role.map(|role| role.name().to_owned()).unwrap_or_default();
        let roles = self.access.namespaces.iter();
        instance.namespace_roles = roles.map(|(name, role)| (name.clone(), role.name().to_owned())).collect();
        instance
    }

    pub fn version(&self) -> Option<u64> {
        self.object.resource_version().parse().ok()
    }
}

impl ListItem for VisibleInstance {
    fn found(&self) -> Found<'_> {
        Found { instance: &self.name, cluster: "", object: &self.object }
    }
}

/// Returns the instances a user sees.
pub fn visible(operations: &Operations, user: &User) -> Vec<VisibleInstance> {
    let entries = operations.directory.list();
    entries.iter().filter_map(|entry| VisibleInstance::of(operations, user, entry)).collect()
}

/// Returns an instance as a user sees it.
pub fn shown(operations: &Operations, user: &User, entry: &InstanceEntry) -> Option<Instance> {
    VisibleInstance::of(operations, user, entry).map(|visible| visible.message())
}

/// Reads the filter of a list of instances.
fn read_filter(filter: &str) -> Result<Query, Status> {
    let query = Query::parse(filter, Timestamp::now())?;
    match query.kinds.is_empty() {
        true => Ok(query),
        false => Err(Status::bad_request("filter: kind: is not a term of this list")),
    }
}

fn state(phase: &str) -> State {
    match phase {
        "Running" => State::Running,
        "Degraded" | "Failed" => State::Unavailable,
        "Stopping" | "Deleting" => State::Terminal,
        "Suspended" => State::Suspended,
        "Hibernated" => State::Hibernated,
        "" | "Pending" | "Preparing" | "Starting" => State::Inprocess,
        _ => State::Unspecified,
    }
}

fn mode(mode: PlaneMode) -> Mode {
    match mode {
        PlaneMode::InProcess => Mode::InProcess,
        PlaneMode::Process => Mode::Process,
        PlaneMode::Imported => Mode::Imported,
    }
}

fn message(object: &Object, name: &str, view: View) -> Instance {
    let settings = annotations::read(object).0;
    let text = |field: &str| object.str_at(&["status", field]).to_owned();
    let phase = text("phase");
    let annotation = |key: &str| object.annotation(key).unwrap_or_default().to_owned();
    let reduced = Instance {
        name: name.to_owned(),
        uid: object.uid().to_owned(),
        display_name: annotation(DISPLAY_NAME),
        state: state(&phase).into(),
        mode: mode(settings.mode).into(),
        create_time: created(object),
        phase,
        reduced: view == View::Reduced,
        ..Instance::default()
    };
    if view == View::Reduced {
        return reduced;
    }
    let own = |(key, _): &(&str, &str)| !key.starts_with("flotilla.dev/") && !key.starts_with("kubectl.kubernetes.io/");
    let annotations = object.annotations().filter(own);
    let ready = conditions::find(object, "Ready");
    Instance {
        namespace: object.namespace().to_owned(),
        etag: object.resource_version().to_owned(),
        description: annotation(DESCRIPTION),
        labels: labels(object),
        annotations: annotations.map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        message: ready.filter(|ready| !ready.is_true()).map(|ready| ready.message().to_owned()).unwrap_or_default(),
        suspended: object.bool_at(&["spec", "suspend"]) == Some(true),
        protected: settings.is_protected,
        hibernate_after: annotation(HIBERNATE_AFTER),
        expose: annotation(EXPOSE),
        start_time: timestamp(object.str_at(&["status", "startedAt"])),
        karmada_version: text("karmadaVersion"),
        kubernetes_version: text("kubernetesVersion"),
        endpoint: text("endpoint"),
        summary: object.get(&["status", "summary"]).map(summary),
        conditions: conditions_of(object),
        spec: object.get(&["spec"]).and_then(Value::as_object).cloned().map(json::object::from_json),
        ..reduced
    }
}

fn summary(value: &Value) -> Summary {
    let counts = |field: &str| -> BTreeMap<String, i64> {
        let fields = value[field].as_object().into_iter().flatten();
        fields.map(|(name, count)| (name.clone(), count.as_i64().unwrap_or_default())).collect()
    };
    let workloads = value["workLoadSummary"].as_object().into_iter().flatten();
    let state = |field: &str, ready: &str| {
        let number = |name: &str| value[field][name].as_i64();
        number("total").map(|total| NumStatistic { total, ready: number(ready).unwrap_or_default() })
    };
    Summary {
        clusters: statistic(value.get("clusterSummary")),
        nodes: statistic(value.get("nodeSummary")),
        resources: counts("resourceTotalNum"),
        workloads: workloads.filter_map(|(name, value)| Some((name.clone(), statistic(Some(value))?))).collect(),
        policies: counts("policyTotalNum").values().sum(),
        bindings: state("bindings", "fullyApplied"),
        works: state("works", "applied"),
        allocatable: quantities(value["resourceSummary"].get("allocatable")),
        allocated: quantities(value["resourceSummary"].get("allocated")),
    }
}

/// Compares what a caller may see with what it was sent, whenever instances or rights change.
pub struct InstanceWatch {
    operations: Arc<Operations>,
    user: Arc<User>,
    query: Query,
    sent: BTreeMap<String, Instance>,
    is_synced: bool,
    pending: Vec<InstanceEvent>,
    rights: crate::access::RightsChanges,
    changes: reconcile::Subscription,
}

impl InstanceWatch {
    pub fn new(operations: &Arc<Operations>, user: &Arc<User>, filter: &str) -> Result<Self, Status> {
        Ok(Self {
            operations: Arc::clone(operations),
            user: Arc::clone(user),
            query: read_filter(filter)?,
            sent: BTreeMap::new(),
            is_synced: false,
            pending: Vec::new(),
            rights: operations.rights.changes(),
            changes: operations.directory.changes(),
        })
    }

    pub async fn next(&mut self) -> InstanceEvent {
        loop {
            if let Some(event) = self.pending.pop() {
                return event;
            }
            self.compare();
            if !self.is_synced {
                self.is_synced = true;
                self.pending.insert(0, InstanceEvent { r#type: ChangeType::Synced.into(), instance: None });
            }
            if self.pending.is_empty() {
                tokio::select! {
                    () = self.rights.next() => {}
                    _ = self.changes.next() => {}
                }
            }
        }
    }

    fn compare(&mut self) {
        let mut now = BTreeMap::new();
        let visible = visible(&self.operations, &self.user);
        for instance in visible.iter().filter(|instance| self.query.matches(&instance.found())) {
            now.insert(instance.name.clone(), instance.message());
        }
        for (name, instance) in &now {
            let kind = match self.sent.get(name) {
                None => ChangeType::Added,
                Some(sent) if sent != instance => ChangeType::Modified,
                Some(_) => continue,
            };
            self.pending.push(InstanceEvent { r#type: kind.into(), instance: Some(instance.clone()) });
        }
        for (name, instance) in &self.sent {
            if !now.contains_key(name) {
                let deleted = InstanceEvent { r#type: ChangeType::Deleted.into(), instance: Some(instance.clone()) };
                self.pending.push(deleted);
            }
        }
        self.sent = now;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn statistics_show_what_is_ready() {
        let value = json!({
            "clusterSummary": {"totalNum": 3, "readyNum": 2},
            "workLoadSummary": {"deployments": {"totalNum": 4, "readyNum": 1}},
            "bindings": {"total": 5, "scheduled": 5, "fullyApplied": 3, "healthy": 2},
            "works": {"total": 9, "applied": 8, "failed": 1},
        });
        let summary = summary(&value);
        let check = |found: Option<NumStatistic>, total: i64, ready: i64| {
            assert_eq!(found, Some(NumStatistic { total, ready }), "{summary:?}");
        };
        check(summary.clusters, 3, 2);
        check(summary.workloads.get("deployments").copied(), 4, 1);
        check(summary.bindings, 5, 3);
        check(summary.works, 9, 8);
    }

    #[test]
    fn lists_and_watches_refuse_the_same_filters() {
        assert!(read_filter("name~east label:team=a").is_ok());
        for wrong in ["kind:deploy", "nmae:east"] {
            assert!(read_filter(wrong).is_err(), "{wrong}");
        }
    }
}
