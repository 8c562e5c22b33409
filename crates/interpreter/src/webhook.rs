//! Webhook interpreters: which one is asked, what is sent, what its answer means. The sending is the caller's.

use async_trait::async_trait;
use serde_json::Value;

/// One call to make.
#[derive(Clone, Debug, PartialEq)]
pub struct WebhookCall {
    /// `<configuration>/<webhook>`, for messages.
    pub uid: String,
    /// As in admissionregistration.k8s.io/v1: `url` or `service`, and `caBundle`.
    pub client_config: Value,
    pub timeout_seconds: Option<i32>,
    /// A ResourceInterpreterContext with its request.
    pub body: Value,
}

/// Whoever may open sockets.
#[async_trait]
pub trait WebhookCaller: Send + Sync {
    /// Posts the body as JSON and returns the JSON of the answer.
    async fn call(&self, call: WebhookCall) -> Result<Value, String>;
}

/// For programs that reach no webhook, such as checks of files.
pub struct NoWebhooks;

#[async_trait]
impl WebhookCaller for NoWebhooks {
    async fn call(&self, call: WebhookCall) -> Result<Value, String> {
        Err(format!("webhook {} cannot be called from here", call.uid))
    }
}
