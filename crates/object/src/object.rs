//! A Kubernetes object of any kind: a JSON map with accessors for what all kinds share.

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::depth::{self, READ_DEPTH_MAX};
use crate::gvk::{GroupVersion, GroupVersionKind};
use crate::unmanaged;

/// Most objects grow a few times from here while they are encoded.
const ENCODED_BYTES_USUAL: usize = 2048;

/// Any Kubernetes object. The root is always a JSON map; everything below is as the client wrote it.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    root: Value,
}

impl Default for Object {
    fn default() -> Self {
        Self::from_map(Map::new())
    }
}

/// An owner that keeps this object alive (`metadata.ownerReferences[]`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerReference {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
    pub controller: bool,
    pub block_owner_deletion: bool,
}

impl Object {
    /// An empty object of the given kind and name.
    pub fn new(gvk: &GroupVersionKind, namespace: Option<&str>, name: &str) -> Self {
        let mut object = Self::default();
        object.set_gvk(gvk);
        object.set_name(name);
        if let Some(namespace) = namespace {
            object.set_namespace(namespace);
        }
        object
    }

    /// `None` when the value is not a map.
    pub fn from_value(value: Value) -> Option<Self> {
        value.is_object().then_some(Self { root: value })
    }

    pub fn from_map(root: Map<String, Value>) -> Self {
        Self { root: Value::Object(root) }
    }

    pub fn into_value(self) -> Value {
        self.root
    }

    pub fn to_value(&self) -> Value {
        self.root.clone()
    }

    /// A copy without managedFields, the longest part of most objects.
    pub fn unmanaged(&self) -> Self {
        let mut copy = Map::new();
        for (key, value) in self.as_map() {
            let value = match value.as_object().filter(|_| key == "metadata") {
                Some(metadata) => {
                    let kept = metadata.iter().filter(|(field, _)| *field != "managedFields");
                    Value::Object(kept.map(|(field, value)| (field.clone(), value.clone())).collect())
                }
                None => value.clone(),
            };
            copy.insert(key.clone(), value);
        }
        Self::from_map(copy)
    }

    pub fn as_value(&self) -> &Value {
        &self.root
    }

    pub fn as_map(&self) -> &Map<String, Value> {
        self.root.as_object().expect("the root is always a map")
    }

    pub fn as_map_mut(&mut self) -> &mut Map<String, Value> {
        self.root.as_object_mut().expect("the root is always a map")
    }

    // ---- what it is ----

    pub fn api_version(&self) -> &str {
        self.str_at(&["apiVersion"])
    }

    pub fn kind(&self) -> &str {
        self.str_at(&["kind"])
    }

    pub fn gvk(&self) -> GroupVersionKind {
        let gv = GroupVersion::parse(self.api_version()).unwrap_or_default();
        gv.kind(self.kind())
    }

    pub fn set_gvk(&mut self, gvk: &GroupVersionKind) {
        let root = self.as_map_mut();
        root.insert("apiVersion".into(), gvk.api_version().into());
        root.insert("kind".into(), gvk.kind.clone().into());
    }

    // ---- metadata ----

    pub fn name(&self) -> &str {
        self.str_at(&["metadata", "name"])
    }

    pub fn namespace(&self) -> &str {
        self.str_at(&["metadata", "namespace"])
    }

    pub fn uid(&self) -> &str {
        self.str_at(&["metadata", "uid"])
    }

    pub fn generate_name(&self) -> &str {
        self.str_at(&["metadata", "generateName"])
    }

    pub fn resource_version(&self) -> &str {
        self.str_at(&["metadata", "resourceVersion"])
    }

    pub fn generation(&self) -> i64 {
        self.i64_at(&["metadata", "generation"]).unwrap_or(0)
    }

    pub fn creation_timestamp(&self) -> &str {
        self.str_at(&["metadata", "creationTimestamp"])
    }

    pub fn deletion_timestamp(&self) -> Option<&str> {
        self.get(&["metadata", "deletionTimestamp"]).and_then(Value::as_str)
    }

    pub fn is_deleting(&self) -> bool {
        self.deletion_timestamp().is_some()
    }

    pub fn set_name(&mut self, name: &str) {
        self.set(&["metadata", "name"], name);
    }

    pub fn set_namespace(&mut self, namespace: &str) {
        self.set(&["metadata", "namespace"], namespace);
    }

    pub fn set_resource_version(&mut self, revision: u64) {
        self.set(&["metadata", "resourceVersion"], revision.to_string());
    }

