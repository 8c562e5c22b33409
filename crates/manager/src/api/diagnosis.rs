//! Diagnosis of an instance: the parts of its control plane, and its problems with a step that helps.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::cluster::CLUSTERS;
use api::work::RESOURCE_BINDINGS;
use bytes::Bytes;
use cluster_client::{ClusterClient, ListOptions, ResourceRef};
use http::Request;
use instances::decide::{Phase, STORAGE_FULL};
use instances::running::RunningInstance;
use manager_api::*;
use manager_kinds::MANAGED_CLUSTERS;
use manager_kinds::instance::condition;
use object::conditions::{self, ConditionView};
use object::{Object, Status};
use serde_json::Value;

use super::convert::timestamp;
use super::{ApiCaller, ManagerApi};

/// Findings of one kind; the rest is counted.
/// The field with the size limit of an instance.
const STORAGE_REQUEST: &str = "components.etcd.local.volumeData.volumeClaim.spec.resources.requests.storage";
const FINDINGS_MAX: usize = 20;
const ERROR: &str = "error";
const WARNING: &str = "warning";

/// The inputs of a diagnosis.
#[derive(Default)]
struct Facts {
    name: String,
    instance: Option<Arc<Object>>,
    is_running: bool,
    failed_checks: Vec<String>,
    clusters: Vec<Arc<Object>>,
    bindings: Vec<Arc<Object>>,
    inventory: Vec<Arc<Object>>,
}

fn finding(severity: &str, subject: impl Into<String>, problem: impl Into<String>, advice: String) -> Finding {
    Finding { severity: severity.to_owned(), subject: subject.into(), problem: problem.into(), advice }
}

/// The problems of an instance, the severe ones first.
fn judge(facts: &Facts) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(instance) = &facts.instance {
        found.extend(judge_instance(&facts.name, instance, facts.is_running));
    }
    for check in &facts.failed_checks {
        let advice = format!("restart it with `flotilla instance restart {}` if it stays so", facts.name);
        found.push(finding(ERROR, format!("check {check}"), "the control plane is not ready", advice));
    }
    found.extend(limited(facts.clusters.iter().filter_map(|cluster| judge_cluster(cluster)).collect(), "clusters"));
    found.extend(limited(facts.inventory.iter().filter_map(|cluster| judge_credential(cluster)).collect(), "clusters"));
    found.extend(limited(facts.bindings.iter().filter_map(|binding| judge_binding(binding)).collect(), "objects"));
    found.sort_by_key(|finding| finding.severity != ERROR);
    found
}

/// Keeps the first findings and counts the others.
fn limited(mut findings: Vec<Finding>, what: &str) -> Vec<Finding> {
    let more = findings.len().saturating_sub(FINDINGS_MAX);
    if more > 0 {
        findings.truncate(FINDINGS_MAX);
        let text = format!("{more} more {what} have problems");
        findings.push(finding(WARNING, what, text, "solve the ones above first".to_owned()));
    }
    findings
}

fn judge_instance(name: &str, instance: &Object, is_running: bool) -> Vec<Finding> {
    let mut found = Vec::new();
    let subject = format!("instance {name}");
    let phase = instance.str_at(&["status", "phase"]);
    let is_resting = [Phase::Hibernated.name(), Phase::Suspended.name()].contains(&phase);
    let is_false = |condition: &ConditionView<'_>| !condition.is_true();
    if let Some(ready) = conditions::find(instance, condition::READY).filter(is_false) {
        let (severity, advice) = match phase {
            "Hibernated" => (WARNING, format!("a request starts it, or `flotilla instance wake {name}`")),
            "Suspended" => (WARNING, format!("`flotilla instance resume {name}`")),
            _ if ready.reason() == STORAGE_FULL => (ERROR, format!("delete objects, or raise spec.{STORAGE_REQUEST}")),
            "Deleting" => (WARNING, "remove its clusters if the deletion waits for them".to_owned()),
            _ => (ERROR, format!("correct the cause; `flotilla instance restart {name}` starts it again at once")),
        };
        found.push(finding(severity, subject.clone(), ready.message(), advice));
    } else if !is_running && !is_resting {
        let advice = format!("`flotilla instance restart {name}` starts it again");
        found.push(finding(ERROR, subject.clone(), "its control plane does not run", advice));
    }
    if let Some(ignored) = conditions::find(instance, condition::SPEC_IGNORED).filter(|ignored| ignored.is_true()) {
        let advice = "remove the fields, which changes nothing".to_owned();
        found.push(finding(WARNING, subject, format!("fields without effect: {}", ignored.message()), advice));
    }
    found
}

