//! Pod usage from the metrics API of the same server.

use std::collections::HashMap;
use std::time::Duration;

use cluster_client::{ClusterClient, ListOptions, ResourceRef, escape};
use object::builtin;
use object::quantity::Quantity;
use object::{Object, Status};
use serde_json::Value;

use crate::autoscaling::calculator::{UsageSample, UsageSamples};
use crate::mirrors::time_at;

const WINDOW_DEFAULT: Duration = Duration::from_secs(60);

/// Usage of the selected pods: by pod, then container.
pub struct MeasuredUsage {
    pods: Vec<Object>,
}

impl MeasuredUsage {
    pub async fn gather(client: &ClusterClient, namespace: &str, selector: &str) -> Result<Self, Status> {
        let options = ListOptions { label_selector: Some(selector.to_owned()), ..ListOptions::default() };
        let path =
            format!("/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods?labelSelector={}", escape(selector));
        match client.get_json(&path).await {
            Ok(mut list) => {
                let items = list["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
                Ok(Self { pods: items.into_iter().filter_map(Object::from_value).collect() })
            }
            // This API serves metrics as a normal resource instead of by path.
            Err(status) if status.code == 404 => {
                let list = client.list_all(ResourceRef::within(&builtin::pod_metrics(), namespace), options).await?;
                Ok(Self { pods: list.items.iter().map(|pod| Object::clone(pod)).collect() })
            }
            Err(status) => Err(status),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// Returns the usage of one resource, of one container or (`""`) of all. Pods without a value are omitted.
    pub fn of(&self, resource: &str, container: &str) -> UsageSamples {
        let sample = |pod: &Object| {
            let counted = pod.items(&["containers"]).iter().filter(|c| container.is_empty() || c["name"] == container);
            let mut sum = None;
            for container in counted {
                let text = container["usage"].get(resource)?;
                sum = Some(sum.unwrap_or(0) + read(text)?);
            }
            let window = pod.get(&["window"]).and_then(Value::as_str).and_then(read_duration).unwrap_or(WINDOW_DEFAULT);
            let at = pod.get(&["timestamp"]).and_then(time_at);
            Some((pod.name().to_owned(), UsageSample { value: sum?, at, window }))
        };
        self.pods.iter().filter_map(sample).collect::<HashMap<_, _>>()
    }
}

fn read(value: &Value) -> Option<i64> {
    let text = value.as_str().map(str::to_owned).or_else(|| value.as_i64().map(|number| number.to_string()))?;
    Quantity::parse(&text).ok().map(|quantity| quantity.milli_value())
}

fn read_duration(text: &str) -> Option<Duration> {
    object::duration::parse(text).ok().and_then(|length| Duration::try_from(length).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_durations_are_parsed() {
        for (text, expected) in
            [("30s", Some(30_000)), ("1m0s", Some(60_000)), ("15.5s", Some(15_500)), ("5", None), ("x", None)]
        {
            assert_eq!(read_duration(text).map(|d| d.as_millis()), expected, "{text}");
        }
    }

    #[test]
    fn selectors_are_escaped_in_paths() {
        assert_eq!(escape("app=web,tier in (a)"), "app%3Dweb%2Ctier%20in%20%28a%29");
    }
}
