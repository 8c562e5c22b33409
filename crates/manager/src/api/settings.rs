//! The settings page of an instance: fields of its spec by the names that Karmada's flags have.

use manager_api::Settings;
use object::{Object, Status};
use serde_json::{Value, json};

const CONTROLLERS: [&str; 2] = ["components", "karmadaControllerManager"];
const DESCHEDULER: [&str; 2] = ["components", "karmadaDescheduler"];

type Get = fn(&Settings) -> &String;
type Set = fn(&mut Settings) -> &mut String;

/// Field of the message, flag of the controller manager, and access to the field.
const FLAGS: [(&str, &str, Get, Set); 7] = [
    (
        "cluster_monitor_period",
        "cluster-monitor-period",
        |s| &s.cluster_monitor_period,
        |s| &mut s.cluster_monitor_period,
    ),
    (
        "cluster_monitor_grace_period",
        "cluster-monitor-grace-period",
        |s| &s.cluster_monitor_grace_period,
        |s| &mut s.cluster_monitor_grace_period,
    ),
    (
        "cluster_startup_grace_period",
        "cluster-startup-grace-period",
        |s| &s.cluster_startup_grace_period,
        |s| &mut s.cluster_startup_grace_period,
    ),
    (
        "cluster_failure_threshold",
        "cluster-failure-threshold",
        |s| &s.cluster_failure_threshold,
        |s| &mut s.cluster_failure_threshold,
    ),
    (
        "cluster_success_threshold",
        "cluster-success-threshold",
        |s| &s.cluster_success_threshold,
        |s| &mut s.cluster_success_threshold,
    ),
    (
        "graceful_eviction_timeout",
        "graceful-eviction-timeout",
        |s| &s.graceful_eviction_timeout,
        |s| &mut s.graceful_eviction_timeout,
    ),
    (
        "resource_eviction_rate",
        "resource-eviction-rate",
        |s| &s.resource_eviction_rate,
        |s| &mut s.resource_eviction_rate,
    ),
];
const DESCHEDULER_FLAGS: [(&str, &str, Get, Set); 2] = [
    ("descheduling_interval", "descheduling-interval", |s| &s.descheduling_interval, |s| &mut s.descheduling_interval),
    (
        "unschedulable_threshold",
        "unschedulable-threshold",
        |s| &s.unschedulable_threshold,
        |s| &mut s.unschedulable_threshold,
    ),
];

/// Reads the settings of an instance.
pub fn read(name: &str, instance: &Object) -> Settings {
    let mut settings = Settings {
        name: name.to_owned(),
        etag: instance.resource_version().to_owned(),
        descheduler: instance.get(&["spec", DESCHEDULER[0], DESCHEDULER[1]]).is_some(),
        failover: instance
            .bool_at(&["spec", "featureGates", "Failover"])
            .map(|is_on| is_on.to_string())
            .unwrap_or_default(),
        ..Settings::default()
    };
    for (component, flags) in [(CONTROLLERS, &FLAGS[..]), (DESCHEDULER, &DESCHEDULER_FLAGS[..])] {
        for (_, flag, _, set) in flags {
            *set(&mut settings) = instance.str_at(&["spec", component[0], component[1], "extraArgs", flag]).to_owned();
        }
    }
    settings
}

/// Returns the patch that writes the fields of a mask; all fields when it is empty.
pub fn patch(settings: &Settings, mask: &[String]) -> Result<Value, Status> {
    let known = FLAGS.iter().chain(&DESCHEDULER_FLAGS).map(|(field, ..)| *field);
    let known: Vec<&str> = known.chain(["failover", "descheduler", "name", "etag"]).collect();
    if let Some(unknown) = mask.iter().find(|path| !known.contains(&path.as_str())) {
        return Err(Status::bad_request(format!("updateMask: {unknown} is not a setting")));
    }
    let has = |field: &str| mask.is_empty() || mask.iter().any(|path| path == field);
    let args = |flags: &[(&str, &str, Get, Set)]| {
        let mut args = json!({});
        for (field, flag, get, _) in flags.iter().filter(|(field, ..)| has(field)) {
            let value = get(settings);
            let _ = field;
            args[*flag] = if value.is_empty() { Value::Null } else { value.clone().into() };
        }
        args
    };
    let mut spec = json!({"components": {CONTROLLERS[1]: {"extraArgs": args(&FLAGS)}}});
    if has("descheduler") && !settings.descheduler {
        spec["components"][DESCHEDULER[1]] = Value::Null;
    } else if settings.descheduler || DESCHEDULER_FLAGS.iter().any(|(field, ..)| !mask.is_empty() && has(field)) {
        spec["components"][DESCHEDULER[1]] = json!({"extraArgs": args(&DESCHEDULER_FLAGS)});
    }
    if has("failover") {
        spec["featureGates"]["Failover"] = match settings.failover.as_str() {
            "" => Value::Null,
            "true" => true.into(),
            "false" => false.into(),
            _ => return Err(Status::bad_request("failover: must be true, false or empty")),
        };
    }
    let mut patch = json!({"spec": spec});
    if !settings.etag.is_empty() {
        patch["metadata"]["resourceVersion"] = settings.etag.clone().into();
    }
    Ok(patch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_survive_a_round_trip() {
        let wanted = Settings {
            name: "east".into(),
            failover: "true".into(),
            graceful_eviction_timeout: "5m".into(),
            descheduler: true,
            descheduling_interval: "1m".into(),
            ..Settings::default()
        };
        let patch = patch(&wanted, &[]).expect("a patch");
        let instance =
            Object::from_value(json!({"kind": "Karmada", "metadata": {"name": "east"}, "spec": patch["spec"]}));
        assert_eq!(read("east", &instance.expect("an object")), wanted);
        let only = super::patch(&wanted, &["failover".to_owned()]).expect("a patch");
        assert_eq!(only["spec"]["components"][CONTROLLERS[1]]["extraArgs"], json!({}));
        assert!(super::patch(&wanted, &["replicas".to_owned()]).is_err());
        let wrong = Settings { failover: "maybe".into(), ..wanted };
        assert!(super::patch(&wrong, &[]).is_err());
    }
}
