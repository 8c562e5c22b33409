//! The audit webhook: batches, retries, refusals and its bounded buffer.

mod admission_world;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use admission_world::{Answer, Webhooks};
use apiserver::audit::{Audit, AuditWebhook, BatchSettings, Level, Policy};
use apiserver::auth::webhook::WebhookEndpoint;
use apiserver::http::Peer;
use apiserver::request::RequestInfo;
use http::{HeaderMap, Method};
use serde_json::json;

const SETTINGS: BatchSettings = BatchSettings {
    buffer_max: 100,
    batch_max: 3,
    wait_max: Duration::from_secs(60),
    retry_after: Duration::from_millis(20),
};
const FLUSH_MAX: Duration = Duration::from_secs(20);

fn start(hooks: &Webhooks, settings: BatchSettings) -> (Audit, Arc<AuditWebhook>) {
    let endpoint = WebhookEndpoint::of_kubeconfig(&hooks.kubeconfig("audit"), Path::new(".")).expect("a kubeconfig");
    let webhook = Arc::new(AuditWebhook::start(endpoint, settings));
    (Audit::to(Policy::everything(Level::Metadata), None, Some(webhook.clone())), webhook)
}

/// Records a request; only its end is sent, as no caller was identified.
fn record(audit: &Audit, number: usize) {
    let path = format!("/api/v1/namespaces/n{number}");
    let peer = Arc::new(Peer {
        address: "127.0.0.1:1".parse().expect("an address"),
        certificates: Vec::new(),
        server_name: None,
    });
    let uri = path.parse().expect("a path");
    let record = audit.begin(&RequestInfo::parse(&Method::GET, &path, ""), &uri, &HeaderMap::new(), &peer);
    record.response_complete(200);
}

#[tokio::test]
async fn events_are_sent_in_batches() {
    let hooks = Webhooks::start().await;
    hooks.answers("audit", Answer::Code(200, ""));
    let (audit, webhook) = start(&hooks, SETTINGS);
    (0..7).for_each(|number| record(&audit, number));
    webhook.flush(FLUSH_MAX).await;
    let lists = hooks.documents("audit");
    let sizes: Vec<usize> = lists.iter().map(|list| list["items"].as_array().map_or(0, Vec::len)).collect();
    assert_eq!(sizes, [3, 3, 1]);
    assert_eq!((&lists[0]["kind"], &lists[0]["apiVersion"]), (&json!("EventList"), &json!("audit.k8s.io/v1")));
    assert_eq!(lists[2]["items"][0]["requestURI"], "/api/v1/namespaces/n6");
    assert_eq!(webhook.dropped(), 0);
}

#[tokio::test]
async fn a_batch_that_is_not_full_is_sent_after_a_while() {
    let hooks = Webhooks::start().await;
    hooks.answers("audit", Answer::Code(200, ""));
    let (audit, _webhook) = start(&hooks, BatchSettings { wait_max: Duration::from_millis(20), ..SETTINGS });
    record(&audit, 0);
    let arrives = async {
        while hooks.asked("audit") == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(FLUSH_MAX, arrives).await.expect("an event");
}

#[tokio::test]
async fn a_webhook_that_fails_is_tried_again_and_one_that_refuses_is_not() {
    let hooks = Webhooks::start().await;
    for (answer, attempts) in [(Answer::Code(503, "later"), 5), (Answer::Code(400, "no"), 1)] {
        let before = hooks.asked("audit");
        hooks.answers("audit", answer);
        let (audit, webhook) = start(&hooks, SETTINGS);
        (0..3).for_each(|number| record(&audit, number));
        webhook.flush(FLUSH_MAX).await;
        assert_eq!((hooks.asked("audit") - before, webhook.dropped()), (attempts, 3));
        hooks.answers("audit", Answer::Code(200, ""));
        record(&audit, 3);
        webhook.flush(FLUSH_MAX).await;
        assert_eq!(webhook.dropped(), 3, "later events arrive");
    }
}

#[tokio::test]
async fn a_full_buffer_drops_events_and_holds_up_no_request() {
    let hooks = Webhooks::start().await;
    hooks.answers("audit", Answer::Hangs);
    let (audit, webhook) = start(&hooks, BatchSettings { buffer_max: 2, batch_max: 1, ..SETTINGS });
    (0..10).for_each(|number| record(&audit, number));
    // One may be on its way besides the two that wait.
    assert!((7..=8).contains(&webhook.dropped()), "{}", webhook.dropped());
}
