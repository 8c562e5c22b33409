//! Paths and operations before they are written as OpenAPI v2 or v3.

use object::GroupVersionKind;
use serde_json::{Value, json};

use super::parameters::Parameter;

pub const JSON: &str = "application/json";
pub const YAML: &str = "application/yaml";
pub const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

pub struct PathItem {
    pub path: String,
    pub operations: Vec<PathOperation>,
}

pub struct PathOperation {
    /// Lower case, as the key of the path item.
    pub method: &'static str,
    pub id: String,
    pub description: String,
    pub tag: String,
    pub action: Option<&'static str>,
    pub gvk: Option<GroupVersionKind>,
    pub consumes: Vec<&'static str>,
    pub produces: Vec<&'static str>,
    pub parameters: Vec<Parameter>,
    pub body: Option<RequestBody>,
    pub responses: Vec<(u16, ResponseSpec)>,
}

pub struct RequestBody {
    pub definition: String,
    pub required: bool,
}

#[derive(Clone)]
pub enum ResponseSpec {
    Definition(String),
    Text,
}

impl PathItem {
    /// Parameters common to all operations, written once on the path.
    pub fn shared_parameters(&self) -> Vec<Parameter> {
        let Some((first, others)) = self.operations.split_first() else { return Vec::new() };
        let everywhere =
            |parameter: &&Parameter| others.iter().all(|operation| operation.parameters.contains(parameter));
        let mut shared: Vec<Parameter> = first.parameters.iter().filter(everywhere).cloned().collect();
        shared.sort();
        shared
    }

    /// Every definition used by a body or a response.
    pub fn definitions(&self) -> impl Iterator<Item = &str> {
        self.operations.iter().flat_map(|operation| {
            let body = operation.body.as_ref().map(|body| body.definition.as_str());
            let answers = operation.responses.iter().filter_map(|(_, answer)| match answer {
                ResponseSpec::Definition(name) => Some(name.as_str()),
                ResponseSpec::Text => None,
            });
            body.into_iter().chain(answers)
        })
    }
}

impl PathOperation {
    pub fn own_parameters(&self, shared: &[Parameter]) -> Vec<Parameter> {
        let mut own: Vec<Parameter> = self.parameters.iter().filter(|p| !shared.contains(p)).cloned().collect();
        own.sort();
        own
    }

    /// The fields both versions of OpenAPI have.
    pub fn common_fields(&self) -> Value {
        let mut fields = json!({ "operationId": self.id, "description": self.description, "tags": [self.tag] });
        if let Some(action) = self.action {
            fields["x-kubernetes-action"] = json!(action);
        }
        if let Some(gvk) = &self.gvk {
            fields["x-kubernetes-group-version-kind"] =
                json!({ "group": gvk.group, "version": gvk.version, "kind": gvk.kind });
        }
        fields
    }
}

/// The reason phrase of an HTTP status, which OpenAPI requires as a description.
pub fn status_text(code: u16) -> &'static str {
    match code {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        _ => "Unauthorized",
    }
}
