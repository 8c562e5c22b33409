//! The OpenAPI documents of a set of kinds: `/openapi/v2`, the index of `/openapi/v3` and one document per group version.
//!
//! Documents are built on demand and cached compressed. Hashes are computed from the inputs of a document, not from
//! its text, so that the index is cheap.

mod custom;
mod definitions;
mod fixed;
mod object_text;
mod operations;
mod parameters;
mod path_item;
mod proto;
mod v2;
mod v3;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::sync::Arc;

use bytes::Bytes;
use object::GroupVersion;
use parking_lot::Mutex;
use ring::digest;
use serde_json::{Map, Value, json};

use crate::kind::Kind;
use crate::schemas;
use custom::ObjectFields;
use definitions::Definitions;
use path_item::PathItem;
use v3::Origin;

pub use custom::definition_name;

/// The content type of the protobuf form of `/openapi/v2`, in requests and responses.
pub const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// The same as written by clients before 1.27.
pub const V2_PROTOBUF_OLD: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

/// A kind and, unless it is built in, its schema as in its CustomResourceDefinition.
#[derive(Clone)]
pub struct OpenApiEntry {
    pub kind: Arc<Kind>,
    pub schema: Option<Arc<Value>>,
}

/// An encoded document.
#[derive(Clone)]
pub struct Document {
    /// Upper-case hex of SHA-512; also used as the ETag.
    pub hash: String,
    pub gzip: Bytes,
}

/// The documents of one snapshot of kinds.
pub struct OpenApi {
    entries: Vec<OpenApiEntry>,
    /// Encoded documents by name; as many as there are group versions.
    cache: Mutex<BTreeMap<String, Document>>,
}

impl Document {
    fn new(hash: String, text: &[u8]) -> Self {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).expect("writing to memory");
        Self { hash, gzip: Bytes::from(encoder.finish().expect("writing to memory")) }
    }

    /// For clients that do not accept gzip.
    pub fn inflate(&self) -> Vec<u8> {
        let mut text = Vec::new();
        flate2::read::GzDecoder::new(&*self.gzip).read_to_end(&mut text).expect("compressed by us");
        text
    }

    pub fn etag(&self) -> String {
        format!("\"{}\"", self.hash)
    }
}

impl OpenApiEntry {
    fn is_custom(&self) -> bool {
        self.schema.is_some() || schemas::named(&self.kind.definition).is_none()
    }
}

impl OpenApi {
    pub fn new(entries: Vec<OpenApiEntry>) -> Self {
        Self { entries, cache: Mutex::default() }
    }

    /// The documents after a change of kinds; unchanged ones are not rebuilt.
    pub fn with_entries(&self, entries: Vec<OpenApiEntry>) -> Self {
        let next = Self::new(entries);
        let mut kept = self.cache.lock().clone();
        kept.retain(|name, document| next.hash_of(name) == document.hash);
        *next.cache.lock() = kept;
        next
    }

    /// The response to `/openapi/v3`.
    pub fn v3_index(&self) -> Value {
        let paths: Map<String, Value> = self
            .v3_names()
            .into_iter()
            .map(|name| {
                let url = format!("/openapi/v3/{name}?hash={}", self.hash_of(&name));
                (name, json!({ "serverRelativeURL": url }))
            })
            .collect();
        json!({ "paths": paths })
    }

    /// The response to `/openapi/v3/NAME`, such as `apis/apps/v1`; `None` if there is no such document.
    pub fn v3_document(&self, name: &str) -> Option<Document> {
        self.v3_names().iter().any(|known| known == name).then(|| self.cached(name, || self.build_v3(name)))
    }

    /// The response to `/openapi/v2` as JSON.
    pub fn v2_json(&self) -> Document {
        self.cached("v2.json", || {
            let mut sink = v2::JsonSink::default();
            let rest = self.write_v2(&mut sink);
            sink.finish(&rest)
        })
    }

    /// The response to `/openapi/v2` as protobuf.
    pub fn v2_protobuf(&self) -> Document {
        self.cached("v2.pb", || {
            let mut sink = proto::ProtoSink::default();
            let rest = self.write_v2(&mut sink);
            sink.finish(&rest)
        })
    }

    fn cached(&self, name: &str, build: impl FnOnce() -> Vec<u8>) -> Document {
        if let Some(document) = self.cache.lock().get(name) {
            return document.clone();
        }
        // Built outside the lock: two callers may both build, which costs less than blocking all others.
        let document = Document::new(self.hash_of(name), &build());
        self.cache.lock().insert(name.to_owned(), document.clone());
        document
    }

    fn v3_names(&self) -> Vec<String> {
        let mut names: Vec<String> = fixed::standalone().into_iter().map(|(name, _)| name.to_owned()).collect();
        for entry in &self.entries {
            let gv = entry.kind.gvk.group_version();
            names.push(document_name(&gv));
            if !entry.is_custom() && !gv.group.is_empty() {
                names.push(format!("apis/{}", gv.group));
            }
        }
        names.sort();
        names.dedup();
        names
    }

    /// Every input of the document is hashed.
    fn hash_of(&self, name: &str) -> String {
        let mut context = digest::Context::new(&digest::SHA512);
        context.update(schemas::FINGERPRINT.as_bytes());
        context.update(name.as_bytes());
        let everything = name.starts_with("v2.");
        for entry in &self.entries {
            if everything || document_name(&entry.kind.gvk.group_version()) == name {
                context.update(signature(entry).as_bytes());
            }
        }
        context.finish().as_ref().iter().map(|byte| format!("{byte:02X}")).collect()
    }

