//! A small in-memory API for tests: versions, conflicts, finalizers, pages, watches and expiry behave as in a real
//! one.
//!
//! Without schemas, defaulting, admission, authorization and managed fields. A strategic patch is a merge patch here,
//! and so is an apply, which also creates. Every kind has a status subresource, pods have `binding`.

pub mod contract;
mod state;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream;
use object::{GroupVersionResource, Object, Status};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::backend::{Backend, Identity};
use crate::call::{ApiCall, ApiRequest, Reply, ResourceRef, WatchCall, WatchEvent, WatchEvents};
use crate::client::{ClusterClient, Endpoint};
use crate::testing::state::{Key, MemoryState, Selection};

/// Decides whether a call fails, and how.
pub type FaultHook = Box<dyn Fn(&ApiCall) -> Option<Status> + Send + Sync>;

/// An in-memory API. Clones share it.
#[derive(Clone)]
pub struct MemoryApi {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<MemoryState>,
    /// The newest version, to wake watchers.
    revision: watch::Sender<u64>,
    /// Counts how often all watches were cut.
    cuts: watch::Sender<u64>,
    /// The resource whose watch events are held back.
    held: watch::Sender<Option<String>>,
    fault: Mutex<Option<FaultHook>>,
    calls: Mutex<Vec<String>>,
    watches: Mutex<Vec<WatchCall>>,
    streaming_lists: Mutex<bool>,
}

impl Default for MemoryApi {
    fn default() -> Self {
        let shared = Shared {
            state: Mutex::default(),
            revision: watch::Sender::new(0),
            cuts: watch::Sender::new(0),
            held: watch::Sender::new(None),
            fault: Mutex::default(),
            calls: Mutex::default(),
            watches: Mutex::default(),
            streaming_lists: Mutex::new(true),
        };
        Self { shared: Arc::new(shared) }
    }
}

impl MemoryApi {
    pub fn client(&self) -> ClusterClient {
        let endpoint = Endpoint::Direct { server: Arc::new(self.clone()), identity: Identity::default() };
        ClusterClient::connect(endpoint).expect("a direct endpoint always connects")
    }

    /// Stores an object as it is, including status, as if by another writer.
    pub fn seed(&self, gvr: &GroupVersionResource, object: Object) -> Arc<Object> {
        let stored = self.shared.state.lock().put(Key::of(gvr, &object), object);
        self.announce();
        stored
    }

    /// Drops all past versions: a watch from one of them gets 410.
    pub fn compact(&self) {
        self.shared.state.lock().compact();
    }

    /// Ends every open watch, like a restarting server.
    pub fn cut_watches(&self) {
        self.shared.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Delays watch events of a resource, like a slow network; `None` delivers all of them.
    pub fn hold_watches(&self, resource: Option<&str>) {
        self.shared.held.send_replace(resource.map(str::to_owned));
    }

    /// Calls `fault` before every call from now on.
    pub fn set_fault(&self, fault: impl Fn(&ApiCall) -> Option<Status> + Send + Sync + 'static) {
        *self.shared.fault.lock() = Some(Box::new(fault));
    }

    pub fn clear_fault(&self) {
        *self.shared.fault.lock() = None;
    }

    /// Behaves like an older server without `sendInitialEvents`.
    pub fn refuse_streaming_lists(&self) {
        *self.shared.streaming_lists.lock() = false;
    }

    /// All calls so far as `VERB resource namespace/name`, failed ones included.
    pub fn calls(&self) -> Vec<String> {
        self.shared.calls.lock().clone()
    }

    pub fn watches(&self) -> Vec<WatchCall> {
        self.shared.watches.lock().clone()
    }

    fn announce(&self) {
        let revision = self.shared.state.lock().revision();
        self.shared.revision.send_replace(revision);
    }

    fn handle(&self, request: ApiCall) -> Result<Reply, Status> {
        self.shared.calls.lock().push(describe(&request));
        if let Some(status) = self.shared.fault.lock().as_ref().and_then(|fault| fault(&request)) {
            return Err(status);
        }
        let reply = self.shared.state.lock().handle(request);
        self.announce();
        reply
    }
}

fn describe(call: &ApiCall) -> String {
    let ResourceRef { gvr, namespace, name, subresource } = &call.target;
    let verb = match &call.request {
        ApiRequest::Patch { patch, .. } if patch.kind.is_apply() => "apply",
        request => request.verb().as_str(),
    };
    let subresource = subresource.as_ref().map(|s| format!("/{s}")).unwrap_or_default();
    let (namespace, name) = (namespace.as_deref().unwrap_or_default(), name.as_deref().unwrap_or_default());
    format!("{verb} {}{subresource} {namespace}/{name}", gvr.resource)
}

#[async_trait]
impl Backend for MemoryApi {
    async fn call(&self, _: &Identity, request: ApiCall) -> Result<Reply, Status> {
        // A real API always yields to the runtime.
        tokio::task::yield_now().await;
        self.handle(request)
    }

