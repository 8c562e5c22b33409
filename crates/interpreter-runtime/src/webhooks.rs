//! Calls webhooks: all that a decision needs at the same time, each with its own deadline.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream;
use interpreter::{WebhookAnswer, WebhookRequest};
use serde_json::Value;

/// Deadline of a webhook that sets none.
const CALL_TIME_MAX: Duration = Duration::from_secs(30);
/// Calls for one decision that run at the same time.
const CALLS_MAX: usize = 32;

/// One call to make.
#[derive(Clone, Debug, PartialEq)]
pub struct WebhookCall {
    /// `<configuration>/<webhook>`, for messages.
    pub webhook: String,
    /// As in admissionregistration.k8s.io/v1: `url` or `service`, and `caBundle`.
    pub client_config: Value,
    pub deadline: Duration,
    /// The timeout of the configuration, sent to the webhook in the query.
    timeout_seconds: Option<u32>,
    /// A ResourceInterpreterContext with its request.
    pub body: Value,
}

/// Performs webhook calls over the network.
#[async_trait]
pub trait WebhookCaller: Send + Sync {
    /// Posts the body as JSON and returns the JSON response.
    async fn call(&self, call: WebhookCall) -> Result<Value, String>;
}

/// For programs that call no webhooks, such as checks of files.
pub(crate) struct NoWebhooks;

#[async_trait]
impl WebhookCaller for NoWebhooks {
    async fn call(&self, call: WebhookCall) -> Result<Value, String> {
        Err(format!("webhook {} cannot be called from here", call.webhook))
    }
}

impl WebhookCall {
    fn new(request: WebhookRequest) -> Self {
        let WebhookRequest { webhook, client_config, timeout_seconds, body, .. } = request;
        let timeout_seconds =
            timeout_seconds.and_then(|seconds| u32::try_from(seconds).ok()).filter(|seconds| *seconds > 0);
        let deadline = timeout_seconds.map_or(CALL_TIME_MAX, |seconds| Duration::from_secs(seconds.into()));
        Self { webhook, client_config, deadline, timeout_seconds, body }
    }

    /// Adds the timeout of the configuration to the path of the webhook.
    pub fn with_timeout(&self, mut path: String) -> String {
        if let Some(seconds) = self.timeout_seconds {
            path.push(if path.contains('?') { '&' } else { '?' });
            path.push_str(&format!("timeout={seconds}s"));
        }
        path
    }
}

/// Sends requests at the same time and returns their answers by number of replicas.
pub(crate) async fn fetch_all(
    caller: &Arc<dyn WebhookCaller>,
    requests: Vec<(i32, WebhookRequest)>,
) -> BTreeMap<i32, WebhookAnswer> {
    let calls = requests.into_iter().map(|(key, request)| async move { (key, fetch(caller, request).await) });
    stream::iter(calls).buffer_unordered(CALLS_MAX).collect().await
}

pub(crate) async fn fetch(caller: &Arc<dyn WebhookCaller>, request: WebhookRequest) -> WebhookAnswer {
    let uid = request.uid.clone();
    let call = WebhookCall::new(request);
    let (webhook, deadline) = (call.webhook.clone(), call.deadline);
    let body = match tokio::time::timeout(deadline, caller.call(call)).await {
        Ok(body) => body,
        Err(_) => Err(format!("webhook {webhook} did not answer within {} s", deadline.as_secs())),
    };
    WebhookAnswer { uid, body }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(timeout_seconds: Option<i32>) -> WebhookCall {
        WebhookCall::new(WebhookRequest {
            webhook: "a/b".to_owned(),
            uid: "1".to_owned(),
            client_config: Value::Null,
            timeout_seconds,
            body: Value::Null,
        })
    }

    #[test]
    fn the_timeout_of_the_configuration_is_the_deadline_and_part_of_the_query() {
        for (timeout, path, deadline, expected) in [
            (Some(3), "/hook", 3, "/hook?timeout=3s"),
            (Some(3), "/hook?a=b", 3, "/hook?a=b&timeout=3s"),
            (None, "/hook", 30, "/hook"),
            (Some(0), "/hook", 30, "/hook"),
            (Some(-1), "/hook", 30, "/hook"),
        ] {
            let call = call(timeout);
            assert_eq!(call.deadline, Duration::from_secs(deadline), "{timeout:?}");
            assert_eq!(call.with_timeout(path.to_owned()), expected, "{timeout:?}");
        }
    }
}
