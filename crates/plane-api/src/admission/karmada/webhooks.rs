//! Which of karmada-webhook's paths each admission stands for, and the metrics of each (Karmada 1.18,
//! `cmd/webhook/app/webhook.go` and `artifacts/deploy/webhook-configuration.yaml`).

use api::{autoscaling, config, networking, policy, work};
use apiserver::admission::{Attributes, Operation};
use object::Status;
use plane_metrics::{WebhookMetrics, WebhookRequest, WebhookSeries};

const DELETION_PROTECTION: &str = "/validate-resourcedeletionprotection";

/// Group, resource, and the paths of its mutating and its validating webhook.
type Paths = (&'static str, &'static str, Option<&'static str>, Option<&'static str>);

const PATHS: [Paths; 15] = [
    (work::GROUP, "works", Some("/mutate-work"), None),
    (work::GROUP, "resourcebindings", Some("/mutate-resourcebinding"), Some("/validate-resourcebinding")),
    (work::GROUP, "clusterresourcebindings", Some("/mutate-clusterresourcebinding"), None),
    (policy::GROUP, "propagationpolicies", Some("/mutate-propagationpolicy"), Some("/validate-propagationpolicy")),
    (
        policy::GROUP,
        "clusterpropagationpolicies",
        Some("/mutate-clusterpropagationpolicy"),
        Some("/validate-clusterpropagationpolicy"),
    ),
    (policy::GROUP, "overridepolicies", Some("/mutate-overridepolicy"), Some("/validate-overridepolicy")),
    (policy::GROUP, "clusteroverridepolicies", None, Some("/validate-clusteroverridepolicy")),
    (policy::GROUP, "federatedresourcequotas", None, Some("/validate-federatedresourcequota")),
    (policy::GROUP, "clustertaintpolicies", None, Some("/validate-clustertaintpolicy")),
    (config::GROUP, "resourceinterpretercustomizations", None, Some("/validate-resourceinterpretercustomization")),
    (
        config::GROUP,
        "resourceinterpreterwebhookconfigurations",
        None,
        Some("/validate-resourceinterpreterwebhookconfiguration"),
    ),
    (networking::GROUP, "multiclusteringresses", None, Some("/validate-multiclusteringress")),
    (
        networking::GROUP,
        "multiclusterservices",
        Some("/mutate-multiclusterservice"),
        Some("/validate-multiclusterservice"),
    ),
    (autoscaling::GROUP, "federatedhpas", Some("/mutate-federatedhpa"), Some("/validate-federatedhpa")),
    (autoscaling::GROUP, "cronfederatedhpas", None, Some("/validate-cronfederatedhpa")),
];

struct Resource {
    group: &'static str,
    plural: &'static str,
    mutating: Option<WebhookSeries>,
    validating: Option<WebhookSeries>,
}

/// The metrics of all paths.
pub struct WebhookPaths {
    resources: Vec<Resource>,
    pub deletion_protection: WebhookSeries,
}

impl WebhookPaths {
    pub fn new(metrics: &WebhookMetrics) -> Self {
        let series = |path: Option<&str>| path.map(|path| metrics.webhook(path));
        let resource = |(group, plural, mutating, validating): Paths| Resource {
            group,
            plural,
            mutating: series(mutating),
            validating: series(validating),
        };
        Self { resources: PATHS.map(resource).into(), deletion_protection: metrics.webhook(DELETION_PROTECTION) }
    }

    /// `None`: Karmada has no webhook for this write.
    pub fn mutation(&self, attributes: &Attributes<'_>) -> Option<WebhookRequest<'_>> {
        // Bindings get an id when they are created, and Karmada does not ask later.
        let is_binding = || matches!(&*attributes.resource.kind.plural, "resourcebindings" | "clusterresourcebindings");
        let series = self.find(attributes)?.mutating.as_ref()?;
        (attributes.operation == Operation::Create || !is_binding()).then(|| series.started())
    }

    pub fn validation(&self, attributes: &Attributes<'_>) -> Option<WebhookRequest<'_>> {
        self.find(attributes)?.validating.as_ref().map(WebhookSeries::started)
    }

    fn find(&self, attributes: &Attributes<'_>) -> Option<&Resource> {
        let kind = &attributes.resource.kind;
        self.resources.iter().find(|resource| *resource.plural == *kind.plural && *resource.group == *kind.gvk.group)
    }
}

/// Counts an admission that has ended.
pub fn count<T>(request: Option<WebhookRequest<'_>>, outcome: &Result<T, Status>) {
    let Some(request) = request else { return };
    match outcome {
        Err(status) if status.code >= 500 => request.failed(),
        _ => request.answered(),
    }
}

#[cfg(test)]
mod tests {
    use plane_metrics::PlaneMetrics;

    use super::*;

    #[test]
    fn only_a_check_that_failed_itself_is_an_error() {
        let metrics = PlaneMetrics::default();
        let series = metrics.webhooks.webhook("/validate-x");
        let outcomes = [Ok(()), Err(Status::bad_request("no")), Err(Status::internal("the store failed"))];
        outcomes.iter().for_each(|outcome| count(Some(series.started()), outcome));
        count(None, &Ok(()));
        let mut text = String::new();
        metrics.render(&mut text);
        for (code, expected) in [(200, 2), (500, 1)] {
            let line = format!(
                "controller_runtime_webhook_requests_total{{webhook=\"/validate-x\",code=\"{code}\"}} {expected}"
            );
            assert!(text.lines().any(|found| found == line), "{text}");
        }
    }
}
