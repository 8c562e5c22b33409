//! The paths that belong to no kind: discovery, version and the token issuer's documents.

use super::operations::{base_path, capitalize, group_words, tag_of};
use super::path_item::{JSON, PROTOBUF, PathItem, PathOperation, ResponseSpec, YAML};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// Documents of the v3 index without a group, with their paths.
pub fn standalone() -> Vec<(&'static str, PathItem)> {
    vec![
        (
            ".well-known/openid-configuration",
            issuer_path(
                "/.well-known/openid-configuration/",
                "getServiceAccountIssuerOpenIDConfiguration",
                "WellKnown",
                JSON,
            ),
        ),
        ("api", discovery_path("/api/".to_owned(), "getCoreAPIVersions", "core".to_owned(), "APIVersions")),
        ("apis", discovery_path("/apis/".to_owned(), "getAPIVersions", "apis".to_owned(), "APIGroupList")),
        (
            "openid/v1/jwks",
            issuer_path(
                "/openid/v1/jwks/",
                "getServiceAccountIssuerOpenIDKeyset",
                "openid",
                "application/jwk-set+json",
            ),
        ),
        ("version", version_path()),
    ]
}

/// `/apis/GROUP/`.
pub fn group_path(group: &str) -> PathItem {
    let id = format!("get{}APIGroup", group_words(group, true));
    discovery_path(format!("/apis/{group}/"), &id, group_words(group, false), "APIGroup")
}

/// `/apis/GROUP/VERSION/`.
pub fn group_version_path(group: &str, version: &str) -> PathItem {
    let id = format!("get{}{}APIResources", group_words(group, true), capitalize(version));
    discovery_path(format!("{}/", base_path(group, version)), &id, tag_of(group, version), "APIResourceList")
}

fn discovery_path(path: String, id: &str, tag: String, answer: &str) -> PathItem {
    let description = match answer {
        "APIResourceList" => "get available resources",
        "APIGroup" => "get information of a group",
        _ => "get available API versions",
    };
    let mut operation = get(id, tag, description);
    operation.consumes = vec![JSON, YAML, PROTOBUF];
    operation.produces = vec![JSON, YAML, PROTOBUF];
    operation.responses = vec![(200, ResponseSpec::Definition(format!("{META}.{answer}")))];
    PathItem { path, operations: vec![operation] }
}

fn version_path() -> PathItem {
    let mut operation = get("getCodeVersion", "version".to_owned(), "get the version information for this server");
    operation.consumes = vec![JSON];
    operation.produces = vec![JSON];
    operation.responses = vec![(200, ResponseSpec::Definition("io.k8s.apimachinery.pkg.version.Info".to_owned()))];
    PathItem { path: "/version/".to_owned(), operations: vec![operation] }
}

fn issuer_path(path: &str, id: &str, tag: &str, content: &'static str) -> PathItem {
    let mut operation = get(id, tag.to_owned(), "How tokens of service accounts are verified.");
    operation.produces = vec![content];
    operation.responses = vec![(200, ResponseSpec::Text)];
    PathItem { path: path.to_owned(), operations: vec![operation] }
}

fn get(id: &str, tag: String, description: &str) -> PathOperation {
    PathOperation {
        method: "get",
        id: id.to_owned(),
        description: description.to_owned(),
        tag,
        action: None,
        gvk: None,
        consumes: Vec::new(),
        produces: Vec::new(),
        parameters: Vec::new(),
        body: None,
        responses: Vec::new(),
    }
}
