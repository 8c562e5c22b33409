//! Jobs on an in-memory API: pods finish in every way, and each is counted once.

use std::sync::Arc;
use std::time::Duration;

use cluster_client::ApiRequest;
use object::builtin;
use object::{Object, Status};
use serde_json::{Value, json};

use crate::testing::{WorkloadsTestbed, template};

fn job(spec: Value) -> Value {
    let mut job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sum"},
        "spec": {"parallelism": 1, "completions": 1, "backoffLimit": 6, "selector": {"matchLabels": {"app": "sum"}},
            "template": template("sum", "a")}});
    job["spec"]["template"]["spec"]["restartPolicy"] = "Never".into();
    for (field, value) in spec.as_object().into_iter().flatten() {
        job["spec"][field] = value.clone();
    }
    job
}

async fn end(testbed: &WorkloadsTestbed, pod: &str, phase: &str, code: i64) {
    let terminated = json!({"exitCode": code, "finishedAt": testbed.now()});
    let status = json!({"phase": phase, "containerStatuses": [{"name": "main", "state": {"terminated": terminated}}],
        "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": testbed.now()}]});
    testbed.set_pod_status(pod, status).await;
    testbed.settle().await;
}

/// Pods that have not finished.
async fn running(testbed: &WorkloadsTestbed) -> Vec<Arc<Object>> {
    let pods = testbed.pods().await.into_iter();
    pods.filter(|pod| !matches!(pod.str_at(&["status", "phase"]), "Succeeded" | "Failed")).collect()
}

async fn status(testbed: &WorkloadsTestbed) -> Value {
    testbed.status(&builtin::jobs(), "sum").await
}

fn conditions(status: &Value) -> Vec<String> {
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let text = |c: &Value| format!("{} {} {}", c["type"], c["status"], c["reason"]).replace('"', "");
    conditions.iter().map(text).collect()
}

#[tokio::test(start_paused = true)]
async fn a_job_runs_its_pods_and_completes() {
    let testbed = WorkloadsTestbed::start().await;
    testbed.create(&builtin::jobs(), job(json!({"parallelism": 2, "completions": 3}))).await;
    assert_eq!(running(&testbed).await.len(), 2);
    let expected = json!({"startTime": "2026-01-01T00:00:00Z", "active": 2, "ready": 0, "terminating": 0,
        "uncountedTerminatedPods": {}});
    assert_eq!(status(&testbed).await, expected);
    testbed.ready_all().await;
    assert_eq!(status(&testbed).await["ready"], 2);
    for _ in 0..3 {
        let pod = running(&testbed).await[0].name().to_owned();
        end(&testbed, &pod, "Succeeded", 0).await;
    }
    let mut status = status(&testbed).await;
    assert_eq!(conditions(&status), ["SuccessCriteriaMet True CompletionsReached", "Complete True CompletionsReached"]);
    assert!(status["completionTime"].is_string());
    for field in ["conditions", "completionTime"] {
        status.as_object_mut().expect("a map").remove(field);
    }
    let expected = json!({"startTime": "2026-01-01T00:00:00Z", "ready": 0, "terminating": 0, "succeeded": 3,
        "uncountedTerminatedPods": {}});
    assert_eq!(status, expected);
    assert!(testbed.pods().await.iter().all(|pod| pod.finalizers().next().is_none()));
    assert_eq!(testbed.pods().await.len(), 3);
    let events = testbed.events("Job").await;
    assert_eq!(events.last().map(String::as_str), Some("Completed: Job completed"));
}