    pub fn set_generation(&mut self, generation: i64) {
        self.set(&["metadata", "generation"], generation);
    }

    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        string_entries(self.get(&["metadata", "labels"]))
    }

    pub fn annotations(&self) -> impl Iterator<Item = (&str, &str)> {
        string_entries(self.get(&["metadata", "annotations"]))
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        self.get(&["metadata", "labels", key]).and_then(Value::as_str)
    }

    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.get(&["metadata", "annotations", key]).and_then(Value::as_str)
    }

    pub fn set_label(&mut self, key: &str, value: &str) {
        self.set(&["metadata", "labels", key], value);
    }

    pub fn set_annotation(&mut self, key: &str, value: &str) {
        self.set(&["metadata", "annotations", key], value);
    }

    pub fn finalizers(&self) -> impl Iterator<Item = &str> {
        self.items(&["metadata", "finalizers"]).iter().filter_map(Value::as_str)
    }

    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers().any(|f| f == finalizer)
    }

    /// Adds the finalizer once; true when the object changed.
    pub fn add_finalizer(&mut self, finalizer: &str) -> bool {
        if self.has_finalizer(finalizer) {
            return false;
        }
        let mut finalizers: Vec<Value> = self.finalizers().map(Value::from).collect();
        finalizers.push(finalizer.into());
        self.set(&["metadata", "finalizers"], finalizers);
        true
    }

    /// Removes the finalizer; true when the object changed.
    pub fn remove_finalizer(&mut self, finalizer: &str) -> bool {
        if !self.has_finalizer(finalizer) {
            return false;
        }
        let kept: Vec<Value> = self.finalizers().filter(|f| *f != finalizer).map(Value::from).collect();
        if kept.is_empty() {
            self.remove(&["metadata", "finalizers"]);
        } else {
            self.set(&["metadata", "finalizers"], kept);
        }
        true
    }

    pub fn owner_references(&self) -> Vec<OwnerReference> {
        self.items(&["metadata", "ownerReferences"]).iter().map(OwnerReference::from_value).collect()
    }

    // ---- any field ----

    pub fn get(&self, path: &[&str]) -> Option<&Value> {
        let (first, rest) = path.split_first()?;
        rest.iter().try_fold(self.as_map().get(*first)?, |value, key| value.get(key))
    }

    /// The string at the path, or `""`: absent and empty mean the same in Kubernetes' metadata.
    pub fn str_at(&self, path: &[&str]) -> &str {
        self.get(path).and_then(Value::as_str).unwrap_or_default()
    }

    pub fn i64_at(&self, path: &[&str]) -> Option<i64> {
        self.get(path).and_then(Value::as_i64)
    }

    pub fn bool_at(&self, path: &[&str]) -> Option<bool> {
        self.get(path).and_then(Value::as_bool)
    }

    /// The list at the path, or an empty one.
    pub fn items(&self, path: &[&str]) -> &[Value] {
        self.get(path).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }

    /// Sets a field, making the maps on the way; a scalar in the way is replaced.
    pub fn set(&mut self, path: &[&str], value: impl Into<Value>) {
        let Some((last, parents)) = path.split_last() else { return };
        let mut map = self.as_map_mut();
        for key in parents {
            let slot = map.entry((*key).to_owned()).or_insert_with(|| Value::Object(Map::new()));
            if !slot.is_object() {
                *slot = Value::Object(Map::new());
            }
            map = slot.as_object_mut().expect("made a map just above");
        }
        map.insert((*last).to_owned(), value.into());
    }

    pub fn remove(&mut self, path: &[&str]) -> Option<Value> {
        let (last, parents) = path.split_last()?;
        let map =
            parents.iter().try_fold(self.as_map_mut(), |map, key| map.get_mut(*key).and_then(Value::as_object_mut))?;
        map.remove(*last)
    }

    // ---- bytes ----

    /// Canonical JSON: `apiVersion`, `kind` and `metadata` first, all else sorted, so that a reader finds
    /// what it routes and filters by without parsing the rest.
    pub fn encode(&self) -> Bytes {
        self.encode_but("")
    }

    /// The same without one field of its metadata, such as a resourceVersion that is the store's to say.
    pub fn encode_but(&self, metadata_field: &str) -> Bytes {
        let mut out = Vec::with_capacity(ENCODED_BYTES_USUAL);
        out.push(b'{');
        let root = self.as_map();
        let head = ["apiVersion", "kind", "metadata"].into_iter().filter_map(|k| root.get_key_value(k));
        let tail = root.iter().filter(|(k, _)| !matches!(k.as_str(), "apiVersion" | "kind" | "metadata"));
        for (index, (key, value)) in head.chain(tail).enumerate() {
            match value {
                Value::Object(metadata) if key == "metadata" && !metadata_field.is_empty() => {
                    begin_field(&mut out, index, key);
                    out.push(b'{');
                    let kept = metadata.iter().filter(|(name, _)| *name != metadata_field);
                    for (index, (name, value)) in kept.enumerate() {
                        encode_field(&mut out, index, name, value);
                    }
                    out.push(b'}');
                }
                value => encode_field(&mut out, index, key, value),
            }
        }
        out.push(b'}');
        // A copy of the exact size: allocators do not move a shrunk buffer, and stored bytes are kept for long.
        Bytes::copy_from_slice(&out)
    }

    /// Reads an object without its managedFields, which often are as large as the rest and which few callers need.
    pub fn decode_unmanaged(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        let mut source = serde_json::Deserializer::from_slice(bytes);
        let root = unmanaged::read(&mut source)?;
        source.end()?;
        Ok(Self::from_map(root))
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(bytes).map(Self::from_map)
    }

    /// Reads a stored object of any depth. Objects written before the depth limit existed may be deeper than a tree can
    /// be; in their trees the values below [`READ_DEPTH_MAX`] levels are null.
    pub fn decode_stored(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        Self::decode(bytes).or_else(|error| Self::decode(&cut_deep(bytes).ok_or(error)?))
    }

    /// The same without managedFields.
    pub fn decode_stored_unmanaged(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        Self::decode_unmanaged(bytes).or_else(|error| Self::decode_unmanaged(&cut_deep(bytes).ok_or(error)?))
    }
}

