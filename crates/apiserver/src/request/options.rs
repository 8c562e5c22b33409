//! The options a query string (or a DeleteOptions body) carries, checked before anything else happens.

use std::time::Duration;

use object::query::Query;
use object::request::{
    DeleteOptions, FieldValidation, ListOptions, PatchKind, Preconditions, PropagationPolicy, VersionMatch,
    WriteOptions,
};
use object::selector::{FieldSelector, LabelSelector};
use object::{FieldError, FieldPath, GroupKind, Status};
use serde_json::Value;

/// A parameter as a whole number; empty counts as absent.
fn number(query: &Query, name: &str) -> Result<Option<i64>, Status> {
    query.get(name).map(|text| text.parse().map_err(|_| not_a_number(name, text))).transpose()
}

fn not_a_number(key: &str, text: &str) -> Status {
    Status::bad_request(format!("query parameter {key}: {text:?} is not a whole number"))
}

/// The options of a list or watch, with their selectors and version read.
#[derive(Clone, Debug, Default)]
pub struct ListSelection {
    pub labels: LabelSelector,
    pub fields: FieldSelector,
    /// `None` means the newest state, `Some(0)` any.
    pub revision: Option<u64>,
    pub options: ListOptions,
}

impl ListSelection {
    /// Reads and checks the query of a list, watch or delete of a collection.
    pub fn parse(query: &Query) -> Result<Self, Status> {
        let text = |name: &str| query.get(name).map(str::to_owned);
        let mut selection = Self::of(ListOptions {
            label_selector: text("labelSelector"),
            field_selector: text("fieldSelector"),
            resource_version: text("resourceVersion"),
            ..ListOptions::default()
        })?;
        let options = &mut selection.options;
        options.resource_version_match = match query.get("resourceVersionMatch") {
            None => None,
            Some(name) => Some(VersionMatch::parse(name).ok_or_else(|| refuse_version_match(name))?),
        };
        options.limit = number(query, "limit")?.and_then(|limit| u64::try_from(limit).ok());
        options.continue_token = text("continue");
        options.bookmarks = query.flag("allowWatchBookmarks");
        options.send_initial_events =
            query.first("sendInitialEvents").is_some().then(|| query.flag("sendInitialEvents"));
        let timeout = number(query, "timeoutSeconds")?;
        options.timeout = timeout.map(|seconds| Duration::from_secs(u64::try_from(seconds).unwrap_or(0)));
        selection.check(query.flag("watch"))?;
        Ok(selection)
    }

    /// Reads the options of a caller in this process.
    pub fn of(options: ListOptions) -> Result<Self, Status> {
        let refuse = |error: object::selector::SelectorError| Status::bad_request(error.to_string());
        Ok(Self {
            labels: LabelSelector::parse(options.label_selector.as_deref().unwrap_or_default()).map_err(refuse)?,
            fields: FieldSelector::parse(options.field_selector.as_deref().unwrap_or_default()).map_err(refuse)?,
            revision: options.resource_version.as_deref().map(parse_revision).transpose()?,
            options,
        })
    }

    /// Objects per page; 0 for all of them.
    pub fn limit(&self) -> usize {
        self.options.limit.unwrap_or(0) as usize
    }

    fn check(&self, watching: bool) -> Result<(), Status> {
        let forbidden = |field: &str, detail: &str| {
            let error = FieldError::forbidden(FieldPath::new(field), detail);
            Err(Status::invalid(&GroupKind::new("meta.k8s.io", "ListOptions"), "", &[error]))
        };
        let options = &self.options;
        if watching {
            return match (options.send_initial_events, options.resource_version_match) {
                (None, Some(_)) => forbidden(
                    "resourceVersionMatch",
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                ),
                (Some(_), m) if m != Some(VersionMatch::NotOlderThan) => forbidden(
                    "resourceVersionMatch",
                    "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
                ),
                _ => Ok(()),
            };
        }
        if options.send_initial_events.is_some() {
            return forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list");
        }
        if options.resource_version_match.is_some() && self.revision.is_none() {
            return forbidden(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            );
        }
        if options.resource_version_match.is_some() && options.continue_token.is_some() {
            return forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided");
        }
        if options.resource_version_match == Some(VersionMatch::Exact) && self.revision == Some(0) {
            return forbidden(
                "resourceVersionMatch",
                "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
            );
        }
        Ok(())
    }
}

fn refuse_version_match(value: &str) -> Status {
    let supported = ["", "Exact", "NotOlderThan"];
    let error = FieldError::not_supported(FieldPath::new("resourceVersionMatch"), value, &supported);
    Status::invalid(&GroupKind::new("meta.k8s.io", "ListOptions"), "", &[error])
}

pub fn parse_revision(text: &str) -> Result<u64, Status> {
    text.parse().map_err(|_| {
        let error = FieldError::invalid(
            FieldPath::new("resourceVersion"),
            text,
            format!("strconv.ParseUint: parsing {text:?}: invalid syntax"),
        );
        Status::bad_request(error.to_string())
    })
}

