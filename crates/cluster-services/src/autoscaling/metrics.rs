//! Reads the metrics of an autoscaler from the metrics APIs of the same server.

use std::time::Duration;

use cluster_client::{ClusterClient, ListOptions, ResourceRef, RestMapper, escape};
use object::builtin;
use object::{GroupVersion, Object, Status, time};
use scaling::calculator::{UsageSample, UsageSamples};
use scaling::metrics::{MetricQuery, Reading};
use scaling::samples::{WINDOW_DEFAULT, add_usages, milli};
use serde_json::Value;

/// Versions of custom metrics, the newest first.
const CUSTOM_VERSIONS: [&str; 2] = ["v1beta2", "v1beta1"];

pub struct MetricSource {
    client: ClusterClient,
    mapper: RestMapper,
}

/// The pods of a workload.
#[derive(Clone, Copy)]
pub struct PodSelection<'a> {
    pub namespace: &'a str,
    pub selector: &'a str,
}

impl MetricSource {
    pub fn new(client: ClusterClient) -> Self {
        Self { mapper: RestMapper::new(client.clone()), client }
    }

    /// Reads the values of one metric. The error is shown to the user.
    pub async fn read(&self, query: &MetricQuery, pods: PodSelection<'_>) -> Result<Reading, String> {
        match query {
            MetricQuery::Usage { resource, container } => {
                let fetched = self.usages(pods).await;
                let usages =
                    fetched.map_err(|status| format!("unable to fetch metrics from resource metrics API: {status}"))?;
                if usages.is_empty() {
                    return Err("no metrics returned from resource metrics API".to_owned());
                }
                let mut samples = UsageSamples::new();
                add_usages(&mut samples, "", &usages, (resource, container))?;
                Ok(Reading::Samples(samples))
            }
            MetricQuery::Pods { metric, selector } => {
                let labels = format!("labelSelector={}&", escape(pods.selector));
                let path = format!("namespaces/{}/pods/*/{}", pods.namespace, escape(metric));
                self.custom(&path, &labels, selector).await.map(|list| Reading::Samples(samples(&list)))
            }
            MetricQuery::Object { api_version, kind, name, metric, selector } => {
                let metric = escape(metric);
                let path = match kind.as_str() {
                    "Namespace" => format!("namespaces/{}/metrics/{metric}", pods.namespace),
                    _ => {
                        let resource = self.resource(api_version, kind).await.map_err(|status| status.to_string())?;
                        format!("namespaces/{}/{resource}/{}/{metric}", pods.namespace, escape(name))
                    }
                };
                let list = self.custom(&path, "", selector).await?;
                sum(&list).map(Reading::Value).ok_or_else(|| "no metrics returned from custom metrics API".to_owned())
            }
            MetricQuery::External { metric, selector } => {
                let path = format!(
                    "/apis/external.metrics.k8s.io/v1beta1/namespaces/{}/{}?labelSelector={}",
                    pods.namespace,
                    escape(metric),
                    escape(selector)
                );
                let list = self.client.get_json(&path).await;
                let list =
                    list.map_err(|status| format!("unable to fetch metrics from external metrics API: {status}"))?;
                sum(&list).map(Reading::Value).ok_or_else(|| "no metrics returned from external metrics API".to_owned())
            }
        }
    }

    async fn usages(&self, pods: PodSelection<'_>) -> Result<Vec<Object>, Status> {
        let PodSelection { namespace, selector } = pods;
        let path =
            format!("/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods?labelSelector={}", escape(selector));
        match self.client.get_json(&path).await {
            Ok(mut list) => {
                let items = list["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
                Ok(items.into_iter().filter_map(Object::from_value).collect())
            }
            // This API serves metrics as a normal resource instead of by path.
            Err(status) if status.code == 404 => {
                let options = ListOptions { label_selector: Some(selector.to_owned()), ..ListOptions::default() };
                let target = ResourceRef::within(&builtin::pod_metrics(), namespace);
                let list = self.client.list_all(target, options).await?;
                Ok(list.items.iter().map(|pod| Object::clone(pod)).collect())
            }
            Err(status) => Err(status),
        }
    }

    async fn custom(&self, path: &str, labels: &str, metric_selector: &str) -> Result<Value, String> {
        let query = format!("{labels}metricLabelSelector={}", escape(metric_selector));
        let mut failed = Status::resource_not_served();
        for version in CUSTOM_VERSIONS {
            match self.client.get_json(&format!("/apis/custom.metrics.k8s.io/{version}/{path}?{query}")).await {
                Ok(list) => return Ok(list),
                Err(status) => failed = status,
            }
            if failed.code != 404 {
                break;
            }
        }
        Err(format!("unable to fetch metrics from custom metrics API: {failed}"))
    }

    /// Returns the resource of a kind as custom metrics name it: `jobs.batch`.
    async fn resource(&self, api_version: &str, kind: &str) -> Result<String, Status> {
        let version = GroupVersion::parse(api_version).unwrap_or_default();
        let gvr = self.mapper.resource_of(&version.kind(kind)).await?.gvr;
        Ok(if gvr.group.is_empty() { gvr.resource } else { format!("{}.{}", gvr.resource, gvr.group) })
    }
}

fn samples(list: &Value) -> UsageSamples {
    let items = list["items"].as_array().into_iter().flatten();
    let sample = |item: &Value| {
        let name = item["describedObject"]["name"].as_str()?.to_owned();
        let seconds = item["windowSeconds"].as_u64().or_else(|| item["window"].as_u64());
        let window = seconds.map_or(WINDOW_DEFAULT, Duration::from_secs);
        let at = item["timestamp"].as_str().and_then(time::parse);
        Some((name, UsageSample { value: milli(&item["value"])?, at, window }))
    };
    items.filter_map(sample).collect()
}

/// `None` without values.
fn sum(list: &Value) -> Option<i64> {
    let values = list["items"].as_array()?.iter().filter_map(|item| milli(&item["value"]));
    values.reduce(i64::saturating_add)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_read_by_pod_or_summed() {
        let list = json!({"items": [{"describedObject": {"name": "a"}, "value": "1500m", "windowSeconds": 30},
            {"describedObject": {"name": "b"}, "value": "2"}, {"describedObject": {}, "value": "2"}]});
        let found = samples(&list);
        assert_eq!((found["a"].value, found["a"].window), (1500, Duration::from_secs(30)));
        assert_eq!((found["b"].value, found["b"].window), (2000, WINDOW_DEFAULT));
        assert_eq!(found.len(), 2);
        assert_eq!(sum(&list), Some(5500));
        assert_eq!(sum(&json!({"items": []})), None);
    }
}
