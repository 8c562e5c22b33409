//! The definition itself: group, names, versions, conversion, columns, subresources.

use std::collections::BTreeSet;

use object::{FieldError, Object, conditions, names};
use serde_json::Value;

use super::{field_path, form, label_problems, openapi, schema_tree};
use crate::strategies::fields::{Field, Report, same};
use crate::strategies::webhook_client;

const SELECTABLE_FIELDS_MAX: usize = 8;
const COLUMN_TYPES: &str = "boolean,date,integer,number,string";
const COLUMN_FORMATS: &str = "byte,date,date-time,double,float,int32,int64,password";
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// Existing errors that an update of a definition may keep.
pub(super) struct Tolerance<'a> {
    old: Option<&'a Object>,
    pub(super) schemas: openapi::Tolerance,
}

pub(super) fn validate(definition: &Object, old: Option<&Object>) -> Vec<FieldError> {
    let definition = form::internal(definition);
    let old = old.map(form::internal);
    let tolerance = Tolerance { old: old.as_ref(), schemas: openapi::Tolerance::of(old.as_ref()) };
    let report = Report::new();
    validate_spec(report.field(&definition, "spec"), &tolerance);
    if let Some(old) = &old {
        validate_change(report.field(&definition, "spec"), old);
    }
    validate_names(report.field(&definition, "status").field("acceptedNames"));
    validate_stored_versions(&report, &definition);
    refuse_unpruned(report.field(&definition, "spec"), old.as_ref());
    report.finish()
}

fn validate_spec(spec: Field<'_>, tolerance: &Tolerance<'_>) {
    validate_group(spec.field("group"));
    spec.field("scope").required_one_of(&["Cluster", "Namespaced"]);
    require_schemas(spec, tolerance);
    let versions = spec.field("versions");
    let status_in_spec = spec.path(&["subresources", "status"]).is_set();
    let mut seen = BTreeSet::new();
    let mut unique = true;
    for version in versions.items() {
        unique &= seen.insert(version.field("name").text());
        if let Some(problem) = label_problems(version.field("name").text()) {
            version.field("name").invalid(problem);
        }
        validate_version(version, status_in_spec, tolerance);
    }
    if !unique {
        invalid_versions(versions, "must contain unique version names");
    }
    if versions.items().filter(|version| version.field("storage").flag()).count() != 1 {
        invalid_versions(versions, "must have exactly one version marked as storage version");
    }
    let version = spec.field("version");
    if let Some(problem) = label_problems(version.text()).filter(|_| !version.is_empty()) {
        version.invalid(problem);
    }
    let given = spec.field("names");
    for name in ["plural", "singular", "kind", "listKind"] {
        given.field(name).require();
    }
    validate_names(given);
    let any_status = status_in_spec || versions.items().any(|v| v.path(&["subresources", "status"]).is_set());
    openapi::validate(spec.field("validation"), any_status, &tolerance.schemas);
    validate_subresources(spec.field("subresources"));
    spec.field("additionalPrinterColumns").items().for_each(validate_column);
    validate_selectable(spec.field("selectableFields"), spec.field("validation"), tolerance, "");
    validate_conversion(spec.field("conversion"), tolerance);
}

fn invalid_versions(versions: Field<'_>, detail: &str) {
    versions.invalid_shown(&form::shown_versions(versions.value()), detail);
}

fn validate_group(group: Field<'_>) {
    if !group.require() {
        return;
    }
    let problems = names::dns1123_subdomain(group.text());
    if !problems.is_empty() {
        group.invalid(problems.join(","));
    } else if !group.text().contains('.') {
        group.invalid("should be a domain with at least one dot");
    }
}

fn require_schemas(spec: Field<'_>, tolerance: &Tolerance<'_>) {
    if spec.path(&["validation", "openAPIV3Schema"]).is_set() {
        return;
    }
    let all_had_one = tolerance.old.is_none_or(|old| {
        let in_spec = old.get(&["spec", "validation", "openAPIV3Schema"]).is_some();
        in_spec || old.items(&["spec", "versions"]).iter().all(|v| v["schema"].get("openAPIV3Schema").is_some())
    });
    for version in spec.field("versions").items() {
        let schema = version.path(&["schema", "openAPIV3Schema"]);
        if all_had_one && !schema.is_set() {
            schema.required("");
        } else if !schema.is_set() && version.field("served").flag() {
            schema.required("because otherwise all fields are pruned");
        }
    }
}

