//! Compares our kinds with the CustomResourceDefinitions of Karmada v1.18.2 and v1.19.0-rc.0, and with the OpenAPI document of
//! the first, field by field.
//!
//! Karmada is found as the Go module that `tools/kube/karmada` requires; without a Go toolchain or without the module
//! (`go mod download` in that directory fetches it) there is nothing to compare with, and the tests say so.
#![allow(clippy::print_stderr)] // A skipped test says why.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use api::features::Features;
use kinds::{Kind, SubresourceKind};
use serde_json::{Map, Value, json};

/// Intentional differences: the definition, the path, the value in Karmada, our value, and the reason.
const DIFFERENCES: &[(&str, &str, &str, &str, &str)] = &[
    ("propagationpolicies", WEIGHT, "1", "0", ZERO_WEIGHT),
    ("clusterpropagationpolicies", WEIGHT, "1", "0", ZERO_WEIGHT),
    ("resourcebindings", WEIGHT, "1", "0", ZERO_WEIGHT),
    ("clusterresourcebindings", WEIGHT, "1", "0", ZERO_WEIGHT),
];
const WEIGHT: &str = "spec.placement.replicaScheduling.weightPreference.staticWeightList[].weight.minimum";
const ZERO_WEIGHT: &str = "a weight of 0 is taken and means: only when no member with a positive weight fits";

/// A field that Karmada got after 1.19.0-rc.0.
const NEWER: &str = "clusters[].components";
/// The newest version before that field.
const NEXT: &str = "github.com/karmada-io/karmada@v1.19.0-rc.0";
/// A directory with that version, such as `tools/kube/karmada/crds` makes, instead of the module.
const NEXT_DIRECTORY: &str = "FLOTILLA_KARMADA_NEXT";

/// Words about a schema that are not about what is valid.
const IGNORED: &[&str] = &["description"];

fn karmada() -> Option<PathBuf> {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/kube/karmada");
    let module = "github.com/karmada-io/karmada";
    let output = Command::new("go").args(["list", "-m", "-f", "{{.Dir}}", module]).current_dir(tools).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let directory = PathBuf::from(text.trim());
    let usable = !text.trim().is_empty() && directory.is_dir();
    if !usable {
        test_skip::skip(format_args!(
            "the Go module {module} is not downloaded; run `go mod download` in tools/kube/karmada"
        ));
    }
    usable.then_some(directory)
}

fn definitions(karmada: &Path) -> Vec<Value> {
    let mut found = Vec::new();
    let mut folders = vec![karmada.join("charts/karmada/_crds/bases")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("the module has its CRDs") {
            let path = entry.expect("a readable folder").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let text = std::fs::read_to_string(&path).expect("a readable file");
                found.push(serde_saphyr::from_str(&text).expect("YAML"));
            }
        }
    }
    found
}

/// The next version of Karmada, from a directory, the module cache or the module proxy.
fn next_karmada() -> Option<PathBuf> {
    if let Some(directory) = std::env::var_os(NEXT_DIRECTORY) {
        return Some(directory.into());
    }
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/kube/karmada");
    let output = Command::new("go").args(["mod", "download", "-json", NEXT]).current_dir(tools).output().ok()?;
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let directory = answer["Dir"].as_str().map(PathBuf::from).filter(|directory| directory.is_dir());
    if directory.is_none() {
        test_skip::skip(format_args!("the Go module {NEXT} cannot be downloaded: {}", answer["Error"]));
    }
    directory
}

#[test]
fn schemas_are_those_of_karmadas_definitions() {
    if let Some(karmada) = karmada() {
        check_definitions(&karmada, &Features::default());
    }
}

#[test]
fn schemas_with_compat_are_those_of_the_next_karmada() {
    if let Some(karmada) = next_karmada() {
        check_definitions(&karmada, &Features::karmada_1_19());
    }
}

