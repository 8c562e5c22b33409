//! Reads the answers of the metrics APIs.

use std::time::Duration;

use object::quantity::Quantity;
use object::{Object, time};
use serde_json::Value;

use crate::calculator::{UsageSample, UsageSamples};
use crate::pods::sample_key;

/// Window of a value that does not say over which time it was measured.
pub const WINDOW_DEFAULT: Duration = Duration::from_secs(60);

/// Adds the usage of one resource, of one container or (`""`) of all, from `PodMetrics` of a cluster. Pods without a value
/// are left out; a pod without the named container is an error.
pub fn add_usages<'a>(
    samples: &mut UsageSamples,
    cluster: &str,
    usages: impl IntoIterator<Item = &'a Object>,
    (resource, container): (&str, &str),
) -> Result<(), String> {
    for usage in usages {
        let containers = usage.items(&["containers"]);
        if !container.is_empty() && !containers.iter().any(|found| found["name"] == container) {
            let (namespace, name) = (usage.namespace(), usage.name());
            let problem = format!("container {container} not present in metrics for pod {namespace}/{name}");
            return Err(format!("failed to get container metrics: {problem}"));
        }
        let counted = containers.iter().filter(|found| container.is_empty() || found["name"] == container);
        let values: Option<Vec<i64>> = counted.map(|found| milli(&found["usage"][resource])).collect();
        let Some(values) = values.filter(|values| !values.is_empty()) else { continue };
        let window = usage.get(&["window"]).and_then(Value::as_str).and_then(duration).unwrap_or(WINDOW_DEFAULT);
        let at = time::parse(usage.str_at(&["timestamp"]));
        let value = values.into_iter().fold(0, i64::saturating_add);
        samples.insert(sample_key(cluster, usage.name()), UsageSample { value, at, window });
    }
    Ok(())
}

/// Milli-units of a quantity.
pub fn milli(value: &Value) -> Option<i64> {
    let text = value.as_str().map(str::to_owned).or_else(|| value.as_number().map(ToString::to_string))?;
    Quantity::parse(&text).ok().map(|quantity| quantity.milli_value())
}

fn duration(text: &str) -> Option<Duration> {
    object::duration::parse(text).ok().and_then(|length| Duration::try_from(length).ok())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn usage(name: &str, containers: &Value) -> Object {
        Object::from_value(json!({"metadata": {"name": name, "namespace": "d"}, "timestamp": "2026-01-01T00:00:00Z",
            "window": "1m0s", "containers": containers}))
        .expect("a map")
    }

    #[track_caller]
    fn check(containers: Value, container: &str, expected: Result<Option<i64>, &str>) {
        let mut samples = UsageSamples::new();
        let added = add_usages(&mut samples, "m1", [&usage("p", &containers)], ("cpu", container));
        let found = added.map(|()| samples.get("m1/p").map(|sample| sample.value));
        assert_eq!(found, expected.map_err(str::to_owned), "{containers}");
    }

    #[test]
    fn containers_are_summed_or_chosen() {
        let two = json!([{"name": "a", "usage": {"cpu": "100m"}}, {"name": "b", "usage": {"cpu": "2"}}]);
        check(two.clone(), "", Ok(Some(2100)));
        check(two.clone(), "b", Ok(Some(2000)));
        let missing = "failed to get container metrics: container c not present in metrics for pod d/p";
        check(two, "c", Err(missing));
        check(json!([{"name": "a", "usage": {"memory": "1"}}, {"name": "b", "usage": {"cpu": "2"}}]), "", Ok(None));
        check(json!([]), "", Ok(None));
    }

    #[test]
    fn go_durations_are_parsed() {
        for (text, expected) in
            [("30s", Some(30_000)), ("1m0s", Some(60_000)), ("15.5s", Some(15_500)), ("5", None), ("x", None)]
        {
            assert_eq!(duration(text).map(|d| d.as_millis()), expected, "{text}");
        }
    }
}
