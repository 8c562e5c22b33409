//! `/healthz`, `/livez` and `/readyz`: each check by name, with `?verbose` and `?exclude=`.

use std::time::Duration;

use http::Response;
use object::query::Query;
use store::Store;

use crate::respond::{self, Body};
use crate::scope::HealthScope;

/// A store that takes longer to answer is not healthy, as kube-apiserver has it.
const STORE_WAIT_MAX: Duration = Duration::from_secs(2);

/// The name clients look for; the store answers to it whatever engine it is.
const STORE_CHECK: &str = "etcd";

/// Fails when the storage has reached its size limit. Only answered by its own path: the server goes on to serve reads and
/// deletes, and a restart would not help.
const QUOTA_CHECK: &str = "storage-quota";

/// Steps of the start under kube-apiserver's names, where we have them. The server listens only after all of them are done
/// (`crate::prepare`), so a server that answers has passed them.
const START_CHECKS: &[&str] = &[
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/priority-and-fairness-config-consumer",
    "poststarthook/start-apiextensions-informers",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/priority-and-fairness-config-producer",
    "poststarthook/bootstrap-controller",
    "poststarthook/start-kube-aggregator-informers",
    "poststarthook/apiservice-status-local-available-controller",
    "poststarthook/apiservice-status-remote-available-controller",
    "poststarthook/apiservice-registration-controller",
    "poststarthook/apiservice-discovery-controller",
    "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion",
    "poststarthook/apiservice-openapi-controller",
    "poststarthook/apiservice-openapiv3-controller",
];

/// A check in addition to those of every server. Must not wait.
pub trait HealthCheck: Send + Sync {
    fn name(&self) -> &'static str;

    /// `None` if there is nothing to check now.
    fn check(&self) -> Option<Result<(), String>>;
}

pub async fn report(scope: HealthScope<'_>, path: &str, query: &Query) -> Response<Body> {
    let path = path.trim_end_matches('/');
    let (endpoint, single) = match path[1..].split_once('/') {
        Some((endpoint, single)) => (endpoint, Some(single.to_owned())),
        None => (&path[1..], None),
    };
    if single.as_deref() == Some(QUOTA_CHECK) {
        let problem = scope.store.quota().and_then(|quota| quota.problem());
        return single_check(QUOTA_CHECK, problem.map_or(Ok(()), |error| Err(error.to_string())));
    }
    let engine = scope.store.engine();
    let stored = store_check(&**scope.store).await;
    let mut checks = vec![("ping", Ok(())), ("log", scope.audit.health())];
    if engine != STORE_CHECK {
        checks.push((engine, stored.clone()));
    }
    checks.push((STORE_CHECK, stored.clone()));
    if endpoint == "readyz" {
        checks.push(("etcd-readiness", stored));
    }
    // A server that is still starting is alive, but not ready.
    if endpoint != "livez" {
        let ready = if scope.is_ready { Ok(()) } else { Err("the server is still starting".to_owned()) };
        checks.push(("informer-sync", ready));
        checks.extend(scope.checks.iter().filter_map(|check| Some((check.name(), check.check()?))));
    }
    checks.extend(START_CHECKS.iter().map(|name| (*name, Ok(()))));
    if endpoint == "readyz" {
        let running = if scope.is_stopping { Err("the server is shutting down".to_owned()) } else { Ok(()) };
        checks.push(("shutdown", running));
    }
    if let Some(single) = single {
        return match checks.into_iter().find(|(name, _)| *name == single) {
            Some((name, outcome)) => single_check(name, outcome),
            None => respond::text(404, "text/plain; charset=utf-8", "404 page not found\n"),
        };
    }
    let excluded: Vec<&str> = query.all("exclude").collect();
    let mut report = String::new();
    let mut failed = false;
    for (name, outcome) in checks {
        let line = match outcome {
            _ if excluded.contains(&name) => format!("[+]{name} excluded: ok\n"),
            Ok(()) => format!("[+]{name} ok\n"),
            Err(_) => {
                failed = true;
                format!("[-]{name} failed: reason withheld\n")
            }
        };
        report.push_str(&line);
    }
    let verdict = if failed { "failed" } else { "passed" };
    report.push_str(&format!("{endpoint} check {verdict}\n"));
    match (failed, query.flag("verbose")) {
        (false, false) => respond::text(200, "text/plain; charset=utf-8", "ok"),
        (false, true) => respond::text(200, "text/plain; charset=utf-8", report),
        (true, _) => respond::text(500, "text/plain; charset=utf-8", report),
    }
}

fn single_check(name: &str, outcome: Result<(), String>) -> Response<Body> {
    match outcome {
        Ok(()) => respond::text(200, "text/plain; charset=utf-8", "ok"),
        Err(problem) => respond::text(500, "text/plain; charset=utf-8", format!("{name} failed: {problem}\n")),
    }
}

async fn store_check(store: &dyn Store) -> Result<(), String> {
    let asked = tokio::time::timeout(STORE_WAIT_MAX, store.health()).await;
    let problem = match asked {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {STORE_WAIT_MAX:?}"),
    };
    tracing::warn!(problem, "the store is not healthy");
    Err(problem)
}
