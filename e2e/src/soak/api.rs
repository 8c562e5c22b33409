//! A client without retries that distinguishes "rejected" from "unknown", as needed for a history.

use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use futures::{Stream, StreamExt};
use http::{Method, Request};
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::WatchEvent;
use serde_json::Value;

/// A slower request has an unknown result.
pub const ASK_TIMEOUT: Duration = Duration::from_secs(8);
/// A watch without events for longer is considered dead. Servers send bookmarks once a minute.
const WATCH_SILENCE: Duration = Duration::from_secs(40);

#[derive(Clone)]
pub struct Api {
    client: kube::Client,
}

#[derive(Clone, Debug)]
pub enum ApiAnswer {
    Done(Value),
    /// It certainly did not happen.
    Unsupported(u16, String),
    Unknown(String),
}

/// The end of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The requested revision is compacted.
    TooOld,
    Otherwise(String),
}

pub enum Change {
    Put(Value),
    Gone(Value),
    Bookmark(String),
}

impl Api {
    pub async fn open(kubeconfig: &Path) -> Result<Self, String> {
        let kubeconfig = Kubeconfig::read_from(kubeconfig).map_err(|error| error.to_string())?;
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        let mut config = config.map_err(|error| error.to_string())?;
        config.connect_timeout = Some(Duration::from_secs(3));
        // A retried write would hide the result of the first.
        config.default_retry = false;
        Ok(Self { client: kube::Client::try_from(config).map_err(|error| error.to_string())? })
    }

    pub async fn get(&self, path: &str) -> ApiAnswer {
        self.ask(Method::GET, path, None).await
    }

    pub async fn create(&self, path: &str, object: &Value) -> ApiAnswer {
        self.ask(Method::POST, path, Some(("application/json", object))).await
    }

    pub async fn update(&self, path: &str, object: &Value) -> ApiAnswer {
        self.ask(Method::PUT, path, Some(("application/json", object))).await
    }

    pub async fn merge(&self, path: &str, patch: &Value) -> ApiAnswer {
        self.ask(Method::PATCH, path, Some(("application/merge-patch+json", patch))).await
    }

    pub async fn delete(&self, path: &str, options: &Value) -> ApiAnswer {
        self.ask(Method::DELETE, path, Some(("application/json", options))).await
    }

    async fn ask(&self, method: Method, path: &str, body: Option<(&str, &Value)>) -> ApiAnswer {
        let mut request = Request::builder().method(method).uri(path);
        if let Some((kind, _)) = body {
            request = request.header("Content-Type", kind);
        }
        let bytes = body.map_or_else(Vec::new, |(_, value)| value.to_string().into_bytes());
        let request = request.body(Body::from(bytes)).expect("paths and headers are ours");
        let answered = tokio::time::timeout(ASK_TIMEOUT, async {
            let response = self.client.send(request).await.map_err(|error| error.to_string())?;
            let code = response.status().as_u16();
            let bytes = response.into_body().collect_bytes().await.map_err(|error| error.to_string())?;
            Ok::<_, String>((code, bytes))
        });
        match answered.await {
            Err(_) => ApiAnswer::Unknown("timeout".to_owned()),
            Ok(Err(why)) => ApiAnswer::Unknown(why),
            Ok(Ok((code, bytes))) => judge(code, serde_json::from_slice(&bytes).unwrap_or_default()),
        }
    }

    /// Passes the events of a watch to a function until it ends.
    pub async fn watch(&self, path: &str, from: &str, mut on: impl FnMut(Change)) -> Ended {
        let separator = if path.contains('?') { '&' } else { '?' };
        let path =
            format!("{path}{separator}watch=1&allowWatchBookmarks=true&timeoutSeconds=30&resourceVersion={from}");
        let request = Request::get(&path).body(Vec::new()).expect("paths are ours");
        let opened = tokio::time::timeout(ASK_TIMEOUT, self.client.request_events::<Value>(request)).await;
        let events = match opened {
            Err(_) => return Ended::Otherwise("timeout".to_owned()),
            Ok(Err(error)) => return ended(&error),
            Ok(Ok(events)) => events,
        };
        // Boxed, because the trait behind the stream hides the type of its items.
        let mut events: Pin<Box<dyn Stream<Item = kube::Result<WatchEvent<Value>>> + Send>> = Box::pin(events);
        loop {
            match tokio::time::timeout(WATCH_SILENCE, events.next()).await {
                Err(_) => return Ended::Otherwise("silence".to_owned()),
                Ok(None) => return Ended::Otherwise("over".to_owned()),
                Ok(Some(Err(error))) => return ended(&error),
                Ok(Some(Ok(event))) => match event {
                    WatchEvent::Added(object) | WatchEvent::Modified(object) => on(Change::Put(object)),
                    WatchEvent::Deleted(object) => on(Change::Gone(object)),
                    WatchEvent::Bookmark(mark) => on(Change::Bookmark(mark.metadata.resource_version)),
                    WatchEvent::Error(status) if status.code == 410 => return Ended::TooOld,
                    WatchEvent::Error(status) => return Ended::Otherwise(status.message.clone()),
                },
            }
        }
    }
}

fn ended(error: &kube::Error) -> Ended {
    match error {
        kube::Error::Api(status) if status.code == 410 => Ended::TooOld,
        other => Ended::Otherwise(other.to_string()),
    }
}

/// A server error leaves the result of the request open; 429 and client errors do not.
fn judge(code: u16, body: Value) -> ApiAnswer {
    let message = || body["message"].as_str().unwrap_or_default().to_owned();
    match code {
        200..=299 => ApiAnswer::Done(body),
        429 => ApiAnswer::Unsupported(code, message()),
        500.. => ApiAnswer::Unknown(format!("{code} {}", message())),
        _ => ApiAnswer::Unsupported(code, message()),
    }
}

/// Returns the revision of an object or list.
pub fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap_or(0)
}
