//! CronJobs on an in-memory API with virtual time.

use std::time::Duration;

use cluster_client::{Patch, ResourceRef, WriteOptions};
use object::builtin;
use object::request::Subresource;
use serde_json::{Value, json};

use crate::testing::{NAMESPACE, WorkloadsTestbed, template};

const MINUTE: Duration = Duration::from_secs(60);

fn cron_job(spec: Value) -> Value {
    let mut cron_job = json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "tick"},
        "spec": {"schedule": "*/5 * * * *", "timeZone": "Etc/UTC", "concurrencyPolicy": "Allow",
            "successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 1,
            "jobTemplate": {"metadata": {"labels": {"from": "tick"}}, "spec": {"template": template("tick", "a")}}}});
    for (field, value) in spec.as_object().into_iter().flatten() {
        cron_job["spec"][field] = value.clone();
    }
    cron_job
}

/// Minutes past the hour for which Jobs were created.
async fn minutes(testbed: &WorkloadsTestbed) -> Vec<i64> {
    let first: i64 = "2026-01-01T00:00:00Z".parse::<jiff::Timestamp>().expect("a time").as_second() / 60;
    let jobs = testbed.list(&builtin::jobs()).await;
    let minute = |name: &str| name.trim_start_matches("tick-").parse::<i64>().unwrap_or(0) - first;
    jobs.iter().map(|job| minute(job.name())).collect()
}

async fn end(testbed: &WorkloadsTestbed, name: &str, kind: &str) {
    let target = ResourceRef::namespaced(&builtin::jobs(), NAMESPACE, name).subresource(Subresource::Status);
    let now = testbed.now();
    let status = json!({"status": {"startTime": now, "completionTime": now,
        "conditions": [{"type": kind, "status": "True", "lastTransitionTime": now}]}});
    testbed.client.patch(target, Patch::merge(status), WriteOptions::default()).await.expect("patched");
    testbed.settle().await;
}

async fn names(testbed: &WorkloadsTestbed) -> Vec<String> {
    testbed.list(&builtin::jobs()).await.iter().map(|job| job.name().to_owned()).collect()
}

async fn status(testbed: &WorkloadsTestbed) -> Value {
    testbed.status(&builtin::cron_jobs(), "tick").await
}

