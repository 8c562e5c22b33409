//! `MetricService`: the samples that a control plane keeps of its own metrics.

use apiserver::extension::EXTENSIONS_PATH;
use async_trait::async_trait;
use manager_api::*;
use object::Status;
use serde_json::Value;
use transcode::Raw;
use transcode::errors::failed_precondition;

use super::{ApiCaller, ManagerApi};

const HISTORY: &str = "v1alpha1/metrics/history";
const SECONDS_DEFAULT: i64 = 3_600;
const SECONDS_MAX: i64 = 86_400;

impl ManagerApi {
    /// Reads the samples with the manager's own rights: they are sums over the control plane without objects of users.
    async fn samples(&self, instance: &str, seconds: i64) -> Result<Value, Status> {
        let entry = self.entry(instance)?;
        let stopped = || Status::unavailable(format!("the instance {instance} is not running"));
        let running = self.operations.directory.connect(&entry).await.ok_or_else(stopped)?;
        let path = format!("{EXTENSIONS_PATH}{HISTORY}?seconds={seconds}");
        running.admin.get_json(&path).await.map_err(|status| match status.is_not_found() {
            true => failed_precondition(format!("the control plane of {instance} keeps no samples of its metrics")),
            false => status,
        })
    }
}

fn series_of(samples: &Value) -> impl Iterator<Item = (&String, &Value)> {
    samples["series"].as_object().into_iter().flatten()
}

#[async_trait]
impl MetricService<ApiCaller> for ManagerApi {
    async fn list_series(&self, _: &ApiCaller, request: ListSeriesRequest) -> Result<ListSeriesResponse, Status> {
        let samples = self.samples(&request.instance, SECONDS_DEFAULT).await?;
        Ok(ListSeriesResponse { series: series_of(&samples).map(|(name, _)| name.clone()).collect() })
    }

    async fn query_samples(&self, _: &ApiCaller, request: QuerySamplesRequest) -> Result<QuerySamplesResponse, Status> {
        let seconds = if request.seconds == 0 { SECONDS_DEFAULT } else { request.seconds };
        if !(1..=SECONDS_MAX).contains(&seconds) {
            return Err(Status::bad_request(format!("seconds: must be from 1 to {SECONDS_MAX}")));
        }
        let samples = self.samples(&request.instance, seconds).await?;
        let times: Vec<i64> = samples["times"].as_array().into_iter().flatten().filter_map(Value::as_i64).collect();
        let is_wanted = |name: &String| request.series.is_empty() || request.series.contains(name);
        let series = series_of(&samples).filter(|(name, _)| is_wanted(name)).map(|(name, values)| {
            let values = values.as_array().into_iter().flatten();
            let known = times.iter().zip(values).filter_map(|(time, value)| Some((*time, value.as_f64()?)));
            let (times, values) = known.unzip();
            SampledSeries { name: name.clone(), times, values }
        });
        Ok(QuerySamplesResponse {
            series: series.collect(),
            step_seconds: samples["stepSeconds"].as_i64().unwrap_or_default(),
        })
    }

    async fn scrape_metrics(&self, caller: &ApiCaller, request: ScrapeMetricsRequest) -> Result<Raw, Status> {
        self.scrape(caller, &request).await
    }

    async fn query_prometheus(&self, _: &ApiCaller, request: QueryPrometheusRequest) -> Result<Raw, Status> {
        self.prometheus(&request).await
    }
}
