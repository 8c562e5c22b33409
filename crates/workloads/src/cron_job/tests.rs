//! CronJobs on an in-memory API with virtual time.

use std::time::Duration;

use cluster_client::{Patch, ResourceRef, WriteOptions};
use serde_json::{Value, json};

use crate::resources;
use crate::testing::{NAMESPACE, Stage, template};

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
async fn minutes(stage: &Stage) -> Vec<i64> {
    let first: i64 = "2026-01-01T00:00:00Z".parse::<jiff::Timestamp>().expect("a time").as_second() / 60;
    let jobs = stage.list(&resources::jobs()).await;
    let minute = |name: &str| name.trim_start_matches("tick-").parse::<i64>().unwrap_or(0) - first;
    jobs.iter().map(|job| minute(job.name())).collect()
}

async fn end(stage: &Stage, name: &str, kind: &str) {
    let target = ResourceRef::namespaced(&resources::jobs(), NAMESPACE, name).subresource("status");
    let now = stage.now();
    let status = json!({"status": {"startTime": now, "completionTime": now,
        "conditions": [{"type": kind, "status": "True", "lastTransitionTime": now}]}});
    stage.client.patch(target, Patch::merge(status), WriteOptions::default()).await.expect("patched");
    stage.settle().await;
}

async fn names(stage: &Stage) -> Vec<String> {
    stage.list(&resources::jobs()).await.iter().map(|job| job.name().to_owned()).collect()
}

async fn status(stage: &Stage) -> Value {
    stage.status(&resources::cron_jobs(), "tick").await
}

#[tokio::test(start_paused = true)]
async fn jobs_come_at_their_times_and_old_ones_go() {
    let stage = Stage::start().await;
    let owner = stage.create(&resources::cron_jobs(), cron_job(json!({}))).await;
    stage.pass(4 * MINUTE).await;
    assert_eq!(minutes(&stage).await, [0; 0]);
    stage.pass(MINUTE).await;
    assert_eq!(minutes(&stage).await, [5]);
    let job = stage.list(&resources::jobs()).await[0].clone();
    assert_eq!(job.owner_references()[0].uid, owner.uid());
    assert_eq!(job.label("from"), Some("tick"));
    let scheduled = job.annotation("batch.kubernetes.io/cronjob-scheduled-timestamp");
    assert_eq!(scheduled, Some("2026-01-01T00:05:00Z"));
    let now = status(&stage).await;
    assert_eq!(
        (&now["lastScheduleTime"], &now["active"][0]["uid"]),
        (&json!("2026-01-01T00:05:00Z"), &json!(job.uid()))
    );

    end(&stage, job.name(), "Complete").await;
    let now = status(&stage).await;
    assert_eq!(now.get("active"), None);
    assert!(now["lastSuccessfulTime"].is_string());
    stage.pass(5 * MINUTE).await;
    end(&stage, &names(&stage).await[1].clone(), "Complete").await;
    assert_eq!(minutes(&stage).await, [10]);
    let events = stage.events("CronJob").await;
    assert_eq!(events[0], format!("SuccessfulCreate: Created job {}", job.name()));
    assert_eq!(events[1], format!("SawCompletedJob: Saw completed job: {}, condition: Complete", job.name()));
    assert!(events.contains(&format!("SuccessfulDelete: Deleted job {}", job.name())), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn what_still_runs_forbids_is_replaced_or_has_company() {
    for (policy, expected) in [("Allow", vec![5, 10]), ("Forbid", vec![5]), ("Replace", vec![10])] {
        let stage = Stage::start().await;
        stage.create(&resources::cron_jobs(), cron_job(json!({"concurrencyPolicy": policy}))).await;
        stage.pass(10 * MINUTE).await;
        assert_eq!(minutes(&stage).await, expected, "{policy}");
        let active = status(&stage).await["active"].as_array().map_or(0, Vec::len);
        assert_eq!(active, expected.len(), "{policy}");
        let is_told = stage.events("CronJob").await.iter().any(|event| event.starts_with("JobAlreadyActive"));
        assert_eq!(is_told, policy == "Forbid");
    }
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_time_is_made_up_for_once_the_way_is_free() {
    let stage = Stage::start().await;
    stage.create(&resources::cron_jobs(), cron_job(json!({"concurrencyPolicy": "Forbid"}))).await;
    stage.pass(12 * MINUTE).await;
    end(&stage, &names(&stage).await[0].clone(), "Complete").await;
    assert_eq!(minutes(&stage).await, [5, 10]);
}

#[tokio::test(start_paused = true)]
async fn a_suspended_one_waits_and_what_is_too_late_is_left_out() {
    let stage = Stage::start().await;
    let gvr = resources::cron_jobs();
    stage.create(&gvr, cron_job(json!({"suspend": true, "startingDeadlineSeconds": 30}))).await;
    stage.pass(11 * MINUTE).await;
    assert_eq!(minutes(&stage).await, [0; 0]);
    stage.patch(&gvr, "tick", json!({"spec": {"suspend": false}})).await;
    assert_eq!(minutes(&stage).await, [0; 0]);
    stage.pass(5 * MINUTE).await;
    assert_eq!(minutes(&stage).await, [15]);
}

#[tokio::test(start_paused = true)]
async fn only_the_last_of_many_missed_times_is_made_up_for() {
    let stage = Stage::start().await;
    let gvr = resources::cron_jobs();
    stage.create(&gvr, cron_job(json!({"suspend": true, "schedule": "* * * * *"}))).await;
    stage.pass(150 * MINUTE).await;
    stage.patch(&gvr, "tick", json!({"spec": {"suspend": false}})).await;
    assert_eq!(minutes(&stage).await, [150]);
    assert!(stage.events("CronJob").await.iter().any(|event| event.starts_with("TooManyMissedTimes")));
}

#[tokio::test(start_paused = true)]
async fn times_are_those_of_the_zone() {
    let stage = Stage::start().await;
    let spec = json!({"schedule": "30 2 * * *", "timeZone": "Europe/Berlin"});
    stage.create(&resources::cron_jobs(), cron_job(spec)).await;
    stage.pass(91 * MINUTE).await;
    assert_eq!(minutes(&stage).await, [90]);
    let job = stage.list(&resources::jobs()).await[0].clone();
    let scheduled = job.annotation("batch.kubernetes.io/cronjob-scheduled-timestamp");
    assert_eq!(scheduled, Some("2026-01-01T02:30:00+01:00"));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_is_said() {
    for (spec, expected) in [
        (json!({"schedule": "every day"}), "UnparseableSchedule"),
        (json!({"timeZone": "Nowhere/Land"}), "UnknownTimeZone"),
    ] {
        let stage = Stage::start().await;
        stage.create(&resources::cron_jobs(), cron_job(spec)).await;
        assert!(stage.events("CronJob").await[0].starts_with(expected));
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_deleted_is_missed() {
    let stage = Stage::start().await;
    stage.create(&resources::cron_jobs(), cron_job(json!({}))).await;
    stage.pass(5 * MINUTE).await;
    let name = names(&stage).await[0].clone();
    stage.delete(&resources::jobs(), &name).await;
    assert_eq!(status(&stage).await.get("active"), None);
    let events = stage.events("CronJob").await;
    assert_eq!(events.last(), Some(&format!("MissingJob: Active job went missing: {name}")));
    assert_eq!(minutes(&stage).await, [0; 0]);
}
