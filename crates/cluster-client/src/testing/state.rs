//! State and verbs of the in-memory API.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use object::request::{DeleteOptions, ListOptions, PatchKind, Subresource, Verb, WriteOptions};
use object::selector::{FieldSelector, LabelSelector};
use object::{GroupResource, GroupVersionResource, Object, Status};
use serde_json::{Value, json};

use crate::call::{ApiCall, ApiRequest, ObjectList, Patch, Reply, ResourceRef, WatchCall, WatchEvent};

/// Versions kept for watches.
const HISTORY_MAX: usize = 10_000;

const CREATED: &str = "2026-01-01T00:00:00Z";

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    resource: GroupResource,
    namespace: String,
    name: String,
}

/// The objects a list or watch selects.
pub struct Selection {
    pub resource: GroupResource,
    namespace: Option<String>,
    labels: LabelSelector,
    fields: FieldSelector,
}

#[derive(Default)]
pub struct MemoryState {
    revision: u64,
    /// Versions up to here are dropped.
    compacted: u64,
    objects: BTreeMap<Key, Arc<Object>>,
    history: VecDeque<Change>,
    kinds: BTreeSet<(GroupVersionResource, String, bool)>,
}

struct Change {
    revision: u64,
    key: Key,
    before: Option<Arc<Object>>,
    /// For a deletion, the last object with the version of the deletion.
    after: Arc<Object>,
    is_deletion: bool,
}

impl Key {
    pub fn of(gvr: &GroupVersionResource, object: &Object) -> Self {
        Self::new(gvr, object.namespace(), object.name())
    }

    fn new(gvr: &GroupVersionResource, namespace: &str, name: &str) -> Self {
        Self { resource: gvr.group_resource(), namespace: namespace.to_owned(), name: name.to_owned() }
    }

    fn target(target: &ResourceRef) -> Result<Self, Status> {
        let name = target.name.as_deref().ok_or_else(|| Status::bad_request("name is required"))?;
        Ok(Self::new(&target.gvr, target.namespace.as_deref().unwrap_or_default(), name))
    }
}

impl Selection {
    fn new(gvr: &GroupVersionResource, namespace: Option<&str>, options: &ListOptions) -> Result<Self, Status> {
        let refuse = |e: object::selector::SelectorError| Status::bad_request(e.to_string());
        Ok(Self {
            resource: gvr.group_resource(),
            namespace: namespace.filter(|n| !n.is_empty()).map(str::to_owned),
            labels: LabelSelector::parse(options.label_selector.as_deref().unwrap_or_default()).map_err(refuse)?,
            fields: FieldSelector::parse(options.field_selector.as_deref().unwrap_or_default()).map_err(refuse)?,
        })
    }

    pub fn of_watch(call: &WatchCall) -> Result<Self, Status> {
        Self::new(&call.gvr, call.namespace.as_deref(), &call.options)
    }

    fn of_list(target: &ResourceRef, options: &ListOptions) -> Result<Self, Status> {
        Self::new(&target.gvr, target.namespace.as_deref(), options)
    }

    fn matches(&self, key: &Key, object: &Object) -> bool {
        let field = |name: &str| match name {
            "metadata.name" => object.name(),
            "metadata.namespace" => object.namespace(),
            path => object.str_at(&path.split('.').collect::<Vec<_>>()),
        };
        key.resource == self.resource
            && self.namespace.as_ref().is_none_or(|n| *n == key.namespace)
            && self.labels.matches(object)
            && self.fields.matches_with(field)
    }
}

impl MemoryState {
    pub fn revision(&self) -> u64 {
        self.revision
    }

    pub fn compact(&mut self) {
        self.history.clear();
        self.compacted = self.revision;
    }

    /// Stores the object under the next version.
    pub fn put(&mut self, key: Key, mut object: Object) -> Arc<Object> {
        self.revision += 1;
        let before = self.objects.get(&key).cloned();
        if before.is_none() {
            object.set(&["metadata", "uid"], format!("uid-{}", self.revision));
            object.set(&["metadata", "creationTimestamp"], CREATED);
            object.set_generation(1);
        }
        object.set_resource_version(self.revision);
        let gvk = object.gvk();
        let gvr = gvk.group_version().resource(key.resource.resource.clone());
        self.kinds.insert((gvr, gvk.kind, !key.namespace.is_empty()));
        let stored = Arc::new(object);
        self.objects.insert(key.clone(), Arc::clone(&stored));
        self.record(key, before, Arc::clone(&stored), false);
        stored
    }

