//! Write fencing: a client that refuses writes once its leader term has expired.
//!
//! A leader that was suspended (SIGSTOP, a frozen virtual machine) resumes in the middle of its work and does not
//! know that another has taken over. Its clients do: each write checks the clock, which went on meanwhile. It checks
//! again at every step, because a write may have been waiting (for a queue slot or a connection) when the process was
//! suspended.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use async_trait::async_trait;
use bytes::Bytes;
use cluster_client::{
    ApiCall, ApiRequest, Backend, ClusterClient, Identity, Origin, Reply, ResourceRef, Upgraded, WatchCall, WatchEvents,
};
use object::Status;
use parking_lot::Mutex;
use tokio::time::Instant;

/// The deadline for writes of one term. Clones share it.
#[derive(Clone, Debug)]
pub struct Fence {
    /// `None` once closed, permanently: the next term has its own fence.
    until: Arc<Mutex<Option<Instant>>>,
}

impl Fence {
    pub fn new(until: Instant) -> Self {
        Self { until: Arc::new(Mutex::new(Some(until))) }
    }

    /// Extends the deadline unless it has passed: a closed fence is never reopened.
    pub fn extend(&self, to: Instant) {
        let mut until = self.until.lock();
        *until = until.filter(|until| Instant::now() < *until).map(|_| to);
    }

    pub fn close(&self) {
        *self.until.lock() = None;
    }

    pub fn is_open(&self) -> bool {
        self.until.lock().is_some_and(|until| Instant::now() < until)
    }

    /// The same API with the same identity; writes are refused once the fence is closed.
    pub fn guard(&self, client: &ClusterClient) -> ClusterClient {
        client.through(|inner| Arc::new(Fenced { inner, fence: self.clone() }))
    }

    /// The result of a write, or an error once the fence is closed: from then on the write makes no further step.
    pub async fn within<T>(&self, write: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
        let mut write = pin!(write);
        std::future::poll_fn(|context| match self.is_open() {
            true => write.as_mut().poll(context),
            false => Poll::Ready(Err(Status::unavailable("this process no longer leads: the write was given up"))),
        })
        .await
    }
}

struct Fenced {
    inner: Arc<dyn Backend>,
    fence: Fence,
}

#[async_trait]
impl Backend for Fenced {
    async fn call(&self, identity: &Identity, request: ApiCall) -> Result<Reply, Status> {
        match request.request {
            ApiRequest::Get { .. } | ApiRequest::List(_) => self.inner.call(identity, request).await,
            _ => self.fence.within(self.inner.call(identity, request)).await,
        }
    }

    async fn watch(&self, identity: &Identity, request: WatchCall) -> Result<WatchEvents, Status> {
        self.inner.watch(identity, request).await
    }

    fn origin(&self, object: &ResourceRef, resource_version: &str) -> Option<Arc<dyn Origin>> {
        self.inner.origin(object, resource_version)
    }

    async fn raw(&self, identity: &Identity, request: http::Request<Bytes>) -> Result<http::Response<Bytes>, Status> {
        match request.method().is_safe() {
            true => self.inner.raw(identity, request).await,
            false => self.fence.within(self.inner.raw(identity, request)).await,
        }
    }

    async fn upgrade(&self, identity: &Identity, request: http::Request<Bytes>) -> Result<Upgraded, Status> {
        self.fence.within(self.inner.upgrade(identity, request)).await
    }

    fn use_certificate(&self, certificate: &[u8], key: &[u8]) -> Result<(), Status> {
        self.inner.use_certificate(certificate, key)
    }
}

#[cfg(test)]
mod tests {
    use object::builtin;
    use std::time::Duration;

    use cluster_client::WriteOptions;
    use cluster_client::testing::MemoryApi;
    use object::{GroupVersionKind, Object};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_fence_allows_writes_until_its_deadline_and_always_reads() {
        let api = MemoryApi::default();
        let fence = Fence::new(Instant::now() + Duration::from_secs(10));
        let client = fence.guard(&api.client());
        let maps = builtin::config_maps();
        let create = |name: &'static str| {
            let object = Object::new(&GroupVersionKind::new("", "v1", "ConfigMap"), Some("default"), name);
            client.create(ResourceRef::within(&maps, "default"), object, WriteOptions::default())
        };
        create("one").await.expect("within the term");
        tokio::time::advance(Duration::from_secs(9)).await;
        fence.extend(Instant::now() + Duration::from_secs(10));
        tokio::time::advance(Duration::from_secs(9)).await;
        create("two").await.expect("the term was extended");
        // As if the process had been suspended meanwhile.
        tokio::time::advance(Duration::from_secs(2)).await;
        let refused = create("three").await.expect_err("the term is over");
        assert_eq!(refused.code, 503);
        fence.extend(Instant::now() + Duration::from_secs(10));
        assert!(!fence.is_open(), "a closed fence is not reopened");
        client.get(ResourceRef::namespaced(&maps, "default", "two")).await.expect("reads are always allowed");
        assert!(client.find(ResourceRef::namespaced(&maps, "default", "three")).await.expect("answers").is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_still_queued_at_the_deadline_is_not_sent() {
        let fence = Fence::new(Instant::now() + Duration::from_secs(10));
        let written = Mutex::new(false);
        let write = fence.within(async {
            tokio::time::sleep(Duration::from_secs(20)).await;
            *written.lock() = true;
            Ok(())
        });
        assert_eq!(write.await.expect_err("the term is over").code, 503);
        assert!(!*written.lock());
    }
}
