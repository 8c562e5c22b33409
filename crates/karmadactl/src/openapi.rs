//! OpenAPI v3 documents of a server: field documentation, and how lists are merged.

use cluster_client::ClusterClient;
use object::{GroupVersion, GroupVersionKind, Status};
use serde_json::Value;

/// Most references that are followed to reach a schema.
const REFERENCES_MAX: usize = 16;

/// The document of one group version.
pub struct Document(Value);

/// A schema in a document.
#[derive(Clone, Copy)]
pub struct Schema<'a> {
    pub document: &'a Document,
    pub value: &'a Value,
}

/// The way a strategic merge patch changes a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MergeRule<'a> {
    pub merges: bool,
    pub replaces: bool,
    pub retains_keys: bool,
    pub key: Option<&'a str>,
}

impl Document {
    pub async fn read(client: &ClusterClient, version: &GroupVersion) -> Result<Self, Status> {
        let path = match version.group.as_str() {
            "" => format!("/openapi/v3/api/{}", version.version),
            group => format!("/openapi/v3/apis/{group}/{}", version.version),
        };
        client.get_json(&path).await.map(Self)
    }

    #[cfg(test)]
    pub fn given(value: Value) -> Self {
        Self(value)
    }

    /// Returns the schema of a kind.
    pub fn schema(&self, gvk: &GroupVersionKind) -> Option<Schema<'_>> {
        let schemas = self.0["components"]["schemas"].as_object()?;
        let value = schemas.values().find(|schema| has_kind(&schema["x-kubernetes-group-version-kind"], gvk))?;
        Some(Schema { document: self, value })
    }

    /// Reports whether the server accepts strategic merge patches for a kind: custom resources do not.
    pub fn merges_strategically(&self, gvk: &GroupVersionKind) -> bool {
        let paths = self.0["paths"].as_object().into_iter().flat_map(|paths| paths.values());
        let mut patches = paths.map(|path| &path["patch"]).filter(|patch| patch.is_object());
        let patch = patches.find(|patch| is_kind(&patch["x-kubernetes-group-version-kind"], gvk));
        patch.is_some_and(|patch| {
            patch["requestBody"]["content"].get("application/strategic-merge-patch+json").is_some()
        })
    }
}

fn has_kind(list: &Value, gvk: &GroupVersionKind) -> bool {
    list.as_array().into_iter().flatten().any(|one| is_kind(one, gvk))
}

fn is_kind(value: &Value, gvk: &GroupVersionKind) -> bool {
    let text = |field: &str| value[field].as_str().unwrap_or_default();
    text("group") == gvk.group && text("version") == gvk.version && text("kind") == gvk.kind
}

impl<'a> Schema<'a> {
    /// Returns the same schema with its reference followed.
    pub fn resolved(self) -> Self {
        let mut at = self;
        for _ in 0..REFERENCES_MAX {
            let reference =
                at.value["$ref"].as_str().or_else(|| match at.value["allOf"].as_array().map(Vec::as_slice) {
                    Some([only]) if at.value.get("properties").is_none() => only["$ref"].as_str(),
                    _ => None,
                });
            let name = reference.and_then(|reference| reference.strip_prefix("#/components/schemas/"));
            let Some(value) = name.and_then(|name| at.document.0["components"]["schemas"].get(name)) else { break };
            at.value = value;
        }
        at
    }

    /// Returns the schema of a field of a map.
    pub fn field(self, name: &str) -> Option<Self> {
        let at = self.resolved();
        let value = match at.value["properties"].get(name) {
            Some(property) => property,
            None => at.value.get("additionalProperties").filter(|schema| schema.is_object())?,
        };
        Some(Self { value, ..at })
    }

    /// Returns the schema of the items of a list.
    pub fn items(self) -> Option<Self> {
        let at = self.resolved();
        at.value.get("items").map(|value| Self { value, ..at })
    }

    pub fn merge_rule(self) -> MergeRule<'a> {
        let strategy = self.value["x-kubernetes-patch-strategy"].as_str().unwrap_or_default();
        let has = |word: &str| strategy.split(',').any(|one| one == word);
        MergeRule {
            merges: has("merge"),
            replaces: has("replace"),
            retains_keys: has("retainKeys"),
            key: self.value["x-kubernetes-patch-merge-key"].as_str(),
        }
    }
}
