//! Serves the controllers of the process with their queues and errors, to callers with access to `/metrics`.

use std::collections::BTreeMap;
use std::sync::Arc;

use apiserver::extension::{Extension, ExtensionRequest};
use apiserver::request::RequestInfo;
use apiserver::respond::{self, Body};
use apiserver::server::Server;
use async_trait::async_trait;
use http::{Method, Response};
use object::Status;
use serde::Serialize;
use serde_json::json;

use crate::samples::label_value;

const PATH: &str = "/flotilla/v1alpha1/components";

/// The controllers that run in this process, from its own metrics.
pub struct RunningComponents;

#[async_trait]
impl Extension for RunningComponents {
    fn handles(&self, path: &str) -> bool {
        path == PATH
    }

    fn judges_callers(&self) -> bool {
        true
    }

    async fn serve(&self, server: &Arc<Server>, request: ExtensionRequest) -> Result<Response<Body>, Status> {
        request.check_method(&Method::GET, "read the components with GET")?;
        server.authorize(&request.user, &RequestInfo::parse(&Method::GET, "/metrics", "")).await?;
        let metrics = server.metrics.render(server.resources()).await;
        Ok(respond::value(200, &json!({"controllers": controllers(&metrics)})))
    }
}

/// One controller since the start of the process.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
struct RunningController {
    name: String,
    /// Keys that wait.
    queued: i64,
    /// Keys that are processed now.
    active: i64,
    reconciles: i64,
    errors: i64,
}

fn controllers(metrics: &str) -> Vec<RunningController> {
    let mut found: BTreeMap<&str, RunningController> = BTreeMap::new();
    for line in metrics.lines().filter(|line| !line.starts_with('#')) {
        let Some((series, value)) = line.rsplit_once(' ') else { continue };
        let Some((metric, labels)) = series.split_once('{') else { continue };
        let name = match metric {
            "workqueue_depth" => label_value(labels, "name"),
            "controller_runtime_active_workers"
            | "controller_runtime_reconcile_total"
            | "controller_runtime_reconcile_errors_total" => label_value(labels, "controller"),
            _ => None,
        };
        let Some(name) = name.filter(|name| !name.is_empty()) else { continue };
        let value = value.parse::<f64>().unwrap_or_default() as i64;
        let entry = found.entry(name).or_default();
        match metric {
            "workqueue_depth" => entry.queued += value,
            "controller_runtime_active_workers" => entry.active += value,
            "controller_runtime_reconcile_total" => entry.reconciles += value,
            _ => entry.errors += value,
        }
    }
    found.into_iter().map(|(name, entry)| RunningController { name: name.to_owned(), ..entry }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_are_read_from_metrics() {
        let metrics = "# HELP workqueue_depth x\nworkqueue_depth{name=\"binding\"} 3\nworkqueue_depth{name=\"\"} 9\n\
             controller_runtime_active_workers{controller=\"binding\"} 2\n\
             controller_runtime_reconcile_total{controller=\"binding\",result=\"success\"} 40\n\
             controller_runtime_reconcile_total{controller=\"binding\",result=\"error\"} 5\n\
             controller_runtime_reconcile_errors_total{controller=\"work\"} 1\nother{controller=\"x\"} 1\n";
        let expected = [
            RunningController { name: "binding".to_owned(), queued: 3, active: 2, reconciles: 45, errors: 0 },
            RunningController { name: "work".to_owned(), errors: 1, ..RunningController::default() },
        ];
        assert_eq!(controllers(metrics), expected);
    }
}