#[tokio::test(start_paused = true)]
async fn failed_pods_are_replaced_with_backoff_up_to_the_limit() {
    let testbed = WorkloadsTestbed::start().await;
    testbed.create(&builtin::jobs(), job(json!({"backoffLimit": 2}))).await;
    let fail = async || {
        let pod = running(&testbed).await[0].name().to_owned();
        end(&testbed, &pod, "Failed", 1).await;
    };
    fail().await;
    assert_eq!(running(&testbed).await.len(), 0);
    assert_eq!(status(&testbed).await["failed"], 1);
    testbed.pass(Duration::from_secs(10)).await;
    assert_eq!(running(&testbed).await.len(), 1);
    fail().await;
    testbed.pass(Duration::from_secs(11)).await;
    assert_eq!(running(&testbed).await.len(), 0);
    testbed.pass(Duration::from_secs(10)).await;
    fail().await;
    let status = status(&testbed).await;
    assert_eq!(conditions(&status), ["FailureTarget True BackoffLimitExceeded", "Failed True BackoffLimitExceeded"]);
    assert_eq!(status["failed"], 3);
    let events = testbed.events("Job").await;
    let expected = "BackoffLimitExceeded: Job has reached the specified backoff limit";
    assert_eq!(events.last().map(String::as_str), Some(expected));
}

#[tokio::test(start_paused = true)]
async fn every_index_has_a_pod() {
    let testbed = WorkloadsTestbed::start().await;
    testbed
        .create(&builtin::jobs(), job(json!({"parallelism": 3, "completions": 4, "completionMode": "Indexed"})))
        .await;
    let pods = running(&testbed).await;
    let names: Vec<_> = pods.iter().map(|pod| pod.generate_name().to_owned()).collect();
    assert_eq!(names, ["sum-0-", "sum-1-", "sum-2-"]);
    end(&testbed, pods[0].name(), "Succeeded", 0).await;
    end(&testbed, pods[2].name(), "Succeeded", 0).await;
    let now = status(&testbed).await;
    assert_eq!((&now["completedIndexes"], &now["succeeded"]), (&json!("0,2"), &json!(2)));
    let indexes: Vec<_> = running(&testbed).await.iter().map(|pod| pod.generate_name().to_owned()).collect();
    assert_eq!(indexes, ["sum-1-", "sum-3-"]);
    for pod in running(&testbed).await {
        end(&testbed, pod.name(), "Succeeded", 0).await;
    }
    let now = status(&testbed).await;
    assert_eq!((&now["completedIndexes"], conditions(&now).len()), (&json!("0-3"), 2));
}

#[tokio::test(start_paused = true)]
async fn an_index_fails_alone_and_the_job_after_all_have_finished() {
    let testbed = WorkloadsTestbed::start().await;
    let spec = json!({"parallelism": 2, "completions": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 1,
        "backoffLimit": i32::MAX});
    testbed.create(&builtin::jobs(), job(spec)).await;
    let of = async |index: &str| {
        let pods = running(&testbed).await.into_iter();
        pods.filter(|pod| pod.label("batch.kubernetes.io/job-completion-index") == Some(index)).collect::<Vec<_>>()
    };
    let first = of("0").await[0].clone();
    end(&testbed, first.name(), "Failed", 1).await;
    // It carries the failure count for its successor.
    assert!(testbed.get(&builtin::pods(), first.name()).await.finalizers().next().is_some());
    testbed.pass(Duration::from_secs(10)).await;
    let second = of("0").await[0].clone();
    assert_eq!(second.annotation("batch.kubernetes.io/job-index-failure-count"), Some("1"));
    end(&testbed, second.name(), "Failed", 1).await;
    assert_eq!(status(&testbed).await["failedIndexes"], "0");
    testbed.pass(Duration::from_secs(60)).await;
    assert_eq!(of("0").await.len(), 0);
    end(&testbed, of("1").await[0].clone().name(), "Succeeded", 0).await;
    let status = status(&testbed).await;
    assert_eq!(conditions(&status)[1], "Failed True FailedIndexes");
    assert_eq!((&status["failed"], &status["succeeded"]), (&json!(2), &json!(1)));
}

