//! The dependency graph: a compact, synchronous index fed by watches.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use cluster_client::{ApiResource, ResourceRef};
use object::{GroupVersionResource, Object};

pub const FOREGROUND: &str = "foregroundDeletion";
pub const ORPHAN: &str = "orphan";
/// Maximum number of owners known to be absent, cached so that each dependent need not query the API.
const ABSENT_MAX: usize = 1000;

/// A uid in 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uid(u128);

impl Uid {
    /// Parses a UUID; hashes any other text.
    pub fn of(text: &str) -> Self {
        let hex: String = text.chars().filter(|c| *c != '-').collect();
        if text.len() == 36
            && hex.len() == 32
            && let Ok(number) = u128::from_str_radix(&hex, 16)
        {
            return Self(number);
        }
        let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
        let half: [u8; 16] = digest.as_ref()[..16].try_into().expect("a SHA-256 digest has 32 bytes");
        Self(u128::from_be_bytes(half))
    }
}

/// An owner as identified by a reference. The uid alone is not enough: the same owner is absent for dependents that
/// reference it from the wrong namespace, and only for those.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OwnerKey(Uid);

impl OwnerKey {
    /// `owner` is its API version, kind, name and uid.
    pub fn new(namespace: &str, owner: [&str; 4]) -> Self {
        // None of the fields can contain a line break.
        Self(Uid::of(&format!("{namespace}\n{}", owner.join("\n"))))
    }
}

/// The identity of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TrackedObject {
    pub gvr: Arc<GroupVersionResource>,
    pub namespace: Box<str>,
    pub name: Box<str>,
    pub uid: Uid,
}

impl TrackedObject {
    pub fn target(&self) -> ResourceRef {
        match &*self.namespace {
            "" => ResourceRef::cluster(&self.gvr, &self.name),
            namespace => ResourceRef::namespaced(&self.gvr, namespace, &self.name),
        }
    }
}

/// An object with owners.
struct DependentObject {
    item: TrackedObject,
    owners: Box<[Owner]>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Owner {
    uid: Uid,
    blocks: bool,
}

/// The work that results from a change.
#[derive(Debug, Default, PartialEq)]
pub struct GraphChanges {
    pub to_judge: Vec<TrackedObject>,
    pub to_orphan: Vec<TrackedObject>,
}

#[derive(Default)]
pub struct Graph {
    nodes: HashMap<Uid, DependentObject>,
    dependents: HashMap<Uid, HashSet<Uid>>,
    /// Objects in foreground deletion that wait for their dependents.
    waiting: HashMap<Uid, TrackedObject>,
    absent: HashSet<OwnerKey>,
    absent_order: VecDeque<OwnerKey>,
    resources: HashMap<GroupVersionResource, Arc<GroupVersionResource>>,
}

impl Graph {
    /// Adds or updates an object.
    pub fn put(&mut self, resource: &ApiResource, object: &Object) -> GraphChanges {
        let uid = Uid::of(object.uid());
        let mut found = GraphChanges::default();
        let owners: Box<[Owner]> = object
            .owner_references()
            .iter()
            .map(|owner| Owner { uid: Uid::of(&owner.uid), blocks: owner.block_owner_deletion })
            .collect();
        let is_leaving = object.is_deleting();
        if owners.is_empty() && !is_leaving && !self.nodes.contains_key(&uid) {
            return found;
        }
        let item = self.item(resource, object, uid);
        if self.link(&item, owners, &mut found) && !is_leaving {
            found.to_judge.push(item.clone());
        }
        match is_leaving && object.has_finalizer(FOREGROUND) {
            true => {
                if self.waiting.insert(uid, item.clone()).is_none() {
                    found.to_judge.extend(self.dependents_of(uid));
                    found.to_judge.push(item.clone());
                }
            }
            false => drop(self.waiting.remove(&uid)),
        }
        if is_leaving && object.has_finalizer(ORPHAN) {
            found.to_orphan.push(item);
        }
        found
    }

    /// Sets the owners of an object. Returns true if they are new to the graph.
    fn link(&mut self, item: &TrackedObject, owners: Box<[Owner]>, found: &mut GraphChanges) -> bool {
        let before = self.nodes.get(&item.uid).map(|node| node.owners.clone()).unwrap_or_default();
        if before == owners {
            return false;
        }
        for owner in before.iter().filter(|owner| !owners.contains(owner)) {
            // A waiting owner may have been blocked by this reference.
            found.to_judge.extend(self.waiting.get(&owner.uid).cloned());
        }
        self.unlink(item.uid);
        for owner in &owners {
            self.dependents.entry(owner.uid).or_default().insert(item.uid);
        }
        if owners.is_empty() {
            return false;
        }
        self.nodes.insert(item.uid, DependentObject { item: item.clone(), owners });
        true
    }

