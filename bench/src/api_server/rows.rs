//! Combines the figures of both sides in rows.

use crate::api_server::results::{FannedOut, ManyWatched, Measured, Results, Started};
use crate::report::rows::{Better, Row, RowTarget, grouped};
use crate::server::Side;

/// A larger slowdown at the largest size counts as growth rather than noise.
const GROWTH_FACTOR_MAX: f64 = 1.5;

pub struct Growth {
    pub operation: String,
    pub side: Side,
    /// Size, p50 and p99 in milliseconds, server CPU time in microseconds.
    pub sizes: Vec<(usize, f64, f64, f64)>,
    /// The p50 at the largest size relative to the smallest.
    pub factor: f64,
}

impl Growth {
    /// Only ours is a target.
    pub fn met(&self) -> Option<bool> {
        (self.side == Side::Flotilla).then_some(self.factor <= GROWTH_FACTOR_MAX)
    }
}

pub fn rows(report: &Results) -> Vec<Row> {
    let mut rows = Vec::new();
    let started = |value: fn(&Started) -> f64| pair(&report.started, |s| s.side, value);
    rows.extend(row(
        "ready from an empty directory",
        "s",
        Better::Lower,
        started(|s| s.ready_seconds),
        Some(RowTarget::Below(1.0)),
    ));
    let memory = started(|s| s.idle_memory.resident_mib);
    rows.extend(row("idle memory, resident", "MiB", Better::Lower, memory, Some(RowTarget::Ratio(10.0))));
    let anonymous = started(|s| s.idle_memory.anonymous_mib);
    rows.extend(row("idle memory without file pages", "MiB", Better::Lower, anonymous, None));
    rows.extend(row("idle processor time", "% of a core", Better::Lower, started(|s| s.idle_cpu_percent), None));
    rows.extend(single_rows("create", &report.create, 5.0));
    rows.extend(single_rows("get", &report.get, 8.0));
    rows.extend(single_rows("merge patch", &report.patch, 5.0));
    rows.extend(list_rows("list of 10,000", &report.list, Some(RowTarget::Ratio(5.0))));
    rows.extend(list_rows("list of 10,000, gzip", &report.list_gzip, Some(RowTarget::Ratio(10.0))));
    let watch = |value: fn(&FannedOut) -> f64| pair(&report.watch, |f| f.side, value);
    let deliveries = watch(|f| f.deliveries_per_second);
    rows.extend(row("watch fan-out", "deliveries/s", Better::Higher, deliveries, Some(RowTarget::Ratio(4.0))));
    rows.extend(row("watch fan-out, until all have all", "ms", Better::Lower, watch(|f| f.median_ms), None));
    rows.extend(row(
        "watch fan-out, watches closed by the server",
        "",
        Better::Lower,
        watch(|f| f.reopened as f64),
        None,
    ));
    rows.extend(row("watch fan-out, server CPU per delivery", "µs", Better::Lower, watch(|f| f.server_cpu_us), None));
    rows.extend(crowd_rows(&report.watchers));
    for growth in growth(report).iter().filter(|growth| growth.side == Side::Flotilla) {
        let most = growth.sizes.last().map_or(0, |size| size.0);
        let what = format!("API server: {} with {} objects, p50 over that with few", growth.operation, grouped(most));
        let target = Some(RowTarget::Below(GROWTH_FACTOR_MAX));
        rows.push(Row::new(what, "", Better::Lower, growth.factor, None, target));
    }
    rows
}

fn crowd_rows(measured: &[ManyWatched]) -> Vec<Row> {
    let Some(first) = measured.first() else { return Vec::new() };
    let name = format!("{} watchers", grouped(first.watchers));
    let of = |value: fn(&ManyWatched) -> f64| pair(measured, |m| m.side, value);
    let (idle, deliveries) = (of(|m| m.idle_kib), of(|m| m.deliveries_per_second));
    let (cpu, reopened) = (of(|m| m.server_cpu_us), of(|m| m.reopened as f64));
    let rows = [
        row(&format!("{name}, memory of an idle one"), "KiB", Better::Lower, idle, Some(RowTarget::Below(8.0))),
        row(&format!("{name}, deliveries"), "per second", Better::Higher, deliveries, Some(RowTarget::Ratio(4.0))),
        row(&format!("{name}, server CPU per delivery"), "µs", Better::Lower, cpu, Some(RowTarget::Ratio(4.0))),
        row(&format!("{name}, closed by the server"), "", Better::Lower, reopened, None),
    ];
    rows.into_iter().flatten().collect()
}

fn single_rows(name: &str, measured: &[Measured], target: f64) -> Vec<Row> {
    let of = |value: fn(&Measured) -> f64| pair(measured, |m| m.side, value);
    let mut rows = Vec::new();
    rows.extend(row(name, "per second", Better::Higher, of(|m| m.figures.per_second), Some(RowTarget::Ratio(target))));
    rows.extend(row(&format!("{name}, p50"), "ms", Better::Lower, of(|m| m.figures.p50_ms), None));
    rows.extend(row(&format!("{name}, p99"), "ms", Better::Lower, of(|m| m.figures.p99_ms), None));
    let cpu = of(|m| m.figures.server_cpu_us);
    rows.extend(row(&format!("{name}, server CPU per request"), "µs", Better::Lower, cpu, Some(RowTarget::Ratio(5.0))));
    rows
}

fn list_rows(name: &str, measured: &[Measured], target: Option<RowTarget>) -> Vec<Row> {
    let of = |value: fn(&Measured) -> f64| pair(measured, |m| m.side, value);
    let mut rows = Vec::new();
    rows.extend(row(&format!("{name}, p50"), "ms", Better::Lower, of(|m| m.figures.p50_ms), target));
    let cpu = of(|m| m.figures.server_cpu_us / 1e3);
    rows.extend(row(&format!("{name}, server CPU"), "ms", Better::Lower, cpu, target));
    rows.extend(row(
        &format!("{name}, size on the wire"),
        "MiB",
        Better::Lower,
        of(|m| m.figures.mib_per_answer),
        None,
    ));
    rows
}

fn pair<T>(sides: &[T], side: fn(&T) -> Side, value: fn(&T) -> f64) -> (Option<f64>, Option<f64>) {
    let of = |wanted: Side| sides.iter().find(|one| side(one) == wanted).map(value);
    (of(Side::Flotilla), of(Side::Kube))
}

fn row(
    what: &str,
    unit: &'static str,
    better: Better,
    (flotilla, kube): (Option<f64>, Option<f64>),
    target: Option<RowTarget>,
) -> Option<Row> {
    Some(Row::new(format!("API server: {what}"), unit, better, flotilla?, kube, target))
}

pub fn growth(report: &Results) -> Vec<Growth> {
    let mut all: Vec<Growth> = Vec::new();
    for grown in &report.growth {
        let f = &grown.figures;
        let point = (grown.size, f.p50_ms, f.p99_ms, f.server_cpu_us);
        match all.iter_mut().find(|g| g.operation == grown.operation && g.side == grown.side) {
            Some(growth) => growth.sizes.push(point),
            None => all.push(Growth {
                operation: grown.operation.clone(),
                side: grown.side,
                sizes: vec![point],
                factor: 1.0,
            }),
        }
    }
    for growth in &mut all {
        if let (Some(first), Some(last)) = (growth.sizes.first(), growth.sizes.last()) {
            growth.factor = last.1 / first.1.max(1e-9);
        }
    }
    all
}