    fn erase(&mut self, key: &Key) {
        let Some(before) = self.objects.remove(key) else { return };
        self.revision += 1;
        let mut last = Object::clone(&before);
        last.set_resource_version(self.revision);
        self.record(key.clone(), Some(before), Arc::new(last), true);
    }

    fn record(&mut self, key: Key, before: Option<Arc<Object>>, after: Arc<Object>, is_deletion: bool) {
        self.history.push_back(Change { revision: self.revision, key, before, after, is_deletion });
        if self.history.len() > HISTORY_MAX
            && let Some(oldest) = self.history.pop_front()
        {
            self.compacted = oldest.revision;
        }
    }

    pub fn handle(&mut self, call: ApiCall) -> Result<Reply, Status> {
        let target = &call.target;
        match call.request {
            ApiRequest::Get { .. } => Ok(Reply::object(200, self.stored(&Key::target(target)?)?)),
            ApiRequest::List(options) => self.list(target, &options).map(Reply::list),
            ApiRequest::Create { object, options } => self.create(target, object, &options),
            ApiRequest::Update { object, options } => {
                let key = Key::target(target)?;
                self.replace(&key, object, target.subresource.as_ref(), &options)
            }
            ApiRequest::Patch { patch, options } => self.patch(target, patch, &options),
            ApiRequest::Delete(options) => self.delete(&Key::target(target)?, &options),
            ApiRequest::DeleteCollection { delete, list } => {
                let doomed = self.list(target, &list)?;
                for object in &doomed.items {
                    self.delete(&Key::of(&target.gvr, object), &delete)?;
                }
                Ok(Reply::list(doomed))
            }
        }
    }

    fn stored(&self, key: &Key) -> Result<Arc<Object>, Status> {
        self.objects.get(key).cloned().ok_or_else(|| Status::not_found(&key.resource, &key.name))
    }

    fn list(&self, target: &ResourceRef, options: &ListOptions) -> Result<ObjectList, Status> {
        let selection = Selection::of_list(target, options)?;
        let (revision, after) = match options.continue_token.as_deref().and_then(|t| t.split_once('|')) {
            None => (self.revision, None),
            Some((revision, _)) if revision.parse().is_ok_and(|r: u64| r < self.compacted) => {
                return Err(Status::gone("The provided continue parameter is too old"));
            }
            Some((revision, after)) => (revision.parse().unwrap_or(self.revision), Some(after)),
        };
        let mut matching = self.objects.iter().filter(|(key, object)| {
            let is_later = after.is_none_or(|after| format!("{}/{}", key.namespace, key.name).as_str() > after);
            is_later && selection.matches(key, object)
        });
        let limit = options.limit.map_or(usize::MAX, |n| n as usize);
        let page: Vec<_> = matching.by_ref().take(limit).collect();
        let remaining = matching.count() as u64;
        let continue_token = match page.last() {
            Some((last, _)) if remaining > 0 => format!("{revision}|{}/{}", last.namespace, last.name),
            _ => String::new(),
        };
        let kind = page.first().map_or_else(String::new, |(_, object)| format!("{}List", object.kind()));
        Ok(ObjectList {
            api_version: target.gvr.group_version().to_string(),
            kind,
            resource_version: revision.to_string(),
            continue_token,
            remaining_item_count: (remaining > 0).then_some(remaining),
            items: page.into_iter().map(|(_, object)| Arc::clone(object)).collect(),
        })
    }

    fn create(&mut self, target: &ResourceRef, mut object: Object, options: &WriteOptions) -> Result<Reply, Status> {
        if target.subresource.as_ref() == Some(&Subresource::Binding) {
            return self.bind(target, &object);
        }
        if let Some(namespace) = &target.namespace {
            object.set_namespace(namespace);
        }
        if object.name().is_empty() && !object.generate_name().is_empty() {
            let name = format!("{}{:05}", object.generate_name(), self.revision + 1);
            object.set_name(&name);
        }
        if object.name().is_empty() {
            return Err(Status::bad_request("name or generateName is required"));
        }
        let key = Key::of(&target.gvr, &object);
        if self.objects.contains_key(&key) {
            return Err(Status::already_exists(&key.resource, &key.name));
        }
        object.remove(&["status"]);
        if options.dry_run {
            return Ok(Reply::object(201, Arc::new(object)));
        }
        Ok(Reply::object(201, self.put(key, object)))
    }

