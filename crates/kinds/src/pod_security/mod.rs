//! The Pod Security Standards: which pods a namespace with `pod-security.kubernetes.io` labels accepts, and why not.

mod baseline;
mod pod;
mod restricted;

use std::fmt;

use object::{FieldError, FieldPath, Object};
use serde_json::Value;

use pod::PodView;

const PREFIX: &str = "pod-security.kubernetes.io";
/// Rules changed last in this minor version; later versions are the same.
const LAST_CHANGED_MINOR: u32 = 35;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Privileged,
    Baseline,
    Restricted,
}

/// The minor version of Kubernetes whose rules apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RulesVersion {
    Minor(u32),
    Latest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelVersion {
    pub level: Level,
    pub version: RulesVersion,
}

/// The levels of one namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodSecurityPolicy {
    pub enforce: LevelVersion,
    pub audit: LevelVersion,
    pub warn: LevelVersion,
}

/// One rule that a pod breaks: `reason (detail)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub reason: String,
    pub detail: String,
}

type Rule = fn(&PodView<'_>) -> Option<Violation>;

/// A rule from `since` on, until a later row of the same id replaces it.
struct Row {
    id: &'static str,
    since: u32,
    rule: Rule,
    /// The rule of the lower level that this one includes.
    replaces: Option<&'static str>,
}

impl fmt::Display for LevelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        };
        match self.version {
            RulesVersion::Latest => write!(f, "{level}:latest"),
            RulesVersion::Minor(minor) => write!(f, "{level}:v1.{minor}"),
        }
    }
}

impl LevelVersion {
    const PRIVILEGED: Self = Self { level: Level::Privileged, version: RulesVersion::Latest };
}

impl PodSecurityPolicy {
    /// Reads the labels of a namespace. A level that cannot be read is `restricted` where it is enforced and
    /// `privileged` where it only warns.
    pub fn of_namespace(namespace: &Object) -> (Self, Vec<FieldError>) {
        let mut errors = Vec::new();
        let mut read = |mode: &str, fallback: Level| {
            let mut found = LevelVersion::PRIVILEGED;
            let mut invalid = |label: String, value: &str, detail: String| {
                errors.push(FieldError::invalid(FieldPath::new("metadata").child("labels").key(&label), value, detail));
            };
            let level_label = format!("{PREFIX}/{mode}");
            let level = namespace.label(&level_label).map(|text| (text, parse_level(text)));
            if let Some((text, parsed)) = level {
                found.level = parsed.unwrap_or(fallback);
                if parsed.is_none() {
                    invalid(level_label, text, "must be one of privileged, baseline, restricted".to_owned());
                }
            }
            let version_label = format!("{PREFIX}/{mode}-version");
            let version = namespace.label(&version_label).map(|text| (text, parse_version(text)));
            if let Some((text, parsed)) = version {
                found.version = parsed.unwrap_or(RulesVersion::Latest);
                if parsed.is_none() {
                    invalid(version_label, text, "must be \"latest\" or \"v1.x\"".to_owned());
                }
            }
            (found, level.map(|(_, parsed)| parsed.is_some()), version.is_some())
        };
        let (enforce, enforce_level_is_valid, _) = read("enforce", Level::Restricted);
        let (audit, ..) = read("audit", Level::Privileged);
        let (mut warn, warn_level, warn_version) = read("warn", Level::Privileged);
        // A level that refuses pods is a warning for the controller that creates such pods.
        if warn_level.is_none() && enforce_level_is_valid == Some(true) && enforce.level > warn.level {
            warn.level = enforce.level;
            if !warn_version {
                warn.version = enforce.version;
            }
        }
        (Self { enforce, audit, warn }, errors)
    }

    pub fn allows_everything(&self) -> bool {
        [self.enforce, self.audit, self.warn].iter().all(|mode| mode.level == Level::Privileged)
    }
}

fn parse_level(text: &str) -> Option<Level> {
    match text {
        "privileged" => Some(Level::Privileged),
        "baseline" => Some(Level::Baseline),
        "restricted" => Some(Level::Restricted),
        _ => None,
    }
}

