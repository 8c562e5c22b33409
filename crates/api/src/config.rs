//! `config.karmada.io`: interpretation of kinds that are not built in.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::core::LabelSelector;
use crate::resource::Resource;

pub const GROUP: &str = "config.karmada.io";
pub const INTERPRETER_CUSTOMIZATIONS: Resource =
    Resource::cluster(GROUP, "v1alpha1", "ResourceInterpreterCustomization", "resourceinterpretercustomizations");
pub const INTERPRETER_WEBHOOKS: Resource = Resource::cluster(
    GROUP,
    "v1alpha1",
    "ResourceInterpreterWebhookConfiguration",
    "resourceinterpreterwebhookconfigurations",
);

/// `spec` of ResourceInterpreterCustomization.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CustomizationSpec {
    pub target: CustomizationTarget,
    pub customizations: CustomizationRules,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CustomizationTarget {
    pub api_version: String,
    pub kind: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CustomizationRules {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention: Option<LuaRule>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replica_resource: Option<LuaRule>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub component_resource: Option<LuaRule>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replica_revision: Option<LuaRule>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_reflection: Option<LuaRule>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_aggregation: Option<LuaRule>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health_interpretation: Option<LuaRule>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dependency_interpretation: Option<LuaRule>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LuaRule {
    pub lua_script: String,
}

/// One entry of `webhooks` of ResourceInterpreterWebhookConfiguration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InterpreterWebhook {
    pub name: String,
    /// As in admissionregistration.k8s.io/v1: `url` or `service`, and `caBundle`.
    pub client_config: Value,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<InterpreterWebhookRule>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i32>,
    pub interpreter_context_versions: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InterpreterWebhookRule {
    pub operations: Vec<String>,
    pub api_groups: Vec<String>,
    pub api_versions: Vec<String>,
    pub kinds: Vec<String>,
}

/// A dependency of a template: by name, or else by labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DependentObjectReference {
    pub api_version: String,
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
}
