//! Counters and histograms under the names dashboards for kube-apiserver already use, in Prometheus text form.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use object::request::{Subresource, Verb};
use parking_lot::Mutex;
use store::Quota;

use crate::request::RequestInfo;
use crate::resources::Resources;
use crate::served_resources::{Resource, ServedResources};
use crate::storage::WriteCounts;

const SECONDS_BUCKETS: &[f64] =
    &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];
/// Distinct label sets kept. More need as many served resources; they are counted without labels.
const SERIES_MAX: usize = 20_000;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestLabels {
    verb: Verb,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    code: u16,
}

impl RequestLabels {
    /// The labels of a request; only served resources appear in them.
    pub fn of(served: &ServedResources, is_aggregated: bool, info: &RequestInfo, code: u16) -> Self {
        let unlabelled = Self::unlabelled(info.verb, code);
        if !info.is_resource {
            return unlabelled;
        }
        let found = served.find(&info.group, &info.version, &info.resource);
        let is_subresource = |resource: &Resource| {
            info.subresource.as_ref().is_none_or(|subresource| resource.kind.subresource(subresource).is_some())
        };
        let group_and_version =
            |labels: Self| Self { group: info.group.clone(), version: info.version.clone(), ..labels };
        match found {
            Some(resource) if is_subresource(&resource) => Self {
                resource: info.resource.clone(),
                subresource: Subresource::name_of(info.subresource.as_ref()).to_owned(),
                ..group_and_version(unlabelled)
            },
            // The resources of other servers are not known here.
            None if is_aggregated => group_and_version(unlabelled),
            _ => unlabelled,
        }
    }

    fn unlabelled(verb: Verb, code: u16) -> Self {
        let none = String::new;
        Self { verb, group: none(), version: none(), resource: none(), subresource: none(), code }
    }
}

#[derive(Default)]
struct Series {
    count: u64,
    seconds: f64,
    buckets: [u64; SECONDS_BUCKETS.len()],
}

#[derive(Default)]
pub struct Metrics {
    requests: Mutex<BTreeMap<RequestLabels, Series>>,
    pub watchers: AtomicU64,
    /// Metrics of the components around the server.
    pub components: ::metrics::Registry,
}

impl Metrics {
    pub fn with(components: ::metrics::Registry) -> Self {
        Self { components, ..Self::default() }
    }

    /// Counts a request. Only served resources appear in labels: callers choose paths, and may choose a new one for
    /// every request.
    pub fn finished(&self, labels: RequestLabels, took: Duration) {
        let mut requests = self.requests.lock();
        let is_full = requests.len() >= SERIES_MAX && !requests.contains_key(&labels);
        let labels = if is_full { RequestLabels::unlabelled(labels.verb, labels.code) } else { labels };
        let series = requests.entry(labels).or_default();
        series.count += 1;
        series.seconds += took.as_secs_f64();
        for (bucket, limit) in series.buckets.iter_mut().zip(SECONDS_BUCKETS) {
            if took.as_secs_f64() <= *limit {
                *bucket += 1;
            }
        }
    }

    pub async fn render(&self, resources: Resources<'_>) -> String {
        let mut out = String::with_capacity(16 * 1024);
        self.render_requests(&mut out);
        render_objects(resources.registry, &mut out);
        render_writes(resources.objects.writes(), &mut out);
        let store = resources.objects.store();
        if let Ok(bytes) = store.size_bytes().await {
            head(&mut out, "apiserver_storage_size_bytes", "gauge", "Size of the storage database on disk.");
            let _ = writeln!(out, "apiserver_storage_size_bytes{{storage_cluster_id=\"{}\"}} {bytes}", store.engine());
        }
        if let Some(quota) = store.quota() {
            let Quota { limit_bytes, used_bytes } = quota;
            head(&mut out, "flotilla_storage_limit_bytes", "gauge", "Size limit of the storage.");
            let _ = writeln!(out, "flotilla_storage_limit_bytes {limit_bytes}");
            head(&mut out, "flotilla_storage_used_bytes", "gauge", "Space in use that counts against the limit.");
            let _ = writeln!(out, "flotilla_storage_used_bytes {used_bytes}");
        }
        head(&mut out, "apiserver_longrunning_requests", "gauge", "Watches that are open now.");
        let _ =
            writeln!(out, "apiserver_longrunning_requests{{verb=\"WATCH\"}} {}", self.watchers.load(Ordering::Relaxed));
        render_process(&mut out);
        self.components.render(&mut out);
        out
    }