    /// `pods/binding`: the only way to assign a pod to a node.
    fn bind(&mut self, target: &ResourceRef, binding: &Object) -> Result<Reply, Status> {
        let key = Key::target(target)?;
        let pod = self.stored(&key)?;
        if !pod.str_at(&["spec", "nodeName"]).is_empty() || (!binding.uid().is_empty() && binding.uid() != pod.uid()) {
            return Err(Status::conflict(&key.resource, &key.name, "the pod has a node or is another"));
        }
        let mut bound = Object::clone(&pod);
        bound.set(&["spec", "nodeName"], binding.str_at(&["target", "name"]));
        Ok(Reply::object(201, self.put(key, bound)))
    }

    fn replace(
        &mut self,
        key: &Key,
        mut new: Object,
        subresource: Option<&Subresource>,
        options: &WriteOptions,
    ) -> Result<Reply, Status> {
        let old = self.stored(key)?;
        if !new.resource_version().is_empty() && new.resource_version() != old.resource_version() {
            return Err(Status::stale(&key.resource, &key.name));
        }
        if !new.uid().is_empty() && new.uid() != old.uid() {
            return Err(Status::conflict(
                &key.resource,
                &key.name,
                "the UID in the precondition is not the stored one",
            ));
        }
        // Each endpoint writes its own part.
        if subresource == Some(&Subresource::Status) {
            let status = new.remove(&["status"]);
            let annotations = new.remove(&["metadata", "annotations"]);
            new = Object::clone(&old);
            set_or_remove(&mut new, "status", status);
            // As in Kubernetes, where writing their revision does not increment the generation.
            if key.resource.resource == "deployments"
                && let Some(annotations) = annotations
            {
                new.set(&["metadata", "annotations"], annotations);
            }
        } else {
            set_or_remove(&mut new, "status", old.get(&["status"]).cloned());
            for field in ["uid", "creationTimestamp", "deletionTimestamp", "generation", "resourceVersion"] {
                match old.get(&["metadata", field]) {
                    Some(value) => new.set(&["metadata", field], value.clone()),
                    None => drop(new.remove(&["metadata", field])),
                }
            }
            if body_of(&new) != body_of(&old) {
                new.set_generation(old.generation() + 1);
            }
        }
        new.set(&["metadata", "resourceVersion"], old.resource_version());
        if new == *old || options.dry_run {
            return Ok(Reply::object(200, if options.dry_run { Arc::new(new) } else { old }));
        }
        let stored = self.put(key.clone(), new);
        if stored.is_deleting() && stored.finalizers().next().is_none() {
            self.erase(key);
            // As in Kubernetes, which does not write before deleting: the response has no version of its own.
            let mut last = Object::clone(&stored);
            last.set(&["metadata", "resourceVersion"], old.resource_version());
            return Ok(Reply::object(200, Arc::new(last)));
        }
        Ok(Reply::object(200, stored))
    }

    fn patch(&mut self, target: &ResourceRef, patch: Patch, options: &WriteOptions) -> Result<Reply, Status> {
        let key = Key::target(target)?;
        let Some(old) = self.objects.get(&key).cloned() else {
            return match (patch.kind, Object::from_value(patch.body)) {
                (PatchKind::Apply { .. }, Some(object)) => self.create(target, object, options),
                _ => Err(Status::not_found(&key.resource, &key.name)),
            };
        };
        let mut value = old.to_value();
        match patch.kind {
            PatchKind::Json => {
                let patch: json_patch::Patch =
                    serde_json::from_value(patch.body).map_err(|e| Status::bad_request(e.to_string()))?;
                json_patch::patch(&mut value, &patch).map_err(|e| Status::new(422, "Invalid", e.to_string()))?;
            }
            PatchKind::Merge | PatchKind::Strategic | PatchKind::Apply { .. } => {
                json_patch::merge(&mut value, &patch.body);
            }
        }
        let new = Object::from_value(value).ok_or_else(|| Status::bad_request("the patch leaves no object"))?;
        self.replace(&key, new, target.subresource.as_ref(), options)
    }

    fn delete(&mut self, key: &Key, options: &DeleteOptions) -> Result<Reply, Status> {
        let old = self.stored(key)?;
        let wanted = &options.preconditions;
        let fails = |wanted: &Option<String>, actual: &str| wanted.as_ref().is_some_and(|w| w != actual);
        if fails(&wanted.uid, old.uid()) || fails(&wanted.resource_version, old.resource_version()) {
            return Err(Status::conflict(&key.resource, &key.name, "Precondition failed"));
        }
        if options.dry_run {
            return Ok(Reply::object(200, old));
        }
        if old.finalizers().next().is_none() {
            self.erase(key);
            let status = Status::deleted(&key.resource, &key.name, old.uid());
            return Ok(Reply::object(200, Arc::new(Object::from_value(status).unwrap_or_default())));
        }
        if old.is_deleting() {
            return Ok(Reply::object(200, old));
        }
        let mut dying = Object::clone(&old);
        dying.set(&["metadata", "deletionTimestamp"], CREATED);
        dying.set_generation(old.generation() + 1);
        Ok(Reply::object(202, self.put(key.clone(), dying)))
    }

