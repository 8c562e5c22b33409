//! Reads the metrics of a FederatedHPA from the members and evaluates them.

use std::time::Duration;

use metrics_adapter::{CustomValue, Gathered, MetricPath, MetricSelectors, UsageQuery};
use object::quantity::Quantity;
use object::{GroupVersion, Object, time};
use scaling::calculator::{Limits, UsageSample, UsageSamples};
use scaling::metrics::{Computed, MeasuredMetric, MetricQuery, Reading, Workload};
use scaling::pods::sample_key;
use scaling::samples::{WINDOW_DEFAULT, add_usages};
use tokio::time::Instant;

use crate::federated_hpa::FederatedHpaController;
use crate::federated_hpa::gather::ScaledWorkload;

impl FederatedHpaController {
    /// Reads and evaluates all metrics.
    pub(super) async fn compute(&self, autoscaler: &Object, workload: &ScaledWorkload) -> Computed {
        let namespace = autoscaler.namespace();
        let specs = scaling::metrics::specs(autoscaler);
        // Read once for all resources.
        let mut usages: Option<Gathered<Vec<Object>>> = None;
        let mut measured = Vec::with_capacity(specs.len());
        for spec in &specs {
            let reading = match scaling::metrics::query(spec) {
                Some(Ok(MetricQuery::Usage { resource, container })) => {
                    if usages.is_none() {
                        usages = Some(self.read_usages(namespace, workload).await);
                    }
                    read_usage(usages.as_ref(), (&resource, &container))
                }
                Some(Ok(query)) => self.read(&query, namespace, workload).await,
                Some(Err(error)) => Err(error),
                None => Err("unknown metric source type".to_owned()),
            };
            measured.push(MeasuredMetric { spec, reading });
        }
        let settings = &self.settings.scaling;
        // Without replicas there is no relation between the template and its pods.
        let calibration = match (workload.running, workload.current) {
            (0, _) | (_, 0) => 1.0,
            (running, current) => running as f64 / current as f64,
        };
        let tolerance = scaling::metrics::tolerance_of(autoscaler, settings);
        let limits = Limits { tolerance, settings, calibration, now: self.clock.now() };
        let subject = Workload {
            namespace,
            pods: &workload.pods,
            current: workload.current,
            reported_pods: workload.reported_pods,
        };
        scaling::metrics::compute(measured, &subject, limits)
    }

    async fn read_usages(&self, namespace: &str, workload: &ScaledWorkload) -> Gathered<Vec<Object>> {
        let started = Instant::now();
        let query = UsageQuery { namespace: Some(namespace.to_owned()), name: None, labels: workload.selector.clone() };
        let gathered = self.adapter.pods(&workload.members, &query).await;
        self.metrics.pulled(is_read(&gathered), "ResourceMetric", started.elapsed());
        gathered
    }

    async fn read(&self, query: &MetricQuery, namespace: &str, workload: &ScaledWorkload) -> Result<Reading, String> {
        match query {
            MetricQuery::Usage { .. } => Err("usages are read together".to_owned()),
            MetricQuery::Pods { metric, selector } => {
                let path = MetricPath {
                    namespace: namespace.to_owned(),
                    resource: "pods".to_owned(),
                    name: "*".to_owned(),
                    metric: metric.clone(),
                };
                let gathered =
                    self.custom(&workload.members, "RawMetric", &path, (&workload.selector, selector)).await?;
                let values =
                    gathered.found.iter().flat_map(|(cluster, values)| values.iter().map(move |v| (cluster, v)));
                let samples = values.map(|(cluster, value)| (sample_key(cluster, value.object_name()), sample(value)));
                Ok(Reading::Samples(samples.collect::<UsageSamples>()))
            }
            MetricQuery::Object { api_version, kind, name, metric, selector } => {
                let path = match (kind.as_str(), api_version.as_str()) {
                    // The name is ignored as in Kubernetes: a reference does not leave the namespace.
                    ("Namespace", "v1" | "") => MetricPath {
                        namespace: namespace.to_owned(),
                        resource: "metrics".to_owned(),
                        name: metric.clone(),
                        metric: String::new(),
                    },
                    _ => MetricPath {
                        namespace: namespace.to_owned(),
                        resource: self.resource(api_version, kind).await?,
                        name: name.clone(),
                        metric: metric.clone(),
                    },
                };
                let members = self.adapter.ready_members().await;
                let gathered = self.custom(&members, "ObjectMetric", &path, ("", selector)).await?;
                let values = gathered.found.values().flatten().map(|value| &value.value);
                total(values).ok_or_else(|| "no metrics returned from custom metrics API".to_owned())
            }
            MetricQuery::External { metric, selector } => {
                let started = Instant::now();
                let members = self.adapter.ready_members().await;
                let gathered = self.adapter.external(&members, namespace, metric, selector).await;
                self.metrics.pulled(is_read(&gathered), "ExternalMetric", started.elapsed());
                if !is_read(&gathered) {
                    let errors = errors(&gathered);
                    return Err(format!("unable to fetch metrics from external metrics API: {errors}"));
                }
                let values = gathered.found.values().flatten().map(|value| &value.value);
                total(values).ok_or_else(|| "no metrics returned from external metrics API".to_owned())
            }
        }
    }

