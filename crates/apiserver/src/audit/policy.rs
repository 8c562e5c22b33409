//! Audit policies (`audit.k8s.io/v1 Policy`): which requests are recorded, and how much of them.

use object::request::Subresource;
use object::request::User;
use serde::Deserialize;
use thiserror::Error;

use crate::request::RequestInfo;

/// The amount recorded of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub enum Level {
    #[default]
    None,
    Metadata,
    Request,
    RequestResponse,
}

impl Level {
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Metadata => "Metadata",
            Self::Request => "Request",
            Self::RequestResponse => "RequestResponse",
        }
    }
}

impl std::str::FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::None, Self::Metadata, Self::Request, Self::RequestResponse];
        let found = all.into_iter().find(|level| level.name().eq_ignore_ascii_case(text));
        found.ok_or_else(|| format!("{text:?} is not an audit level; use None, Metadata, Request or RequestResponse"))
    }
}

/// The moment in a request's life an entry is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Stage {
    RequestReceived,
    ResponseStarted,
    ResponseComplete,
    Panic,
}

impl Stage {
    pub fn name(self) -> &'static str {
        match self {
            Self::RequestReceived => "RequestReceived",
            Self::ResponseStarted => "ResponseStarted",
            Self::ResponseComplete => "ResponseComplete",
            Self::Panic => "Panic",
        }
    }
}

#[derive(Debug, Error)]
pub enum PolicyError {
    #[error("it is not YAML of an audit policy: {0}")]
    Syntax(String),
    #[error("{field}: {problem}")]
    Invalid { field: String, problem: String },
}

/// Rules in order: the first that matches a request decides.
#[derive(Clone, Debug)]
pub struct Policy {
    rules: Vec<Rule>,
    omit_stages: Vec<Stage>,
    omit_managed_fields: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Document {
    api_version: String,
    kind: String,
    #[serde(default, rename = "metadata")]
    _metadata: serde_json::Value,
    #[serde(default)]
    rules: Vec<Rule>,
    #[serde(default)]
    omit_stages: Vec<Stage>,
    #[serde(default)]
    omit_managed_fields: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Rule {
    level: Level,
    #[serde(default)]
    users: Vec<String>,
    #[serde(default)]
    user_groups: Vec<String>,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    resources: Vec<GroupResources>,
    #[serde(default)]
    namespaces: Vec<String>,
    #[serde(default, rename = "nonResourceURLs")]
    non_resource_urls: Vec<String>,
    #[serde(default)]
    omit_stages: Vec<Stage>,
    omit_managed_fields: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GroupResources {
    #[serde(default)]
    group: String,
    #[serde(default)]
    resources: Vec<String>,
    #[serde(default)]
    resource_names: Vec<String>,
}

/// The decision of a policy about one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    pub level: Level,
    pub omitted: Vec<Stage>,
    pub omit_managed_fields: bool,
}

impl Decision {
    pub fn records(&self, stage: Stage) -> bool {
        self.level > Level::None && !self.omitted.contains(&stage)
    }
}

impl Policy {
    /// Records every request at one level and in all stages: one during which the process ends has no later stage than
    /// its first.
    pub fn everything(level: Level) -> Self {
        Self { rules: vec![Rule { level, ..Rule::default() }], omit_stages: Vec::new(), omit_managed_fields: false }
    }

    /// Reads a policy file.
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        let document: Document =
            serde_saphyr::from_str(text).map_err(|error| PolicyError::Syntax(error.to_string()))?;
        let invalid = |field: String, problem: String| PolicyError::Invalid { field, problem };
        if document.api_version != "audit.k8s.io/v1" {
            return Err(invalid("apiVersion".into(), format!("{:?} is not audit.k8s.io/v1", document.api_version)));
        }
        if document.kind != "Policy" {
            return Err(invalid("kind".into(), format!("{:?} is not Policy", document.kind)));
        }
        if document.rules.is_empty() {
            return Err(invalid("rules".into(), "a policy without rules records nothing".into()));
        }
        for (index, rule) in document.rules.iter().enumerate() {
            rule.check().map_err(|(field, problem)| invalid(format!("rules[{index}].{field}"), problem))?;
        }
        let Document { rules, omit_stages, omit_managed_fields, .. } = document;
        Ok(Self { rules, omit_stages, omit_managed_fields })
    }

    /// The decision about a request; `user` is `None` when authentication failed.
    pub fn decide(&self, user: Option<&User>, info: &RequestInfo) -> Decision {
        let Some(rule) = self.rules.iter().find(|rule| rule.matches(user, info)) else { return Decision::default() };
        Decision {
            level: rule.level,
            omitted: [self.omit_stages.as_slice(), &rule.omit_stages].concat(),
            omit_managed_fields: rule.omit_managed_fields.unwrap_or(self.omit_managed_fields),
        }
    }
}

impl Rule {
    fn check(&self) -> Result<(), (String, String)> {
        let is_about_resources = !self.resources.is_empty() || !self.namespaces.is_empty();
        if !self.non_resource_urls.is_empty() && is_about_resources {
            let problem = "a rule is about resources or about other URLs, not both";
            return Err(("nonResourceURLs".into(), problem.into()));
        }
        for url in &self.non_resource_urls {
            let stem = url.strip_suffix('*').unwrap_or(url);
            if url != "*" && (!url.starts_with('/') || stem.contains('*')) {
                let problem = format!("{url:?} must start with / and may have a * only at its end");
                return Err(("nonResourceURLs".into(), problem));
            }
        }
        for (index, of_group) in self.resources.iter().enumerate() {
            if of_group.group.contains('/') {
                let problem = format!("{:?} is a group with a version; leave out the version", of_group.group);
                return Err((format!("resources[{index}].group"), problem));
            }
            if !of_group.resource_names.is_empty() && of_group.resources.is_empty() {
                let problem = "names need resources".to_owned();
                return Err((format!("resources[{index}].resourceNames"), problem));
            }
        }
        Ok(())
    }