/// `None` for bytes of a depth that the parser reads: another error made it fail.
fn cut_deep(bytes: &[u8]) -> Option<Vec<u8>> {
    (depth::of_json(bytes) > READ_DEPTH_MAX).then(|| depth::cut_json(bytes, READ_DEPTH_MAX))
}

fn begin_field(out: &mut Vec<u8>, index: usize, name: &str) {
    if index > 0 {
        out.push(b',');
    }
    serde_json::to_writer(&mut *out, name).expect("a string encodes to memory");
    out.push(b':');
}

fn encode_field(out: &mut Vec<u8>, index: usize, name: &str, value: &Value) {
    begin_field(out, index, name);
    serde_json::to_writer(out, value).expect("a JSON value encodes to memory");
}

impl OwnerReference {
    pub fn from_value(value: &Value) -> Self {
        let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
        Self {
            api_version: text("apiVersion"),
            kind: text("kind"),
            name: text("name"),
            uid: text("uid"),
            controller: value["controller"].as_bool().unwrap_or(false),
            block_owner_deletion: value["blockOwnerDeletion"].as_bool().unwrap_or(false),
        }
    }
}

fn string_entries(value: Option<&Value>) -> impl Iterator<Item = (&str, &str)> {
    value.and_then(Value::as_object).into_iter().flatten().filter_map(|(k, v)| Some((k.as_str(), v.as_str()?)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bytes_start_with_what_a_reader_routes_by() {
        let object = Object::from_value(json!({"data": {"a": "b"}, "metadata": {"name": "x"}, "kind": "ConfigMap",
            "apiVersion": "v1", "aaa": 1}))
        .expect("a map");
        let text = String::from_utf8(object.encode().to_vec()).expect("utf-8");
        assert!(text.starts_with(r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"#), "{text}");
        assert_eq!(Object::decode(text.as_bytes()).expect("valid"), object);
    }

    #[test]
    fn stored_objects_of_any_depth_can_be_read() {
        for depth in [1, READ_DEPTH_MAX - 1, READ_DEPTH_MAX, 1_000, 100_000] {
            let nested = "[".repeat(depth) + &"]".repeat(depth);
            let bytes = format!(r#"{{"kind":"A","metadata":{{"name":"x","managedFields":[]}},"spec":{nested}}}"#);
            let object = Object::decode_stored(bytes.as_bytes()).expect("readable");
            assert_eq!(depth::of(object.as_value()), (depth + 1).clamp(3, READ_DEPTH_MAX));
            let object = Object::decode_stored_unmanaged(bytes.as_bytes()).expect("readable");
            assert_eq!((object.name(), object.get(&["metadata", "managedFields"])), ("x", None));
        }
        assert!(Object::decode_stored(b"{").is_err());
    }

    #[test]
    fn finalizers_are_added_once_and_leave_no_empty_list() {
        let mut object = Object::default();
        assert!(object.add_finalizer("a"));
        assert!(!object.add_finalizer("a"));
        assert!(object.remove_finalizer("a"));
        assert!(!object.remove_finalizer("a"));
        assert_eq!(object.get(&["metadata", "finalizers"]), None);
    }
}