    fn unlink(&mut self, uid: Uid) -> Option<DependentObject> {
        let node = self.nodes.remove(&uid)?;
        for owner in &node.owners {
            if let Some(dependents) = self.dependents.get_mut(&owner.uid) {
                dependents.remove(&uid);
                if dependents.is_empty() {
                    self.dependents.remove(&owner.uid);
                }
            }
        }
        Some(node)
    }

    pub fn delete(&mut self, object: &Object) -> GraphChanges {
        let uid = Uid::of(object.uid());
        if self.dependents.contains_key(&uid) {
            let (api_version, kind, name) = (object.api_version(), object.kind(), object.name());
            self.note_absent(OwnerKey::new(object.namespace(), [api_version, kind, name, object.uid()]));
        }
        self.delete_uid(uid)
    }

    /// Removes a deleted object: its dependents may have to be deleted, and owners may have waited for it.
    pub fn delete_uid(&mut self, uid: Uid) -> GraphChanges {
        let mut found = GraphChanges::default();
        self.waiting.remove(&uid);
        found.to_judge.extend(self.dependents_of(uid));
        if let Some(node) = self.unlink(uid) {
            found.to_judge.extend(node.owners.iter().filter_map(|owner| self.waiting.get(&owner.uid).cloned()));
        }
        found
    }

    /// Removes the objects that a complete list does not contain.
    pub fn retain(&mut self, resource: &ApiResource, uids: &HashSet<String>) -> GraphChanges {
        let listed: HashSet<Uid> = uids.iter().map(|uid| Uid::of(uid)).collect();
        self.delete_where(|node| *node.item.gvr == resource.gvr && !listed.contains(&node.item.uid))
    }

    /// Removes a resource that is no longer served: its objects can neither be deleted nor waited for.
    pub fn forget(&mut self, resource: &ApiResource) -> GraphChanges {
        self.waiting.retain(|_, item| *item.gvr != resource.gvr);
        self.resources.remove(&resource.gvr);
        self.delete_where(|node| *node.item.gvr == resource.gvr)
    }

    fn delete_where(&mut self, is_gone: impl Fn(&DependentObject) -> bool) -> GraphChanges {
        let gone: Vec<Uid> = self.nodes.values().filter(|node| is_gone(node)).map(|node| node.item.uid).collect();
        let mut found = GraphChanges::default();
        for uid in gone {
            found.to_judge.extend(self.delete_uid(uid).to_judge);
        }
        found
    }

    pub fn dependents_of(&self, uid: Uid) -> Vec<TrackedObject> {
        let uids = self.dependents.get(&uid).into_iter().flatten();
        uids.filter_map(|uid| self.nodes.get(uid)).map(|node| node.item.clone()).collect()
    }

    /// Returns the dependents that block the deletion of an object.
    pub fn blocking_dependents_of(&self, uid: Uid) -> Vec<TrackedObject> {
        let blocks = |node: &&DependentObject| node.owners.iter().any(|owner| owner.uid == uid && owner.blocks);
        let uids = self.dependents.get(&uid).into_iter().flatten();
        uids.filter_map(|uid| self.nodes.get(uid)).filter(blocks).map(|node| node.item.clone()).collect()
    }

    pub fn is_waiting(&self, uid: Uid) -> bool {
        self.waiting.contains_key(&uid)
    }

    pub fn is_absent(&self, place: OwnerKey) -> bool {
        self.absent.contains(&place)
    }

    /// Records that an owner does not exist; uids are never reused. Returns true if that is new.
    pub fn note_absent(&mut self, place: OwnerKey) -> bool {
        if !self.absent.insert(place) {
            return false;
        }
        self.absent_order.push_back(place);
        if self.absent_order.len() > ABSENT_MAX
            && let Some(oldest) = self.absent_order.pop_front()
        {
            self.absent.remove(&oldest);
        }
        true
    }