    fn matches(&self, user: Option<&User>, info: &RequestInfo) -> bool {
        if !self.users.is_empty() && !user.is_some_and(|user| self.users.contains(&user.name)) {
            return false;
        }
        let in_group = |user: &User| user.groups.iter().any(|group| self.user_groups.contains(group));
        if !self.user_groups.is_empty() && !user.is_some_and(in_group) {
            return false;
        }
        if !self.verbs.is_empty() && !self.verbs.iter().any(|verb| verb == info.verb.as_str()) {
            return false;
        }
        match info.is_resource {
            true if !self.non_resource_urls.is_empty() => false,
            true => self.matches_resource(info),
            false if !self.non_resource_urls.is_empty() => {
                self.non_resource_urls.iter().any(|url| matches_url(url, &info.path))
            }
            false => self.resources.is_empty() && self.namespaces.is_empty(),
        }
    }

    fn matches_resource(&self, info: &RequestInfo) -> bool {
        let in_namespace = self.namespaces.is_empty() || self.namespaces.contains(&info.namespace);
        in_namespace && (self.resources.is_empty() || self.resources.iter().any(|of_group| of_group.matches(info)))
    }
}

impl GroupResources {
    fn matches(&self, info: &RequestInfo) -> bool {
        let is_named = self.resource_names.is_empty() || self.resource_names.contains(&info.name);
        let is_listed = self.resources.is_empty() || self.resources.iter().any(|r| matches_resource(r, info));
        self.group == info.group && is_named && is_listed
    }
}

/// `pods`, `pods/log`, `pods/*`, `*/scale` and `*`; a bare name does not include its subresources.
fn matches_resource(pattern: &str, info: &RequestInfo) -> bool {
    if pattern == "*" {
        return true;
    }
    match pattern.split_once('/') {
        None => info.subresource.is_none() && pattern == info.resource,
        Some((resource, subresource)) => {
            (resource == "*" || resource == info.resource)
                && if subresource == "*" {
                    resource != "*"
                } else {
                    subresource == Subresource::name_of(info.subresource.as_ref())
                }
        }
    }
}

fn matches_url(pattern: &str, path: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix),
        None => pattern == path,
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    const POLICY: &str = "
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- level: None
  users: [quiet]
- level: None
  nonResourceURLs: ['/healthz*', /version]
- level: Metadata
  resources: [{group: '', resources: [secrets, pods/log, 'nodes/*']}]
- level: RequestResponse
  userGroups: [watched]
  omitStages: [ResponseStarted]
  omitManagedFields: false
- level: Request
  verbs: [create, patch]
  namespaces: [prod]
  resources: [{group: apps}, {group: '', resources: [configmaps], resourceNames: [a]}]
- level: None
  resources: [{group: '', resources: ['*/status']}]
- level: Metadata
";

