//! Keeps a mirror current: lists, watches, and lists again when the watch cannot continue.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cluster_client::{ClusterClient, ListOptions, Origin, ResourceRef, WatchCall, WatchEvent, WatchEvents};
use futures::StreamExt;
use object::{Object, Status};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::backoff::{MIRROR_BACKOFF, jittered};
use crate::mirror::kept::{Kept, Listed, MirrorSize, weight};
use crate::mirror::{Mirror, ObjectKey, STREAMING_LIST_SILENCE_MAX, Trim, WATCH_TIMEOUT};

/// A feed that worked for this long restarts its backoff.
const HEALTHY_AFTER: Duration = Duration::from_secs(120);

/// A watch that the server ends sooner than this counts as failed; reopening it at once would be a tight loop.
const WATCH_SHORT: Duration = Duration::from_secs(1);

/// Runs until cancelled, then closes the mirror.
pub async fn run(mirror: Mirror, client: ClusterClient, cancel: CancellationToken) {
    let mut feed = Feed { mirror, client, can_stream: true, version: None };
    tokio::select! {
        () = cancel.cancelled() => {}
        () = feed.run() => {}
    }
    feed.mirror.shared.store.write().close();
}

struct Feed {
    mirror: Mirror,
    client: ClusterClient,
    /// The server has not rejected a streaming list.
    can_stream: bool,
    /// The version to watch from; `None` if a list is needed.
    version: Option<String>,
}

impl Feed {
    async fn run(&mut self) {
        let mut failures = 0;
        loop {
            let start = Instant::now();
            let ended = self.follow().await;
            if start.elapsed() > HEALTHY_AFTER {
                failures = 0;
            }
            let status = match ended {
                // The server closed the watch, as it does from time to time; continue from there.
                Ok(()) if start.elapsed() >= WATCH_SHORT => {
                    failures = 0;
                    continue;
                }
                Ok(()) => Status::unavailable("the server closes every watch at once"),
                Err(status) => status,
            };
            if status.is_expired() {
                self.version = None;
            }
            *self.mirror.shared.error.write() = Some(status.to_string());
            // The first expiry is normal; only a second in a row causes a backoff.
            if !status.is_expired() || failures > 0 {
                let wait = MIRROR_BACKOFF.jittered(failures);
                let resource = &self.mirror.gvr().resource;
                // A single interruption is normal: this process may be stopping.
                match failures {
                    0 => tracing::debug!(resource, error = %status, ?wait, "watch was interrupted, will retry"),
                    _ => tracing::warn!(resource, error = %status, ?wait, "mirror is out of date, will retry"),
                }
                tokio::time::sleep(wait).await;
            }
            failures += 1;
        }
    }

    /// Lists if needed, then watches until the watch ends.
    async fn follow(&mut self) -> Result<(), Status> {
        let mut events = match self.version.clone() {
            Some(version) => self.watch_from(version).await?,
            None => match self.list_by_streaming().await? {
                Some(events) => events,
                None => {
                    let version = self.list_by_pages().await?;
                    self.watch_from(version).await?
                }
            },
        };
        *self.mirror.shared.error.write() = None;
        while let Some(event) = events.next().await {
            self.take_in(event)?;
        }
        Ok(())
    }