    fn render_requests(&self, out: &mut String) {
        let requests = self.requests.lock();
        head(out, "apiserver_request_total", "counter", "Requests answered, by verb, resource and code.");
        for (labels, series) in requests.iter() {
            let _ =
                writeln!(out, "apiserver_request_total{{{},code=\"{}\"}} {}", text(labels), labels.code, series.count);
        }
        head(out, "apiserver_request_duration_seconds", "histogram", "Time from request to answer.");
        for (labels, series) in requests.iter().filter(|(labels, _)| labels.verb != Verb::Watch) {
            let labels = format!("{},code=\"{}\"", text(labels), labels.code);
            for (limit, count) in SECONDS_BUCKETS.iter().zip(series.buckets) {
                let _ = writeln!(out, "apiserver_request_duration_seconds_bucket{{{labels},le=\"{limit}\"}} {count}");
            }
            let _ = writeln!(out, "apiserver_request_duration_seconds_bucket{{{labels},le=\"+Inf\"}} {}", series.count);
            let _ = writeln!(out, "apiserver_request_duration_seconds_sum{{{labels}}} {}", series.seconds);
            let _ = writeln!(out, "apiserver_request_duration_seconds_count{{{labels}}} {}", series.count);
        }
    }
}

fn text(labels: &RequestLabels) -> String {
    let RequestLabels { verb, group, version, resource, subresource, .. } = labels;
    let verb = verb.as_str().to_uppercase();
    format!(
        "verb=\"{verb}\",group=\"{}\",version=\"{}\",resource=\"{}\",subresource=\"{}\"",
        escape(group),
        escape(version),
        escape(resource),
        escape(subresource)
    )
}

fn escape(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn render_objects(registry: &ServedResources, out: &mut String) {
    head(out, "apiserver_storage_objects", "gauge", "Objects stored, for resources that have been read since start.");
    for (resource, cache) in registry.caches() {
        let _ = writeln!(out, "apiserver_storage_objects{{resource=\"{resource}\"}} {}", cache.len());
    }
}

fn render_writes(writes: &WriteCounts, out: &mut String) {
    head(out, "flotilla_storage_writes_total", "counter", "Writes of this server to the store, by resource.");
    for (group, resource, kind, count) in writes.list() {
        let (group, resource, kind) = (escape(&group), escape(&resource), kind.name());
        let labels = format!("group=\"{group}\",resource=\"{resource}\",operation=\"{kind}\"");
        let _ = writeln!(out, "flotilla_storage_writes_total{{{labels}}} {count}");
    }
}

/// Memory and CPU of this process, from the kernel's own account.
fn render_process(out: &mut String) {
    if let Ok(statm) = std::fs::read_to_string("/proc/self/statm") {
        let pages: u64 = statm.split_whitespace().nth(1).and_then(|p| p.parse().ok()).unwrap_or(0);
        head(out, "process_resident_memory_bytes", "gauge", "Resident memory size in bytes.");
        let _ = writeln!(out, "process_resident_memory_bytes {}", pages * 4096);
    }
    if let Ok(stat) = std::fs::read_to_string("/proc/self/stat") {
        // The command name may hold spaces; the fields are counted from behind it.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |index: usize| fields.get(index).and_then(|f| f.parse::<u64>().ok()).unwrap_or(0);
        head(out, "process_cpu_seconds_total", "counter", "Total user and system CPU time spent in seconds.");
        let _ = writeln!(out, "process_cpu_seconds_total {}", (ticks(11) + ticks(12)) as f64 / 100.0);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cluster_client::remote::addresses::AddressPolicy;
    use http::Method;
    use tokio_util::sync::CancellationToken;

    use super::*;

    #[test]
    fn only_served_resources_become_labels() {
        let store = Arc::new(store::memory::Memory::new());
        let served = ServedResources::new(store, kinds::builtin(), AddressPolicy::default(), CancellationToken::new());
        // Path, whether another server answers for it, and the labels of its resource.
        let cases = [
            ("/api/v1/namespaces/a/pods/b", false, "/v1/pods/"),
            ("/api/v1/namespaces/a/pods/b/log", false, "/v1/pods/log"),
            ("/apis/apps/v1/deployments", false, "apps/v1/deployments/"),
            ("/apis/metrics.k8s.io/v1beta1/nodes", true, "metrics.k8s.io/v1beta1//"),
            ("/api/v1/namespaces/a/pods/b/invented", false, "///"),
            ("/api/v1/invented", false, "///"),
            ("/apis/invented/v1/pods", false, "///"),
            ("/apis/apps/v9/deployments", false, "///"),
            ("/metrics", false, "///"),
        ];
        for (path, is_aggregated, expected) in cases {
            let info = RequestInfo::parse(&Method::GET, path, "");
            let labels = RequestLabels::of(&served, is_aggregated, &info, 403);
            let RequestLabels { group, version, resource, subresource, .. } = labels;
            assert_eq!(format!("{group}/{version}/{resource}/{subresource}"), expected, "{path}");
        }
    }
}
