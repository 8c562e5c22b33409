//! Admission of Karmada's kinds, under the names, labels and buckets of webhooks built with controller-runtime
//! (v0.23, `pkg/webhook/internal/metrics`), such as karmada-webhook.

use std::time::Instant;

use metrics::{Count, Counter, Gauge, Histogram, Level, Registry, Spread, exponential};

const WEBHOOK: &[&str] = &["webhook"];

/// The metric families that all webhooks share.
#[derive(Clone)]
pub struct WebhookMetrics {
    latency: Histogram,
    requests: Counter,
    in_flight: Gauge,
}

/// The series of one webhook, found once: admission is on the path of every write.
#[derive(Clone)]
pub struct WebhookSeries {
    latency: Spread,
    answered: Count,
    failed: Count,
    in_flight: Level,
}

/// An admission in progress. A dropped one was cancelled and counts neither as answered nor as failed.
pub struct WebhookRequest<'a> {
    series: &'a WebhookSeries,
    since: Instant,
}

impl WebhookMetrics {
    pub fn new(registry: &Registry) -> Self {
        Self {
            latency: registry.histogram(
                "controller_runtime_webhook_latency_seconds",
                WEBHOOK,
                &exponential(10e-9, 10.0, 12),
                "Histogram of the latency of processing admission requests",
            ),
            requests: registry.counter(
                "controller_runtime_webhook_requests_total",
                &["webhook", "code"],
                "Total number of admission requests by HTTP status code.",
            ),
            in_flight: registry.gauge(
                "controller_runtime_webhook_requests_in_flight",
                WEBHOOK,
                "Current number of admission requests being served.",
            ),
        }
    }

    /// `path`: the label value. As in controller-runtime, the codes 200 and 500 are reported from the start.
    pub fn webhook(&self, path: &str) -> WebhookSeries {
        WebhookSeries {
            latency: self.latency.with(&[path]),
            answered: self.requests.with(&[path, "200"]),
            failed: self.requests.with(&[path, "500"]),
            in_flight: self.in_flight.with(&[path]),
        }
    }
}

impl WebhookSeries {
    pub fn started(&self) -> WebhookRequest<'_> {
        self.in_flight.add(1.0);
        WebhookRequest { series: self, since: Instant::now() }
    }
}

impl WebhookRequest<'_> {
    /// The object was admitted or rejected: a webhook answers both with status code 200.
    pub fn answered(self) {
        self.series.answered.add(1);
        self.series.latency.observe(self.since.elapsed());
    }

    /// There was no decision, because something that it depends on failed.
    pub fn failed(self) {
        self.series.failed.add(1);
        self.series.latency.observe(self.since.elapsed());
    }
}

impl Drop for WebhookRequest<'_> {
    fn drop(&mut self) {
        self.series.in_flight.add(-1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admissions_are_counted_by_outcome_and_cancelled_ones_are_not() {
        let registry = Registry::default();
        let series = WebhookMetrics::new(&registry).webhook("/mutate-work");
        let text = || {
            let mut text = String::new();
            registry.render(&mut text);
            text
        };
        let check = |expected: &[&str]| {
            let text = text();
            for line in expected {
                assert!(text.lines().any(|found| found == *line), "{line} is not in\n{text}");
            }
        };
        check(&[
            "controller_runtime_webhook_requests_total{webhook=\"/mutate-work\",code=\"200\"} 0",
            "controller_runtime_webhook_requests_total{webhook=\"/mutate-work\",code=\"500\"} 0",
            "controller_runtime_webhook_requests_in_flight{webhook=\"/mutate-work\"} 0",
            "controller_runtime_webhook_latency_seconds_bucket{webhook=\"/mutate-work\",le=\"1e-08\"} 0",
            "controller_runtime_webhook_latency_seconds_bucket{webhook=\"/mutate-work\",le=\"1000\"} 0",
        ]);
        series.started().answered();
        series.started().failed();
        drop(series.started());
        let _open = series.started();
        check(&[
            "controller_runtime_webhook_requests_total{webhook=\"/mutate-work\",code=\"200\"} 1",
            "controller_runtime_webhook_requests_total{webhook=\"/mutate-work\",code=\"500\"} 1",
            "controller_runtime_webhook_requests_in_flight{webhook=\"/mutate-work\"} 1",
            "controller_runtime_webhook_latency_seconds_count{webhook=\"/mutate-work\"} 2",
        ]);
    }
}
