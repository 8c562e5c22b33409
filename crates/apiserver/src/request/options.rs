//! The options a query string (or a DeleteOptions body) carries, checked before anything else happens.

use object::query::Query;
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceVersionMatch {
    NotOlderThan,
    Exact,
}

#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    pub labels: LabelSelector,
    pub fields: FieldSelector,
    pub limit: usize,
    pub continue_token: Option<String>,
    /// `None` means the newest state, `Some(0)` any.
    pub resource_version: Option<u64>,
    pub version_match: Option<ResourceVersionMatch>,
    pub bookmarks: bool,
    pub send_initial_events: Option<bool>,
    pub timeout_seconds: Option<u64>,
}

impl ListOptions {
    pub fn parse(query: &Query) -> Result<Self, Status> {
        let labels = LabelSelector::parse(query.get("labelSelector").unwrap_or_default())
            .map_err(|e| Status::bad_request(e.to_string()))?;
        let fields = FieldSelector::parse(query.get("fieldSelector").unwrap_or_default())
            .map_err(|e| Status::bad_request(e.to_string()))?;
        let resource_version = query.get("resourceVersion").map(parse_revision).transpose()?;
        let version_match = match query.get("resourceVersionMatch") {
            None => None,
            Some("NotOlderThan") => Some(ResourceVersionMatch::NotOlderThan),
            Some("Exact") => Some(ResourceVersionMatch::Exact),
            Some(other) => {
                return Err(refuse_list_option("resourceVersionMatch", other, &["", "Exact", "NotOlderThan"]));
            }
        };
        let limit = number(query, "limit")?.unwrap_or(0).max(0) as usize;
        let options = Self {
            labels,
            fields,
            limit,
            continue_token: query.get("continue").map(str::to_owned),
            resource_version,
            version_match,
            bookmarks: query.flag("allowWatchBookmarks"),
            send_initial_events: query.first("sendInitialEvents").is_some().then(|| query.flag("sendInitialEvents")),
            timeout_seconds: number(query, "timeoutSeconds")?.map(|s| s.max(0) as u64),
        };
        options.check(query.flag("watch"))?;
        Ok(options)
    }

    fn check(&self, watching: bool) -> Result<(), Status> {
        let forbidden = |field: &str, detail: &str| {
            let error = FieldError::forbidden(FieldPath::new(field), detail);
            Err(Status::invalid(&GroupKind::new("meta.k8s.io", "ListOptions"), "", &[error]))
        };
        if watching {
            return match (self.send_initial_events, self.version_match) {
                (None, Some(_)) => forbidden(
                    "resourceVersionMatch",
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                ),
                (Some(_), m) if m != Some(ResourceVersionMatch::NotOlderThan) => forbidden(
                    "resourceVersionMatch",
                    "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
                ),
                _ => Ok(()),
            };
        }
        if self.send_initial_events.is_some() {
            return forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list");
        }
        if self.version_match.is_some() && self.resource_version.is_none() {
            return forbidden(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            );
        }
        if self.version_match.is_some() && self.continue_token.is_some() {
            return forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided");
        }
        if self.version_match == Some(ResourceVersionMatch::Exact) && self.resource_version == Some(0) {
            return forbidden(
                "resourceVersionMatch",
                "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
            );
        }
        Ok(())
    }
}

fn refuse_list_option(field: &str, value: &str, supported: &[&str]) -> Status {
    let error = FieldError::not_supported(FieldPath::new(field), value, supported);
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

/// The handling of fields the kind does not know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Validation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    pub dry_run: bool,
    pub field_manager: String,
    pub validation: Validation,
    /// Only for apply patches.
    pub force: Option<bool>,
}

impl WriteOptions {
    /// `kind` names the options type in errors: `CreateOptions`, `UpdateOptions`, `PatchOptions`.
    pub fn parse(query: &Query, kind: &str) -> Result<Self, Status> {
        let refuse = |errors: &[FieldError]| Status::invalid(&GroupKind::new("meta.k8s.io", kind), "", errors);
        let dry_run = parse_dry_run(query.all("dryRun")).map_err(|e| refuse(&[e]))?;
        let field_manager = query.get("fieldManager").unwrap_or_default().to_owned();
        if field_manager.len() > 128 {
            return Err(refuse(&[FieldError::too_long(FieldPath::new("fieldManager"), 128)]));
        }
        if field_manager.chars().any(|c| c.is_control()) {
            let detail = "should only contain printable characters";
            return Err(refuse(&[FieldError::invalid(FieldPath::new("fieldManager"), field_manager, detail)]));
        }
        let validation = match query.get("fieldValidation") {
            None | Some("Warn") => Validation::Warn,
            Some("Ignore") => Validation::Ignore,
            Some("Strict") => Validation::Strict,
            Some(other) => {
                let supported = ["", "Ignore", "Strict", "Warn"];
                return Err(refuse(&[FieldError::not_supported(FieldPath::new("fieldValidation"), other, &supported)]));
            }
        };
        let force = query.first("force").is_some().then(|| query.flag("force"));
        Ok(Self { dry_run, field_manager, validation, force })
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    Orphan,
    Background,
    Foreground,
}

#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    pub dry_run: bool,
    pub grace_period_seconds: Option<i64>,
    pub propagation: Option<Propagation>,
    pub uid: Option<String>,
    pub resource_version: Option<String>,
    pub raw: Value,
}

impl DeleteOptions {
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
        let propagation = match raw["propagationPolicy"].as_str() {
            Some("Orphan") => Some(Propagation::Orphan),
            Some("Background") => Some(Propagation::Background),
            Some("Foreground") => Some(Propagation::Foreground),
            Some(other) => {
                let supported = ["Foreground", "Background", "Orphan"];
                return Err(refuse(FieldError::not_supported(FieldPath::new("propagationPolicy"), other, &supported)));
            }
            None => match raw["orphanDependents"].as_bool() {
                Some(true) => Some(Propagation::Orphan),
                Some(false) => Some(Propagation::Background),
                None => None,
            },
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
        Ok(Self {
            dry_run,
            grace_period_seconds: raw["gracePeriodSeconds"].as_i64(),
            propagation,
            uid: text("uid"),
            resource_version: text("resourceVersion"),
            raw,
        })
    }
}
