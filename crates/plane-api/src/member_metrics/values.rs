//! Custom and external metrics, summed over members.

use std::sync::Arc;

use apiserver::dynamic_group::{DynamicGroup, DynamicRequest, DynamicResource};
use apiserver::http::Incoming;
use apiserver::respond::{self, Body};
use apiserver::server::Server;
use async_trait::async_trait;
use http::{Method, Response};
use metrics_adapter::{
    CUSTOM_GROUP, CustomVersion, EXTERNAL_GROUP, EXTERNAL_VERSION, ExternalValue, KnownMetric, MetricPath,
    MetricSelectors, MetricsAdapter, merge_custom, merge_external,
};
use object::Status;
use object::request::Subresource;
use serde_json::{Value, json};

use super::warnings;

/// Answers for `custom.metrics.k8s.io`.
pub struct CustomMetrics {
    pub adapter: MetricsAdapter,
}

/// Answers for `external.metrics.k8s.io`.
pub struct ExternalMetrics {
    pub adapter: MetricsAdapter,
}

#[async_trait]
impl DynamicGroup for CustomMetrics {
    fn group(&self) -> &str {
        CUSTOM_GROUP
    }

    fn versions(&self) -> &[&'static str] {
        &["v1beta2", "v1beta1"]
    }

    fn known(&self) -> Vec<DynamicResource> {
        listed(&self.adapter.known().custom, "MetricValueList")
    }

    async fn resources(&self) -> Vec<DynamicResource> {
        listed(&self.adapter.read_known().await.custom, "MetricValueList")
    }

    async fn serve(&self, _: &Arc<Server>, request: DynamicRequest) -> Result<Response<Body>, Status> {
        let incoming = &request.incoming;
        only_get(incoming)?;
        let path = metric_path(incoming)?;
        let members = self.adapter.ready_members().await;
        let gathered = self.adapter.custom(&members, &path, &selectors(incoming)).await;
        gathered.check_size()?;
        let warnings = warnings(&gathered.unread);
        let merged = merge_custom(gathered.found.into_values().flatten());
        if merged.is_empty() {
            return Err(no_metric(&path, &warnings));
        }
        let version = CustomVersion::parse(&incoming.info.version).ok_or_else(Status::resource_not_served)?;
        let items: Vec<Value> = merged.iter().map(|value| value.to_value(version)).collect();
        Ok(list("MetricValueList", &format!("{CUSTOM_GROUP}/{version}"), items, &warnings))
    }
}

#[async_trait]
impl DynamicGroup for ExternalMetrics {
    fn group(&self) -> &str {
        EXTERNAL_GROUP
    }

    fn versions(&self) -> &[&'static str] {
        &[EXTERNAL_VERSION]
    }

    fn known(&self) -> Vec<DynamicResource> {
        listed(&self.adapter.known().external, "ExternalMetricValueList")
    }

    async fn resources(&self) -> Vec<DynamicResource> {
        listed(&self.adapter.read_known().await.external, "ExternalMetricValueList")
    }

    async fn serve(&self, _: &Arc<Server>, request: DynamicRequest) -> Result<Response<Body>, Status> {
        let incoming = &request.incoming;
        only_get(incoming)?;
        let info = &incoming.info;
        if info.namespace.is_empty() || !info.name.is_empty() {
            return Err(Status::resource_not_served());
        }
        segment(&info.resource)?;
        segment(&info.namespace)?;
        let members = self.adapter.ready_members().await;
        let labels = selectors(incoming).labels;
        let gathered = self.adapter.external(&members, &info.namespace, &info.resource, &labels).await;
        gathered.check_size()?;
        let warnings = warnings(&gathered.unread);
        if gathered.found.is_empty() && !warnings.is_empty() {
            return Err(Status::unavailable(warnings.join("; ")));
        }
        if gathered.found.is_empty() {
            let text = format!("the server could not find the metric {}: no ready cluster serves it", info.resource);
            return Err(Status::new(404, "NotFound", text));
        }
        let merged = merge_external(gathered.found.into_values().flatten());
        let items: Vec<Value> = merged.iter().map(ExternalValue::to_value).collect();
        Ok(list("ExternalMetricValueList", &format!("{EXTERNAL_GROUP}/{EXTERNAL_VERSION}"), items, &warnings))
    }
}

fn listed(known: &[KnownMetric], kind: &'static str) -> Vec<DynamicResource> {
    let resource =
        |metric: &KnownMetric| DynamicResource { name: metric.name.clone(), kind, namespaced: metric.namespaced };
    known.iter().map(resource).collect()
}

fn only_get(incoming: &Incoming) -> Result<(), Status> {
    if incoming.method == Method::GET { Ok(()) } else { Err(Status::method_not_served()) }
}

fn selectors(incoming: &Incoming) -> MetricSelectors {
    let text = |key: &str| incoming.query.get(key).unwrap_or_default().to_owned();
    MetricSelectors { labels: text("labelSelector"), metric_labels: text("metricLabelSelector") }
}

/// `[namespaces/NAMESPACE/]RESOURCE/NAME/METRIC`, or `namespaces/NAMESPACE/metrics/METRIC` for the namespace itself.
fn metric_path(incoming: &Incoming) -> Result<MetricPath, Status> {
    let info = &incoming.info;
    let metric = Subresource::name_of(info.subresource.as_ref()).to_owned();
    let path = MetricPath {
        namespace: if info.resource == "namespaces" { String::new() } else { info.namespace.clone() },
        resource: info.resource.clone(),
        name: info.name.clone(),
        metric,
    };
    let is_of_namespace = path.resource == "metrics" && !path.namespace.is_empty();
    if path.name.is_empty() || path.metric.is_empty() != is_of_namespace || !info.tail.is_empty() {
        return Err(Status::resource_not_served());
    }
    for part in [&path.namespace, &path.resource, &path.name, &path.metric] {
        segment(part)?;
    }
    Ok(path)
}

/// Rejects names that a member would read as another path than the one that was authorized.
fn segment(text: &str) -> Result<(), Status> {
    match text {
        "." | ".." => Err(Status::bad_request(format!("{text:?} is not a name"))),
        _ if text.contains('/') => Err(Status::bad_request(format!("{text:?} must not contain '/'"))),
        _ => Ok(()),
    }
}

fn no_metric(path: &MetricPath, warnings: &[String]) -> Status {
    if !warnings.is_empty() {
        return Status::unavailable(warnings.join("; "));
    }
    let (resource, metric) = match path.metric.as_str() {
        "" => ("namespaces", &path.name),
        _ => (path.resource.as_str(), &path.metric),
    };
    Status::new(404, "NotFound", format!("the server could not find the metric {metric} for {resource}"))
}

fn list(kind: &str, api_version: &str, items: Vec<Value>, warnings: &[String]) -> Response<Body> {
    let mut response =
        respond::value(200, &json!({"kind": kind, "apiVersion": api_version, "metadata": {}, "items": items}));
    respond::add_warnings(&mut response, warnings);
    response
}
