//! Write fencing: a client that refuses writes once its leader term has expired.
//!
//! A leader that was suspended (SIGSTOP, a frozen virtual machine) resumes in the middle of its work and does not
//! know that another has taken over. Its clients do: each write checks the clock, which went on meanwhile. It checks
//! again at every step, because a write may have been waiting (for a queue slot or a connection) when the process was
//! suspended.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use cluster_client::{
    ApiCall, ApiRequest, Backend, ClusterClient, Identity, Origin, Reply, ResourceRef, Upgraded, WatchCall, WatchEvents,
};
use object::Status;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

/// Longer than any process runs, and short enough for every clock.
const FOREVER: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

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

    /// A fence that only closes: for a process whose storage no other can use.
    pub fn unlimited() -> Self {
        Self::new(Instant::now() + FOREVER)
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
        let fence = self.clone();
        client.through(|inner| Arc::new(Fenced { inner, present: move || Some(fence.clone()) }))
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

/// The fence of the present term, for clients that outlive one. Clones share it.
#[derive(Clone, Debug)]
pub struct TermFence {
    present: watch::Sender<Option<Fence>>,
}

impl Default for TermFence {
    /// Between two terms.
    fn default() -> Self {
        Self { present: watch::Sender::new(None) }
    }
}

impl TermFence {
    /// Lets writes through from now on, until the fence of the term closes.
    pub fn begin(&self, term: Fence) {
        self.present.send_replace(Some(term));
    }

    /// Refuses writes until the next term.
    pub fn end(&self) {
        self.present.send_replace(None);
    }

    pub fn is_open(&self) -> bool {
        self.present.borrow().as_ref().is_some_and(Fence::is_open)
    }

    /// Reports beginnings and ends of terms.
    pub fn changes(&self) -> watch::Receiver<Option<Fence>> {
        self.present.subscribe()
    }

    /// The same API with the same identity; writes are refused outside of terms. A write that began in one term does not go on
    /// in the next one.
    pub fn guard(&self, client: &ClusterClient) -> ClusterClient {
        let present = self.present.clone();
        client.through(|inner| Arc::new(Fenced { inner, present: move || present.borrow().clone() }))
    }
}

/// Sends writes within the fence that is present when they begin.
struct Fenced<F> {
    inner: Arc<dyn Backend>,
    present: F,
}

impl<F: Fn() -> Option<Fence>> Fenced<F> {
    async fn within<T>(&self, write: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
        match (self.present)() {
            Some(fence) => fence.within(write).await,
            None => Err(Status::unavailable("this process does not lead: nothing was written")),
        }
    }
}

#[async_trait]
impl<F: Fn() -> Option<Fence> + Send + Sync + 'static> Backend for Fenced<F> {
    async fn call(&self, identity: &Identity, request: ApiCall) -> Result<Reply, Status> {
        match request.request {
            ApiRequest::Get { .. } | ApiRequest::List(_) => self.inner.call(identity, request).await,
            _ => self.within(self.inner.call(identity, request)).await,
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
            false => self.within(self.inner.raw(identity, request)).await,
        }
    }

    async fn upgrade(&self, identity: &Identity, request: http::Request<Bytes>) -> Result<Upgraded, Status> {
        self.within(self.inner.upgrade(identity, request)).await
    }

    fn use_certificate(&self, certificate: &[u8], key: &[u8]) -> Result<(), Status> {
        self.inner.use_certificate(certificate, key)
    }
}

#[cfg(test)]
mod tests {
    use cluster_client::WriteOptions;
    use cluster_client::testing::MemoryApi;
    use object::{GroupVersionKind, Object, builtin};

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
    async fn a_client_of_many_terms_writes_only_within_them() {
        let api = MemoryApi::default();
        let terms = TermFence::default();
        let client = terms.guard(&api.client());
        let maps = builtin::config_maps();
        let create = |name: &'static str| {
            let object = Object::new(&GroupVersionKind::new("", "v1", "ConfigMap"), Some("default"), name);
            client.create(ResourceRef::within(&maps, "default"), object, WriteOptions::default())
        };
        let refused = create("early").await.expect_err("no term has begun");
        assert_eq!(refused.code, 503);
        let fence = Fence::new(Instant::now() + Duration::from_secs(10));
        terms.begin(fence.clone());
        create("one").await.expect("within the term");
        tokio::time::advance(Duration::from_secs(11)).await;
        assert!(!terms.is_open());
        create("late").await.expect_err("the term is over");
        terms.begin(Fence::new(Instant::now() + Duration::from_secs(10)));
        create("two").await.expect("within the next term");
        terms.end();
        create("after").await.expect_err("it has ended");
        client.get(ResourceRef::namespaced(&maps, "default", "two")).await.expect("reads are always allowed");
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
