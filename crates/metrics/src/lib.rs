//! Instance-based metrics: a registry of counters, gauges and histograms, and the metrics of controllers. There are no globals.

mod controllers;
mod registry;

pub use controllers::{Controllers, Ending, QueueMetrics, Started, WorkerMetrics};
pub use registry::{Count, Counter, Gauge, Histogram, Level, Registry, SERIES_MAX, Spread, exponential};
