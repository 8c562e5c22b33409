//! Samples of metrics over time: a fine ring of the last hour and a coarse one of the last day, bounded in series.

use std::collections::{BTreeMap, HashMap, VecDeque};

use serde::Serialize;

/// Time between samples.
pub const STEP_SECONDS: i64 = 10;
/// Samples of the last hour.
const FINE_MAX: usize = 360;
/// Every sixth sample is also kept for a day.
const COARSE_EVERY: u64 = 6;
const COARSE_MAX: usize = 1_440;
/// Series kept. With more clusters than fit, the totals are kept and further clusters are not.
const SERIES_MAX: usize = 400;

/// The way in which values of a metric become a series.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// The value itself.
    Level,
    /// Growth in each second.
    Rate,
}

/// A metric that is sampled: the sum over all label sets, and the sum for each value of one label.
struct Sampled {
    metric: &'static str,
    by: &'static str,
    reading: Reading,
}

const fn level(metric: &'static str, by: &'static str) -> Sampled {
    Sampled { metric, by, reading: Reading::Level }
}

const fn rate(metric: &'static str, by: &'static str) -> Sampled {
    Sampled { metric, by, reading: Reading::Rate }
}

const SAMPLED: [Sampled; 19] = [
    level("process_resident_memory_bytes", ""),
    rate("process_cpu_seconds_total", ""),
    rate("apiserver_request_total", ""),
    level("apiserver_longrunning_requests", ""),
    level("apiserver_storage_size_bytes", ""),
    rate("karmada_scheduler_schedule_attempts_total", "result"),
    rate("karmada_scheduler_e2e_scheduling_duration_seconds_sum", ""),
    rate("karmada_scheduler_e2e_scheduling_duration_seconds_count", ""),
    level("scheduler_pending_bindings", ""),
    rate("controller_runtime_reconcile_total", ""),
    rate("controller_runtime_reconcile_errors_total", ""),
    level("workqueue_depth", ""),
    rate("eviction_processing_total", ""),
    level("cluster_ready_state", "member_cluster"),
    level("cluster_ready_node_number", ""),
    level("cluster_cpu_allocated_number", "member_cluster"),
    level("cluster_memory_allocated_bytes", "member_cluster"),
    level("cluster_cpu_allocatable_number", "member_cluster"),
    level("cluster_memory_allocatable_bytes", "member_cluster"),
];

/// The samples of one server.
#[derive(Default)]
pub struct Samples {
    fine: Ring,
    coarse: Ring,
    taken: u64,
    /// Counters of the previous sample, with its time.
    before: Option<(i64, HashMap<String, f64>)>,
}

#[derive(Default)]
struct Ring {
    times: VecDeque<i64>,
    series: BTreeMap<String, VecDeque<f32>>,
}

/// Samples as they are served: every series has one value for each time, `null` where there is none.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SampledWindow {
    pub step_seconds: i64,
    pub times: Vec<i64>,
    pub series: BTreeMap<String, Vec<Option<f32>>>,
}

impl Samples {
    /// Adds the metrics in Prometheus' text format that were rendered at `now`, in seconds since 1970.
    pub fn take(&mut self, now: i64, text: &str) {
        let mut values = Vec::new();
        let mut counters = HashMap::new();
        for (key, reading, value) in sums(text) {
            match reading {
                Reading::Level => values.push((key, value)),
                Reading::Rate => {
                    if let Some(growth) = self.growth(now, &key, value) {
                        values.push((key.clone(), growth));
                    }
                    counters.insert(key, value);
                }
            }
        }
        self.before = Some((now, counters));
        self.fine.push(now, &values, FINE_MAX);
        if self.taken.is_multiple_of(COARSE_EVERY) {
            self.coarse.push(now, &values, COARSE_MAX);
        }
        self.taken += 1;
    }

    /// `None` for the first sample and after a restart of what is counted.
    fn growth(&self, now: i64, key: &str, value: f64) -> Option<f64> {
        let (then, counters) = self.before.as_ref().filter(|(then, _)| now > *then)?;
        // A series that appears counts from zero.
        let earlier = counters.get(key).copied().unwrap_or(0.0);
        (value >= earlier).then(|| (value - earlier) / (now - then) as f64)
    }

    /// The samples of the last seconds: fine ones for up to an hour, coarse ones beyond. `wanted` names series, or metrics with
    /// all their parts; everything is wanted if it is empty.
    pub fn window(&self, now: i64, seconds: i64, wanted: &[&str]) -> SampledWindow {
        let is_fine = seconds <= FINE_MAX as i64 * STEP_SECONDS;
        let (ring, step) = match is_fine {
            true => (&self.fine, STEP_SECONDS),
            false => (&self.coarse, STEP_SECONDS * COARSE_EVERY as i64),
        };
        let skipped = ring.times.iter().take_while(|time| **time < now - seconds).count();
        let read = |value: &f32| value.is_finite().then_some(*value);
        let is_wanted = |key: &str| {
            let metric = key.split_once('/').map_or(key, |(metric, _)| metric);
            wanted.is_empty() || wanted.iter().any(|wanted| *wanted == key || *wanted == metric)
        };
        let kept = ring.series.iter().filter(|(key, _)| is_wanted(key));
        let series = kept.map(|(key, values)| (key.clone(), values.iter().skip(skipped).map(read).collect()));
        SampledWindow {
            step_seconds: step,
            times: ring.times.iter().skip(skipped).copied().collect(),
            series: series.filter(|(_, values): &(_, Vec<Option<f32>>)| values.iter().any(Option::is_some)).collect(),
        }
    }
}