#[tokio::test(start_paused = true)]
async fn jobs_start_on_schedule_and_old_ones_are_deleted() {
    let testbed = WorkloadsTestbed::start().await;
    let owner = testbed.create(&builtin::cron_jobs(), cron_job(json!({}))).await;
    testbed.pass(4 * MINUTE).await;
    assert_eq!(minutes(&testbed).await, [0; 0]);
    testbed.pass(MINUTE).await;
    assert_eq!(minutes(&testbed).await, [5]);
    let job = testbed.list(&builtin::jobs()).await[0].clone();
    assert_eq!(job.owner_references()[0].uid, owner.uid());
    assert_eq!(job.label("from"), Some("tick"));
    let scheduled = job.annotation("batch.kubernetes.io/cronjob-scheduled-timestamp");
    assert_eq!(scheduled, Some("2026-01-01T00:05:00Z"));
    let now = status(&testbed).await;
    assert_eq!(
        (&now["lastScheduleTime"], &now["active"][0]["uid"]),
        (&json!("2026-01-01T00:05:00Z"), &json!(job.uid()))
    );

    end(&testbed, job.name(), "Complete").await;
    let now = status(&testbed).await;
    assert_eq!(now.get("active"), None);
    assert!(now["lastSuccessfulTime"].is_string());
    testbed.pass(5 * MINUTE).await;
    end(&testbed, &names(&testbed).await[1].clone(), "Complete").await;
    assert_eq!(minutes(&testbed).await, [10]);
    let events = testbed.events("CronJob").await;
    assert_eq!(events[0], format!("SuccessfulCreate: Created job {}", job.name()));
    assert_eq!(events[1], format!("SawCompletedJob: Saw completed job: {}, condition: Complete", job.name()));
    assert!(events.contains(&format!("SuccessfulDelete: Deleted job {}", job.name())), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn the_concurrency_policy_is_applied() {
    for (policy, expected) in [("Allow", vec![5, 10]), ("Forbid", vec![5]), ("Replace", vec![10])] {
        let testbed = WorkloadsTestbed::start().await;
        testbed.create(&builtin::cron_jobs(), cron_job(json!({"concurrencyPolicy": policy}))).await;
        testbed.pass(10 * MINUTE).await;
        assert_eq!(minutes(&testbed).await, expected, "{policy}");
        let active = status(&testbed).await["active"].as_array().map_or(0, Vec::len);
        assert_eq!(active, expected.len(), "{policy}");
        let is_reported = testbed.events("CronJob").await.iter().any(|event| event.starts_with("JobAlreadyActive"));
        assert_eq!(is_reported, policy == "Forbid");
    }
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_start_is_made_up_for_later() {
    let testbed = WorkloadsTestbed::start().await;
    testbed.create(&builtin::cron_jobs(), cron_job(json!({"concurrencyPolicy": "Forbid"}))).await;
    testbed.pass(12 * MINUTE).await;
    end(&testbed, &names(&testbed).await[0].clone(), "Complete").await;
    assert_eq!(minutes(&testbed).await, [5, 10]);
}

#[tokio::test(start_paused = true)]
async fn suspension_and_the_starting_deadline_are_applied() {
    let testbed = WorkloadsTestbed::start().await;
    let gvr = builtin::cron_jobs();
    testbed.create(&gvr, cron_job(json!({"suspend": true, "startingDeadlineSeconds": 30}))).await;
    testbed.pass(11 * MINUTE).await;
    assert_eq!(minutes(&testbed).await, [0; 0]);
    testbed.patch(&gvr, "tick", json!({"spec": {"suspend": false}})).await;
    assert_eq!(minutes(&testbed).await, [0; 0]);
    testbed.pass(5 * MINUTE).await;
    assert_eq!(minutes(&testbed).await, [15]);
}

#[tokio::test(start_paused = true)]
async fn only_the_last_missed_start_is_made_up_for() {
    let testbed = WorkloadsTestbed::start().await;
    let gvr = builtin::cron_jobs();
    testbed.create(&gvr, cron_job(json!({"suspend": true, "schedule": "* * * * *"}))).await;
    testbed.pass(150 * MINUTE).await;
    testbed.patch(&gvr, "tick", json!({"spec": {"suspend": false}})).await;
    assert_eq!(minutes(&testbed).await, [150]);
    assert!(testbed.events("CronJob").await.iter().any(|event| event.starts_with("TooManyMissedTimes")));
}

#[tokio::test(start_paused = true)]
async fn schedules_use_the_time_zone() {
    let testbed = WorkloadsTestbed::start().await;
    let spec = json!({"schedule": "30 2 * * *", "timeZone": "Europe/Berlin"});
    testbed.create(&builtin::cron_jobs(), cron_job(spec)).await;
    testbed.pass(91 * MINUTE).await;
    assert_eq!(minutes(&testbed).await, [90]);
    let job = testbed.list(&builtin::jobs()).await[0].clone();
    let scheduled = job.annotation("batch.kubernetes.io/cronjob-scheduled-timestamp");
    assert_eq!(scheduled, Some("2026-01-01T02:30:00+01:00"));
}

#[tokio::test(start_paused = true)]
async fn invalid_specs_are_reported() {
    for (spec, expected) in [
        (json!({"schedule": "every day"}), "UnparseableSchedule"),
        (json!({"timeZone": "Nowhere/Land"}), "UnknownTimeZone"),
    ] {
        let testbed = WorkloadsTestbed::start().await;
        testbed.create(&builtin::cron_jobs(), cron_job(spec)).await;
        assert!(testbed.events("CronJob").await[0].starts_with(expected));
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_job_is_reported_as_missing() {
    let testbed = WorkloadsTestbed::start().await;
    testbed.create(&builtin::cron_jobs(), cron_job(json!({}))).await;
    testbed.pass(5 * MINUTE).await;
    let name = names(&testbed).await[0].clone();
    testbed.delete(&builtin::jobs(), &name).await;
    assert_eq!(status(&testbed).await.get("active"), None);
    let events = testbed.events("CronJob").await;
    assert_eq!(events.last(), Some(&format!("MissingJob: Active job went missing: {name}")));
    assert_eq!(minutes(&testbed).await, [0; 0]);
}
