//! The steps of a propagation as a stream.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use cluster_client::ClusterClient;
use futures::stream;
use manager_api::*;
use object::Status;
use serde_json::Value;
use transcode::call::Results;

use super::convert::timestamp;
use super::explain::{explained, subject};
use super::{ApiCaller, ManagerApi};

/// Interval for reading the steps. They carry their own times.
const INTERVAL: Duration = Duration::from_millis(500);

fn step(value: &Value) -> TimelineStep {
    let text = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
    let targets = value["targets"].as_array().into_iter().flatten();
    TimelineStep {
        time: timestamp(&text("time")),
        step: text("step"),
        cluster: text("cluster"),
        targets: targets.filter_map(|target| target["name"].as_str()).map(str::to_owned).collect(),
        health: text("health"),
        message: text("message"),
    }
}

/// The steps that were sent, so that each is sent once.
#[derive(Default)]
struct Sent {
    steps: HashSet<String>,
}

impl Sent {
    /// Returns the steps of an answer that are new. The instance keeps a limited number of steps; older ones are forgotten here
    /// too.
    fn new_ones(&mut self, answer: &Value) -> Vec<TimelineStep> {
        let steps: Vec<&Value> = answer["steps"].as_array().into_iter().flatten().collect();
        let known = std::mem::take(&mut self.steps);
        self.steps = steps.iter().map(|step| step.to_string()).collect();
        steps.into_iter().filter(|step| !known.contains(&step.to_string())).map(step).collect()
    }
}

struct TimelineWatch {
    client: ClusterClient,
    path: String,
    sent: Sent,
    pending: VecDeque<TimelineStep>,
}

impl TimelineWatch {
    async fn read(&mut self) -> Result<(), Status> {
        let answer = self.client.get_json(&self.path).await.map_err(explained)?;
        self.pending.extend(self.sent.new_ones(&answer));
        Ok(())
    }

    async fn next(&mut self) -> Result<TimelineStep, Status> {
        loop {
            if let Some(step) = self.pending.pop_front() {
                return Ok(step);
            }
            tokio::time::sleep(INTERVAL).await;
            self.read().await?;
        }
    }
}

impl ManagerApi {
    pub(super) async fn watch_steps(
        &self,
        caller: &ApiCaller,
        request: &WatchTimelineRequest,
    ) -> Result<Results<TimelineStep>, Status> {
        let client = self.operations.instance_client(&caller.user, &request.instance).await?;
        let WatchTimelineRequest { api_version, kind, namespace, name, .. } = request;
        let path = format!("/flotilla/v1alpha1/timeline?{}", subject(api_version, kind, namespace, name));
        let mut watch = TimelineWatch { client, path, sent: Sent::default(), pending: VecDeque::new() };
        watch.read().await?;
        Ok(Box::pin(stream::unfold(Some(watch), |watch| async move {
            let mut watch = watch?;
            let next = watch.next().await;
            let rest = next.is_ok().then_some(watch);
            Some((next, rest))
        })))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_step_is_sent_once() {
        let at =
            |time: &str, name: &str| json!({"time": time, "step": name, "targets": [{"name": "m1", "replicas": 2}]});
        let (first, second) = (at("2026-01-01T00:00:00.001Z", "Scheduled"), at("2026-01-01T00:00:00.002Z", "Applied"));
        let mut sent = Sent::default();
        let mut check = |steps: Value, expected: &[&str]| {
            let new = sent.new_ones(&json!({"steps": steps}));
            assert_eq!(new.iter().map(|step| step.step.as_str()).collect::<Vec<_>>(), expected);
        };
        check(json!([first]), &["Scheduled"]);
        check(json!([first, second]), &["Applied"]);
        check(json!([first, second]), &[]);
        check(json!([second]), &[]);
        let shown = step(&first);
        assert_eq!((shown.targets, shown.time.map(|time| time.nanos)), (vec!["m1".to_owned()], Some(1_000_000)));
    }
}