#[tokio::test(start_paused = true)]
async fn the_pod_failure_policy_is_applied() {
    let testbed = WorkloadsTestbed::start().await;
    let rules = json!([
        {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [7]}},
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]);
    testbed.create(&builtin::jobs(), job(json!({"podFailurePolicy": {"rules": rules}, "backoffLimit": 0}))).await;
    let first = running(&testbed).await[0].clone();
    end(&testbed, first.name(), "Failed", 7).await;
    assert_eq!(status(&testbed).await.get("failed"), None);
    testbed.pass(Duration::from_secs(10)).await;
    let second = running(&testbed).await[0].clone();
    end(&testbed, second.name(), "Failed", 42).await;
    let status = status(&testbed).await;
    assert_eq!(conditions(&status)[1], "Failed True PodFailurePolicy");
    let message = format!(
        "Container main for pod default/{} failed with exit code 42 matching FailJob rule at index 1",
        second.name()
    );
    assert_eq!(status["conditions"][1]["message"], message);
}

#[tokio::test(start_paused = true)]
async fn a_success_policy_completes_the_job_early() {
    let testbed = WorkloadsTestbed::start().await;
    let spec = json!({"parallelism": 3, "completions": 3, "completionMode": "Indexed",
        "successPolicy": {"rules": [{"succeededIndexes": "0"}]}});
    testbed.create(&builtin::jobs(), job(spec)).await;
    let leader = running(&testbed).await[0].clone();
    end(&testbed, leader.name(), "Succeeded", 0).await;
    let status = status(&testbed).await;
    assert_eq!(conditions(&status), ["SuccessCriteriaMet True SuccessPolicy", "Complete True SuccessPolicy"]);
    assert_eq!((&status["succeeded"], status.get("failed"), status.get("active")), (&json!(1), None, None));
    assert_eq!(testbed.pods().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_active_deadline_fails_the_job() {
    let testbed = WorkloadsTestbed::start().await;
    testbed.create(&builtin::jobs(), job(json!({"activeDeadlineSeconds": 30}))).await;
    testbed.ready_all().await;
    testbed.pass(Duration::from_secs(31)).await;
    let status = status(&testbed).await;
    assert_eq!(conditions(&status)[1], "Failed True DeadlineExceeded");
    assert_eq!(testbed.pods().await.len(), 0);
    assert_eq!(status["failed"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_released_pod_counts_once_even_if_the_mirror_lags() {
    let testbed = WorkloadsTestbed::start().await;
    testbed.create(&builtin::jobs(), job(json!({"activeDeadlineSeconds": 30}))).await;
    testbed.ready_all().await;
    // Watchers see the deletion, but not the removal of the finalizer.
    let api = testbed.api.clone();
    testbed.api.set_fault(move |call| {
        if call.target.gvr == builtin::pods() && matches!(call.request, ApiRequest::Patch { .. }) {
            api.hold_watches(Some("pods"));
        }
        None
    });
    testbed.pass(Duration::from_secs(40)).await;
    assert_eq!((&status(&testbed).await["failed"], testbed.pods().await.len()), (&json!(1), 0));
    testbed.api.hold_watches(None);
    testbed.settle().await;
    let status = status(&testbed).await;
    assert_eq!((conditions(&status)[1].as_str(), &status["failed"]), ("Failed True DeadlineExceeded", &json!(1)));
}

#[tokio::test(start_paused = true)]
async fn a_suspended_job_has_no_pods_and_no_failures() {
    let testbed = WorkloadsTestbed::start().await;
    let gvr = builtin::jobs();
    testbed.create(&gvr, job(json!({"suspend": true}))).await;
    assert_eq!(testbed.pods().await.len(), 0);
    assert_eq!(conditions(&status(&testbed).await), ["Suspended True JobSuspended"]);
    assert_eq!(status(&testbed).await.get("startTime"), None);
    testbed.patch(&gvr, "sum", json!({"spec": {"suspend": false}})).await;
    assert_eq!(conditions(&status(&testbed).await), ["Suspended False JobResumed"]);
    assert_eq!(running(&testbed).await.len(), 1);
    testbed.patch(&gvr, "sum", json!({"spec": {"suspend": true}})).await;
    assert_eq!(testbed.pods().await.len(), 0);
    let status = status(&testbed).await;
    assert_eq!((status.get("failed"), status.get("active")), (None, None));
    let events = testbed.events("Job").await;
    assert!(
        events.contains(&"Suspended: Job suspended".to_owned()) && events.contains(&"Resumed: Job resumed".to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn container_restarts_count_towards_the_backoff_limit() {
    let testbed = WorkloadsTestbed::start().await;
    let mut restarting = job(json!({"backoffLimit": 2}));
    restarting["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure".into();
    testbed.create(&builtin::jobs(), restarting).await;
    let pod = running(&testbed).await[0].name().to_owned();
    let restarted =
        |count: i64| json!({"phase": "Running", "containerStatuses": [{"name": "main", "restartCount": count}]});
    testbed.set_pod_status(&pod, restarted(1)).await;
    testbed.settle().await;
    assert_eq!(status(&testbed).await["active"], 1);
    testbed.set_pod_status(&pod, restarted(2)).await;
    testbed.settle().await;
    assert_eq!(conditions(&status(&testbed).await)[1], "Failed True BackoffLimitExceeded");
}

#[tokio::test(start_paused = true)]
async fn no_pod_is_counted_twice_or_lost_when_writes_fail() {
    let testbed = WorkloadsTestbed::start().await;
    testbed.create(&builtin::jobs(), job(json!({"parallelism": 4, "completions": 12}))).await;
    // Every third write fails.
    let calls = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    testbed.api.set_fault(move |call| {
        let is_write = matches!(call.request, ApiRequest::Patch { .. });
        let is_ours = matches!(call.target.gvr.resource.as_str(), "jobs" | "pods") && call.target.subresource.is_none()
            || call.target.gvr.resource == "jobs";
        let count = calls.fetch_add(usize::from(is_write && is_ours), std::sync::atomic::Ordering::Relaxed);
        (is_write && is_ours && count.is_multiple_of(3)).then(|| Status::unavailable("try again"))
    });
    for _ in 0..12 {
        for _ in 0..100 {
            if !running(&testbed).await.is_empty() {
                break;
            }
            testbed.pass(Duration::from_secs(1)).await;
        }
        let pod = running(&testbed).await[0].name().to_owned();
        end(&testbed, &pod, "Succeeded", 0).await;
    }
    testbed.pass(Duration::from_secs(60)).await;
    let status = status(&testbed).await;
    assert_eq!((&status["succeeded"], testbed.pods().await.len()), (&json!(12), 12));
    assert_eq!(conditions(&status)[1], "Complete True CompletionsReached");
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_deleted_job_lose_their_finalizer() {
    let testbed = WorkloadsTestbed::start().await;
    testbed.create(&builtin::jobs(), job(json!({}))).await;
    assert!(testbed.pods().await[0].finalizers().next().is_some());
    testbed.delete(&builtin::jobs(), "sum").await;
    assert!(testbed.pods().await[0].finalizers().next().is_none());
}

#[tokio::test(start_paused = true)]
async fn reduced_parallelism_deletes_pods() {
    let testbed = WorkloadsTestbed::start().await;
    let gvr = builtin::jobs();
    testbed.create(&gvr, job(json!({"parallelism": 3, "completions": 5}))).await;
    testbed.patch(&gvr, "sum", json!({"spec": {"parallelism": 1}})).await;
    assert_eq!(running(&testbed).await.len(), 1);
    let status = status(&testbed).await;
    assert_eq!((&status["active"], status.get("failed")), (&json!(1), None));
}

#[tokio::test(start_paused = true)]
async fn a_job_managed_by_another_controller_is_ignored() {
    let testbed = WorkloadsTestbed::start().await;
    testbed.create(&builtin::jobs(), job(json!({"managedBy": "example.com/queue"}))).await;
    assert_eq!(testbed.pods().await.len(), 0);
}