    fn build_v3(&self, name: &str) -> Vec<u8> {
        let single = |item: PathItem| {
            v3::document(Origin::Builtin, std::iter::once(item), |named| Definitions::builtin().take_used(named))
        };
        if let Some((_, item)) = fixed::standalone().into_iter().find(|(known, _)| *known == name) {
            return single(item);
        }
        let entries: Vec<&OpenApiEntry> =
            self.entries.iter().filter(|entry| document_name(&entry.kind.gvk.group_version()) == name).collect();
        let Some(first) = entries.first() else {
            return single(fixed::group_path(name.trim_start_matches("apis/")));
        };
        let gv = first.kind.gvk.group_version();
        let origin = if first.is_custom() { Origin::Custom } else { Origin::Builtin };
        let discovery = (origin == Origin::Builtin).then(|| fixed::group_version_path(&gv.group, &gv.version));
        let of_kinds = entries.iter().flat_map(|entry| operations::paths_of(&entry.kind, entry.is_custom()));
        v3::document(origin, of_kinds.chain(discovery), |named| {
            let mut definitions =
                Definitions::with_custom(|fields| custom_definitions(fields, &entries, custom::v3_schema));
            definitions.mark_shared(&shared_with_core(gv));
            definitions.take_used(named)
        })
    }

    /// Sends paths and definitions to the sink and returns the rest of the document.
    fn write_v2(&self, sink: &mut dyn v2::Sink) -> Value {
        let mut writer = v2::Writer::new(sink);
        let mut named = BTreeSet::new();
        let mut write = |item: PathItem| {
            named.extend(item.definitions().map(str::to_owned));
            writer.path(&item);
        };
        for entry in &self.entries {
            operations::paths_of(&entry.kind, entry.is_custom()).into_iter().for_each(&mut write);
        }
        fixed::standalone().into_iter().for_each(|(_, item)| write(item));
        let gvs = self.builtin_group_versions();
        for gv in &gvs {
            write(fixed::group_version_path(&gv.group, &gv.version));
        }
        let groups: BTreeSet<&str> = gvs.iter().map(|gv| gv.group.as_str()).filter(|group| !group.is_empty()).collect();
        groups.into_iter().for_each(|group| write(fixed::group_path(group)));
        let entries: Vec<&OpenApiEntry> = self.entries.iter().collect();
        let mut definitions =
            Definitions::with_custom(|fields| custom_definitions(fields, &entries, custom::v2_schema));
        definitions.mark_shared(&gvs);
        for (name, schema) in definitions.take_used(named) {
            writer.definition(&name, schema);
        }
        writer.finish()
    }

    fn builtin_group_versions(&self) -> Vec<GroupVersion> {
        let builtin = self.entries.iter().filter(|entry| !entry.is_custom());
        let gvs: BTreeSet<GroupVersion> = builtin.map(|entry| entry.kind.gvk.group_version()).collect();
        gvs.into_iter().collect()
    }
}

/// The name of a group version's document: `api/v1`, `apis/apps/v1`.
pub fn document_name(gv: &GroupVersion) -> String {
    operations::base_path(&gv.group, &gv.version).trim_start_matches('/').to_owned()
}

/// The definition of a kind's list is next to the kind's.
fn list_definition(kind: &Kind) -> String {
    match kind.definition.rsplit_once('.') {
        Some((package, _)) => format!("{package}.{}", kind.list_kind),
        None => kind.list_kind.clone(),
    }
}

/// Publishes a custom kind's schema in one version of OpenAPI.
type Publish = fn(&ObjectFields, &Kind, Option<&Value>) -> Value;

fn custom_definitions(fields: &ObjectFields, entries: &[&OpenApiEntry], publish: Publish) -> Vec<(String, Value)> {
    entries
        .iter()
        .filter(|entry| entry.is_custom())
        .flat_map(|entry| {
            let kind = &entry.kind;
            [
                (kind.definition.clone(), publish(fields, kind, entry.schema.as_deref())),
                (list_definition(kind), custom::list_schema(fields, kind)),
            ]
        })
        .collect()
}

fn shared_with_core(gv: GroupVersion) -> Vec<GroupVersion> {
    let core = GroupVersion::new("", "v1");
    if gv == core { vec![core] } else { vec![core, gv] }
}

fn signature(entry: &OpenApiEntry) -> String {
    let kind = &entry.kind;
    let subresources: Vec<&str> = kind.subresources.iter().map(|sub| sub.name.as_str()).collect();
    let schema = entry.schema.as_ref().map(|schema| schema.to_string()).unwrap_or_default();
    format!(
        "{}|{}|{}|{}|{}|{:?}|{:?}|{:?}|{schema}\n",
        kind.gvk,
        kind.plural,
        kind.list_kind,
        kind.namespaced,
        kind.definition,
        kind.verbs,
        subresources,
        custom::selectable_fields(kind)
    )
}

fn info() -> Value {
    json!({ "title": "Kubernetes", "version": "1.36" })
}

fn security_schemes() -> Value {
    json!({ "BearerToken": {
        "description": "A bearer token in the authorization header.",
        "type": "apiKey",
        "name": "authorization",
        "in": "header",
    } })
}

#[cfg(test)]
mod tests;