    async fn watch(&self, _: &Identity, request: WatchCall) -> Result<WatchEvents, Status> {
        tokio::task::yield_now().await;
        self.shared.watches.lock().push(request.clone());
        if request.options.send_initial_events == Some(true) && !*self.shared.streaming_lists.lock() {
            return Err(Status::bad_request("sendInitialEvents is forbidden for watch unless the feature is enabled"));
        }
        let cursor = Cursor::open(self, request)?;
        Ok(Box::pin(stream::unfold(cursor, |mut cursor| async move {
            let event = cursor.next().await?;
            Some((event, cursor))
        })))
    }

    async fn raw(&self, _: &Identity, request: http::Request<Bytes>) -> Result<http::Response<Bytes>, Status> {
        tokio::task::yield_now().await;
        let body = self.shared.state.lock().discovery(request.uri().path());
        let mut response = http::Response::new(Bytes::from(body.clone().unwrap_or_default().to_string()));
        if body.is_none() {
            *response.status_mut() = http::StatusCode::NOT_FOUND;
        }
        Ok(response)
    }
}

/// One open watch.
struct Cursor {
    shared: Arc<Shared>,
    selection: Selection,
    bookmarks: bool,
    /// Sent before anything else.
    initial: std::collections::VecDeque<WatchEvent>,
    seen: u64,
    bookmarked: u64,
    revisions: watch::Receiver<u64>,
    cuts: watch::Receiver<u64>,
    held: watch::Receiver<Option<String>>,
    deadline: Option<tokio::time::Instant>,
    is_over: bool,
}

impl Cursor {
    fn open(api: &MemoryApi, request: WatchCall) -> Result<Self, Status> {
        let shared = Arc::clone(&api.shared);
        let (revisions, cuts, held) = (shared.revision.subscribe(), shared.cuts.subscribe(), shared.held.subscribe());
        let selection = Selection::of_watch(&request)?;
        let (initial, seen) = shared.state.lock().start_watch(&selection, &request)?;
        Ok(Self {
            selection,
            bookmarks: request.options.bookmarks,
            initial: initial.into(),
            seen,
            bookmarked: seen,
            revisions,
            cuts,
            held,
            deadline: request.options.timeout.map(|timeout| tokio::time::Instant::now() + timeout),
            is_over: false,
            shared,
        })
    }

    async fn next(&mut self) -> Option<WatchEvent> {
        loop {
            if self.is_over {
                return None;
            }
            if let Some(event) = self.initial.pop_front() {
                return Some(event);
            }
            let resource = &self.selection.resource.resource;
            let _ = self.held.wait_for(|held| held.as_ref() != Some(resource)).await;
            match self.shared.state.lock().event_after(&self.selection, self.seen) {
                Ok(Some((revision, event))) => {
                    self.seen = revision;
                    return Some(event);
                }
                Ok(None) => {}
                Err(status) => {
                    self.is_over = true;
                    return Some(WatchEvent::Error(status));
                }
            }
            let newest = *self.revisions.borrow_and_update();
            if newest > self.seen {
                // No events for this watch up to there.
                self.seen = newest;
                if self.bookmarks && newest > self.bookmarked {
                    self.bookmarked = newest;
                    let resource_version = newest.to_string();
                    return Some(WatchEvent::Bookmark { resource_version, initial_events_end: false });
                }
                continue;
            }
            self.wait().await;
        }
    }

    async fn wait(&mut self) {
        let deadline = self.deadline;
        let timeout = async move {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = self.revisions.changed() => self.is_over = changed.is_err(),
            _ = self.cuts.changed() => self.is_over = true,
            () = timeout => self.is_over = true,
        }
    }
}