    async fn custom(
        &self,
        members: &[String],
        kind: &'static str,
        path: &MetricPath,
        (labels, metric_labels): (&str, &str),
    ) -> Result<Gathered<Vec<CustomValue>>, String> {
        let started = Instant::now();
        let selectors = MetricSelectors { labels: labels.to_owned(), metric_labels: metric_labels.to_owned() };
        let gathered = self.adapter.custom(members, path, &selectors).await;
        self.metrics.pulled(is_read(&gathered), kind, started.elapsed());
        if is_read(&gathered) {
            return Ok(gathered);
        }
        let metric = if path.metric.is_empty() { &path.name } else { &path.metric };
        let problem = match errors(&gathered) {
            none if none.is_empty() => format!("the server could not find the metric {metric} for {}", path.resource),
            errors => errors,
        };
        Err(format!("unable to fetch metrics from custom metrics API: {problem}"))
    }

    /// The resource of a kind as custom metrics name it: `jobs.batch`.
    async fn resource(&self, api_version: &str, kind: &str) -> Result<String, String> {
        let version =
            GroupVersion::parse(api_version).ok_or_else(|| format!("unexpected GroupVersion string: {api_version}"))?;
        let resource = self.mapper.resource_of(&version.kind(kind)).await.map_err(|status| status.to_string())?;
        let gvr = resource.gvr;
        Ok(if gvr.group.is_empty() { gvr.resource } else { format!("{}.{}", gvr.resource, gvr.group) })
    }
}

fn read_usage(usages: Option<&Gathered<Vec<Object>>>, of: (&str, &str)) -> Result<Reading, String> {
    let none = || "no metrics returned from resource metrics API".to_owned();
    let gathered = usages.ok_or_else(none)?;
    let count: usize = gathered.found.values().map(Vec::len).sum();
    if count == 0 && !gathered.unread.is_empty() {
        return Err(format!("unable to fetch metrics from resource metrics API: {}", errors(gathered)));
    }
    if count == 0 {
        return Err(none());
    }
    let mut samples = UsageSamples::new();
    for (cluster, usages) in &gathered.found {
        add_usages(&mut samples, cluster, usages, of)?;
    }
    Ok(Reading::Samples(samples))
}

fn sample(value: &CustomValue) -> UsageSample {
    let seconds = value.window_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    UsageSample {
        value: value.value.milli_value(),
        at: time::parse(&value.timestamp),
        window: seconds.map_or(WINDOW_DEFAULT, Duration::from_secs),
    }
}

/// `None` without values.
fn total<'a>(values: impl Iterator<Item = &'a Quantity>) -> Option<Reading> {
    let sum = values.cloned().reduce(|sum, value| sum.plus(&value))?;
    Some(Reading::Value(sum.milli_value()))
}

/// At least one member answered.
fn is_read<T>(gathered: &Gathered<Vec<T>>) -> bool {
    !gathered.found.is_empty()
}

fn errors<T>(gathered: &Gathered<T>) -> String {
    gathered.unread.join("; ")
}
