//! Counters, gauges and histograms by name and labels, rendered in Prometheus' text format.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

/// Distinct label sets of one metric. Further ones are not counted, which bounds memory.
pub const SERIES_MAX: usize = 5_000;

/// A set of metrics that are rendered together. Clones share it.
#[derive(Clone, Default)]
pub struct Registry {
    families: Arc<Mutex<BTreeMap<&'static str, Arc<Family>>>>,
    hooks: Arc<Mutex<Vec<Hook>>>,
}

/// Updates metrics that change without an event, such as ages.
type Hook = Arc<dyn Fn() + Send + Sync>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

struct Family {
    name: &'static str,
    help: &'static str,
    kind: Kind,
    labels: &'static [&'static str],
    buckets: Vec<f64>,
    /// By their labels as they are printed.
    series: Mutex<BTreeMap<String, Arc<Series>>>,
}

/// One line, or one histogram. A number is kept as the bits of a float.
struct Series {
    value: AtomicU64,
    count: AtomicU64,
    buckets: Vec<AtomicU64>,
}

/// Only grows.
#[derive(Clone)]
pub struct Counter(Arc<Family>);

/// Goes up and down.
#[derive(Clone)]
pub struct Gauge(Arc<Family>);

/// Observations counted by bucket.
#[derive(Clone)]
pub struct Histogram(Arc<Family>);

/// One series of a counter, for hot paths.
#[derive(Clone)]
pub struct Count(Arc<Series>);

/// One series of a gauge.
#[derive(Clone)]
pub struct Level(Arc<Series>);

/// One series of a histogram.
#[derive(Clone)]
pub struct Spread(Arc<Family>, Arc<Series>);

impl Registry {
    pub fn counter(&self, name: &'static str, labels: &'static [&'static str], help: &'static str) -> Counter {
        Counter(self.family(name, Kind::Counter, labels, help, &[]))
    }

    pub fn gauge(&self, name: &'static str, labels: &'static [&'static str], help: &'static str) -> Gauge {
        Gauge(self.family(name, Kind::Gauge, labels, help, &[]))
    }

    pub fn histogram(
        &self,
        name: &'static str,
        labels: &'static [&'static str],
        buckets: &[f64],
        help: &'static str,
    ) -> Histogram {
        Histogram(self.family(name, Kind::Histogram, labels, help, buckets))
    }

    /// Returns the family of that name, declaring it if necessary.
    fn family(
        &self,
        name: &'static str,
        kind: Kind,
        labels: &'static [&'static str],
        help: &'static str,
        buckets: &[f64],
    ) -> Arc<Family> {
        let new = || Family { name, help, kind, labels, buckets: buckets.to_vec(), series: Mutex::default() };
        let mut families = self.families.lock();
        let family = families.entry(name).or_insert_with(|| Arc::new(new()));
        assert!(family.kind == kind && family.labels == labels, "{name} is declared in two ways");
        Arc::clone(family)
    }

    /// Calls `hook` before each rendering.
    pub fn before_render(&self, hook: impl Fn() + Send + Sync + 'static) {
        self.hooks.lock().push(Arc::new(hook));
    }

    /// Appends all metrics in Prometheus' text format. A metric without a series is left out.
    pub fn render(&self, out: &mut String) {
        let hooks = self.hooks.lock().clone();
        hooks.iter().for_each(|hook| hook());
        let families: Vec<Arc<Family>> = self.families.lock().values().cloned().collect();
        for family in families {
            family.render(out);
        }
    }
}

impl Family {
    fn series(&self, values: &[&str]) -> Arc<Series> {
        let text = label_text(self.labels, values);
        let mut series = self.series.lock();
        if let Some(found) = series.get(&text) {
            return Arc::clone(found);
        }
        let buckets = self.buckets.iter().map(|_| AtomicU64::new(0)).collect();
        let new = Arc::new(Series { value: AtomicU64::new(0), count: AtomicU64::new(0), buckets });
        if series.len() < SERIES_MAX {
            series.insert(text, Arc::clone(&new));
        }
        new
    }