fn check_definitions(karmada: &Path, features: &Features) {
    let kinds = validation::kinds(features);
    let definitions = definitions(karmada);
    assert!(definitions.len() >= 19, "{} definitions", definitions.len());
    let mut found = Vec::new();
    for definition in &definitions {
        let spec = &definition["spec"];
        let plural = spec["names"]["plural"].as_str().expect("a plural");
        for version in spec["versions"].as_array().expect("versions") {
            let kind = find(&kinds, spec, version);
            compare_names(kind, spec, version);
            let own = kind.own_schema.as_ref().expect("kinds of the product have a schema");
            let theirs = flatten(&version["schema"]["openAPIV3Schema"]);
            let ours = flatten(&own.openapi);
            found.extend(differences(&theirs, &ours).into_iter().map(|(place, a, b)| (plural.to_owned(), place, a, b)));
        }
    }
    let argued: Vec<(String, String, String, String)> = DIFFERENCES
        .iter()
        .map(|(plural, place, theirs, ours, _)| {
            ((*plural).to_owned(), (*place).to_owned(), (*theirs).to_owned(), (*ours).to_owned())
        })
        .collect();
    found.retain(|(_, place, theirs, _)| !(place.contains(NEWER) && theirs.is_empty()));
    let surprising: Vec<_> = found.iter().filter(|difference| !argued.contains(difference)).collect();
    let gone: Vec<_> = argued.iter().filter(|difference| !found.contains(difference)).collect();
    assert!(surprising.is_empty() && gone.is_empty(), "not argued: {surprising:#?}\nargued, but not so: {gone:#?}");
}

fn find<'a>(kinds: &'a [Kind], spec: &Value, version: &Value) -> &'a Kind {
    let name = (&spec["group"], &version["name"], &spec["names"]["kind"]);
    let kind = kinds.iter().find(|kind| {
        *name.0 == kind.gvk.group.as_str() && *name.1 == kind.gvk.version.as_str() && *name.2 == kind.gvk.kind.as_str()
    });
    kind.unwrap_or_else(|| panic!("{name:?} is not served"))
}

fn compare_names(kind: &Kind, spec: &Value, version: &Value) {
    let names = &spec["names"];
    let words = |value: &Value| -> Vec<String> { serde_json::from_value(value.clone()).unwrap_or_default() };
    assert_eq!(names["plural"], kind.plural.as_str());
    assert_eq!(names["singular"], kind.singular.as_str());
    assert_eq!(names.get("listKind").and_then(Value::as_str).unwrap_or(&kind.list_kind), kind.list_kind);
    assert_eq!(words(&names["shortNames"]), kind.short_names, "{}", kind.gvk);
    assert_eq!(words(&names["categories"]), kind.categories, "{}", kind.gvk);
    assert_eq!(spec["scope"] == "Namespaced", kind.namespaced, "{}", kind.gvk);
    assert_eq!(version["storage"] == true, kind.storage == kind.gvk, "{}", kind.gvk);
    assert_eq!(version["served"], true);
    assert_eq!(version["subresources"].get("status").is_some(), kind.has_status(), "{}", kind.gvk);
    let scaled = kind.subresources.iter().any(|part| matches!(part.kind, SubresourceKind::Scale { .. }));
    assert_eq!(version["subresources"].get("scale").is_some(), scaled, "{}", kind.gvk);
    let printed = kinds::printers::CrdPrinter::new(&version["additionalPrinterColumns"]);
    let columns = |printer: &dyn kinds::kind::Printer| -> Vec<(String, String)> {
        printer.columns().into_iter().map(|column| (column.name, column.ty)).collect()
    };
    assert_eq!(columns(&printed), columns(&*kind.printer), "{}", kind.gvk);
}

/// Every statement of a schema by its place: `spec.replicas.minimum` is `0`, `spec.resource.required.kind` is `true`.
fn flatten(schema: &Value) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    flatten_into(schema, "", &mut out);
    out
}