/// Reads the options of a write; `kind` names them in errors: `CreateOptions`, `UpdateOptions`, `PatchOptions`.
pub fn write_options(query: &Query, kind: &str) -> Result<WriteOptions, Status> {
    let refuse = |error: FieldError| Status::invalid(&GroupKind::new("meta.k8s.io", kind), "", &[error]);
    let dry_run = parse_dry_run(query.all("dryRun")).map_err(refuse)?;
    let field_manager = query.get("fieldManager").map(str::to_owned);
    if let Some(manager) = &field_manager {
        if manager.len() > 128 {
            return Err(refuse(FieldError::too_long(FieldPath::new("fieldManager"), 128)));
        }
        if manager.chars().any(|c| c.is_control()) {
            let detail = "should only contain printable characters";
            return Err(refuse(FieldError::invalid(FieldPath::new("fieldManager"), manager.as_str(), detail)));
        }
    }
    let field_validation = match query.get("fieldValidation") {
        None => None,
        Some(name) => Some(FieldValidation::parse(name).ok_or_else(|| {
            let supported = ["", "Ignore", "Strict", "Warn"];
            refuse(FieldError::not_supported(FieldPath::new("fieldValidation"), name, &supported))
        })?),
    };
    Ok(WriteOptions { field_manager, dry_run, field_validation, is_untracked: false })
}

/// Reads the kind of a patch from its content type and the parameter `force`, which only an apply may have.
pub fn patch_kind(content_type: Option<&str>, query: &Query) -> Result<PatchKind, Status> {
    match PatchKind::of_content_type(content_type)? {
        PatchKind::Apply { .. } => Ok(PatchKind::Apply { force: query.flag("force") }),
        _ if query.first("force").is_some() => {
            let error = FieldError::forbidden(FieldPath::new("force"), "may not be specified for non-apply patch");
            Err(Status::invalid(&GroupKind::new("meta.k8s.io", "PatchOptions"), "", &[error]))
        }
        kind => Ok(kind),
    }
}

fn parse_dry_run<'a>(values: impl Iterator<Item = &'a str>) -> Result<bool, FieldError> {
    let mut dry_run = false;
    for value in values.filter(|v| !v.is_empty()) {
        if value != "All" {
            return Err(FieldError::not_supported(FieldPath::new("dryRun"), value, &["All"]));
        }
        dry_run = true;
    }
    Ok(dry_run)
}

/// The options of a delete, and the form in which admission receives them.
#[derive(Clone, Debug, Default)]
pub struct Deletion {
    pub options: DeleteOptions,
    pub as_sent: Value,
}

impl From<DeleteOptions> for Deletion {
    fn from(options: DeleteOptions) -> Self {
        Self { as_sent: options.to_value(), options }
    }
}

impl Deletion {
    /// The body wins over the query, as in Kubernetes.
    pub fn parse(query: &Query, body: Option<Value>) -> Result<Self, Status> {
        let refuse = |error: FieldError| Status::invalid(&GroupKind::new("meta.k8s.io", "DeleteOptions"), "", &[error]);
        let from_query = || {
            let mut options = serde_json::Map::new();
            let dry_run: Vec<Value> = query.all("dryRun").map(Value::from).collect();
            if !dry_run.is_empty() {
                options.insert("dryRun".into(), dry_run.into());
            }
            if let Some(seconds) = number(query, "gracePeriodSeconds")? {
                options.insert("gracePeriodSeconds".into(), seconds.into());
            }
            if let Some(policy) = query.get("propagationPolicy") {
                options.insert("propagationPolicy".into(), policy.into());
            }
            if query.first("orphanDependents").is_some() {
                options.insert("orphanDependents".into(), query.flag("orphanDependents").into());
            }
            Ok::<_, Status>(Value::Object(options))
        };
        let raw = match body {
            Some(body) => body,
            None => from_query()?,
        };
        let dry_run = raw["dryRun"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let dry_run = parse_dry_run(dry_run).map_err(refuse)?;
        let propagation_policy = match raw["propagationPolicy"].as_str() {
            Some(name) => Some(PropagationPolicy::parse(name).ok_or_else(|| {
                let path = FieldPath::new("propagationPolicy");
                refuse(FieldError::not_supported(path, name, PropagationPolicy::NAMES))
            })?),
            None => raw["orphanDependents"].as_bool().map(|orphan| match orphan {
                true => PropagationPolicy::Orphan,
                false => PropagationPolicy::Background,
            }),
        };
        if raw["propagationPolicy"].is_string() && raw["orphanDependents"].is_boolean() {
            let detail = "orphanDependents and deletionPropagation cannot be both set";
            return Err(refuse(FieldError::invalid(
                FieldPath::new("propagationPolicy"),
                raw["propagationPolicy"].clone(),
                detail,
            )));
        }
        let text = |key: &str| raw["preconditions"][key].as_str().map(str::to_owned);
        let options = DeleteOptions {
            preconditions: Preconditions { uid: text("uid"), resource_version: text("resourceVersion") },
            grace_period_seconds: raw["gracePeriodSeconds"].as_i64(),
            propagation_policy,
            dry_run,
        };
        Ok(Self { options, as_sent: raw })
    }
}