fn validate_version(version: Field<'_>, status_in_spec: bool, tolerance: &Tolerance<'_>) {
    validate_deprecation(version);
    let status = status_in_spec || version.path(&["subresources", "status"]).is_set();
    openapi::validate(version.field("schema"), status, &tolerance.schemas);
    validate_subresources(version.field("subresources"));
    version.field("additionalPrinterColumns").items().for_each(validate_column);
    validate_selectable(
        version.field("selectableFields"),
        version.field("schema"),
        tolerance,
        version.field("name").text(),
    );
}

fn validate_deprecation(version: Field<'_>) {
    let warning = version.field("deprecationWarning");
    if !warning.is_set() {
        return;
    }
    if !version.field("deprecated").flag() {
        return warning.invalid("can only be set for deprecated versions");
    }
    if warning.len() > 256 {
        warning.invalid("must be <= 256 characters long");
    }
    if warning.is_empty() {
        warning.invalid("must not be an empty string");
    }
    if let Some((index, _)) = warning.text().char_indices().find(|(_, c)| c.is_control()) {
        warning.invalid(format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {index}"
        ));
    }
}

pub(super) fn validate_names(given: Field<'_>) {
    for name in ["plural", "singular"] {
        let field = given.field(name);
        if let Some(problem) = label_problems(field.text()).filter(|_| !field.is_empty()) {
            field.invalid(problem);
        }
    }
    for name in ["kind", "listKind"] {
        let field = given.field(name);
        if let Some(problem) = label_problems(&field.text().to_lowercase()).filter(|_| !field.is_empty()) {
            field.invalid(format!("may have mixed case, but should otherwise match: {problem}"));
        }
    }
    let invalid_items = |list: Field<'_>| {
        for item in list.items() {
            if let Some(problem) = label_problems(item.text()) {
                item.invalid(problem);
            }
        }
    };
    invalid_items(given.field("shortNames"));
    let (kind, list_kind) = (given.field("kind"), given.field("listKind"));
    if !kind.is_empty() && kind.text() == list_kind.text() {
        list_kind.invalid("kind and listKind may not be the same");
    }
    invalid_items(given.field("categories"));
}

fn validate_subresources(subresources: Field<'_>) {
    let scale = subresources.field("scale");
    if !scale.is_set() {
        return;
    }
    let check = |name: &'static str, shown: &'static str, roots: &[&str], wrong: &str| {
        let (path, at) = (scale.field(name), subresources.field(shown));
        if path.is_empty() {
            at.required("");
        } else if !simple_path(at, path.text()) {
            // Already reported.
        } else if !roots.iter().any(|root| path.text().starts_with(root)) {
            at.invalid_as(path.text(), wrong);
        }
    };
    check("specReplicasPath", "scale.specReplicasPath", &[".spec."], "should be a json path under .spec");
    check("statusReplicasPath", "scale.statusReplicasPath", &[".status."], "should be a json path under .status");
    if !scale.field("labelSelectorPath").is_empty() {
        let wrong = "should be a json path under either .spec or .status";
        check("labelSelectorPath", "scale.labelSelectorPath", &[".spec.", ".status."], wrong);
    }
}

fn simple_path(at: Field<'_>, path: &str) -> bool {
    let simple = path.starts_with('.');
    if !simple {
        at.invalid_as(path, "must be a simple json path starting with .");
    }
    simple
}

fn validate_column(column: Field<'_>) {
    column.field("name").require();
    let ty = column.field("type");
    let wanted = format!("must be one of {COLUMN_TYPES}");
    if ty.is_empty() {
        ty.required(&wanted);
    } else if !COLUMN_TYPES.split(',').any(|known| known == ty.text()) {
        ty.invalid(wanted);
    }
    let format = column.field("format");
    if !format.is_empty() && !COLUMN_FORMATS.split(',').any(|known| known == format.text()) {
        format.invalid(format!("must be one of {COLUMN_FORMATS}"));
    }
    let (path, at) = (column.field("jsonPath"), column.field("JSONPath"));
    if path.is_empty() {
        at.required("");
    } else {
        simple_path(at, path.text());
    }
}

