//! Discovery on its own; compared with a real server in tests/conformance.

use object::GroupVersionKind;

use super::*;
use crate::Catalog;

fn custom(group: &str, version: &str, kind: &str) -> Arc<Kind> {
    let mut made = Catalog::builtin().kinds()[2].as_ref().clone();
    made.gvk = GroupVersionKind::new(group, version, kind);
    made.plural = format!("{}s", kind.to_lowercase());
    made.definition = format!("test.{version}.{kind}");
    Arc::new(made)
}

#[test]
fn versions_are_preferred_by_stability_then_number() {
    let mut versions = vec!["v1alpha1", "foo", "v11beta2", "v2", "v10", "v1", "v1beta1", "bar", "v12alpha1"];
    versions.sort_by_key(|version| VersionRank::of_name(version));
    assert_eq!(versions, ["v10", "v2", "v1", "v11beta2", "v1beta1", "v12alpha1", "v1alpha1", "bar", "foo"]);
}

#[test]
fn custom_groups_follow_the_built_in_ones_by_name() {
    let mut kinds = Catalog::builtin().kinds().to_vec();
    kinds.push(custom("zoo.example.com", "v1alpha1", "Lion"));
    kinds.push(custom("zoo.example.com", "v1", "Lion"));
    kinds.push(custom("acme.example.com", "v1", "Anvil"));
    let groups = groups(&kinds);
    let names: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
    assert_eq!(names[names.len() - 3..], ["flowcontrol.apiserver.k8s.io", "acme.example.com", "zoo.example.com"]);
    assert_eq!(groups.last().expect("there are groups").versions, ["v1", "v1alpha1"]);
}

#[test]
fn an_unknown_group_version_has_no_list() {
    let catalog = Catalog::builtin();
    assert!(api_resource_list(catalog.kinds(), &GroupVersion::new("apps", "v1beta1")).is_none());
}

#[test]
fn custom_kinds_name_their_response_kind() {
    let kinds = vec![custom("acme.example.com", "v1", "Anvil")];
    let document = group_discovery(&kinds, &groups(&kinds)[0]);
    let response = &document["versions"][0]["resources"][0]["responseKind"];
    assert_eq!(response["group"], "acme.example.com");
}