fn parse_version(text: &str) -> Option<RulesVersion> {
    if text == "latest" {
        return Some(RulesVersion::Latest);
    }
    let minor = text.strip_prefix("v1.")?;
    let plain = minor.bytes().all(|byte| byte.is_ascii_digit()) && (minor == "0" || !minor.starts_with('0'));
    plain.then(|| minor.parse().ok()).flatten().map(RulesVersion::Minor)
}

/// The rules that a pod breaks at a level, in a fixed order. `metadata` and `spec` are those of a pod or of a pod template.
pub fn violations(at: LevelVersion, metadata: &Value, spec: &Value) -> Vec<Violation> {
    let minor = match at.version {
        RulesVersion::Minor(minor) => minor.min(LAST_CHANGED_MINOR),
        RulesVersion::Latest => LAST_CHANGED_MINOR,
    };
    let pod = PodView { metadata, spec };
    let restricted = if at.level == Level::Restricted { in_force(restricted::ROWS, minor) } else { Vec::new() };
    let mut rules = if at.level == Level::Privileged { Vec::new() } else { in_force(baseline::ROWS, minor) };
    rules.retain(|rule| !restricted.iter().any(|other| other.replaces == Some(rule.id)));
    rules.into_iter().chain(restricted).filter_map(|row| (row.rule)(&pod)).collect()
}

/// The newest row of each rule for a version, ordered by id.
fn in_force(rows: &'static [Row], minor: u32) -> Vec<&'static Row> {
    let mut newest: Vec<&Row> = Vec::new();
    for row in rows.iter().filter(|row| row.since <= minor) {
        match newest.iter_mut().find(|known| known.id == row.id) {
            Some(known) => *known = row,
            None => newest.push(row),
        }
    }
    newest.sort_by_key(|row| row.id);
    newest
}

/// All violations in one text, as refusals and warnings show them.
pub fn describe(violations: &[Violation]) -> String {
    let each = violations.iter().map(|violation| match violation.detail.as_str() {
        "" => violation.reason.clone(),
        detail => format!("{} ({detail})", violation.reason),
    });
    each.collect::<Vec<_>>().join(", ")
}

/// The reasons alone, for summaries over many pods.
pub fn reasons(violations: &[Violation]) -> String {
    violations.iter().map(|violation| violation.reason.as_str()).collect::<Vec<_>>().join(", ")
}

/// The pod template of a workload, as metadata and spec.
pub fn template_of(object: &Object) -> Option<(&Value, &Value)> {
    let path: &[&str] = match (object.gvk().group.as_str(), object.kind()) {
        ("", "Pod") => &[],
        ("", "PodTemplate") => &["template"],
        ("", "ReplicationController")
        | ("apps", "ReplicaSet" | "Deployment" | "StatefulSet" | "DaemonSet")
        | ("batch", "Job") => &["spec", "template"],
        ("batch", "CronJob") => &["spec", "jobTemplate", "spec", "template"],
        _ => return None,
    };
    let template = if path.is_empty() { object.as_value() } else { object.get(path)? };
    Some((&template["metadata"], &template["spec"]))
}

/// Returns true when an update of a pod brings another image or another container; other updates are not judged again.
pub fn is_significant_update(new: &Object, old: &Object) -> bool {
    let list = |pod: &'_ Object, key: &str| pod.items(&["spec", key]).to_vec();
    for key in ["containers", "initContainers"] {
        let (new, old) = (list(new, key), list(old, key));
        if new.len() != old.len() || new.iter().zip(&old).any(|(new, old)| new["image"] != old["image"]) {
            return true;
        }
    }
    let old = list(old, "ephemeralContainers");
    list(new, "ephemeralContainers").iter().any(|container| {
        let before = old.iter().find(|known| known["name"] == container["name"]);
        before.is_none_or(|before| before["image"] != container["image"])
    })
}

#[cfg(test)]
mod tests;