impl Ring {
    fn push(&mut self, now: i64, values: &[(String, f64)], max: usize) {
        for (key, _) in values {
            if !self.series.contains_key(key) && self.series.len() < SERIES_MAX {
                self.series.insert(key.clone(), std::iter::repeat_n(f32::NAN, self.times.len()).collect());
            }
        }
        self.times.push_back(now);
        let values: HashMap<&str, f64> = values.iter().map(|(key, value)| (key.as_str(), *value)).collect();
        for (key, series) in &mut self.series {
            series.push_back(values.get(key.as_str()).map_or(f32::NAN, |value| *value as f32));
        }
        if self.times.len() > max {
            self.times.pop_front();
            self.series.values_mut().for_each(|series| _ = series.pop_front());
        }
        // Clusters that left are forgotten with their last value.
        self.series.retain(|_, series| series.iter().any(|value| value.is_finite()));
    }
}

/// The sampled sums, totals before the parts of each metric.
fn sums(text: &str) -> Vec<(String, Reading, f64)> {
    let mut totals: BTreeMap<usize, f64> = BTreeMap::new();
    let mut parts: BTreeMap<(usize, &str), f64> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((head, value)) = line.rsplit_once(' ') else { continue };
        let (name, labels) = head.split_once('{').unwrap_or((head, ""));
        let Some(at) = SAMPLED.iter().position(|sampled| sampled.metric == name) else { continue };
        let Ok(value) = value.parse::<f64>() else { continue };
        *totals.entry(at).or_default() += value;
        let by = SAMPLED[at].by;
        if !by.is_empty()
            && let Some(label) = label_value(labels, by)
        {
            *parts.entry((at, label)).or_default() += value;
        }
    }
    let named = |at: usize| SAMPLED[at].metric.to_owned();
    let totals = totals.into_iter().map(|(at, value)| (named(at), SAMPLED[at].reading, value));
    let parts =
        parts.into_iter().map(|((at, label), value)| (format!("{}/{label}", named(at)), SAMPLED[at].reading, value));
    totals.chain(parts).collect()
}

/// Names of clusters, controllers and results need no escapes.
pub(crate) fn label_value<'a>(labels: &'a str, name: &str) -> Option<&'a str> {
    let mut pairs = labels.trim_end_matches('}').split(',').filter_map(|pair| pair.split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value.trim_matches('"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics(attempts: u32, memory: u32, clusters: &[&str]) -> String {
        let mut text = format!(
            "# HELP x y\nkarmada_scheduler_schedule_attempts_total{{result=\"scheduled\",schedule_type=\"a\"}} {attempts}\n\
             process_resident_memory_bytes {memory}\nunknown_total 5\nbroken\n"
        );
        for cluster in clusters {
            text.push_str(&format!("cluster_ready_state{{member_cluster=\"{cluster}\"}} 1\n"));
        }
        text
    }

    #[test]
    fn counters_become_rates_and_gaps_stay_gaps() {
        let mut samples = Samples::default();
        samples.take(100, &metrics(10, 7, &["m1"]));
        samples.take(110, &metrics(30, 8, &["m1", "m2"]));
        samples.take(120, &metrics(5, 9, &["m2"]));
        let window = samples.window(120, 600, &[]);
        assert_eq!((window.step_seconds, window.times), (10, vec![100, 110, 120]));
        let expected: BTreeMap<String, Vec<Option<f32>>> = [
            ("karmada_scheduler_schedule_attempts_total", vec![None, Some(2.0), None]),
            ("karmada_scheduler_schedule_attempts_total/scheduled", vec![None, Some(2.0), None]),
            ("process_resident_memory_bytes", vec![Some(7.0), Some(8.0), Some(9.0)]),
            ("cluster_ready_state", vec![Some(1.0), Some(2.0), Some(1.0)]),
            ("cluster_ready_state/m1", vec![Some(1.0), Some(1.0), None]),
            ("cluster_ready_state/m2", vec![None, Some(1.0), Some(1.0)]),
        ]
        .into_iter()
        .map(|(key, values)| (key.to_owned(), values))
        .collect();
        assert_eq!(window.series, expected);
        assert_eq!(samples.window(120, 10, &[]).times, [110, 120], "a shorter window");
        let named = |wanted: &[&str]| samples.window(120, 600, wanted).series.into_keys().collect::<Vec<_>>();
        assert_eq!(
            named(&["cluster_ready_state"]),
            ["cluster_ready_state", "cluster_ready_state/m1", "cluster_ready_state/m2"]
        );
        assert_eq!(named(&["cluster_ready_state/m2", "unknown"]), ["cluster_ready_state/m2"]);
    }

    #[test]
    fn a_day_is_kept_in_a_bounded_number_of_samples_and_series() {
        let mut samples = Samples::default();
        let names: Vec<String> = (0..1_000).map(|number| format!("m{number:04}")).collect();
        let clusters: Vec<&str> = names.iter().map(String::as_str).collect();
        let full = metrics(1, 1, &clusters);
        samples.take(0, &full);
        let bare = metrics(1, 1, &[]);
        for number in 1..10_000_i64 {
            samples.take(number * STEP_SECONDS, &bare);
        }
        let now = 10_000 * STEP_SECONDS;
        assert_eq!(samples.fine.times.len(), FINE_MAX);
        assert_eq!(samples.coarse.times.len(), COARSE_MAX);
        assert!(samples.coarse.series.len() <= SERIES_MAX);
        assert!(
            !samples.fine.series.contains_key("cluster_ready_state/m0001"),
            "forgotten after an hour without a value"
        );
        let day = samples.window(now, 86_400, &[]);
        assert_eq!((day.step_seconds, day.times.len()), (60, 1_440));
        assert!(day.series.contains_key("process_resident_memory_bytes"));
    }
}