    fn take_in(&mut self, event: WatchEvent) -> Result<(), Status> {
        let object = match event {
            WatchEvent::Error(status) => return Err(status),
            WatchEvent::Bookmark { resource_version, .. } => {
                self.mirror.shared.store.write().reach(&resource_version);
                self.version = Some(resource_version);
                return Ok(());
            }
            WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object)
                if !self.mirror.shared.spec.admits(&object) =>
            {
                self.mirror.shared.store.write().reach(object.resource_version());
                object
            }
            WatchEvent::Deleted(object) => {
                let version = object.resource_version();
                self.mirror.shared.store.write().remove(&ObjectKey::of(&object), version);
                object
            }
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                let object = self.trimmed(object);
                let origin = self.origin(&object);
                let mut store = self.mirror.shared.store.write();
                if self.mirror.shared.spec.limits.is_bounded() {
                    let MirrorSize { objects, bytes } = store.size();
                    let is_new = !store.has_key(&ObjectKey::of(&object));
                    let after = MirrorSize { objects: objects + usize::from(is_new), bytes: bytes + weight(&object) };
                    self.check_size(after)?;
                }
                store.put(Arc::clone(&object), origin);
                drop(store);
                object
            }
        };
        self.version = Some(object.resource_version().to_owned());
        Ok(())
    }

    async fn watch_from(&self, version: String) -> Result<WatchEvents, Status> {
        let mut call = self.watch_call();
        call.options.resource_version = Some(version);
        self.client.watch(call).await
    }

    /// Existing objects arrive as events, without a list in memory on either side. `None` if the server does not
    /// support it.
    async fn list_by_streaming(&mut self) -> Result<Option<WatchEvents>, Status> {
        if !self.can_stream {
            return Ok(None);
        }
        let mut call = self.watch_call();
        call.options.send_initial_events = Some(true);
        let mut events = match self.client.watch(call).await {
            Ok(events) => events,
            Err(status) if matches!(status.code, 400 | 405 | 422 | 501) => {
                self.can_stream = false;
                return Ok(None);
            }
            Err(status) => return Err(status),
        };
        let mut objects: HashMap<ObjectKey, Listed> = HashMap::new();
        let mut size = MirrorSize::default();
        loop {
            match tokio::time::timeout(STREAMING_LIST_SILENCE_MAX, events.next()).await {
                // A server without streaming lists goes silent after the existing objects.
                Err(_) => {
                    self.can_stream = false;
                    return Ok(None);
                }
                Ok(None) => return Err(Status::unavailable("the watch ended before all objects were received")),
                Ok(Some(WatchEvent::Error(status))) => return Err(status),
                Ok(Some(WatchEvent::Bookmark { resource_version, initial_events_end: true })) => {
                    self.replace(objects.into_values().collect(), resource_version);
                    return Ok(Some(events));
                }
                Ok(Some(WatchEvent::Bookmark { .. })) => {}
                Ok(Some(WatchEvent::Added(object) | WatchEvent::Modified(object))) => {
                    if self.mirror.shared.spec.admits(&object) {
                        let key = ObjectKey::of(&object);
                        let object = self.listed(self.trimmed(object));
                        size.add(object.size());
                        if let Some(before) = objects.insert(key, object) {
                            size.remove(before.size());
                        }
                        self.check_size(size)?;
                    }
                }
                Ok(Some(WatchEvent::Deleted(object))) => {
                    if let Some(before) = objects.remove(&ObjectKey::of(&object)) {
                        size.remove(before.size());
                    }
                }
            }
        }
    }

    async fn list_by_pages(&mut self) -> Result<String, Status> {
        let spec = &self.mirror.shared.spec;
        let target = ResourceRef { gvr: spec.gvr.clone(), namespace: spec.namespace.clone(), ..ResourceRef::default() };
        let options = ListOptions {
            label_selector: spec.label_selector.clone(),
            field_selector: spec.field_selector.clone(),
            ..ListOptions::default()
        };
        let mut pages = self.client.pages(target, options);
        let (mut listed, mut version, mut size) = (Vec::new(), String::new(), MirrorSize::default());
        while let Some(page) = pages.next().await? {
            // Page by page, so that a long list is never in memory as trees.
            for object in page.items.into_iter().filter(|object| self.mirror.shared.spec.admits(object)) {
                let object = self.listed(self.trimmed(object));
                size.add(object.size());
                self.check_size(size)?;
                listed.push(object);
            }
            version = page.resource_version;
        }
        self.replace(listed, version.clone());
        Ok(version)
    }

    /// Refuses to hold more than the mirror may: a server could send new objects without end.
    fn check_size(&self, size: MirrorSize) -> Result<(), Status> {
        let limits = &self.mirror.shared.spec.limits;
        match size.objects > limits.objects || size.bytes > limits.bytes {
            true => Err(Status::internal(format!(
                "the server has more objects than are mirrored: {} objects of {} bytes, and the limits are {} objects and \
                 {} bytes",
                size.objects, size.bytes, limits.objects, limits.bytes
            ))),
            false => Ok(()),
        }
    }

    /// Objects shared with this process stay trees until stored; all others are packed at once.
    fn listed(&self, object: Arc<Object>) -> Listed {
        match (self.origin(&object), &self.mirror.shared.dictionary) {
            (None, Some(dictionary)) => Listed::Kept(ObjectKey::of(&object), Kept::packed(&object, dictionary)),
            (origin, _) => Listed::Tree(object, origin),
        }
    }

    fn replace(&mut self, objects: Vec<Listed>, version: String) {
        let shared = &self.mirror.shared;
        shared.store.write().replace(objects, &version);
        self.version = Some(version);
        shared.relists.fetch_add(1, Ordering::Relaxed);
        shared.synced.send_replace(true);
    }

    /// The shared encoding to hold instead of a copy. A trimmed object no longer matches it.
    fn origin(&self, object: &Object) -> Option<Arc<dyn Origin>> {
        let spec = &self.mirror.shared.spec;
        if !spec.is_packed || spec.trim.is_some() {
            return None;
        }
        self.client.origin(&self.mirror.target(&ObjectKey::of(object)), object.resource_version())
    }

    fn trimmed(&self, mut object: Arc<Object>) -> Arc<Object> {
        if let Some(Trim(trim)) = &self.mirror.shared.spec.trim {
            trim(Arc::make_mut(&mut object));
        }
        object
    }

    fn watch_call(&self) -> WatchCall {
        let spec = &self.mirror.shared.spec;
        WatchCall {
            gvr: spec.gvr.clone(),
            namespace: spec.namespace.clone(),
            options: ListOptions {
                label_selector: spec.label_selector.clone(),
                field_selector: spec.field_selector.clone(),
                bookmarks: true,
                timeout: Some(jittered(WATCH_TIMEOUT, 1.0)),
                ..ListOptions::default()
            },
            as_table: false,
        }
    }
}