fn judge_cluster(cluster: &Object) -> Option<Finding> {
    let subject = format!("cluster {}", cluster.name());
    if cluster.is_deleting() {
        let text = "it is being removed";
        return Some(finding(WARNING, subject, text, "wait, or look at the works that are left in it".to_owned()));
    }
    let ready = conditions::find(cluster, "Ready");
    if ready.is_some_and(|ready| ready.is_true()) {
        return None;
    }
    let problem = ready.map_or("it has not reported yet".to_owned(), |ready| ready.message().to_owned());
    let advice = match cluster.str_at(&["spec", "syncMode"]) {
        "Pull" => "look at the log of its agent, and whether the agent reaches the control plane".to_owned(),
        _ => format!("`flotilla describe cluster {}`; look at its address and its credentials", cluster.name()),
    };
    Some(finding(ERROR, subject, problem, advice))
}

fn judge_credential(cluster: &Object) -> Option<Finding> {
    let valid = conditions::find(cluster, "CredentialsValid").filter(|valid| !valid.is_true())?;
    let advice = "give it a new kubeconfig with PutCredentials, or by its Secret".to_owned();
    Some(finding(ERROR, format!("managed cluster {}", cluster.name()), valid.message(), advice))
}

fn judge_binding(binding: &Object) -> Option<Finding> {
    let text = |field: &str| binding.str_at(&["spec", "resource", field]);
    let (kind, namespace, name) = (text("kind"), text("namespace"), text("name"));
    let advice = format!("`flotilla why {}/{name} -n {namespace}`", kind.to_lowercase());
    let subject = format!("{kind} {namespace}/{name}");
    if let Some(scheduled) = conditions::find(binding, "Scheduled").filter(|scheduled| !scheduled.is_true()) {
        return Some(finding(ERROR, subject, format!("it is not scheduled: {}", scheduled.message()), advice));
    }
    let failed = binding.items(&["status", "aggregatedStatus"]).iter().find(|state| {
        state["applied"].as_bool() != Some(true)
            && state["appliedMessage"].as_str().is_some_and(|text| !text.is_empty())
    })?;
    let part = |field: &str| failed[field].as_str().unwrap_or_default();
    Some(finding(
        ERROR,
        subject,
        format!("{} does not have it: {}", part("clusterName"), part("appliedMessage")),
        advice,
    ))
}