    fn remove(&self, values: &[&str]) {
        self.series.lock().remove(&label_text(self.labels, values));
    }

    fn render(&self, out: &mut String) {
        let series = self.series.lock();
        if series.is_empty() {
            return;
        }
        let kind = match self.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let name = self.name;
        let help = self.help.replace('\\', "\\\\").replace('\n', "\\n");
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, one) in series.iter() {
            match self.kind {
                Kind::Counter | Kind::Gauge => write_line(out, name, labels, one.get()),
                Kind::Histogram => self.render_histogram(out, labels, one),
            }
        }
    }

    fn render_histogram(&self, out: &mut String, labels: &str, one: &Series) {
        let name = self.name;
        let comma = if labels.is_empty() { "" } else { "," };
        let mut total = 0;
        for (limit, bucket) in self.buckets.iter().zip(&one.buckets) {
            total += bucket.load(Ordering::Relaxed);
            let _ = writeln!(out, "{name}_bucket{{{labels}{comma}le=\"{}\"}} {total}", float(*limit));
        }
        // Read last: it may only be more than what the buckets were when they were read.
        let count = one.count.load(Ordering::Relaxed).max(total);
        let _ = writeln!(out, "{name}_bucket{{{labels}{comma}le=\"+Inf\"}} {count}");
        write_line(out, &format!("{name}_sum"), labels, one.get());
        write_line(out, &format!("{name}_count"), labels, count as f64);
    }
}

impl Series {
    fn get(&self) -> f64 {
        f64::from_bits(self.value.load(Ordering::Relaxed))
    }

    fn set(&self, value: f64) {
        self.value.store(value.to_bits(), Ordering::Relaxed);
    }

    fn add(&self, amount: f64) {
        let add = |bits| Some((f64::from_bits(bits) + amount).to_bits());
        let _ = self.value.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }
}

impl Counter {
    pub fn with(&self, labels: &[&str]) -> Count {
        Count(self.0.series(labels))
    }

    pub fn add_one(&self, labels: &[&str]) {
        self.with(labels).add(1);
    }
}

impl Count {
    pub fn add(&self, amount: u64) {
        self.0.add(amount as f64);
    }
}

impl Gauge {
    pub fn with(&self, labels: &[&str]) -> Level {
        Level(self.0.series(labels))
    }

    pub fn set(&self, labels: &[&str], value: f64) {
        self.with(labels).set(value);
    }

    pub fn remove(&self, labels: &[&str]) {
        self.0.remove(labels);
    }
}

impl Level {
    pub fn set(&self, value: f64) {
        self.0.set(value);
    }

    pub fn add(&self, amount: f64) {
        self.0.add(amount);
    }
}

impl Histogram {
    pub fn with(&self, labels: &[&str]) -> Spread {
        Spread(Arc::clone(&self.0), self.0.series(labels))
    }

    pub fn observe(&self, labels: &[&str], took: Duration) {
        self.with(labels).observe(took);
    }

    pub fn remove(&self, labels: &[&str]) {
        self.0.remove(labels);
    }
}

impl Spread {
    pub fn observe(&self, took: Duration) {
        let (Self(family, series), seconds) = (self, took.as_secs_f64());
        if let Some(bucket) = family.buckets.iter().position(|limit| seconds <= *limit) {
            series.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        }
        series.count.fetch_add(1, Ordering::Relaxed);
        series.add(seconds);
    }
}

/// Returns `count` bucket limits, each `factor` times the previous one.
pub fn exponential(start: f64, factor: f64, count: usize) -> Vec<f64> {
    std::iter::successors(Some(start), |limit| Some(limit * factor)).take(count).collect()
}