    fn item(&mut self, resource: &ApiResource, object: &Object, uid: Uid) -> TrackedObject {
        if !self.resources.contains_key(&resource.gvr) {
            self.resources.insert(resource.gvr.clone(), Arc::new(resource.gvr.clone()));
        }
        let gvr = Arc::clone(&self.resources[&resource.gvr]);
        TrackedObject { gvr, namespace: object.namespace().into(), name: object.name().into(), uid }
    }
}

#[cfg(test)]
mod tests {
    use object::builtin;
    use serde_json::json;

    use super::*;

    fn resource() -> ApiResource {
        ApiResource { gvr: builtin::config_maps(), ..ApiResource::default() }
    }

    fn object(name: &str, owners: &[(&str, bool)], finalizers: &[&str]) -> Object {
        let owners: Vec<_> = owners
            .iter()
            .map(|(uid, blocks)| json!({"uid": uid, "name": uid, "kind": "ConfigMap", "apiVersion": "v1", "blockOwnerDeletion": blocks}))
            .collect();
        let mut object = json!({"metadata": {"name": name, "namespace": "a", "uid": name, "ownerReferences": owners,
            "finalizers": finalizers}});
        if !finalizers.is_empty() {
            object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        Object::from_value(object).expect("a map")
    }

    fn names(items: &[TrackedObject]) -> Vec<&str> {
        let mut names: Vec<&str> = items.iter().map(|item| &*item.name).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn an_object_without_owners_takes_no_memory() {
        let mut graph = Graph::default();
        assert_eq!(graph.put(&resource(), &object("owner", &[], &[])), GraphChanges::default());
        assert!(graph.nodes.is_empty());
    }

    #[test]
    fn dependents_are_checked_when_their_owner_is_deleted() {
        let mut graph = Graph::default();
        assert_eq!(names(&graph.put(&resource(), &object("child", &[("owner", false)], &[])).to_judge), ["child"]);
        assert_eq!(graph.put(&resource(), &object("child", &[("owner", false)], &[])), GraphChanges::default());
        assert_eq!(names(&graph.delete(&object("owner", &[], &[])).to_judge), ["child"]);
        assert!(graph.is_absent(OwnerKey::new("a", ["", "", "owner", "owner"])));
        assert!(!graph.is_absent(OwnerKey::new("b", ["", "", "owner", "owner"])), "not in another namespace");
        graph.delete(&object("child", &[("owner", false)], &[]));
        assert!(graph.nodes.is_empty() && graph.dependents.is_empty());
    }

    #[test]
    fn a_waiting_owner_is_checked_when_a_dependent_is_deleted() {
        let mut graph = Graph::default();
        graph.put(&resource(), &object("child", &[("owner", true)], &[]));
        let found = graph.put(&resource(), &object("owner", &[], &[FOREGROUND]));
        assert_eq!(names(&found.to_judge), ["child", "owner"]);
        assert_eq!(names(&graph.blocking_dependents_of(Uid::of("owner"))), ["child"]);
        assert_eq!(names(&graph.delete(&object("child", &[], &[])).to_judge), ["owner"]);
        assert!(graph.blocking_dependents_of(Uid::of("owner")).is_empty());
    }

    #[test]
    fn a_waiting_owner_is_checked_when_a_dependent_stops_blocking() {
        let mut graph = Graph::default();
        graph.put(&resource(), &object("child", &[("owner", true)], &[]));
        graph.put(&resource(), &object("owner", &[], &[FOREGROUND]));
        let found = graph.put(&resource(), &object("child", &[("owner", false)], &[]));
        assert_eq!(names(&found.to_judge), ["child", "owner"]);
    }

    #[test]
    fn an_orphaning_owner_is_queued_separately() {
        let mut graph = Graph::default();
        let found = graph.put(&resource(), &object("owner", &[], &[ORPHAN]));
        assert_eq!(names(&found.to_orphan), ["owner"]);
    }

    #[test]
    fn objects_missing_from_a_list_are_removed() {
        let mut graph = Graph::default();
        graph.put(&resource(), &object("child", &[("owner", false)], &[]));
        graph.put(&resource(), &object("grandchild", &[("child", false)], &[]));
        let found = graph.retain(&resource(), &HashSet::from(["grandchild".to_owned()]));
        assert_eq!(names(&found.to_judge), ["grandchild"]);
    }

    #[test]
    fn a_uuid_is_parsed_as_a_number() {
        assert_eq!(Uid::of("00000000-0000-0000-0000-00000000000a"), Uid(10));
        assert_ne!(Uid::of("a"), Uid::of("b"));
    }
}