fn validate_selectable(selectable: Field<'_>, validation: Field<'_>, tolerance: &Tolerance<'_>, version: &str) {
    if selectable.is_empty() {
        return;
    }
    let Some(schema) = validation.field("openAPIV3Schema").value() else {
        return selectable.invalid_as("", "may only be set when `version.schema.openAPIV3Schema` is not included");
    };
    let mut seen = BTreeSet::new();
    for field in selectable.items() {
        let path = field.field("jsonPath");
        if !path.require() {
            continue;
        }
        let (names, found) = match field_path::resolve(path.text(), schema, false) {
            Err(problem) => {
                path.invalid(format!("is an invalid path: {problem}"));
                continue;
            }
            Ok(found) => found,
        };
        if names.first().is_some_and(|name| name == "metadata") {
            path.invalid("must not point to fields in metadata");
        }
        if !matches!(schema_tree::type_of(found), "string" | "boolean" | "integer") {
            path.invalid("must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.");
        }
        if !seen.insert(names) {
            path.duplicate();
        }
    }
    if seen.len() > SELECTABLE_FIELDS_MAX && !unchanged_selectable(selectable, tolerance, version) {
        selectable.too_many(seen.len(), SELECTABLE_FIELDS_MAX);
    }
}

fn unchanged_selectable(selectable: Field<'_>, tolerance: &Tolerance<'_>, version: &str) -> bool {
    let Some(old) = tolerance.old else { return false };
    let stored = match version {
        "" => old.get(&["spec", "selectableFields"]),
        name => {
            old.items(&["spec", "versions"]).iter().find(|v| v["name"] == name).and_then(|v| v.get("selectableFields"))
        }
    };
    same(selectable.value(), stored)
}

fn validate_conversion(conversion: Field<'_>, tolerance: &Tolerance<'_>) {
    if !conversion.is_set() {
        return;
    }
    conversion.field("strategy").required_one_of(&["None", "Webhook"]);
    let (client, versions) = (conversion.field("webhookClientConfig"), conversion.field("conversionReviewVersions"));
    if conversion.field("strategy").text() != "Webhook" {
        const UNWANTED: &str = "should not be set when strategy is not set to Webhook";
        if client.is_set() {
            client.forbidden(UNWANTED);
        }
        if !versions.is_empty() {
            versions.forbidden(UNWANTED);
        }
        return;
    }
    match client.is_set() {
        true => webhook_client::validate(client),
        false => client.required("required when strategy is set to Webhook"),
    }
    let stored =
        tolerance.old.map(|old| old.items(&["spec", "conversion", "conversionReviewVersions"])).unwrap_or_default();
    let known = |version: &str| REVIEW_VERSIONS.contains(&version);
    let require_known = stored.is_empty() || stored.iter().filter_map(Value::as_str).any(known);
    validate_review_versions(versions, require_known);
}

fn validate_review_versions(versions: Field<'_>, require_known: bool) {
    if !versions.require() {
        return;
    }
    let mut seen = BTreeSet::new();
    for version in versions.items() {
        if !seen.insert(version.text()) {
            version.invalid("duplicate version");
            continue;
        }
        version.problems(names::dns1035_label(version.text()));
    }
    if require_known && !REVIEW_VERSIONS.iter().any(|known| seen.contains(known)) {
        versions.invalid(format!("must include at least one of {}", REVIEW_VERSIONS.join(", ")));
    }
}

/// Immutable parts: the storage location and, once served, the names.
fn validate_change(spec: Field<'_>, old: &Object) {
    if conditions::is_true(old, "Established") {
        spec.field("scope").immutable(old.get(&["spec", "scope"]));
        spec.path(&["names", "kind"]).immutable(old.get(&["spec", "names", "kind"]));
    }
    spec.field("group").immutable(old.get(&["spec", "group"]));
    spec.path(&["names", "plural"]).immutable(old.get(&["spec", "names", "plural"]));
}

fn validate_stored_versions<'a>(report: &'a Report<'a>, definition: &'a Object) {
    let stored = report.field(definition, "status").field("storedVersions");
    if stored.is_empty() {
        let shown = stored.value().cloned().unwrap_or(Value::Null);
        return stored.invalid_as(shown, "must have at least one stored version");
    }
    let versions = definition.items(&["spec", "versions"]);
    for version in versions.iter().filter(|version| version["storage"] == true) {
        let name = version["name"].as_str().unwrap_or_default();
        if !stored.texts().any(|stored| stored == name) {
            stored.invalid(format!("must have the storage version {name}"));
        }
    }
    for item in stored.items().filter(|item| !versions.iter().any(|v| v["name"] == item.text())) {
        let name = item.text();
        item.invalid(format!(
            "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
        ));
    }
}

fn refuse_unpruned(spec: Field<'_>, old: Option<&Object>) {
    let stored = old.is_some_and(|old| old.bool_at(&["spec", "preserveUnknownFields"]) == Some(true));
    if !stored && spec.field("preserveUnknownFields").flag() {
        spec.field("preserveUnknownFields").invalid(
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        );
    }
}