    /// The initial events of a new watch, and the version it continues from.
    pub fn start_watch(&self, selection: &Selection, call: &WatchCall) -> Result<(Vec<WatchEvent>, u64), Status> {
        let version = call.options.resource_version.as_deref().unwrap_or_default();
        let version: u64 = match version {
            "" => 0,
            text => text.parse().map_err(|_| Status::bad_request(format!("invalid resource version {text:?}")))?,
        };
        let is_streaming_list = call.options.send_initial_events == Some(true);
        if version > 0 && !is_streaming_list {
            return if version < self.compacted {
                Err(too_old(version, self.compacted))
            } else {
                Ok((Vec::new(), version))
            };
        }
        let existing = self.objects.iter().filter(|(key, object)| selection.matches(key, object));
        let mut events: Vec<_> = existing.map(|(_, object)| WatchEvent::Added(Arc::clone(object))).collect();
        if is_streaming_list {
            let resource_version = self.revision.to_string();
            events.push(WatchEvent::Bookmark { resource_version, initial_events_end: true });
        }
        Ok((events, self.revision))
    }

    /// The first change after a version that matches the selection.
    pub fn event_after(&self, selection: &Selection, seen: u64) -> Result<Option<(u64, WatchEvent)>, Status> {
        if seen < self.compacted {
            return Err(too_old(seen, self.compacted));
        }
        let start = self.history.partition_point(|change| change.revision <= seen);
        let events = self.history.range(start..).filter_map(|change| Some((change.revision, change.event(selection)?)));
        Ok(events.into_iter().next())
    }

    /// Discovery of the kinds ever stored.
    pub fn discovery(&self, path: &str) -> Option<Value> {
        if path == "/version" {
            return Some(json!({"major": "1", "minor": "36", "gitVersion": "v1.36.0-memory"}));
        }
        let is_core = match path {
            "/api" => true,
            "/apis" => false,
            _ => return None,
        };
        let mut groups: BTreeMap<&str, BTreeMap<&str, Vec<Value>>> = BTreeMap::new();
        for (gvr, kind, namespaced) in self.kinds.iter().filter(|(gvr, ..)| gvr.group.is_empty() == is_core) {
            let scope = if *namespaced { "Namespaced" } else { "Cluster" };
            let resource = json!({"resource": gvr.resource, "responseKind": {"kind": kind}, "scope": scope,
                "verbs": Verb::OF_RESOURCES,
                "subresources": [{"subresource": "status"}]});
            groups.entry(&gvr.group).or_default().entry(&gvr.version).or_default().push(resource);
        }
        let group = |(name, versions): (&&str, &BTreeMap<&str, Vec<Value>>)| {
            let versions =
                versions.iter().map(|(version, resources)| json!({"version": version, "resources": resources}));
            json!({"metadata": {"name": name}, "versions": versions.collect::<Vec<_>>()})
        };
        let items: Vec<Value> = groups.iter().map(group).collect();
        Some(json!({"apiVersion": "apidiscovery.k8s.io/v2", "kind": "APIGroupDiscoveryList", "items": items}))
    }
}

impl Change {
    /// The event for a watcher of the selection: an object that stops matching is deleted, one that starts matching
    /// is added.
    fn event(&self, selection: &Selection) -> Option<WatchEvent> {
        let was = self.before.as_ref().is_some_and(|before| selection.matches(&self.key, before));
        let is = !self.is_deletion && selection.matches(&self.key, &self.after);
        let object = Arc::clone(&self.after);
        match (was, is) {
            (false, false) => None,
            (false, true) => Some(WatchEvent::Added(object)),
            (true, true) => Some(WatchEvent::Modified(object)),
            (true, false) => Some(WatchEvent::Deleted(object)),
        }
    }
}

fn too_old(version: u64, compacted: u64) -> Status {
    Status::gone(format!("too old resource version: {version} ({compacted})"))
}

fn set_or_remove(object: &mut Object, field: &str, value: Option<Value>) {
    match value {
        Some(value) => object.set(&[field], value),
        None => drop(object.remove(&[field])),
    }
}

/// The part whose change increments the generation.
fn body_of(object: &Object) -> Vec<(&String, &Value)> {
    object.as_map().iter().filter(|(key, _)| !matches!(key.as_str(), "metadata" | "status")).collect()
}