fn label_text(names: &[&str], values: &[&str]) -> String {
    assert_eq!(names.len(), values.len(), "every label has a value");
    let mut text = String::with_capacity(16 * (names.len() + values.len()));
    for (name, value) in names.iter().zip(values) {
        let comma = if text.is_empty() { "" } else { "," };
        let _ = write!(text, "{comma}{name}=\"");
        for letter in value.chars() {
            match letter {
                '\\' => text.push_str("\\\\"),
                '"' => text.push_str("\\\""),
                '\n' => text.push_str("\\n"),
                letter => text.push(letter),
            }
        }
        text.push('"');
    }
    text
}

fn write_line(out: &mut String, name: &str, labels: &str, value: f64) {
    let value = float(value);
    let _ = match labels {
        "" => writeln!(out, "{name} {value}"),
        labels => writeln!(out, "{name}{{{labels}}} {value}"),
    };
}

/// Formats a float as Go does, so that bucket bounds match those of other exporters.
fn float(value: f64) -> String {
    if value != 0.0 && value.abs() < 1e-4 {
        let text = format!("{value:e}");
        return match text.split_once("e-") {
            Some((digits, exponent)) => format!("{digits}e-{exponent:0>2}"),
            None => text,
        };
    }
    value.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(registry: &Registry) -> String {
        let mut out = String::new();
        registry.render(&mut out);
        out
    }

    #[test]
    fn metrics_are_rendered_in_the_prometheus_text_format() {
        let registry = Registry::default();
        registry.counter("tries_total", &["result"], "Tries.").add_one(&["error \"x\"\n\\"]);
        let level = registry.gauge("depth", &[], "Depth.").with(&[]);
        level.add(3.0);
        level.add(-1.0);
        let took = registry.histogram("took_seconds", &["step"], &[0.001, 0.25], "Time.").with(&["a"]);
        took.observe(Duration::from_millis(1));
        took.observe(Duration::from_millis(250));
        took.observe(Duration::from_secs(2));
        registry.counter("silent_total", &["result"], "Never counted.");
        let expected = "# HELP depth Depth.\n# TYPE depth gauge\ndepth 2\n\
            # HELP took_seconds Time.\n# TYPE took_seconds histogram\n\
            took_seconds_bucket{step=\"a\",le=\"0.001\"} 1\ntook_seconds_bucket{step=\"a\",le=\"0.25\"} 2\n\
            took_seconds_bucket{step=\"a\",le=\"+Inf\"} 3\ntook_seconds_sum{step=\"a\"} 2.251\n\
            took_seconds_count{step=\"a\"} 3\n\
            # HELP tries_total Tries.\n# TYPE tries_total counter\n\
            tries_total{result=\"error \\\"x\\\"\\n\\\\\"} 1\n";
        assert_eq!(rendered(&registry), expected);
    }

    #[test]
    fn a_name_declares_one_metric_and_removed_series_are_gone() {
        let registry = Registry::default();
        for _ in 0..2 {
            registry.gauge("ready", &["cluster"], "Ready.").with(&["m1"]).add(1.0);
        }
        assert!(rendered(&registry).ends_with("ready{cluster=\"m1\"} 2\n"));
        registry.gauge("ready", &["cluster"], "Ready.").remove(&["m1"]);
        assert_eq!(rendered(&registry), "");
    }

    #[test]
    fn series_are_limited() {
        let registry = Registry::default();
        let counter = registry.counter("many_total", &["name"], "Many.");
        for number in 0..SERIES_MAX + 10 {
            counter.add_one(&[&number.to_string()]);
        }
        assert_eq!(rendered(&registry).lines().count(), SERIES_MAX + 2);
    }

    #[test]
    fn bounds_are_formatted_as_in_go() {
        let cases = [(0.00001, "1e-05"), (0.000015, "1.5e-05"), (0.0001, "0.0001"), (1.0, "1"), (0.001, "0.001")];
        for (value, expected) in cases {
            assert_eq!(float(value), expected);
        }
        assert_eq!(exponential(0.001, 2.0, 4), [0.001, 0.002, 0.004, 0.008]);
    }
}
