//! The status of an instance, from a decision and the running plane.

use jiff::Timestamp;
use manager_kinds::instance::{KARMADA_VERSION, condition, resource_name};
use object::conditions::{self, NewCondition};
use object::{Object, time};
use serde_json::json;

use crate::decide::LifecycleDecision;
use crate::replica::ReplicaName;
use crate::running::RunningInstance;

/// The inputs of a status.
pub struct Report<'a> {
    pub decision: &'a LifecycleDecision,
    pub running: Option<&'a RunningInstance>,
    /// Fields of the spec without effect.
    pub ignored: &'a [String],
    /// Name of the Secret with the administrator's kubeconfig.
    pub secret: Option<&'a str>,
    pub mode: &'static str,
    pub endpoint: &'a str,
    pub directory: Option<String>,
    /// This replica of the manager, if there can be others.
    pub replica: Option<&'a ReplicaName>,
    pub now: Timestamp,
}

/// Returns the instance with its new status.
pub fn with_status(instance: &Object, report: &Report<'_>) -> Object {
    let mut object = instance.clone();
    let Report { decision, running, now, .. } = report;
    object.set(&["status", "observedGeneration"], instance.generation());
    object.set(&["status", "phase"], decision.phase.name());
    object.set(&["status", "mode"], report.mode);
    object.set(&["status", "endpoint"], report.endpoint);
    object.set(&["status", "apiServerService"], json!({"name": resource_name(instance.name(), "apiserver")}));
    // An instance that cannot start here names the directory where its data was.
    let is_known = !instance.str_at(&["status", "directory"]).is_empty();
    if let Some(directory) = report.directory.as_ref().filter(|_| running.is_some() || !is_known) {
        object.set(&["status", "directory"], directory.as_str());
    }
    if let Some(secret) = report.secret {
        object.set(&["status", "secretRef"], json!({"namespace": instance.namespace(), "name": secret}));
    }
    if let Some(running) = running {
        if let Some(replica) = report.replica {
            replica.write(&mut object);
        }
        object.set(&["status", "karmadaVersion"], KARMADA_VERSION);
        object.set(&["status", "kubernetesVersion"], running.kubernetes_version.as_str());
        object.set(&["status", "identity"], running.identity.as_str());
        object.set(&["status", "startedAt"], time::format_seconds(running.started_at));
        object.set(&["status", "startMillis"], running.start_millis);
        if let Some(address) = running.address.filter(|address| !address.ip().is_loopback()) {
            object.set(&["status", "port"], i64::from(address.port()));
        }
    }
    let status = |is: bool| if is { "True" } else { "False" };
    let mut set = |kind: &str, is: bool, reason: &str, message: &str| {
        let new = NewCondition { kind, status: status(is), reason, message };
        conditions::set(&mut object, &new, *now);
    };
    set(condition::READY, decision.is_ready, decision.reason, &decision.message);
    let is_serving = running.is_some_and(|running| running.health.lock().failures == 0);
    set(condition::API_SERVING, is_serving, if is_serving { "Serving" } else { decision.reason }, &decision.message);
    if report.ignored.is_empty() {
        conditions::remove(&mut object, condition::SPEC_IGNORED);
    } else {
        set(condition::SPEC_IGNORED, true, "FieldsWithoutEffect", &report.ignored.join("; "));
    }
    object
}