/// The names of the failed checks in the text of `/readyz?verbose`.
fn failed_checks(text: &str) -> Vec<String> {
    let failed = text.lines().filter_map(|line| line.strip_prefix("[-]"));
    failed.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// All checks in the text of `/readyz?verbose`, with their result.
fn checks(text: &str) -> Vec<Component> {
    let results = text.lines().filter_map(|line| {
        let (is_ready, rest) = match (line.strip_prefix("[+]"), line.strip_prefix("[-]")) {
            (Some(rest), _) => (true, rest),
            (None, Some(rest)) => (false, rest),
            (None, None) => return None,
        };
        Some((rest.split_whitespace().next()?, is_ready))
    });
    let meant = results.filter(|(name, _)| !name.starts_with("poststarthook/"));
    meant
        .map(|(name, ready)| Component {
            name: name.to_owned(),
            r#type: "check".to_owned(),
            ready,
            ..Component::default()
        })
        .collect()
}

/// The controllers in metrics of a control plane.
fn controllers(metrics: &str) -> Vec<Component> {
    let mut found: BTreeMap<String, Component> = BTreeMap::new();
    for line in metrics.lines() {
        let Some((series, value)) = line.rsplit_once(' ') else { continue };
        let Some((metric, labels)) = series.split_once('{') else { continue };
        let label = |name: &str| {
            let (_, rest) = labels.split_once(&format!("{name}=\""))?;
            rest.split('"').next().map(str::to_owned)
        };
        let value = value.parse::<f64>().unwrap_or_default() as i64;
        let name = match metric {
            "workqueue_depth" | "workqueue_retries_total" => label("name"),
            "controller_runtime_active_workers" => label("controller"),
            _ => None,
        };
        let Some(name) = name.filter(|name| !name.is_empty()) else { continue };
        let entry = found.entry(name.clone()).or_insert_with(|| Component {
            name,
            r#type: "controller".to_owned(),
            ready: true,
            ..Component::default()
        });
        match metric {
            "workqueue_depth" => entry.queue_depth += value,
            "workqueue_retries_total" => entry.retries += value,
            _ => entry.active += value,
        }
    }
    found.into_values().collect()
}

/// Reads a text of a control plane; a failed readiness check is an answer too.
async fn read_text(running: &RunningInstance, path: &str) -> Result<String, Status> {
    let request = Request::get(path).body(Bytes::new()).map_err(Status::internal)?;
    let answer = running.admin.raw(request).await?;
    match answer.status().as_u16() {
        200 | 500 => Ok(String::from_utf8_lossy(answer.body()).into_owned()),
        code => Err(Status::from_response(code, answer.body())),
    }
}

async fn all(client: &ClusterClient, resource: &api::Resource) -> Result<Vec<Arc<Object>>, Status> {
    Ok(client.list_all(ResourceRef::all(&resource.gvr()), ListOptions::default()).await?.items)
}

impl ManagerApi {
    pub(super) async fn components(&self, name: &str) -> Result<ListComponentsResponse, Status> {
        let entry = self.entry(name)?;
        let stopped = || Status::unavailable(format!("the instance {name} is not running"));
        let running = entry.running.ok_or_else(stopped)?;
        let mut components = checks(&read_text(&running, "/readyz?verbose").await?);
        // Other control planes run their controllers in other processes.
        if let Ok(metrics) = read_text(&running, "/metrics").await {
            components.extend(controllers(&metrics));
        }
        Ok(ListComponentsResponse {
            components,
            start_time: timestamp(&object::time::format_seconds(running.started_at)),
        })
    }

    pub(super) async fn diagnose(&self, caller: &ApiCaller, name: &str) -> Result<Diagnosis, Status> {
        let entry = self.entry(name)?;
        let mut facts = Facts { name: name.to_owned(), is_running: entry.running.is_some(), ..Facts::default() };
        let mut unknown = Vec::new();
        if let Some(running) = &entry.running {
            match read_text(running, "/readyz?verbose").await {
                Ok(text) => facts.failed_checks = failed_checks(&text),
                Err(status) => unknown.push(format!("readiness: {status}")),
            }
            let client = self.operations.instance_client(&caller.user, name).await?;
            match all(&client, &CLUSTERS).await {
                Ok(clusters) => facts.clusters = clusters,
                Err(status) => unknown.push(format!("clusters: {status}")),
            }
            match all(&client, &RESOURCE_BINDINGS).await {
                Ok(bindings) => facts.bindings = bindings,
                Err(status) => unknown.push(format!("placement of objects: {status}")),
            }
        } else {
            unknown.push("clusters and objects: the control plane does not run".to_owned());
        }
        let inventory = all(&self.system, &MANAGED_CLUSTERS).await?;
        let is_joined = |cluster: &Arc<Object>| {
            cluster.items(&["spec", "instances"]).iter().filter_map(Value::as_str).any(|instance| instance == name)
        };
        facts.inventory = inventory.into_iter().filter(is_joined).collect();
        facts.instance = Some(entry.object);
        let findings = judge(&facts);
        let healthy = findings.iter().all(|finding| finding.severity != ERROR);
        Ok(Diagnosis { healthy, findings, unknown })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Arc<Object> {
        Arc::new(Object::from_value(value).expect("an object"))
    }

    fn with_condition(kind: &str, status: &str, message: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "X", "metadata": {"name": "x"}, "spec": {},
            "status": {"phase": "Running", "conditions": [{"type": kind, "status": status, "message": message}]},
        })
    }

    #[track_caller]
    fn check(facts: Facts, expected: &[(&str, &str, &str)]) {
        let found = judge(&facts);
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (finding, (severity, subject, problem)) in found.iter().zip(expected) {
            assert_eq!((finding.severity.as_str(), finding.subject.as_str()), (*severity, *subject), "{finding:?}");
            assert!(finding.problem.contains(problem) && !finding.advice.is_empty(), "{finding:?}");
        }
    }

    #[test]
    fn each_problem_is_found_once_with_advice() {
        let instance = |kind: &str, status: &str| Facts {
            name: "east".to_owned(),
            instance: Some(object(with_condition(kind, status, "why"))),
            is_running: true,
            ..Facts::default()
        };
        check(instance("Ready", "True"), &[]);
        check(instance("Ready", "False"), &[(ERROR, "instance east", "why")]);
        check(instance("SpecIgnored", "True"), &[(WARNING, "instance east", "without effect: why")]);
        check(Facts { is_running: false, ..instance("Ready", "True") }, &[(ERROR, "instance east", "does not run")]);
        let mut full = with_condition("Ready", "False", "the size limit is reached");
        full["status"]["conditions"][0]["reason"] = STORAGE_FULL.into();
        let found = judge(&Facts { instance: Some(object(full)), ..instance("Ready", "True") });
        assert!(found[0].advice.starts_with("delete objects, or raise spec.components.etcd"), "{found:?}");
        let failed = Facts { failed_checks: failed_checks("[+]ping ok\n[-]etcd failed: x\n"), ..Facts::default() };
        check(failed, &[(ERROR, "check etcd", "not ready")]);
        let clusters =
            vec![object(with_condition("Ready", "False", "no route")), object(with_condition("Ready", "True", ""))];
        check(Facts { clusters, ..Facts::default() }, &[(ERROR, "cluster x", "no route")]);
        let inventory = vec![object(with_condition("CredentialsValid", "False", "expired"))];
        check(Facts { inventory, ..Facts::default() }, &[(ERROR, "managed cluster x", "expired")]);
        let mut binding = with_condition("Scheduled", "False", "no cluster fits");
        binding["spec"]["resource"] = json!({"kind": "Deployment", "namespace": "shop", "name": "web"});
        let bindings = vec![object(binding); FINDINGS_MAX + 3];
        let found = judge(&Facts { bindings, ..Facts::default() });
        assert_eq!(found.len(), FINDINGS_MAX + 1);
        assert_eq!(found[0].advice, "`flotilla why deployment/web -n shop`");
        assert!(found[FINDINGS_MAX].problem.contains("3 more objects"), "{:?}", found[FINDINGS_MAX]);
    }

    #[test]
    fn controllers_are_read_from_metrics() {
        let metrics = "# HELP workqueue_depth x\nworkqueue_depth{name=\"binding\",controller=\"binding\",priority=\"0\"} 2\n\
            workqueue_depth{name=\"binding\",controller=\"binding\",priority=\"-100\"} 1\n\
            workqueue_retries_total{name=\"binding\",controller=\"binding\"} 7\n\
            controller_runtime_active_workers{controller=\"binding\"} 1\nother 5\n";
        let found = controllers(metrics);
        assert_eq!(found.len(), 1);
        let Component { name, queue_depth, retries, active, .. } = &found[0];
        assert_eq!((name.as_str(), *queue_depth, *retries, *active), ("binding", 3, 7, 1));
        let checks =
            checks("[+]ping ok\n[-]etcd failed: reason withheld\n[+]poststarthook/x ok\nreadyz check failed\n");
        let checks: Vec<_> = checks.iter().map(|check| (check.name.as_str(), check.ready)).collect();
        assert_eq!(checks, [("ping", true), ("etcd", false)]);
    }
}