    #[test]
    fn the_first_matching_rule_decides() {
        let policy = Policy::parse(POLICY).expect("a policy");
        let cases = [
            ("quiet", "", "GET /api/v1/secrets", Level::None),
            ("a", "", "GET /healthz/ping", Level::None),
            ("a", "", "GET /version", Level::None),
            ("a", "", "GET /versions", Level::Metadata),
            ("a", "watched", "GET /api/v1/secrets", Level::Metadata),
            ("a", "watched", "GET /api/v1/pods", Level::RequestResponse),
            ("a", "", "GET /api/v1/namespaces/n/pods/p/log", Level::Metadata),
            ("a", "", "POST /apis/apps/v1/namespaces/prod/deployments", Level::Request),
            ("a", "", "POST /apis/apps/v1/namespaces/test/deployments", Level::Metadata),
            ("a", "", "DELETE /apis/apps/v1/namespaces/prod/deployments/d", Level::Metadata),
            ("a", "", "PATCH /api/v1/namespaces/prod/configmaps/a", Level::Request),
            ("a", "", "PATCH /api/v1/namespaces/prod/configmaps/b", Level::Metadata),
            ("a", "", "PUT /api/v1/namespaces/n/pods/p/status", Level::None),
        ];
        for (name, group, request, expected) in cases {
            let (method, path) = request.split_once(' ').expect("method and path");
            let info = RequestInfo::parse(&method.parse::<Method>().expect("a method"), path, "");
            let decision = policy.decide(Some(&User::new(name, &[group])), &info);
            assert_eq!(decision.level, expected, "{name} {group} {request}");
            assert!(!decision.records(Stage::RequestReceived));
            assert_eq!(decision.records(Stage::ResponseComplete), expected > Level::None);
            assert_eq!(decision.omit_managed_fields, expected != Level::RequestResponse);
        }
        let anonymous = policy.decide(None, &RequestInfo::parse(&Method::GET, "/api/v1/pods", ""));
        assert_eq!(anonymous.level, Level::Metadata);
    }

    #[test]
    fn the_policy_of_a_level_records_all_requests_in_all_stages() {
        let stages = [Stage::RequestReceived, Stage::ResponseStarted, Stage::ResponseComplete, Stage::Panic];
        for path in ["/api/v1/namespaces/n/secrets", "/version", "/absent"] {
            let info = RequestInfo::parse(&Method::GET, path, "");
            for user in [None, Some(&User::new("a", &[]))] {
                let decision = Policy::everything(Level::Request).decide(user, &info);
                assert_eq!(decision.level, Level::Request);
                assert!(stages.iter().all(|stage| decision.records(*stage)), "{path}");
                assert!(
                    !stages.iter().any(|stage| Policy::everything(Level::None).decide(user, &info).records(*stage))
                );
            }
        }
    }

    #[test]
    fn bad_policies_are_refused_with_their_field() {
        let head = "apiVersion: audit.k8s.io/v1\nkind: Policy\n";
        let cases = [
            ("kind: Policy".to_owned(), "apiVersion"),
            ("apiVersion: audit.k8s.io/v1beta1\nkind: Policy\nrules: [{level: None}]".to_owned(), "apiVersion"),
            (format!("{head}rules: []"), "rules"),
            (format!("{head}rules: [{{level: Everything}}]"), "Everything"),
            (format!("{head}rules: [{{level: None, user: [a]}}]"), "user"),
            (format!("{head}rules: [{{level: None, nonResourceURLs: [healthz]}}]"), "rules[0].nonResourceURLs"),
            (format!("{head}rules: [{{level: None, nonResourceURLs: [/a], namespaces: [b]}}]"), "nonResourceURLs"),
            (format!("{head}rules: [{{level: None, resources: [{{group: apps/v1}}]}}]"), "resources[0].group"),
            (format!("{head}rules: [{{level: None, resources: [{{resourceNames: [a]}}]}}]"), "resourceNames"),
            (format!("{head}omitStages: [Never]\nrules: [{{level: None}}]"), "Never"),
        ];
        for (text, named) in cases {
            let error = Policy::parse(&text).expect_err(&text).to_string();
            assert!(error.contains(named), "{text}\n{error}");
        }
    }
}