fn flatten_into(schema: &Value, place: &str, out: &mut BTreeMap<String, String>) {
    let at = |name: &str| if place.is_empty() { name.to_owned() } else { format!("{place}.{name}") };
    for (word, value) in schema.as_object().into_iter().flatten() {
        match word.as_str() {
            word if IGNORED.contains(&word) => {}
            "properties" => {
                for (name, property) in value.as_object().into_iter().flatten() {
                    flatten_into(property, &at(name), out);
                }
            }
            "items" => flatten_into(value, &format!("{place}[]"), out),
            "additionalProperties" => flatten_into(value, &format!("{place}{{}}"), out),
            "required" => {
                for name in value.as_array().into_iter().flatten().filter_map(Value::as_str) {
                    out.insert(format!("{}.{name}", at("required")), "true".to_owned());
                }
            }
            word => {
                out.insert(at(word), value.to_string());
            }
        }
    }
}

fn differences(theirs: &BTreeMap<String, String>, ours: &BTreeMap<String, String>) -> Vec<(String, String, String)> {
    let places: std::collections::BTreeSet<&String> = theirs.keys().chain(ours.keys()).collect();
    let value = |side: &BTreeMap<String, String>, place: &String| side.get(place).cloned().unwrap_or_default();
    let pairs = places.into_iter().map(|place| (place.clone(), value(theirs, place), value(ours, place)));
    pairs.filter(|(_, theirs, ours)| theirs != ours).collect()
}

/// Cluster and ResourceRegistry have no CustomResourceDefinition; their fields are in Karmada's OpenAPI document.
#[test]
fn typed_kinds_have_the_fields_karmada_publishes() {
    let Some(karmada) = karmada() else { return };
    let text = std::fs::read_to_string(karmada.join("api/openapi-spec/swagger.json")).expect("the module has it");
    let document: Value = serde_json::from_str(&text).expect("JSON");
    let kinds = validation::kinds(&Features::default());
    for (group, name) in [("cluster", "Cluster"), ("search", "ResourceRegistry")] {
        let root = format!("com.github.karmada-io.karmada.pkg.apis.{group}.v1alpha1.{name}");
        let mut theirs = BTreeMap::new();
        collect_types(&document["definitions"], &json!({ "$ref": root }), "", &mut theirs);
        let kind = kinds.iter().find(|kind| kind.gvk.kind == name).expect("served");
        let own = kind.own_schema.as_ref().expect("it has a schema");
        let mut ours = BTreeMap::new();
        collect_types(&Value::Null, &own.openapi, "", &mut ours);
        for side in [&mut theirs, &mut ours] {
            side.retain(|place, _| !place.starts_with("metadata"));
        }
        assert_eq!(differences(&theirs, &ours), Vec::new(), "{name}: place, Karmada's, ours");
    }
}

/// The type of every field, through references.
fn collect_types(definitions: &Value, schema: &Value, place: &str, out: &mut BTreeMap<String, String>) {
    let named = schema["$ref"].as_str().and_then(|name| name.rsplit('/').next());
    let schema = named.map_or(schema, |name| &definitions[name]);
    let quantity = named.is_some_and(|name| name.ends_with(".Quantity"));
    let ty = if quantity || schema.get("x-kubernetes-int-or-string").is_some() {
        "quantity"
    } else {
        schema["type"].as_str().unwrap_or("object")
    };
    if !place.is_empty() {
        out.insert(place.to_owned(), ty.to_owned());
    }
    let nothing = Map::new();
    for (name, property) in schema["properties"].as_object().unwrap_or(&nothing) {
        let inner = if place.is_empty() { name.clone() } else { format!("{place}.{name}") };
        collect_types(definitions, property, &inner, out);
    }
    for (word, mark) in [("items", "[]"), ("additionalProperties", "{}")] {
        if let Some(inner) = schema.get(word).filter(|inner| inner.is_object()) {
            collect_types(definitions, inner, &format!("{place}{mark}"), out);
        }
    }
}
